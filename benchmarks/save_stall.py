#!/usr/bin/env python3
"""save_stall.py [--ranks 2] [--hidden 768] [--layers 12] [--saves 4] [--save_steps 12] [--micro 2] [--folder DIR]
[--asleep optimizer|both|early] [--nvme_path DIR] [PROGRAM]: how long steps wait for a checkpoint.

A Llama with random weights trains under ZeRO 3, one thread per rank, and saves every --save_steps steps: once with
--save_async true, once with false, in turns. Printed per mode: the step (median of steps while no save is under way), what
all boundaries of one save waited (the sum of save_stall_ms until the next save: best, median, worst), that in percent of a
step, and the steps while a save is written. Beside them stands the time of copying as many bytes per rank at memory speed:
all ranks at once, memory that was touched before, the best of five.

With --asleep the optimizer's state, or parameters too, are on the drive of --nvme_path (else of --folder), and a save holds
slots there instead of copying them; early: units are updated before the norm is known, which takes a further slot.
"""
import argparse
import ctypes
import json
import multiprocessing
import os
import pathlib
import random
import re
import statistics
import struct
import subprocess
import tempfile
import time

VOCABULARY = 8192
ROW = 256


def config_of(options):
    """config.json of the model."""
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": options.hidden,
            "num_hidden_layers": options.layers, "num_attention_heads": options.hidden // 64,
            "num_key_value_heads": options.hidden // 128, "intermediate_size": options.hidden * 8 // 3 // 64 * 64,
            "vocab_size": VOCABULARY, "max_position_embeddings": ROW, "rms_norm_eps": 1e-6,
            "tie_word_embeddings": False, "initializer_range": 0.02}


def deepspeed_of(options, nvme):
    """The run's JSON."""
    zero = {"stage": 3}
    if options.asleep:
        zero["offload_optimizer"] = {"device": "nvme", "nvme_path": nvme}
    if options.asleep in ("both", "early"):
        zero["offload_param"] = {"device": "nvme", "nvme_path": nvme, "max_in_cpu": 0}
    return {"train_micro_batch_size_per_gpu": options.micro, "gradient_accumulation_steps": 1,
            "gradient_clipping": 0.0 if options.asleep == "early" else 1.0, "zero_optimization": zero,
            "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}}


def train(options, folder, mode):
    """Rows of one run, and the bytes of a rank's copy."""
    output = folder / "output"
    subprocess.run(["rm", "-rf", str(output)], check=True)
    variables = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    steps = options.save_steps * (options.saves + 1) - 1
    words = ["mpirun", "-np", str(options.ranks), "--bind-to", "core", options.program, "--model_config",
             str(folder / "model.json"), "--deepspeed_config", str(folder / "ds.json"), "--data_path",
             str(folder / "tokens.bin"), "--data_format", "tokens_i32", "--max_seq_len", str(ROW), "--allow_repeat", "true",
             "--train_steps", str(steps), "--save_steps", str(options.save_steps), "--keep_last", "1", "--resume", "never",
             "--save_async", mode, "--output_dir", str(output)]
    if options.asleep == "early":
        words += ["--schedule", "layer-major"]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines() if line.startswith('{"step"')]
    size = sum(path.stat().st_size for path in output.glob(f"global_step{steps}/*.safetensors"))
    saved = [int(step) for step in re.findall(r"^saved \S*/global_step(\d+)$", done.stdout, re.MULTILINE)]
    return rows, size // options.ranks, saved


def summary(rows, options):
    """(step, stalls of saves, step while a save is under way), in s."""
    stalls, quiet, busy = [], [], []
    for begin in range(options.save_steps, rows[-1]["step"], options.save_steps):
        mine = [row for row in rows if begin < row["step"] <= begin + options.save_steps]
        stalls.append(sum(row.get("save_stall_ms", 0.0) for row in mine) / 1e3)
        under_way = max((row["step"] for row in mine if "save_stall_ms" in row), default=begin + 1)
        busy += [row["step_time"] for row in mine if row["step"] < under_way]
        quiet += [row["step_time"] for row in mine if row["step"] > under_way]
    return statistics.median(quiet or busy), stalls, statistics.median(busy) if busy else None


def copy_times(size, barrier, times):
    """One rank's copies of so many bytes."""
    source, target = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
    ctypes.memset(source, 1, size)
    ctypes.memset(target, 2, size)
    for _ in range(5):
        barrier.wait()
        begin = time.perf_counter()
        ctypes.memmove(target, source, size)
        barrier.wait()
        times.put(time.perf_counter() - begin)


def copy_at_memory_speed(size, ranks):
    """Seconds until all ranks have copied so many bytes each."""
    barrier, times = multiprocessing.Barrier(ranks), multiprocessing.Queue()
    jobs = [multiprocessing.Process(target=copy_times, args=(size, barrier, times)) for _ in range(ranks)]
    for job in jobs:
        job.start()
    found = [times.get() for _ in range(5 * ranks)]
    for job in jobs:
        job.join()
    return min(found)


def main():
    default = str(pathlib.Path(__file__).resolve().parent.parent / "build" / "fmengine-train")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default=default)
    for name, number in (("ranks", 2), ("hidden", 768), ("layers", 12), ("saves", 4), ("save_steps", 12), ("micro", 2),
                         ("turns", 2)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--folder", help="of the checkpoints: the disk that is measured")
    parser.add_argument("--asleep", choices=("optimizer", "both", "early"), help="what is on NVMe")
    parser.add_argument("--nvme_path", help="where; a folder of its own is made there")
    options = parser.parse_args()
    drive = options.nvme_path or options.folder
    with tempfile.TemporaryDirectory(dir=options.folder) as name, tempfile.TemporaryDirectory(dir=drive) as nvme:
        folder = pathlib.Path(name)
        (folder / "model.json").write_text(json.dumps(config_of(options)))
        (folder / "ds.json").write_text(json.dumps(deepspeed_of(options, nvme)))
        draw = random.Random(1)
        count = ROW * 64 + 1
        (folder / "tokens.bin").write_bytes(struct.pack(f"<{count}i", *(draw.randrange(VOCABULARY) for _ in range(count))))
        found = {"true": [], "false": []}
        for turn in range(options.turns):
            for mode in list(found)[::1 if turn % 2 == 0 else -1]:
                rows, size, _ = train(options, folder, mode)
                found[mode].append(summary(rows, options))
        copied = size // {None: 1, "optimizer": 3, "both": size, "early": size}[options.asleep]
        copy = copy_at_memory_speed(copied, options.ranks)
    print(f"{options.ranks} ranks x 1 thread, {size / 1e6:.0f} MB per rank, asleep: {options.asleep}; {copied / 1e6:.0f} MB "
          f"copied at memory speed in {1e3 * copy:.0f} ms")
    for mode, runs in found.items():
        step = statistics.median(run[0] for run in runs)
        stalls = sorted(stall for run in runs for stall in run[1])
        middle = statistics.median(stalls)
        beyond = (middle - copy) / step
        busy = [run[2] for run in runs if run[2] is not None]
        print(f"--save_async {mode}: step {1e3 * step:.0f} ms; a save stalls {1e3 * stalls[0]:.0f}, {1e3 * middle:.0f}, "
              f"{1e3 * stalls[-1]:.0f} ms (best, median, worst); median beyond the copy {100 * beyond:.1f} % of a step"
              + (f"; steps while it is written {1e3 * statistics.median(busy):.0f} ms" if busy else ""))


if __name__ == "__main__":
    main()
