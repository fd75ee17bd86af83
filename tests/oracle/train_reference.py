"""The reference: one process, transformers and torch.optim.AdamW, N data ranks emulated.

Micro-batch g of rank r in step s is the windows from ((s * accumulation + g) * ranks + r) * B.
The loss of a step is the mean over its micro-batches and ranks, as DDP makes it.
"""

import json
import os

import safetensors.torch
import torch
from torch.overrides import TorchFunctionMode

import cases
import tiny_llama


def gradients_of_step(model, windows, case, step):
    """Accumulates the mean gradient in the parameters; returns the loss."""
    parts = case.accumulation * case.data_ranks
    total = 0.0
    for part in range(parts):
        first = (step * parts + part) * case.micro_batch
        loss = tiny_llama.mean_loss(model, *windows.batch(first, case.micro_batch))
        (loss / parts).backward()
        total += loss.item()
    return total / parts


class InFp64(TorchFunctionMode):
    """A model of fp64 stays in fp64 where it asks for fp32, as its norms and its loss do."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        asks = torch.float32 in args or kwargs.get("dtype") is torch.float32
        is_cast = function is torch.Tensor.float or (function is torch.Tensor.to and asks)
        if is_cast and args[0].dtype is torch.float64:
            return args[0]
        if kwargs.get("dtype") is torch.float32:
            kwargs["dtype"] = torch.float64
        return function(*args, **kwargs)


def exact_gradients(folder, windows, case):
    """By name, the gradients of the first step with fp64 in forward and backward."""
    model = tiny_llama.load_model(folder).double()
    with InFp64():
        gradients_of_step(model, windows, case, 0)
    return {name_in_files(name, model): p.grad for name, p in model.named_parameters()}


def clip_by_exact_norm(parameters, limit):
    """As clip_grad_norm_, which sums squares in fp32 and is off by some 1e-5; this is fp64."""
    norm = sum(p.grad.double().square().sum().item() for p in parameters) ** 0.5
    scale = min(1.0, limit / (norm + 1e-6))
    for parameter in parameters:
        parameter.grad.mul_(scale)
    return norm


def name_in_files(name, model):
    """transformers 5 has GPT-NeoX's head under another name than files have."""
    if model.config.model_type == "gpt_neox" and name == "lm_head.weight":
        return "embed_out.weight"
    return name


def train(model, windows, case, gradients_file):
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(
        parameters,
        lr=cases.LR,
        betas=cases.BETAS,
        eps=cases.EPS,
        weight_decay=cases.WEIGHT_DECAY,
    )
    for step in range(case.steps):
        loss = gradients_of_step(model, windows, case, step)
        if step == 0:
            gradients = {name_in_files(n, model): p.grad for n, p in model.named_parameters()}
            gradients = {name: gradient.clone() for name, gradient in gradients.items()}
            safetensors.torch.save_file(gradients, gradients_file)
        norm = clip_by_exact_norm(parameters, cases.CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        yield {"loss": loss, "grad_norm": norm}


def prepare(case, folder):
    """Makes folder/model, tokens.bin, gradients.safetensors (exact.safetensors: in fp64) and
    losses.jsonl unless they exist."""
    losses_file = os.path.join(folder, "losses.jsonl")
    if os.path.exists(losses_file):
        return
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(1)
    tokens = os.path.join(folder, "tokens.bin")
    tiny_llama.save_model(case.shape, case.seq_len, os.path.join(folder, "model"))
    tiny_llama.save_tokens(tokens, case.shape.vocab, count=100_000)
    model = tiny_llama.load_model(os.path.join(folder, "model"))
    windows = tiny_llama.Windows(tokens, case.seq_len)
    exact = exact_gradients(os.path.join(folder, "model"), windows, case)
    safetensors.torch.save_file(exact, os.path.join(folder, "exact.safetensors"))
    gradients_file = os.path.join(folder, "gradients.safetensors")
    with open(losses_file + ".part", "w") as file:
        for line in train(model, windows, case, gradients_file):
            file.write(json.dumps(line) + "\n")
    os.replace(losses_file + ".part", losses_file)
