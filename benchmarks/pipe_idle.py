#!/usr/bin/env python3
"""How long two pipe ranks wait in a step of a real Llama, by schedule, beside what the plan predicts.

    benchmarks/pipe_idle.py build/fmengine-train

Two processes with one core and one thread each train a Llama with 16 layers, 8 micro-batches a
step, with --trace. A rank is busy in an instruction but for the verbs inside it, whose time it
waits. Printed are medians over the traced steps of 1 - busy / (ranks x time):
  step       from the begin of the step to its end, with the norm and the optimizer
  pipeline   from the begin of the step to the end of the last forward or backward
and, of the pipeline alone, the bubble that --plan predicts
  flops      by FLOPs
  measured   by the times of the trace itself (--plan_times TRACE)
Then the busy time of each rank in the pipeline and the times of a block: forward, backward to the
input, backward to the weights. --by_trace trains every schedule a second time, with --plan_times of
the first one's trace. Nothing else may run on the machine.
"""
import argparse
import collections
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import two_builds

RANKS = 2
SHAPE = (512, 16, 8, 4, 1376, 512, 256, 1, 8, None)  # as in two_builds.SHAPES; steps are a flag
SCHEDULES = ("1f1b", "zb-h1", "zb-v", "zb-2p")
COMPUTES = ("forward", "loss", "backward", "backward_input", "backward_weight", "recompute")


def events_of(trace):
    """{(rank, step): its range}, {rank: instructions}, {rank: verbs}; ranges are (begin, end, name) in us."""
    steps, instructions, verbs = {}, collections.defaultdict(list), collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] != "X":
            continue
        rank, times = event["pid"], (event["ts"], event["ts"] + event["dur"], event["name"])
        if event["cat"] == "step":
            steps[rank, event["args"]["step"]] = times
        elif event["cat"] == "instruction":
            instructions[rank].append(times)
        elif event["cat"] == "collective":
            verbs[rank].append(times)
    return steps, instructions, verbs


def inside(events, begin, end):
    """Those of the events that lie between two times."""
    return [event for event in events if begin <= event[0] and event[1] <= end]


def busy_in(instructions, verbs):
    """Time in the instructions without the verbs inside them."""
    spent = 0.0
    for begin, end, _ in instructions:
        spent += end - begin - sum(verb[1] - verb[0] for verb in inside(verbs, begin, end))
    return spent


def shares(trace):
    """Medians over steps: idle share of the step, of the pipeline, and the busy ms of each rank in the pipeline."""
    steps, instructions, verbs = events_of(trace)
    rows = []
    for step in sorted({step for _, step in steps}):
        ranges = [steps[rank, step] for rank in range(RANKS)]
        begin, end = min(at[0] for at in ranges), max(at[1] for at in ranges)
        mine = [inside(instructions[rank], *ranges[rank][:2]) for rank in range(RANKS)]
        computing = [[at for at in of_rank if at[2] in COMPUTES] for of_rank in mine]
        last = max(at[1] for of_rank in computing for at in of_rank)
        whole = sum(busy_in(of_rank, verbs[rank]) for rank, of_rank in enumerate(mine))
        parts = [busy_in(of_rank, verbs[rank]) for rank, of_rank in enumerate(computing)]
        rows.append((1 - whole / (RANKS * (end - begin)), 1 - sum(parts) / (RANKS * (last - begin)),
                     *(part / 1e3 for part in parts)))
    return [statistics.median(column) for column in zip(*rows)]


def block_times(trace):
    """Median ms of forward, backward to the input and backward to the weights of a block, waits left out."""
    _, _, verbs = events_of(trace)
    times = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["cat"] in ("instruction", "part") and event.get("args", {}).get("unit", 0) > 0:
            times[event["name"]].append(busy_in([(event["ts"], event["ts"] + event["dur"], "")], verbs[event["pid"]]))
    return [statistics.median(times[name]) / 1e3 for name in ("forward", "backward_input", "backward_weight")]


def planned(program, flags):
    """The bubble that a plan with these flags predicts."""
    plan = subprocess.run([program, *flags, "--plan", "--json", "--plan_ranks", str(RANKS)], check=True, capture_output=True, text=True)
    return json.loads(plan.stdout)["bubble"]


def traced(program, flags, folder, steps):
    """Trains and returns the path of the trace."""
    variables = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    path = folder / "trace.json"
    with tempfile.TemporaryDirectory() as output:
        command = ["mpirun", "-np", str(RANKS), "--bind-to", "core", program, *flags, "--train_steps", str(steps), "--save_strategy", "no",
                   "--resume", "never", "--output_dir", output, "--trace", str(path), "--trace_steps", f"3-{steps}"]
        subprocess.run(command, env=variables, check=True, stdout=subprocess.DEVNULL)
    return path


def show(program, flags, label, path):
    """One line of the table."""
    trace = json.loads(path.read_text())
    step, pipeline, *busy = shares(trace)
    flops, measured = planned(program, flags), planned(program, [*flags, "--plan_times", str(path)])
    blocks = " ".join(f"{time:.2f}" for time in block_times(trace))
    print(f"{label:14} {step:8.4f} {pipeline:9.4f} {flops:8.4f} {measured:9.4f}   {' '.join(f'{time:.0f}' for time in busy)}   {blocks}", flush=True)


def self_test():
    """A step of 100 us by hand: rank 0 computes 10 to 60 and waits 5 of them, rank 1 computes 20 to 90."""
    def event(name, category, rank, begin, end, **args):
        return {"ph": "X", "name": name, "cat": category, "pid": rank, "ts": begin, "dur": end - begin, "args": args}
    trace = {"traceEvents": [
        {"ph": "M", "name": "process_name"},
        event("step", "step", 0, 0, 100, step=3), event("step", "step", 1, 0, 98, step=3),
        event("forward", "instruction", 0, 10, 60, micro=0, unit=1), event("receive", "collective", 0, 10, 15),
        event("norm", "instruction", 0, 60, 99), event("all_gather", "collective", 0, 65, 95),
        event("backward", "instruction", 1, 20, 90, micro=0, unit=2),
        event("backward_input", "part", 1, 20, 50, micro=0, unit=2), event("backward_weight", "part", 1, 50, 90, micro=0, unit=2)]}
    expected = [1 - (45 + 9 + 70) / 200, 1 - (45 + 70) / 180, 0.045, 0.070]
    assert all(abs(got - want) < 1e-12 for got, want in zip(shares(trace), expected, strict=True)), shares(trace)
    assert block_times(trace) == [0.045, 0.030, 0.040], block_times(trace)
    print("pipe_idle: the self test passed")


def main():
    """Trains with every schedule and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--schedules", nargs="+", default=SCHEDULES)
    parser.add_argument("--by_trace", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    if options.program is None:
        sys.exit("pipe_idle.py needs the path of fmengine-train")
    program = str(pathlib.Path(options.program).resolve())
    print(f"{'schedule':14} {'step':>8} {'pipeline':>9} {'flops':>8} {'measured':>9}   busy ms of ranks, ms of a block: F I W")
    for schedule in options.schedules:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            flags = [*two_builds.write_inputs(folder, SHAPE, stage=0), "--pipe_parallel_size", str(RANKS), "--schedule", schedule]
            path = traced(program, flags, folder, options.steps)
            show(program, flags, schedule, path)
            if not options.by_trace:
                continue
            path = path.rename(folder / "first.json")
            flags += ["--plan_times", str(path)]
            show(program, flags[:-2], f"{schedule} again", traced(program, flags, folder, options.steps))
    return None


if __name__ == "__main__":
    main()
