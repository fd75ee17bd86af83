#!/usr/bin/env python3
"""DeepSpeed's pipeline beside ours on the same work: 2 pipe ranks x 1 thread, W6 with 8 micro-batches.

  benchmarks/pipe_deepspeed.py --peers PEERS --python VENV/bin/python --schedules 1f1b zb-h1 zb-v

Both start from the same weights, read the same tokens and use AdamW; losses must agree (2e-5) before
a ratio is shown. Nothing is clipped (--clip CLIP clips on both sides): pipe ranks of DeepSpeed may
clip by norms of their own. Pairs run in the order ours theirs theirs ours; every schedule of ours has
its turn in each pair. Prints the median step times and theirs / ours: the median over pairs and its
bootstrap 95 % interval. Nothing else may run on the machine.
"""

import argparse
import os
import statistics
import tempfile

from comparison import engine, pairs, peers, processes, store

WORK = {"workload": "W6", "ranks": 2, "warmup": 1, "steps": 4}
MICROS = 8
LOSS_LIMIT = 2e-5


def make_inputs(side, folder):
    """{"tokens", "weights"}: what both sides read."""
    paths = {"tokens": f"{folder}/tokens.bin", "weights": f"{folder}/init"}
    steps = [
        (side.tokens_command(WORK, paths["tokens"]), None),
        (side.weights_command(WORK, paths["tokens"], paths["weights"]), f"{folder}/init.json"),
    ]
    for command, done_file in steps:
        processes.run(command, side.environment(), f"{folder}/log", done_file, timeout_s=400)
    return paths


def run_ours(program, side, paths, folder, schedule, clip):
    """(steady step in ms, losses) of one run of ours."""
    shape = side.shape(WORK["workload"])
    config = peers.engine_config({**shape, "GA": MICROS}, {**side.hyper, "CLIP": clip}, 1, 0)
    store.write_json(f"{folder}/ds.json", config)
    ours = {**paths, "config": f"{folder}/ds.json", "output": f"{folder}/out"}
    command = program.command(WORK, shape, ours)
    command += ["--pipe_parallel_size", "2", "--schedule", schedule]
    processes.run(command, program.environment(), f"{folder}/log", timeout_s=400)
    result = program.read(ours["output"])
    return pairs.steady(result["step_ms"], WORK["warmup"]), result["losses"]


def run_theirs(side, paths, folder, partition, clip):
    """(steady step in ms, losses) of one run of DeepSpeed's."""
    out = f"{folder}/theirs.json"
    if os.path.exists(out):
        os.remove(out)
    command = [*side.launcher("deepspeed", 2), f"{side.folder}/peer_pipe.py", "--workload",
               WORK["workload"], "--ga", str(MICROS), "--steps", str(WORK["steps"]), "--warmup",
               str(WORK["warmup"]), "--tokens", paths["tokens"], "--partition", partition, "--clip", str(clip), "--json", out]  # fmt: skip
    processes.run(command, side.environment(), f"{folder}/log", done_file=out, timeout_s=400)
    with open(out) as file:
        result = peers.parse_result(file.read())
    return pairs.steady(result["step_ms"], WORK["warmup"]), result["losses"]


def check_losses(ours, theirs):
    """Raises where the two did not do the same work."""
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs, strict=True))
    if worst > LOSS_LIMIT:
        raise pairs.NotAdmitted(f"losses differ by {worst:.2e}, at most {LOSS_LIMIT} is allowed ({ours}, {theirs})")
    return worst


def run_pairs(options, program, side, folder):
    """{schedule: [ours ms]}, [theirs ms], the worst difference of losses."""
    paths = make_inputs(side, folder)
    ours, theirs, worst = {name: [] for name in options.schedules}, [], 0.0
    for pair in range(options.pairs):
        losses = {}
        for turn in pairs.order_of(pair):
            if turn == "theirs":
                taken, losses["theirs"] = run_theirs(side, paths, folder, options.partition, options.clip)
                theirs.append(taken)
                continue
            for name in options.schedules:
                taken, losses[name] = run_ours(program, side, paths, folder, name, options.clip)
                ours[name].append(taken)
        worst = max([worst, *(check_losses(losses[name], losses["theirs"]) for name in ours)])
        print(f"pair {pair}: DeepSpeed {theirs[-1]:.0f} ms, "
              + ", ".join(f"{name} {ours[name][-1]:.0f}" for name in ours), flush=True)  # fmt: skip
    return ours, theirs, worst


def main():
    """Runs the pairs and prints the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", required=True, help="folder of the peers' scripts")
    parser.add_argument("--python", required=True, help="Python of the peers' environment")
    parser.add_argument("--engine", default="build/fmengine-train", help="our program")
    parser.add_argument("--schedules", nargs="+", default=["1f1b", "zb-h1", "zb-v"], metavar="NAME")
    parser.add_argument("--partition", default="parameters", help="DeepSpeed's partition_method")
    parser.add_argument("--clip", type=float, default=0.0, help="gradient norm (default 0: none)")
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    program, side = engine.Engine(options.engine), peers.Peers(options.peers, options.python)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs, worst = run_pairs(options, program, side, folder)
    print(f"losses within {worst:.1e}; DeepSpeed: median {statistics.median(theirs):.0f} ms")
    for name, taken in ours.items():
        ratios = [b / a for a, b in zip(taken, theirs, strict=True)]
        low, high = pairs.bootstrap_interval(ratios)
        print(f"{name:14} median {statistics.median(taken):.0f} ms, DeepSpeed / ours "
              f"{statistics.median(ratios):.2f} [{low:.2f}, {high:.2f}]")  # fmt: skip


if __name__ == "__main__":
    main()
