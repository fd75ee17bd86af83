#!/usr/bin/env python3
"""The peer on one card: transformers' Llama, causal SDPA, torch.compile, fused AdamW.

  peer.py MODEL VARIANT STEPS FOLDER [WEIGHTS]

VARIANT: A fp32 parameters with bf16 autocast; B bf16 parameters with fp32 masters and moments in
the fused AdamW; C is B with liger's kernels; eager is B that nothing compiles. WEIGHTS: a folder
for those that it begins with. Prints a line of JSON after every step but the first three: the last
one holds.
"""
import json
import pathlib
import statistics
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import workload

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # a CPU only tries the script
# SDPA under a name that has no mask: for "sdpa", what torch.compile sees gets one of all positions,
# with which torch takes none of its fast kernels.
ALL_ATTENTION_FUNCTIONS.register("sdpa_causal", sdpa_attention_forward)


def make_model(model, variant):
    settings = {k: v for k, v in workload.config(model).items()
                if k not in ("model_type", "architectures", "torch_dtype")}
    torch.manual_seed(7)
    with torch.device(DEVICE):
        made = LlamaForCausalLM(LlamaConfig(**settings, attn_implementation="sdpa_causal",
                                            use_cache=False))
    if variant == "C":
        from liger_kernel.transformers import apply_liger_kernel_to_llama
        apply_liger_kernel_to_llama(model=made)
    angles = made.model.rotary_emb.inv_freq.float()
    made = made.to(DEVICE, dtype=torch.float32 if variant == "A" else torch.bfloat16)
    made.model.rotary_emb.inv_freq = angles  # from_pretrained leaves them in fp32, too
    return made.train()


def attention_of(model):
    """The kernel that torch chooses for the model's attention."""
    size = model["hidden_size"] // model["num_attention_heads"]
    shapes = [(1, heads, model["max_seq_len"], size) for heads in
              (model["num_attention_heads"], *2 * [model["num_key_value_heads"]])]
    arrays = [torch.empty(shape, dtype=torch.bfloat16, device=DEVICE) for shape in shapes]
    try:
        chosen = torch._fused_sdp_choice(*arrays, is_causal=True, enable_gqa=True)
        return torch.nn.attention.SDPBackend(chosen).name.lower()
    except (RuntimeError, TypeError, ValueError) as error:
        return f"unknown: {error}"[:60]


def main():
    name, variant, steps, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), pathlib.Path(sys.argv[4])
    model = workload.MODELS[name]
    batch, length, parts = model["micro_batch"], model["max_seq_len"], model["accumulation"]
    rows = torch.frombuffer(bytearray((folder / "tokens.bin").read_bytes()), dtype=torch.int32)
    rows = rows.view(-1, batch, length + 1).long()
    net = make_model(model, variant)
    if len(sys.argv) > 5:
        net.save_pretrained(sys.argv[5])
    parameters = list(net.parameters())
    masters = [p.detach().float().clone().requires_grad_() for p in parameters] if variant != "A" \
        else parameters
    adamw = workload.ADAMW
    optimizer = torch.optim.AdamW(masters, lr=adamw["lr"], betas=tuple(adamw["betas"]),
                                  eps=adamw["eps"], weight_decay=adamw["weight_decay"], fused=True)

    def loss_of(ids, labels):
        with torch.autocast(DEVICE, torch.bfloat16, enabled=variant == "A"):
            if variant == "C":
                return net(input_ids=ids, labels=labels, shift_labels=labels).loss
            logits = net(input_ids=ids).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    if variant in "AB":  # the loss, too: its logits are the largest array
        loss_of = torch.compile(loss_of, dynamic=False)

    attention = attention_of(model)
    times, losses, norms = [], [], []
    for step in range(steps):
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        total = 0.0
        for part in range(parts):
            micro = rows[(step * parts + part) % len(rows)].to(DEVICE, non_blocking=True)
            loss = loss_of(micro[:, :-1].contiguous(), micro[:, 1:].contiguous()) / parts
            loss.backward()
            total += loss.detach()
        if variant != "A":
            for master in masters:
                if master.grad is None:
                    master.grad = torch.empty_like(master)
            torch._foreach_copy_([m.grad for m in masters], [p.grad for p in parameters])
        norm = torch.nn.utils.clip_grad_norm_(masters, workload.CLIP, foreach=True)
        optimizer.step()
        if variant != "A":
            torch._foreach_copy_([p.data for p in parameters], [m.data for m in masters])
        for p in parameters:
            p.grad = None
        losses.append(float(total))
        times.append(time.perf_counter() - start)
        norms.append(float(norm))
        if step < min(3, steps - 1):
            continue
        step_time = statistics.median(times[2:] or times)
        memory = (torch.cuda.max_memory_allocated, torch.cuda.max_memory_reserved)
        allocated, reserved = (read() if DEVICE == "cuda" else 0 for read in memory)
        print(json.dumps({"peer": variant, "model": name, "first_step_s": times[0],
                          "step_s": step_time, "losses": losses, "norms": norms,
                          "tokens_per_second": workload.tokens_per_step(model) / step_time,
                          "allocated": allocated, "reserved": reserved, "attention": attention}),
              flush=True)


if __name__ == "__main__":
    main()
