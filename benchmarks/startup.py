#!/usr/bin/env python3
"""startup.py [--pairs 5] [PROGRAM ...]: seconds from exec to the start of step 1.

56 M parameters, vocabulary 32,000, ZeRO 2, 2 ranks x 1 thread under mpirun, files in the page cache; once with random
weights and once with those of a Hugging Face folder, which the first run exports. The start is the wall time until the
first line of metrics.jsonl less that line's step time; beside it stands the first step's time over the median of the later
ones. Programs and weights take turns, forwards and backwards, so that a change of the machine meets them alike.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import tempfile
import time

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 8,
         "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 1376, "vocab_size": 32000,
         "max_position_embeddings": 256, "rms_norm_eps": 1e-6, "tie_word_embeddings": False, "initializer_range": 0.02}
CONFIG = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
          "zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}}
STEPS = 6


def command(program, folder, weights, more):
    """`weights`: the flag that names them, and its value."""
    return ["mpirun", "-np", "2", "--bind-to", "core", program, *weights, *more, "--deepspeed_config", str(folder / "ds.json"), "--data_path", str(folder / "tokens.bin"),
            "--data_format", "tokens_i32", "--max_seq_len", "256", "--train_steps", str(STEPS), "--save_steps", "0",
            "--resume", "never", "--output_dir", str(folder / "output")]


def lines_of(path):
    """Whole lines of steps in a file that may not be there yet."""
    try:
        return [line for line in path.read_text().split("\n")[:-1] if line.startswith('{"step"')]
    except FileNotFoundError:
        return []


def start_of(program, folder, weights, more=("--save_strategy", "no")):
    """(seconds to the start of step 1, step 1 over the median of the later steps)"""
    metrics = folder / "output" / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    variables = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with open(folder / "log", "w", encoding="utf-8") as log:
        begin = time.monotonic()
        job = subprocess.Popen(command(program, folder, weights, more), env=variables, stdout=log, stderr=subprocess.STDOUT)
        while not lines_of(metrics) and job.poll() is None:
            time.sleep(0.001)
        first = time.monotonic() - begin
        if job.wait() != 0:
            raise SystemExit((folder / "log").read_text())
    steps = [json.loads(line)["step_time"] for line in lines_of(metrics)]
    return first - steps[0], steps[0] / statistics.median(steps[1:])


def main():
    default = str(pathlib.Path(__file__).resolve().parent.parent / "build" / "fmengine-train")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", default=[default], metavar="PROGRAM")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "model.json").write_text(json.dumps(MODEL))
        (folder / "ds.json").write_text(json.dumps(CONFIG))
        draw = random.Random(1)
        (folder / "tokens.bin").write_bytes(struct.pack("<32896i", *(draw.randrange(32000) for _ in range(32896))))
        random_weights = ("--model_config", str(folder / "model.json"))
        start_of(options.programs[0], folder, random_weights, more=())  # exports, and fills the page cache
        (folder / "output" / "hf").rename(folder / "hf")
        kinds = {"random weights": random_weights, "Hugging Face folder": ("--init_ckpt", str(folder / "hf"))}
        rows = {(program, kind): [] for program in options.programs for kind in kinds}
        for turn in range(options.pairs):
            for program, kind in list(rows)[::1 if turn % 2 == 0 else -1]:
                rows[program, kind].append(start_of(program, folder, kinds[kind]))
    for (program, kind), row in rows.items():
        starts = [start for start, _ in row]
        print(f"{program}, {kind}: {statistics.median(starts):.3f} s to step 1 ({min(starts):.3f} to {max(starts):.3f}); "
              f"step 1 is {statistics.median(ratio for _, ratio in row):.2f} of the median later one")


if __name__ == "__main__":
    main()
