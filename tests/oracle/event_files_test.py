"""event_files_test.py BUILD_FOLDER: TensorBoard's own reader finds in the event files of a run what
metrics.jsonl has, also after a start that went on behind a checkpoint and was given up.
"""

import csv
import json
import os
import shutil
import sys

import cases
import compare
import parity_test
import tiny_llama
from tensorboard.backend.event_processing import event_accumulator

CASE = cases.Case(cases.ODD_TIED, seq_len=37, micro_batch=3, steps=6, zero=2, precision="fp16")
# Steps of the starts; the second saves nothing, so the third does two of its steps again.
STARTS = [(3,), (5, "--save_strategy", "no"), (6,)]
WARMUP = {"warmup_min_lr": 1e-4, "warmup_max_lr": 1e-3, "warmup_num_steps": 4}
PREFIX = "Train/Samples/"
TIMES = {
    "elapsed_time_ms_forward": ("forward", "loss"),
    "elapsed_time_ms_backward": ("backward", "reduce"),
    "elapsed_time_ms_backward_inner": ("backward",),
    "elapsed_time_ms_backward_allreduce": ("reduce",),
    "elapsed_time_ms_step": ("optimizer", "gather"),
}


def expected_curves(metrics):
    """By tag: samples and values, from the lines of metrics.jsonl."""
    curves = {}

    def add(tag, line, value):
        curves.setdefault(PREFIX + tag, []).append((line["samples"], value))

    def add_as_trainer(tag, line, value):
        curves.setdefault(tag, []).append((line["samples"], value))

    for line in metrics:
        add("train_loss", line, line["loss"])
        add("lr", line, line["lr"])
        add("loss_scale", line, line["loss_scale"])
        if "eval_loss" in line:
            add("eval_loss", line, line["eval_loss"])
        add_as_trainer("train/loss", line, line["loss"])
        add_as_trainer("train/learning_rate", line, line["lr"])
        add_as_trainer("train/grad_norm", line, line["grad_norm"])
        add_as_trainer("train/epoch", line, line["epoch"])
        add_as_trainer("train/tokens_per_second", line, line["tokens_per_second"])
        if "eval_loss" in line:
            add_as_trainer("eval/loss", line, line["eval_loss"])
            add_as_trainer("eval/perplexity", line, line["perplexity"])
        for tag, phases in TIMES.items():
            add(tag, line, sum(line["phases"][phase] for phase in phases))
    return curves


def check_curve(tag, found, expected):
    if [step for step, _ in found] != [step for step, _ in expected]:
        raise compare.Mismatch(f"{tag}: {found} is not at the steps of {expected}")
    # metrics.jsonl has 9 digits of a number and microseconds of a time; TensorBoard has floats.
    slack = 0.002 if "elapsed" in tag else 1e-9
    # Six digits of a rate.
    scale = 1e-5 if "tokens_per_second" in tag else 2e-7
    for (step, value), (_, want) in zip(found, expected, strict=True):
        if not abs(value - want) <= slack + scale * abs(want):
            raise compare.Mismatch(f"{tag} at {step}: {value} is not {want}")


def read_events(folder):
    reader = event_accumulator.EventAccumulator(
        folder, size_guidance={event_accumulator.SCALARS: 0}
    )
    reader.Reload()
    scalars = {tag: reader.Scalars(tag) for tag in reader.Tags()["scalars"]}
    return {tag: [(at.step, at.value) for at in events] for tag, events in scalars.items()}


def read_csv(folder, tag, steps):
    """The last row of a step counts; rows of steps that were given up stay."""
    with open(os.path.join(folder, tag.replace("/", "_") + ".csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    last_part = tag.rsplit("/", 1)[1]
    values = {int(row["step"]): float(row[last_part]) for row in rows}
    return [(step, values.get(step)) for step in steps]


def run_all(build, work):
    tiny_llama.save_model(CASE.shape, CASE.seq_len, os.path.join(work, "model"))
    tokens = os.path.join(work, "tokens.bin")
    tiny_llama.save_tokens(tokens, CASE.shape.vocab, count=20_000)
    engine = parity_test.Engine(CASE, build, work, work)
    engine.write_config()
    with open(engine.config) as file:
        config = json.load(file)
    place = {"enabled": True, "output_path": work}
    config |= {
        "tensorboard": {**place, "job_name": "tb"},
        "csv_monitor": {**place, "job_name": "csv"},
        "wall_clock_breakdown": True,
        "fp16": {"enabled": True, "initial_scale_power": 4, "loss_scale_window": 2},
        "scheduler": {"type": "WarmupLR", "params": WARMUP},
    }
    with open(engine.config, "w") as file:
        json.dump(config, file)
    for steps, *more in STARTS:
        evaluation = ["--eval_data_path", tokens, "--eval_steps", "2", "--eval_batches", "1"]
        output = engine.run("run", steps, *evaluation, *more)
    return compare.read_metrics(os.path.join(output, "metrics.jsonl"))


def main():
    work = os.path.join(os.path.abspath(sys.argv[1]), "oracle", "event_files")
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    metrics = run_all(os.path.abspath(sys.argv[1]), work)
    expected = expected_curves(metrics)
    events = os.path.join(work, "tb")
    found = read_events(events)
    if set(found) != set(expected):
        raise compare.Mismatch(f"tags {sorted(found)} are not {sorted(expected)}")
    for tag, curve in expected.items():
        check_curve(tag, found[tag], curve)
        rows = read_csv(os.path.join(work, "csv"), tag, [step for step, _ in curve])
        check_curve(f"{tag} (CSV)", rows, curve)
    files = len(os.listdir(events))
    if files != len(STARTS):
        raise compare.Mismatch(f"{files} event files of {len(STARTS)} starts")
    points = sum(len(curve) for curve in found.values())
    print(f"{points} points of {len(found)} tags in {files} event files: as in metrics.jsonl")


if __name__ == "__main__":
    try:
        main()
    except compare.Mismatch as mismatch:
        sys.exit(str(mismatch))
