"""lora_parity.py BUILD_FOLDER: adapters against peft, from the same folders.

For each family: losses of 20 steps of AdamW from one PEFT folder without dropout; the exported
adapter in peft and the merged folder in transformers give the same logits; the first loss of fresh
adapters is the base's.
"""

import dataclasses
import json
import os
import shutil
import sys

import peft
import torch
import transformers

import cases
import compare
import generate_parity
import tiny_llama
import train_reference
from parity_test import Engine

STEPS = 20
TOKENS = 40  # that are generated
LOGITS = 1e-5  # largest difference over largest magnitude
SCORE = 1e-5  # of a text's log-probability
R, ALPHA = 5, 8


@dataclasses.dataclass(frozen=True)
class Adapted:
    family: str  # of cases.FAMILIES
    targets: tuple = ()  # none: peft's usual ones
    rslora: bool = False
    saved: tuple = ()
    full_names: bool = False  # of every matrix, as peft writes all-linear of small models
    zero: int = 0
    pipe_ranks: int = 1
    model_ranks: int = 1


ADAPTED = {
    "usual": Adapted("qwen3", zero=3, model_ranks=2),
    "all": Adapted(
        "llama_biases",
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        rslora=True,
        zero=2,
        pipe_ranks=2,
    ),
    "saved": Adapted("mistral", ("o_proj", "down_proj"), saved=("lm_head", "norm"), full_names=True, zero=1),
    "stacked": Adapted("phi3_short", ("qkv_proj", "gate_up_proj"), zero=3, pipe_ranks=2),
    "per_head": Adapted("gpt_neox", zero=2),
    "groups": Adapted("falcon_groups", zero=1),
    "multiplied": Adapted("granite", ("o_proj", "down_proj"), zero=2, pipe_ranks=2),
    "conv1d": Adapted("gpt2", ("c_attn", "mlp.c_proj"), zero=1, model_ranks=2),
}


def peft_config(adapted):
    return peft.LoraConfig(
        r=R,
        lora_alpha=ALPHA,
        lora_dropout=0.0,
        use_rslora=adapted.rslora,
        target_modules=list(adapted.targets) or None,
        modules_to_save=list(adapted.saved) or None,
        task_type="CAUSAL_LM",
    )


def random_adapter(base, adapted, folder):
    """Adapters that are not the identity, as those of a run that goes on; some of them in a file
    of torch.save, as old versions of peft write them."""
    model = peft.get_peft_model(tiny_llama.load_model(base), peft_config(adapted))
    torch.manual_seed(cases.SEED)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.02)
    model.save_pretrained(folder, safe_serialization=not adapted.rslora)
    if adapted.full_names:
        path = os.path.join(folder, "adapter_config.json")
        with open(path) as file:
            config = json.load(file)
        modules = model.base_model.model.named_modules()
        config["target_modules"] = sorted(name for name, module in modules if hasattr(module, "lora_A"))
        with open(path, "w") as file:
            json.dump(config, file)


def load_adapter(base, folder, trained=False):
    model = tiny_llama.load_model(base)
    return peft.PeftModel.from_pretrained(model, folder, is_trainable=trained)


def reference_losses(model, windows, case, steps=STEPS):
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        parameters,
        lr=cases.LR,
        betas=cases.BETAS,
        eps=cases.EPS,
        weight_decay=cases.WEIGHT_DECAY,
    )
    losses = []
    for step in range(steps):
        losses.append(train_reference.gradients_of_step(model, windows, case, step))
        train_reference.clip_by_exact_norm(parameters, cases.CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return losses


def compare_logits(name, got, want):
    apart = ((got - want).abs().max() / want.abs().max()).item()
    summary = f"{name}: logits differ by {apart:.2e} (allowed {LOGITS:.0e})"
    if not apart <= LOGITS:
        raise compare.Mismatch(summary)
    print(summary)


def logits_of(model, windows):
    with torch.no_grad():
        return model.eval()(input_ids=windows.batch(0, 4)[0]).logits.float()


def losses_of(output):
    return [line["loss"] for line in compare.read_metrics(os.path.join(output, "metrics.jsonl"))]


def check_fresh(engine, adapted, windows):
    flags = ["--lora_r", str(R), "--lora_dropout", "0.1"]
    if adapted.targets:
        flags += ["--lora_target_modules", *adapted.targets]
    output = engine.run("fresh", 1, *flags)
    adapter = os.path.join(output, "adapter")
    with open(os.path.join(adapter, "adapter_config.json")) as file:
        config = json.load(file)
    assert config["r"] == R and config["lora_dropout"] == 0.1, config
    base = os.path.join(engine.reference, "model")
    first = train_reference.gradients_of_step(tiny_llama.load_model(base), windows, engine.case, 0)
    compare.compare_series("first loss of fresh adapters", losses_of(output), [first], 1e-6)
    merged = logits_of(tiny_llama.load_model(os.path.join(output, "hf")), windows)
    compare_logits("fresh, in peft", logits_of(load_adapter(base, adapter), windows), merged)


def score_of(model, ids):
    with torch.no_grad():
        logs = model(torch.tensor([ids])).logits.double().log_softmax(-1)[0, :-1]
    return logs.gather(1, torch.tensor(ids)[1:, None]).sum().item()


def check_generated(build, base, start, vocab):
    """A base with adapters, and a PEFT folder alone, which names its base: greedy ids, and how
    likely a text is."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=generate_parity.byte_level(vocab))
    tokenizer.save_pretrained(base)
    prompt = generate_parity.PROMPTS[1]
    ids = tokenizer.encode(prompt)
    model = load_adapter(base, start).eval()
    expected, score = generate_parity.greedy(model, ids, TOKENS), score_of(model, ids)
    plain = score_of(tiny_llama.load_model(base).eval(), ids)
    assert abs(plain / score - 1) > 3 * SCORE, (plain, score)
    texts = os.path.join(base, "texts.jsonl")
    with open(texts, "w") as file:
        file.write(json.dumps({"text": prompt}) + "\n")
    program = generate_parity.Generate(build, base)
    for folders in (["--ckpt", base, "--adapter", start], ["--ckpt", start]):
        got = program.of([prompt], "--max_new_tokens", TOKENS, folders=folders)
        name, tokens = " ".join(folders), got[0]["tokens"]
        generate_parity.expect_greedy(name, model, ids, tokens, TOKENS, expected)
        got = program.lines("--score", texts, folders=folders)[0]["logprob"]
        assert abs(got / score - 1) < SCORE, (folders, got, score)
    print(f"{TOKENS} greedy tokens, and the probability of a text, are those of peft")


def new_run(case, build, work):
    """The engine, the folder of a random model and the windows of random tokens, in an empty folder `work`."""
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    base, tokens = os.path.join(work, "model"), os.path.join(work, "tokens.bin")
    tiny_llama.save_model(case.shape, case.seq_len, base)
    tiny_llama.save_tokens(tokens, case.shape.vocab, count=20_000)
    engine = Engine(case, build, work, work)
    engine.write_config()
    return engine, base, tiny_llama.Windows(tokens, case.seq_len)


def check(name, adapted, build):
    work = os.path.join(build, "oracle", f"lora_{name}")
    case = cases.Case(
        cases.FAMILIES[adapted.family],
        seq_len=37,
        micro_batch=2,
        steps=STEPS,
        accumulation=2,
        zero=adapted.zero,
        pipe_ranks=adapted.pipe_ranks,
        model_ranks=adapted.model_ranks,
    )
    engine, base, windows = new_run(case, build, work)
    start = os.path.join(work, "start")
    random_adapter(base, adapted, start)
    output = engine.run("run", STEPS, "--adapter", start)
    model = load_adapter(base, start, trained=True)
    compare.compare_series("loss", losses_of(output), reference_losses(model, windows, case), 2e-5)
    merged = logits_of(tiny_llama.load_model(os.path.join(output, "hf")), windows)
    loaded = load_adapter(base, os.path.join(output, "adapter"))
    compare_logits("merged, as the adapter in peft", merged, logits_of(loaded, windows))
    check_generated(build, base, start, case.shape.vocab)
    if name in ("usual", "conv1d"):
        check_fresh(engine, adapted, windows)


def main():
    build = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    for name, adapted in ADAPTED.items():
        print(f"{name}:", flush=True)
        check(name, adapted, build)


if __name__ == "__main__":
    try:
        main()
    except compare.Mismatch as mismatch:
        sys.exit(str(mismatch))
