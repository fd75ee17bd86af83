#!/usr/bin/env python3
"""Bytes between two hosts, step times and losses of ZeRO-3 W2, whole and in fewer bytes.

    sudo benchmarks/two_hosts.py build/fmengine-train --steps 100 --kinds off all

The hosts are two network namespaces with two ranks of one thread each; the link is a veth pair that
tc's tbf limits to 1 Gbit/s on both ends. Per kind of run (docs/between_hosts.md):
  planned   bytes that a host sends per step (--plan: those of its two ranks)
  sent      the same by the counters of its card, framing of tcp and small messages included
  ratio     of bytes sent by the run "off"
  step      median step time, and off's over it
  losses    the largest relative difference from the losses of "off"
Nothing else may run on the machine.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile

import overlap
import two_builds

KINDS = {
    "off": {},
    "bf16": {"communication_data_type": "bf16"},
    "hpZ": {"zero_hpz_partition_size": 2},
    "qwZ": {"zero_quantized_weights": True},
    "qgZ": {"zero_quantized_gradients": True},
    "all": {"zero_hpz_partition_size": 2, "zero_quantized_weights": True, "zero_quantized_gradients": True},
}
RANKS_PER_HOST = 2
WARM_UP = 2  # steps that do not count
GIGABIT = 125_000_000  # bytes per second


def write_config(folder, kind):
    """The DeepSpeed JSON of one run."""
    keys = dict(KINDS[kind])
    top = {key: keys.pop(key) for key in list(keys) if key == "communication_data_type"}
    config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0, **top,
              "zero_optimization": {"stage": 3, **keys},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.1}}}
    (folder / "ds.json").write_text(json.dumps(config))


def write_tokens(folder, steps):
    """Rows that can be learned: each of 2,000 ids is followed by one of four."""
    draw = random.Random(1)
    following = [[draw.randrange(2000) for _ in range(4)] for _ in range(2000)]
    tokens = [0]
    for _ in range(257 * 2 * 2 * RANKS_PER_HOST * steps):
        tokens.append(draw.choice(following[tokens[-1]]))
    (folder / "tokens.bin").write_bytes(struct.pack(f"<{len(tokens)}i", *tokens))


def planned(program, flags):
    """Bytes that a host sends per step."""
    plan = subprocess.run([program, *flags, "--plan", "--json", "--plan_ranks", str(2 * RANKS_PER_HOST), "--ranks_per_host",
                           str(RANKS_PER_HOST)], check=True, capture_output=True, text=True)
    return RANKS_PER_HOST * sum(json.loads(plan.stdout)["wire_bytes"][0].values())


def sent_by_card():
    """Bytes that the card of the first host has sent."""
    shown = subprocess.run(["ip", "-n", "fm_a", "-s", "-j", "link", "show", "dev", "card"], check=True, capture_output=True,
                           text=True)
    return json.loads(shown.stdout)[0]["stats64"]["tx"]["bytes"]


def train(program, flags, steps):
    """(median step time in s, losses, bytes sent) of one run."""
    before = sent_by_card()
    with tempfile.TemporaryDirectory() as output:
        ranks = []
        for rank in range(2 * RANKS_PER_HOST):
            space = list(overlap.HOSTS)[rank // RANKS_PER_HOST]
            variables = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(2 * RANKS_PER_HOST),
                             MASTER_ADDR=overlap.HOSTS["fm_a"], MASTER_PORT="29500", FME_HOST=space, OMP_NUM_THREADS="1")
            ranks.append(subprocess.Popen(
                ["ip", "netns", "exec", space, program, *flags, "--train_steps", str(steps), "--save_strategy", "no",
                 "--resume", "never", "--output_dir", output], env=variables, stdout=subprocess.DEVNULL))
        codes = [rank.wait() for rank in ranks]
        if any(codes):
            sys.exit(f"training ended with {codes}")
        rows = [json.loads(line) for line in (pathlib.Path(output) / "metrics.jsonl").read_text().splitlines()
                if line.startswith('{"step"')]
    times = [row["step_time"] for row in rows[WARM_UP:]]
    return statistics.median(times), [row["loss"] for row in rows], sent_by_card() - before


def main():
    """Measures the kinds that are asked for and prints them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--limit", type=float, default=GIGABIT, help="bytes per second; 0: no limit")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    with tempfile.TemporaryDirectory() as name, overlap.hosts():
        folder = pathlib.Path(name)
        flags = two_builds.write_inputs(folder, two_builds.SHAPES["W2z3"], 3)
        write_tokens(folder, options.steps)
        overlap.limit(options.limit or None)
        whole = None
        for kind in options.kinds:
            write_config(folder, kind)
            bytes_planned = planned(program, flags)
            seconds, losses, sent = train(program, flags, options.steps)
            per_step = sent / options.steps
            whole = whole or (seconds, losses, per_step)
            far = max(abs(a - b) / b for a, b in zip(losses, whole[1]))
            print(f"{kind:5} planned {bytes_planned / 1e6:6.1f} MB, sent {per_step / 1e6:6.1f} MB ({whole[2] / per_step:.2f} times "
                  f"fewer), step {seconds:.3f} s ({whole[0] / seconds:.2f} times as fast), losses {100 * far:.3f} % away, last "
                  f"{losses[-1]:.4f}", flush=True)


if __name__ == "__main__":
    main()
