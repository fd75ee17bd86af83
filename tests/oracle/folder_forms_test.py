"""folder_forms_test.py BUILD_FOLDER: folders that are stored in other ways than LlamaForCausalLM's
save_pretrained does and that transformers loads; the engine's first loss is transformers'.
"""

import dataclasses
import glob
import json
import os
import shutil
import sys

import safetensors.torch
import torch
import transformers

import cases
import compare
import hf_loss
import parity_test
import tiny_llama

ONE_STEP = {"zero": 3, "seq_len": 37, "micro_batch": 3, "steps": 1}
LONG_ROPE = dataclasses.replace(cases.WIDE_HEADS, pad=None)


def of_the_part(folder):
    """Names without "model.", architecture LlamaModel."""
    model = tiny_llama.load_model(folder)
    model.model.save_pretrained(folder)


def head_alone(folder):
    """The tied matrix under the head's name."""
    file = os.path.join(folder, "model.safetensors")
    tensors = safetensors.torch.load_file(file)
    tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})


def in_half_precision(folder):
    tiny_llama.load_model(folder).half().save_pretrained(folder)


def in_bfloat16(folder):
    tiny_llama.load_model(folder).bfloat16().save_pretrained(folder)


def edit_config(folder, edit):
    file = os.path.join(folder, "config.json")
    with open(file) as source:
        config = json.load(source)
    edit(config)
    with open(file, "w") as target:
        json.dump(config, target)


def without_trained_length(folder):
    edit_config(folder, lambda c: c["rope_parameters"].pop("original_max_position_embeddings"))


def trained_length_outside(folder):
    edit_config(folder, lambda c: c.update(original_max_position_embeddings=256))


def masks_of_old_versions(folder):
    """Without "transformer.", with the masks that GPT-2's published files hold."""
    file = os.path.join(folder, "model.safetensors")
    tensors = safetensors.torch.load_file(file)
    tensors = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    for layer in range(3):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(1, 1, 64, 64).tril()
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})


def head_of_another_name(folder):
    """GPT-NeoX's head as transformers 5 calls it."""
    file = os.path.join(folder, "model.safetensors")
    tensors = safetensors.torch.load_file(file)
    name = "embed_out.weight" if "embed_out.weight" in tensors else "lm_head.weight"
    tensors["lm_head.weight"] = tensors.pop(name)
    safetensors.torch.save_file(tensors, file, metadata={"format": "pt"})


def take_weights(folder):
    file = os.path.join(folder, "model.safetensors")
    tensors = safetensors.torch.load_file(file)
    os.remove(file)
    return tensors


def saved_by_torch(folder):
    """One pytorch_model.bin, as before safetensors; the tied matrix is there twice."""
    tensors = take_weights(folder)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    torch.save(tensors, os.path.join(folder, "pytorch_model.bin"))


def saved_by_torch_in_two(folder):
    """Two files and an index; views of one storage, and parameters."""
    tensors = take_weights(folder)
    whole = torch.cat([tensor.flatten() for tensor in tensors.values()])
    parts, weight_map, at = [{}, {}], {}, 0
    for index, (name, tensor) in enumerate(tensors.items()):
        view = whole[at : at + tensor.numel()].view(tensor.shape)
        parts[index % 2][name] = torch.nn.Parameter(view) if index % 3 == 0 else view
        weight_map[name] = f"pytorch_model-0000{index % 2 + 1}-of-00002.bin"
        at += tensor.numel()
    for index, part in enumerate(parts):
        torch.save(part, os.path.join(folder, f"pytorch_model-0000{index + 1}-of-00002.bin"))
    with open(os.path.join(folder, "pytorch_model.bin.index.json"), "w") as target:
        json.dump({"metadata": {}, "weight_map": weight_map}, target)


FORMS = [  # and whether the loss must be another one
    (cases.ODD_TIED, of_the_part, False),
    (cases.ODD_TIED, head_alone, False),
    (cases.ODD_TIED, in_half_precision, False),
    (cases.ODD_TIED, in_bfloat16, True),
    (LONG_ROPE, without_trained_length, True),
    (LONG_ROPE, trained_length_outside, True),
    (cases.FAMILIES["gpt2"], masks_of_old_versions, False),
    (cases.FAMILIES["gpt_neox"], head_of_another_name, False),
    (cases.ODD_TIED, saved_by_torch, False),
    (cases.FAMILIES["gptj"], saved_by_torch_in_two, False),
]


def first_loss(engine):
    output = engine.run("run", 1)
    return compare.read_metrics(os.path.join(output, "metrics.jsonl"))[0]["loss"], output


ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "gptj": "GPTJForCausalLM",
}


# An export has the type of the weights that the run began with.
DTYPES = {in_half_precision: torch.float16, in_bfloat16: torch.bfloat16}


def check_export(name, folder, dtype):
    exported = transformers.AutoConfig.from_pretrained(folder)
    if exported.architectures != [ARCHITECTURES[exported.model_type]]:
        sys.exit(f"{name}: the export names {exported.architectures}")
    if exported.dtype != dtype:
        sys.exit(f"{name}: the export says {exported.dtype} of {dtype} weights")


def check_rounding(name, output, dtype):
    """The export is what torch makes of the checkpoint's fp32 masters."""
    masters = {}
    for file in glob.glob(os.path.join(output, "global_step1", "weights-*.safetensors")):
        masters |= safetensors.torch.load_file(file)
    found = safetensors.torch.load_file(os.path.join(output, "hf", "model.safetensors"))
    if set(found) != set(masters) or not found:
        sys.exit(f"{name}: {sorted(found)} are not {sorted(masters)}")
    for tensor, values in found.items():
        if masters[tensor].dtype != torch.float32 or values.dtype != dtype:
            sys.exit(f"{name}: {tensor} is {masters[tensor].dtype} and {values.dtype}")
        if not torch.equal(values, masters[tensor].to(dtype)):
            sys.exit(f"{name}: {tensor} is not rounded as torch does")


def check_form(shape, change, other_loss, build):
    case = cases.Case(shape, **ONE_STEP)
    work = os.path.join(build, "oracle", f"form_{change.__name__}")
    shutil.rmtree(work, ignore_errors=True)
    model, tokens = os.path.join(work, "model"), os.path.join(work, "tokens.bin")
    tiny_llama.save_model(shape, case.seq_len, model)
    tiny_llama.save_tokens(tokens, shape.vocab, count=20_000)
    windows = case.micro_batch * case.data_ranks
    before = hf_loss.loss_of_windows(model, tokens, case.seq_len, 0, windows)
    change(model)
    want = hf_loss.loss_of_windows(model, tokens, case.seq_len, 0, windows)
    engine = parity_test.Engine(case, build, work, work)
    engine.write_config()
    got, output = first_loss(engine)
    compare.compare_series(change.__name__, [got], [want], compare.FP32.first_loss)
    # Another RoPE and bf16 must show; other names and the rounding of small weights to fp16 not.
    if (compare.relative(want, before) > compare.FP32.first_loss) != other_loss:
        sys.exit(f"{change.__name__}: loss {want:.9g} beside {before:.9g} before the change")
    dtype = DTYPES.get(change, torch.float32)
    check_export(change.__name__, os.path.join(output, "hf"), dtype)
    if change in DTYPES:
        check_rounding(change.__name__, output, dtype)


def main():
    for shape, change, other_loss in FORMS:
        check_form(shape, change, other_loss, os.path.abspath(sys.argv[1]))


if __name__ == "__main__":
    try:
        main()
    except compare.Mismatch as mismatch:
        sys.exit(str(mismatch))
