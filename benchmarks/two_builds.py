#!/usr/bin/env python3
"""Step times and memory of two builds of fmengine-train in turn, on W1 to W6, W2 also under ZeRO-3 and in bf16.

    benchmarks/two_builds.py OLD/fmengine-train NEW/fmengine-train --pairs 5

Prints old / new per workload: the median over pairs of the ratio of median step times, the bound
that the true median is above with 95 % confidence (order statistics), and every ratio; above 1 the
new build is faster. Behind it the median for the fastest tenth of the steps, which a shared machine
disturbs less, and new / old of the peak memory of rank 0. Losses of both must be the same digits.
2 ranks x 1 thread, random weights, ZeRO-2 but for W2z3.
Nothing else may run on the machine.
"""
import argparse
import json
import math
import os
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile

# hidden, layers, heads, kv heads, ffn, vocabulary, tokens of a row, rows, accumulation, steps
SHAPES = {
    "W1": (256, 4, 4, 2, 688, 2048, 128, 2, 1, 120),
    "W2": (512, 8, 8, 4, 1376, 32000, 256, 2, 1, 13),
    "W2z3": (512, 8, 8, 4, 1376, 32000, 256, 2, 1, 13),
    "W2bf16": (512, 8, 8, 4, 1376, 32000, 256, 2, 1, 13),
    "W3": (384, 6, 6, 2, 1024, 128256, 256, 1, 1, 9),
    "W4": (384, 24, 6, 2, 1024, 8192, 256, 2, 1, 9),
    "W5": (256, 4, 4, 4, 688, 4096, 4096, 1, 1, 6),
    "W6": (512, 16, 8, 4, 1376, 8192, 256, 1, 8, 8),
}
WARM_UP = 3  # steps that do not count
TIED = {"W3"}


def write_inputs(folder, shape, stage=2, bf16=False, tied=False):
    """config.json, DeepSpeed JSON and token file; their flags."""
    hidden, layers, heads, kv, ffn, vocab, tokens, rows, accumulation, _ = shape
    model = {"model_type": "llama", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
             "num_key_value_heads": kv, "intermediate_size": ffn, "vocab_size": vocab, "max_position_embeddings": max(2048, tokens),
             "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": tied}
    config = {"train_micro_batch_size_per_gpu": rows, "gradient_accumulation_steps": accumulation, "gradient_clipping": 1.0,
              "zero_optimization": {"stage": stage}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.1}}}
    if bf16:
        config["bf16"] = {"enabled": True}
    (folder / "model.json").write_text(json.dumps(model))
    (folder / "ds.json").write_text(json.dumps(config))
    draw = random.Random(1)
    count = (tokens + 1) * rows * accumulation * 2 * 4
    (folder / "tokens.bin").write_bytes(struct.pack(f"<{count}i", *(draw.randrange(vocab) for _ in range(count))))
    return ["--model_config", str(folder / "model.json"), "--deepspeed_config", str(folder / "ds.json"),
            "--data_path", str(folder / "tokens.bin"), "--data_format", "tokens_i32", "--max_seq_len", str(tokens)]


def run(program, flags, steps):
    """(median step time in s, time that a tenth of the steps stay below, losses, peak bytes) of one run."""
    variables = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryDirectory() as output:
        command = ["mpirun", "-np", "2", "--bind-to", "core", program, *flags, "--train_steps", str(steps), "--log_steps", str(steps),
                   "--save_steps", "0", "--resume", "never", "--output_dir", output]
        subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = [json.loads(line) for line in (pathlib.Path(output) / "metrics.jsonl").read_text().splitlines() if line.startswith('{"step"')]
    times = [row["step_time"] for row in rows[WARM_UP:]]
    return statistics.median(times), statistics.quantiles(times, n=10, method="inclusive")[0], [row["loss"] for row in rows], \
        rows[-1]["mem_peak_bytes"]


def lower_bound(ratios):
    """The largest of the sorted ratios that the true median is below in at most 5 % of such samples."""
    tail, place = 0, 0
    while place < len(ratios) and (tail := tail + math.comb(len(ratios), place)) <= 0.05 * 2 ** len(ratios):
        place += 1
    return sorted(ratios)[place - 1] if place > 0 else math.nan


def main():
    """Runs the pairs and prints them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--workloads", nargs="+", choices=SHAPES, default=list(SHAPES))
    options = parser.parse_args()
    for name in options.workloads:
        ratios, fastest, memory, same = [], [], [], True
        with tempfile.TemporaryDirectory() as folder:
            flags = write_inputs(pathlib.Path(folder), SHAPES[name], 3 if name.endswith("z3") else 2,
                                 name.endswith("bf16"), name in TIED)
            for pair in range(options.pairs):
                sides = [options.old, options.new][:: 1 if pair % 2 == 0 else -1]
                done = {program: run(program, flags, SHAPES[name][-1]) for program in sides}
                ratios.append(done[options.old][0] / done[options.new][0])
                fastest.append(done[options.old][1] / done[options.new][1])
                memory.append(done[options.new][3] / done[options.old][3])
                same = same and done[options.old][2] == done[options.new][2]
        shown = " ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"{name}: old / new {statistics.median(ratios):.3f}, at least {lower_bound(ratios):.3f} ({shown}), fastest steps {statistics.median(fastest):.3f}; "
              f"new / old memory {statistics.median(memory):.4f}; "
              f"losses {'equal' if same else 'DIFFER'}", flush=True)


if __name__ == "__main__":
    main()
