#!/usr/bin/env python3
"""sequence_memory.py [--tokens 16384] [--ranks 4] [--method ring] [PROGRAM]: peak memory and loss of one step, by ranks.

A Llama with 10 M parameters trains one step on a row of that many tokens, on one rank and then with its tokens on several
(mpirun, 1 thread each, ZeRO 3). Memory is the proportional set size (PSS) of the rank that has most, sampled every 50 ms:
memory that ranks share is divided by those that map it.
"""
import argparse
import json
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import time

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 3,
         "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 1376, "vocab_size": 512,
         "max_position_embeddings": 1 << 20, "rms_norm_eps": 1e-6, "tie_word_embeddings": True}
CONFIG = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 3},
          "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}}


def pss_mib(pid):
    """0 where the process has ended or is not ours to read."""
    try:
        for line in open(f"/proc/{pid}/smaps_rollup", encoding="ascii"):
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass
    return 0.0


def ranks_of(job, program):
    """Processes of the program below the job."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit():
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue

    def below(pid):
        while pid in parents:
            if pid == job:
                return True
            pid = parents[pid]
        return False
    names = {}
    for pid in filter(below, parents):
        try:
            names[pid] = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue
    return [pid for pid, name in names.items() if name == program]


def measure(program, folder, ranks, flags):
    metrics = folder / "output" / "metrics.jsonl"
    metrics.unlink(missing_ok=True)
    command = ["mpirun", "--oversubscribe", "-np", str(ranks), program, "--model_config", str(folder / "model.json"),
               "--deepspeed_config", str(folder / "ds.json"), "--data_path", str(folder / "tokens.bin"), "--data_format", "tokens_i32",
               "--train_steps", "1", "--save_strategy", "no", "--threads", "1", "--output_dir", str(folder / "output"), *flags]
    variables = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    peak = 0.0
    with open(folder / "log", "w", encoding="utf-8") as log:
        job = subprocess.Popen(command, env=variables, stdout=log, stderr=subprocess.STDOUT)
        members = []
        while job.poll() is None:
            if len(members) < ranks:
                members = ranks_of(job.pid, program)
            peak = max([peak, *map(pss_mib, members)])
            time.sleep(0.05)
    if job.returncode != 0:
        raise SystemExit((folder / "log").read_text())
    step = [json.loads(line) for line in metrics.read_text().splitlines() if line.startswith('{"step"')][0]
    return peak, step


def main():
    default = str(pathlib.Path(__file__).resolve().parent.parent / "build" / "fmengine-train")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=default, metavar="PROGRAM")
    parser.add_argument("--tokens", type=int, default=16384)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--method", default="ring")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "model.json").write_text(json.dumps(MODEL))
        (folder / "ds.json").write_text(json.dumps(CONFIG))
        draw = random.Random(1)
        ids = [draw.randrange(512) for _ in range(options.tokens + 1)]
        (folder / "tokens.bin").write_bytes(struct.pack(f"<{len(ids)}i", *ids))
        row = ["--max_seq_len", str(options.tokens)]
        program = os.path.realpath(options.program)
        split = ["--sequence_parallel_size", str(options.ranks), "--sequence_parallel", options.method]
        one, alone = measure(program, folder, 1, row)
        many, shared = measure(program, folder, options.ranks, row + split)
    print(f"T {options.tokens}: 1 rank {one:.0f} MiB, loss {alone['loss']:.6f}, {alone['step_time']:.1f} s")
    print(f"{options.method} {options.ranks}: a rank {many:.0f} MiB ({many / one:.3f}), loss {shared['loss']:.6f}, "
          f"{shared['step_time']:.1f} s")


if __name__ == "__main__":
    main()
