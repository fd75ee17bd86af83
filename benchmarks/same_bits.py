#!/usr/bin/env python3
"""Whether two builds of fmengine-train compute the same bits: 25 runs of each, compared.

    benchmarks/same_bits.py OLD/fmengine-train NEW/fmengine-train

Compared are loss, grad_norm and learning rate of every step, as text, and the exported tensors, as bytes.
The last run is begun by OLD, resumed by NEW, and compared with OLD's own resume. Bits depend on the CPU:
build both on the machine that runs them.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

STEPS = 6
MODEL = {"model_type": "llama", "hidden_size": 96, "num_hidden_layers": 5, "num_attention_heads": 6, "num_key_value_heads": 2,
         "intermediate_size": 250, "vocab_size": 777, "max_position_embeddings": 64, "rms_norm_eps": 1e-6}


def cases():
    """name -> (ranks, flags, JSON keys, tied, launcher)."""
    out = {}

    def add(zero, ranks, pipe=1, schedule="1f1b", tied=False, bf16=False, order="fast", wire="mpi", recompute=False):
        name = f"zero{zero} ranks{ranks} pipe{pipe} {schedule} {'tied' if tied else 'untied'} {'bf16' if bf16 else 'fp32'} {order} {wire}"
        flags = ["--pipe_parallel_size", str(pipe), "--schedule", schedule]
        if wire != "shm":
            flags += ["--shm", "false"]
        keys = {"zero_optimization": {"stage": zero}, "communication_order": order, "bf16": {"enabled": bf16}}
        if recompute:
            keys["activation_checkpointing"] = {}
            name += " recompute"
        out[name] = (ranks, flags, keys, tied, wire)

    for zero, order in itertools.product(range(4), ("fast", "canonical")):
        add(zero, 2, order=order, wire="shm", tied=zero % 2 == 1)
    for zero in range(4):
        add(zero, 4, pipe=2, tied=True, bf16=zero % 2 == 0, wire="mpi", schedule="gpipe" if zero == 3 else "1f1b")
    for zero in range(1, 4):
        add(zero, 2, wire="tcp", bf16=True, tied=True)
    for zero in (0, 2, 3):
        add(zero, 1, recompute=zero == 3, tied=zero == 2)
    add(3, 4, pipe=2, order="canonical", wire="shm", recompute=True)
    add(2, 4, pipe=4, order="canonical", wire="tcp", tied=True)
    add(1, 3, wire="shm")
    add(3, 3, wire="tcp", bf16=True)
    add(0, 3, pipe=3, tied=True, schedule="gpipe", wire="shm")
    add(3, 4, wire="shm", bf16=True, tied=True)
    return out


def write_inputs(folder):
    """config.json tied and untied, tokens."""
    for tied in (False, True):
        (folder / f"{tied}.json").write_text(json.dumps(dict(MODEL, tie_word_embeddings=tied)))
    draw = random.Random(1)
    (folder / "tokens.bin").write_bytes(struct.pack("<1360i", *(draw.randrange(777) for _ in range(1360))))


def run(program, folder, case, output, port, steps=STEPS):
    """One run; raises where it does not end well."""
    ranks, flags, keys, tied, wire = case
    config = dict(keys, train_micro_batch_size_per_gpu=2, gradient_accumulation_steps=3, gradient_clipping=0.05,
                  optimizer={"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.1}})
    (folder / "ds.json").write_text(json.dumps(config))
    words = [program, "--model_config", str(folder / f"{tied}.json"), "--deepspeed_config", str(folder / "ds.json"),
             "--data_path", str(folder / "tokens.bin"), "--data_format", "tokens_i32", "--max_seq_len", "16",
             "--train_steps", str(steps), "--save_steps", "4", "--output_dir", str(output), *flags]
    variables = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if wire == "tcp":
        started = []
        for rank in range(ranks):
            own = dict(variables, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            started.append(subprocess.Popen(words, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        for process in started:
            error = process.communicate()[1]
            if process.returncode != 0:
                raise RuntimeError(error)
        return
    launcher = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none"]
    subprocess.run(launcher + words, env=variables, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def result(output):
    """What a run computed: the steps as text, the exported tensors as bytes."""
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines() if line.startswith('{"step"')]
    steps = [(row["step"], repr(row["loss"]), repr(row["grad_norm"]), repr(row["lr"])) for row in rows]
    return steps, (output / "hf/model.safetensors").read_bytes()


def main():
    """Runs everything with both and prints what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    options = parser.parse_args()
    different = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        write_inputs(folder)
        every = cases()
        for number, (name, case) in enumerate(every.items()):
            results = []
            for side, program in enumerate((options.old, options.new)):
                output = folder / f"{number}.{side}"
                run(program, folder, case, output, 29500 + 2 * number + side)
                results.append(result(output))
            same = results[0] == results[1]
            different += not same
            print(f"{'same' if same else 'DIFFERENT'}: {name}", flush=True)
        results = []
        for side, program in enumerate((options.old, options.new)):
            output = folder / f"resumed.{side}"
            case = every["zero3 ranks2 pipe1 1f1b tied fp32 fast shm"]
            run(options.old, folder, case, output, 29600, steps=4)
            run(program, folder, case, output, 29601)
            results.append(result(output))
        same = results[0] == results[1]
        different += not same
        print(f"{'same' if same else 'DIFFERENT'}: a checkpoint of OLD, resumed", flush=True)
    print(f"{len(every) + 1} runs of each, {different} different")
    sys.exit(1 if different else 0)


main()
