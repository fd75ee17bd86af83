"""added_tokens_parity.py BUILD_FOLDER: tokens that a run adds, against transformers, which resizes the
same folder, with the new rows set to the mean of the old ones; beside adapters against peft.

Losses and the first gradients; the exported folder in transformers: the same ids; the exported adapter
in peft: the same logits as the merged folder."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import numpy
import peft
import safetensors.torch
import torch
import transformers

import cases
import compare
import generate_parity
import lora_parity
import tiny_llama
import tokenizer_folders
import tokenizer_texts
import train_reference

STEPS = 5
TOKENS = ["<|im_start|>", "<|im_end|>", "[,]"]
FLAGS = ["--add_tokens", '["<|im_start|>", "<|im_end|>", "[,]"]', "--eos_token", "<|im_end|>"]
TEXT = "<|im_start|>user\nYes, [,] no.<|im_end|>"
GRADIENTS = 1e-4  # largest difference over largest magnitude, of a tensor
CASES = {
    "untied": ("mistral", dict(zero=3, model_ranks=2)),
    "tied": ("qwen2", dict(zero=2, pipe_ranks=2)),
    "head_bias": ("gptj", dict(zero=1, pipe_ranks=2)),
    "gpt2": ("gpt2", dict(zero=3)),
}
KINDS = ("gpt2", "llama, legacy false", "json, added", "json, older, named")  # of tokenizer_folders.FOLDERS
ADAPTED = ("untied", "tied", "gpt2")


def resized(base, tokenizer):
    model = tiny_llama.load_model(base)
    old = model.get_input_embeddings().weight.shape[0]
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        head = model.get_output_embeddings()
        for rows in (model.get_input_embeddings().weight, head.weight, head.bias):
            if rows is not None:
                rows[old:] = rows[:old].double().mean(0).float()
    assert model.config.vocab_size == old + len(TOKENS), (old, model.config.vocab_size)
    return model


def tokenizer_class(family):
    """For other families AutoTokenizer takes a class of the family's own, which adds tokens."""
    return transformers.AutoTokenizer if family == "mistral" else transformers.PreTrainedTokenizerFast


def new_run(name, build):
    family, layout = CASES[name]
    case = cases.Case(cases.FAMILIES[family], seq_len=37, micro_batch=2, steps=STEPS, accumulation=2, **layout)
    engine, base, _ = lora_parity.new_run(case, build, os.path.join(build, "oracle", f"added_tokens_{name}"))
    plain = transformers.PreTrainedTokenizerFast(tokenizer_object=generate_parity.byte_level(case.shape.vocab),
                                                 eos_token="<|end|>")
    plain.save_pretrained(base)
    tokenizer = tokenizer_class(family).from_pretrained(base)
    assert tokenizer.add_special_tokens({"additional_special_tokens": TOKENS}) == len(TOKENS)
    tokens = os.path.join(engine.work, "tokens.bin")
    tiny_llama.save_tokens(tokens, case.shape.vocab, count=20_000)
    ids = numpy.fromfile(tokens, dtype="<i4")
    ids[::11] = case.shape.vocab + numpy.arange(len(ids[::11])) % len(TOKENS)  # the new ones
    ids.tofile(tokens)
    return engine, base, tokenizer, tiny_llama.Windows(tokens, case.seq_len)


def compare_gradients(file, model):
    got = safetensors.torch.load_file(file)
    for name, parameter in model.named_parameters():
        want = parameter.grad
        apart = (got[train_reference.name_in_files(name, model)] - want).abs().max() / want.abs().max()
        if not apart <= GRADIENTS:
            raise compare.Mismatch(f"gradient of {name}: {apart:.2e} apart")


def check_folder(folder, tokenizer, vocab):
    kind = "mistral" if type(tokenizer) is not transformers.PreTrainedTokenizerFast else ""
    exported = tokenizer_class(kind).from_pretrained(folder)
    assert exported(TEXT).input_ids == tokenizer(TEXT).input_ids, exported(TEXT)
    assert exported.decode(exported(TEXT).input_ids, skip_special_tokens=True) == tokenizer.decode(
        tokenizer(TEXT).input_ids, skip_special_tokens=True)
    assert len(exported) == len(tokenizer) and exported.eos_token == "<|im_end|>"
    if vocab is None:
        return
    model = tiny_llama.load_model(folder)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert model.config.vocab_size == vocab and model.config.eos_token_id == end
    ends = model.generation_config.eos_token_id
    assert ends == [end, tokenizer.eos_token_id], ends


def check_whole(engine, base, tokenizer, windows):
    model = resized(base, tokenizer)
    file = os.path.join(engine.work, "gradients.safetensors")
    engine.run("gradients", 1, *FLAGS, "--dump_gradients", file)
    train_reference.gradients_of_step(model, windows, engine.case, 0)
    compare_gradients(file, model)
    model.zero_grad(set_to_none=True)
    output = engine.run("run", STEPS, *FLAGS)
    want = lora_parity.reference_losses(model, windows, engine.case, STEPS)
    compare.compare_series("loss", lora_parity.losses_of(output), want, 2e-5)
    check_folder(os.path.join(output, "hf"), tokenizer, len(tokenizer))


def modules_with_rows(model):
    """As peft names them, and the ids of their rows."""
    names = {model.get_input_embeddings(): "", model.get_output_embeddings(): ""}
    for name, module in model.named_modules():
        if module in names:
            names[module] = name.rpartition(".")[2]
    tied = model.config.tie_word_embeddings
    vocab = model.config.vocab_size
    ids = list(range(vocab - len(TOKENS), vocab))
    return {name: ids for name in list(names.values())[: 1 if tied else 2]}


def in_peft(base, tokenizer, folder, trained=False):
    return peft.PeftModel.from_pretrained(resized(base, tokenizer), folder, is_trainable=trained)


def adapted_losses(model, windows, case):
    """The rows of tokens do not decay."""
    rows, others = [], []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            (rows if "trainable_tokens" in name else others).append(parameter)
    assert rows and others
    optimizer = torch.optim.AdamW(
        [{"params": others}, {"params": rows, "weight_decay": 0.0}],
        lr=cases.LR, betas=cases.BETAS, eps=cases.EPS, weight_decay=cases.WEIGHT_DECAY)
    losses = []
    for step in range(STEPS):
        losses.append(train_reference.gradients_of_step(model, windows, case, step))
        train_reference.clip_by_exact_norm(rows + others, cases.CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return losses


def check_adapter(output, base, tokenizer, windows):
    adapter = os.path.join(output, "adapter")
    merged = lora_parity.logits_of(tiny_llama.load_model(os.path.join(output, "hf")), windows)
    loaded = lora_parity.logits_of(in_peft(base, tokenizer, adapter), windows)
    lora_parity.compare_logits("merged, as the adapter in peft", merged, loaded)
    check_folder(adapter, tokenizer, None)
    return adapter


def check_adapted(engine, base, tokenizer, windows, build):
    fresh = engine.run("fresh", STEPS, *FLAGS, "--lora_r", "5", "--lora_alpha", "8")
    model = resized(base, tokenizer)
    first = train_reference.gradients_of_step(model, windows, engine.case, 0)
    compare.compare_series("first loss of fresh adapters", lora_parity.losses_of(fresh)[:1], [first], 1e-6)
    adapter = check_adapter(fresh, base, tokenizer, windows)

    start = os.path.join(engine.work, "start")
    config = peft.LoraConfig(r=5, lora_alpha=8, lora_dropout=0.0, task_type="CAUSAL_LM",
                             trainable_token_indices=modules_with_rows(model))
    torch.manual_seed(cases.SEED)
    model = peft.get_peft_model(resized(base, tokenizer), config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name or "trainable_tokens_delta" in name:
                weight.normal_(std=0.02)
    model.save_pretrained(start, save_embedding_layers=False)
    output = engine.run("run_adapted", STEPS, *FLAGS, "--adapter", start)
    want = adapted_losses(in_peft(base, tokenizer, start, trained=True), windows, engine.case)
    compare.compare_series("loss of adapters", lora_parity.losses_of(output), want, 2e-5)
    check_adapter(output, base, tokenizer, windows)
    check_generated(build, base, tokenizer, adapter)


def check_generated(build, base, tokenizer, adapter):
    """The PEFT folder alone: its tokenizer says how many rows the base gets."""
    prompt = TEXT + "<|im_start|>"
    ids = tokenizer(prompt).input_ids
    model = in_peft(base, tokenizer, adapter).eval()
    ends = {"eos_token_id": [tokenizer.convert_tokens_to_ids("<|im_end|>"), tokenizer.eos_token_id]}
    expected = generate_parity.greedy(model, ids, 20, **ends)
    got = generate_parity.Generate(build, base).of([prompt], "--max_new_tokens", 20, folders=["--ckpt", adapter])
    generate_parity.expect_greedy("adapter", model, ids, got[0]["tokens"], 20, expected, **ends)


def read_ids(file):
    return numpy.fromfile(file, dtype="<i4").tolist()


def run_program(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{words} ended with {done.returncode}: {done.stderr}")


def check_kind(name, build):
    """Other files than tokenizer.json: ids of fmengine-tokenize, and the exported files in transformers."""
    work = os.path.join(build, "oracle", "added_tokens_kinds")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(f"{work}/tokenizer")
    make, kind, config = tokenizer_folders.FOLDERS[name]
    texts = tokenizer_texts.Texts(13, tokenizer_folders.EXTRAS)
    make(f"{work}/tokenizer", [text.decode("utf-8", "replace") for text in texts.some(400_000)], kind, config)
    theirs = transformers.AutoTokenizer.from_pretrained(f"{work}/tokenizer")
    theirs.add_special_tokens({"additional_special_tokens": TOKENS})
    with open(f"{work}/text.jsonl", "w") as file:
        file.write(json.dumps({"text": TEXT}) + "\n")
    flags = ["--tokenizer", f"{work}/tokenizer", "--data_path", f"{work}/text.jsonl", *FLAGS]
    run_program(f"{build}/fmengine-tokenize", *flags, "--out", f"{work}/ids")
    want = theirs(TEXT).input_ids
    end = theirs.convert_tokens_to_ids("<|im_end|>")
    got = read_ids(f"{work}/ids")
    assert got == [*want, *([end] if want[-1] != end else [])], (name, got, want)
    shape = dataclasses.replace(cases.FAMILIES["mistral"], vocab=100)
    tiny_llama.save_model(shape, 64, f"{work}/model")
    run_program(f"{build}/fmengine-train", "--model_config", f"{work}/model/config.json", *flags, "--max_seq_len", "8",
                "--train_steps", "1", "--per_device_train_batch_size", "1", "--allow_repeat",
                "--output_dir", f"{work}/run")
    # AutoTokenizer would take the class of the model's family.
    exported = type(theirs).from_pretrained(f"{work}/run/hf")
    assert exported(TEXT).input_ids == want, (name, exported(TEXT).input_ids, want)
    assert exported.eos_token_id == end
    size = transformers.AutoConfig.from_pretrained(f"{work}/run/hf").vocab_size
    assert size == max(theirs.get_vocab().values()) + 1, (name, size)
    print(f"{name}: {len(want)} ids of transformers", flush=True)


def main():
    build = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    for name in KINDS:
        check_kind(name, build)
    for name in CASES:
        print(f"{name}:", flush=True)
        run = new_run(name, build)
        check_whole(*run)
        if name in ADAPTED:
            check_adapted(*run, build)


if __name__ == "__main__":
    try:
        main()
    except compare.Mismatch as mismatch:
        sys.exit(str(mismatch))
