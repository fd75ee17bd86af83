"""image_models.py BUILD_FOLDER: the part of text of models of text and images.

For each: five AdamW steps on text beside transformers, which trains that part alone; the exported
folder loads whole, with the other parts as they were, and has the loss of the next step; a
checkpoint's export is the same; adapters load in peft.
"""

import json
import os
import shutil
import subprocess
import sys

import peft
import safetensors.torch
import torch
import transformers

import cases
import compare
import parity_test
import tiny_llama
import train_reference

STEPS = 5
VOCAB = 300
TEXT = {
    "vocab_size": VOCAB,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
VISION = {"hidden_size": 16, "intermediate_size": 24}
PIXELS = {"num_attention_heads": 2, "num_hidden_layers": 1, "image_size": 28, "patch_size": 14}
IDS = {"image_token_id": 299, "video_token_id": 298, "vision_start_token_id": 297, "vision_end_token_id": 296}


def mrope(sections):
    return {"rope_type": "default", "mrope_section": sections, "rope_theta": 10000.0}


def mistral3():
    return transformers.Mistral3Config(
        text_config=TEXT | {"model_type": "mistral", "head_dim": 16, "sliding_window": None},
        vision_config=VISION | PIXELS | {"model_type": "pixtral", "head_dim": 8},
        image_token_index=299,
        tie_word_embeddings=False,
    )


def qwen2_5_vl():
    return transformers.Qwen2_5_VLConfig(
        text_config=TEXT | {"rope_parameters": mrope([2, 2, 2])},
        vision_config=VISION | {"depth": 1, "num_heads": 2, "out_hidden_size": 48},
        **IDS,
    )


def qwen3_vl():
    vision = {"depth": 1, "num_heads": 2, "out_hidden_size": 48, "num_position_embeddings": 16}
    return transformers.Qwen3VLConfig(
        text_config=TEXT | {"head_dim": 16, "rope_parameters": mrope([4, 2, 2])},
        vision_config=VISION | vision | {"deepstack_visual_indexes": [0]},
        tie_word_embeddings=True,
        **IDS,
    )


def gemma3():
    return transformers.Gemma3Config(
        text_config=TEXT | {"num_hidden_layers": 6, "head_dim": 16, "sliding_window": 16, "query_pre_attn_scalar": 12},
        vision_config=VISION | PIXELS,
        mm_tokens_per_image=4,
        image_token_index=299,
        boi_token_index=297,
        eoi_token_index=298,
    )


LAYOUTS = {
    "gemma3": (gemma3, {"zero": 3, "pipe_ranks": 2, "data_ranks": 1}),
    "mistral3": (mistral3, {"zero": 3}),
    "qwen2_5_vl": (qwen2_5_vl, {"zero": 2, "pipe_ranks": 2}),
    "qwen3_vl": (qwen3_vl, {"zero": 1, "model_ranks": 2}),
}


def load(folder):
    model, told = transformers.AutoModelForImageTextToText.from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True
    )
    wrong = {key: value for key, value in told.items() if value}
    if wrong:
        raise compare.Mismatch(f"{folder}: transformers loads it with {wrong}")
    return model.eval()


def save_random(config, folder):
    torch.manual_seed(cases.SEED)
    model = transformers.AutoModelForImageTextToText.from_config(config).float()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(folder)


def text_parameters(model):
    return [
        weight
        for name, weight in model.named_parameters()
        if "language_model" in name or name.startswith("lm_head")
    ]


def reference_losses(folder, windows, case):
    model = load(folder)
    model.requires_grad_(False)
    parameters = text_parameters(model)
    for weight in parameters:
        weight.requires_grad_(True)
    optimizer = torch.optim.AdamW(
        parameters, lr=cases.LR, betas=cases.BETAS, eps=cases.EPS, weight_decay=cases.WEIGHT_DECAY
    )
    losses = []
    for step in range(STEPS):
        losses.append(train_reference.gradients_of_step(model, windows, case, step))
        train_reference.clip_by_exact_norm(parameters, cases.CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return losses


def losses_of(output):
    return [line["loss"] for line in compare.read_metrics(os.path.join(output, "metrics.jsonl"))]


def tensors_of(folder):
    tensors = {}
    for name in os.listdir(folder):
        if name.endswith(".safetensors"):
            tensors |= safetensors.torch.load_file(os.path.join(folder, name))
    return tensors


def check_carried(source, exported):
    before, after = tensors_of(source), tensors_of(exported)
    if before.keys() != after.keys():
        raise compare.Mismatch(f"{exported}: other tensors: {sorted(before.keys() ^ after.keys())[:4]}")
    carried = [name for name in before if "visi" in name or "visual" in name or "projector" in name]
    changed = [name for name in carried if not torch.equal(before[name], after[name])]
    same = [n for n in before if n not in carried and torch.equal(before[n], after[n])]
    if changed or same or not carried:
        raise compare.Mismatch(f"{exported}: {len(carried)} carried, changed {changed[:3]}, untrained {same[:3]}")
    print(f"carried: {len(carried)} tensors, {len(before) - len(carried)} trained")


def check_checkpoint_export(build, output, work):
    other = os.path.join(work, "exported")
    program = os.path.join(build, "fmengine-export")
    subprocess.run([program, output, other], check=True, capture_output=True, timeout=600)
    ours, theirs = tensors_of(os.path.join(output, "hf")), tensors_of(other)
    if ours.keys() != theirs.keys() or any(not torch.equal(ours[n], theirs[n]) for n in ours):
        raise compare.Mismatch(f"{other}: not the tensors of the run's own export")


def check_names_of_modules(engine, source, first):
    """The same folder with the names that modules have in memory."""
    reference = os.path.join(engine.work, "renamed")
    renamed = os.path.join(reference, "model")
    shutil.copytree(source, renamed)
    shutil.copy(os.path.join(engine.reference, "tokens.bin"), reference)
    tensors = {name: tensor.contiguous().clone() for name, tensor in load(source).state_dict().items()}
    with open(os.path.join(source, "config.json")) as file:
        if json.load(file)["tie_word_embeddings"]:
            del tensors["lm_head.weight"]
    path = os.path.join(renamed, "model.safetensors")
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
    other = parity_test.Engine(engine.case, engine.build, reference, engine.work)
    output = other.run("of_modules", 1)
    compare.compare_series("names of modules", losses_of(output), [first], 0.0)
    check_carried(source, os.path.join(output, "hf"))


def check_targets(folder):
    """Without a name that the tower has, too, which peft would then adapt."""
    with open(os.path.join(folder, "adapter_config.json")) as file:
        targets = json.load(file)["target_modules"]
    if len(targets) < 6 or not all(name.startswith("model.language_model.layers.") for name in targets):
        raise compare.Mismatch(f"adapters: the config has the targets {targets}")


def check_adapters(engine, source, windows):
    output = engine.run("lora", 2, "--lora_r", "4", "--lora_target_modules", "q_proj,v_proj")
    check_targets(os.path.join(output, "adapter"))
    inputs, _ = windows.batch(0, 2)
    with torch.no_grad():
        merged = load(os.path.join(output, "hf"))(input_ids=inputs).logits
        adapted = peft.PeftModel.from_pretrained(load(source), os.path.join(output, "adapter"))
        got = adapted(input_ids=inputs).logits
        base = load(source)(input_ids=inputs).logits
    apart, moved = ((x - merged).abs().max().item() for x in (got, base))
    if not apart <= 1e-5 * merged.abs().max().item() or not moved > 100 * apart:
        raise compare.Mismatch(f"adapters: logits differ by {apart:.2e}, from the base by {moved:.2e}")
    print(f"adapters: logits differ by {apart:.2e}, from the base by {moved:.2e}")


def check(name, build):
    make, layout = LAYOUTS[name]
    shape = cases.Shape(48, 3, 4, 2, 80, VOCAB, False)
    case = cases.Case(shape, seq_len=37, micro_batch=3, steps=STEPS, **layout)
    work = os.path.join(build, "oracle", f"images_{name}")
    shutil.rmtree(work, ignore_errors=True)
    source, tokens = os.path.join(work, "model"), os.path.join(work, "tokens.bin")
    save_random(make(), source)
    tiny_llama.save_tokens(tokens, VOCAB, count=20_000)
    windows = tiny_llama.Windows(tokens, case.seq_len)
    want = reference_losses(source, windows, case)
    engine = parity_test.Engine(case, build, work, work)
    engine.write_config()
    output = engine.run("run", STEPS)
    got = losses_of(output)
    compare.compare_series("first loss", got[:1], want[:1], compare.FP32.first_loss)
    compare.compare_series("loss", got, want, compare.FP32.loss)
    exported = os.path.join(output, "hf")
    check_carried(source, exported)
    check_checkpoint_export(build, output, work)
    with torch.no_grad():
        count = case.micro_batch * case.data_ranks
        loss = tiny_llama.mean_loss(load(exported), *windows.batch(STEPS * count, count)).item()
    engine.run("run", STEPS + 1, "--resume", "must")
    compare.compare_series("exported folder", [loss], losses_of(output)[-1:], compare.FP32.export)
    check_names_of_modules(engine, source, got[0])
    check_adapters(engine, source, windows)


def main():
    for name in LAYOUTS:
        print(f"{name}:", flush=True)
        check(name, os.path.abspath(sys.argv[1]))


if __name__ == "__main__":
    try:
        main()
    except compare.Mismatch as mismatch:
        sys.exit(str(mismatch))
