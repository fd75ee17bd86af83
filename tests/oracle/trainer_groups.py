"""trainer_groups.py BUILD_FOLDER: a JSON without an optimizer trains as transformers' Trainer does.

For each family: which parameters decay, which is seen in the exported weights, and ten steps of the
real Trainer in fp32 with a weight decay that shows a parameter in the wrong group: losses, norms,
learning rates and all weights. Adapters with modules_to_save go the same way against peft. Steps
without a label leave the weights as there, where their loss is nan.
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
import tiny_llama
import train_reference

STEPS, ROWS, SEQ_LEN = 10, 4, 24
DECAY, RATE = 0.5, 1e-2
# Gradients that are zero but for roundings (a bias of keys has one) must not decide a step of Adam.
EPSILON = 1e-3
TOLERANCE = 1e-6  # relative, of losses, norms and rates; of weights, which are below 2, absolute
FAMILIES = ("llama_biases", "qwen2", "gpt2")
LORA = peft.LoraConfig(
    r=3, lora_alpha=6, lora_dropout=0.0, target_modules=["q_proj", "down_proj"],
    modules_to_save=["norm", "lm_head"], task_type="CAUSAL_LM",
)


def clip_exactly(parameters, max_norm, norm_type=2, **_):
    """torch's clip_grad_norm_ sums squares in fp32 and is off by some 1e-5."""
    parameters = [p for p in parameters if p.grad is not None]
    return torch.tensor(train_reference.clip_by_exact_norm(parameters, max_norm))


def rows_of(tokens):
    """The windows in the order of the file: flat ids are not shuffled."""
    inputs, labels = tiny_llama.Windows(tokens, SEQ_LEN).batch(0, STEPS * ROWS)
    return [{"input_ids": i, "labels": l} for i, l in zip(inputs, labels)]


class Trainer(transformers.Trainer):
    """The real one; rows come in their order, labels stand where the logits of them are. A loss that
    is nan would stay in the Trainer's own log for ever."""

    losses = ()

    def _get_train_sampler(self, dataset=None):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        logits = model(input_ids=inputs["input_ids"]).logits.float()
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten())
        self.losses = (*self.losses, loss.item())
        return (loss, logits) if return_outputs else loss


def reference(model, rows, work, batch=ROWS):
    arguments = transformers.TrainingArguments(
        output_dir=work, max_steps=len(rows) // batch, per_device_train_batch_size=batch,
        learning_rate=RATE, weight_decay=DECAY, adam_epsilon=EPSILON, warmup_steps=2,
        logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, seed=cases.SEED,
        logging_nan_inf_filter=False, disable_tqdm=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=rows)
    decayed = set(trainer.get_decay_parameter_names(model))
    trainer.train()
    log = [line for line in trainer.state.log_history if "loss" in line]
    return decayed, [dict(line, loss=loss) for line, loss in zip(log, trainer.losses, strict=True)]


def engine(build, base, data, output, *more, steps=STEPS, batch=ROWS):
    command = [
        os.path.join(build, "fmengine-train"), "--init_ckpt", base, "--data_path", data,
        "--max_seq_len", SEQ_LEN, "--train_steps", steps, "--per_device_train_batch_size", batch,
        "--learning_rate", RATE, "--weight_decay", DECAY, "--adam_epsilon", EPSILON,
        "--warmup_steps", 2, "--output_dir", output, *more,
    ]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"fmengine-train must end with 0, not {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout, compare.read_metrics(os.path.join(output, "metrics.jsonl"))


def compare_weights(name, got, want):
    if got.keys() != want.keys():
        raise compare.Mismatch(f"{name}: names differ: {sorted(got.keys() ^ want.keys())}")
    errors = {key: compare.numeric((got[key] - want[key]).abs().max().item()) for key in want}
    worst = max(errors, key=errors.get)
    summary = f"{name}: {len(errors)} tensors, worst {errors[worst]:.2e} in {worst}"
    if not errors[worst] <= TOLERANCE:
        raise compare.Mismatch(f"{summary} (allowed {TOLERANCE:.0e})")
    print(summary)


def compare_counts(name, said, model, decayed):
    """The banner's numbers of both groups."""
    trained = {n: p.numel() for n, p in model.named_parameters() if p.requires_grad}
    decay = sum(count for n, count in trained.items() if n in decayed)
    rest = sum(trained.values()) - decay
    words = f"no decay of norms, biases: {decay:,} parameters decay, {rest:,} do not"
    if words not in " ".join(said.split()):  # a banner has several lines
        raise compare.Mismatch(f"{name}: the banner must say {words!r}: {said}")
    print(f"{name}: {words}")


def compare_steps(name, metrics, log):
    for key, of_trainer in (("loss", "loss"), ("grad_norm", "grad_norm"), ("lr", "learning_rate")):
        got, want = ([line[k] for line in lines] for k, lines in ((key, metrics), (of_trainer, log)))
        if key == "lr":  # the first is 0
            got, want = got[1:], want[1:]
        compare.compare_series(f"{name} {key}", got, want, TOLERANCE)


def new_folder(build, name, shape):
    """An empty folder with a random model and random tokens, and the paths of both."""
    work = os.path.join(build, "oracle", f"trainer_groups_{name}")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    base, tokens = os.path.join(work, "model"), os.path.join(work, "tokens.bin")
    tiny_llama.save_model(shape, SEQ_LEN, base)
    tiny_llama.save_tokens(tokens, shape.vocab, count=STEPS * ROWS * (SEQ_LEN + 1))
    return work, base, tokens


def compare_exports(name, output, model):
    want = {train_reference.name_in_files(n, model): p.detach() for n, p in model.named_parameters()}
    got = tiny_llama.load_model(f"{output}/hf")
    got = {train_reference.name_in_files(n, got): p.detach() for n, p in got.named_parameters()}
    compare_weights(name, got, want)


def check(name, build, adapter=None):
    folder = f"{name}_lora" if adapter else name
    work, base, tokens = new_folder(build, folder, cases.FAMILIES[name])
    model, more = tiny_llama.load_model(base), []
    if adapter:
        start = os.path.join(work, "start")
        model = peft.get_peft_model(model, adapter)
        model.save_pretrained(start)
        more = ["--adapter", start]
    output = os.path.join(work, "run")
    said, metrics = engine(build, base, tokens, output, "--data_format", "tokens_i32", *more)
    decayed, log = reference(model, rows_of(tokens), work)
    compare_counts(name, said, model, decayed)
    compare_steps(name, metrics, log)
    if adapter:
        model.save_pretrained(os.path.join(work, "adapter"))
        files = [os.path.join(f, "adapter_model.safetensors") for f in (f"{output}/adapter", f"{work}/adapter")]
        return compare_weights(f"{name} adapter", *map(safetensors.torch.load_file, files))
    compare_exports(name, output, model)


def check_untrained(build):
    """Documents of one text, of which half have no label: our order says when each kind comes."""
    work, base, tokens = new_folder(build, "untrained", cases.FAMILIES["llama_biases"])
    ids = tiny_llama.Windows(tokens, SEQ_LEN).rows[0]
    nothing = torch.full_like(ids, -100)
    data = os.path.join(work, "half.jsonl")
    with open(data, "w") as file:
        for labels in [ids, nothing] * (STEPS // 2):
            file.write(json.dumps({"input_ids": ids.tolist(), "labels": labels.tolist()}) + "\n")
    output = os.path.join(work, "run")
    said, metrics = engine(build, base, data, output, "--packing", "none", batch=1)
    assert f"{STEPS // 2} of {STEPS} rows train nothing" in said, said
    kinds = [line["loss"] is not None for line in metrics]
    assert sum(kinds) == STEPS // 2, kinds
    rows = [{"input_ids": ids[:-1], "labels": (ids if kind else nothing)[1:]} for kind in kinds]
    model = tiny_llama.load_model(base)
    log = reference(model, rows, work, batch=1)[1]
    assert [line["loss"] == line["loss"] for line in log] == kinds, "nan where there is no label"
    trained = [[line for line, kind in zip(lines, kinds) if kind] for lines in (metrics, log)]
    compare_steps("untrained", *trained)
    compare_exports("untrained", output, model)


def main():
    build = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    torch.nn.utils.clip_grad_norm_ = clip_exactly
    for name in FAMILIES:
        check(name, build)
    check("llama_biases", build, LORA)
    check_untrained(build)


if __name__ == "__main__":
    try:
        main()
    except compare.Mismatch as mismatch:
        sys.exit(str(mismatch))
