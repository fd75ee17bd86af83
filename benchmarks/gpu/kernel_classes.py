#!/usr/bin/env python3
"""kernel_classes.py TRACE [--self-test]: where the time of a step on a device goes.

TRACE is what `fmengine-train --trace FILE` wrote. Per instruction and per kernel of rank 0's queue:
milliseconds a step, their share, and TFLOP/s or GB/s by the work that the trace counts.
"""
import argparse
import collections
import json
import pathlib

# By the words that a kernel's name begins with; what none of them begins is pointwise.
CLASSES = {"gemm": "products", "attention": "attention", "cross_entropy": "head",
           "adamw": "update", "squared_norm": "update", "add_squares": "update"}


def class_of(kernel):
    return next((name for start, name in CLASSES.items() if kernel.startswith(start)), "pointwise")


def sums_of(events):
    """({(group, name): [microseconds, flops, bytes, count] a step}, milliseconds a step)

    Groups: class, kernel, instruction. A kernel belongs to the instruction that stands before it:
    events stand in the order in which they were queued."""
    own = [event for event in events if event["ph"] == "X" and event["pid"] == 0]
    steps = [event["dur"] for event in own if event["cat"] == "step"]
    if not steps:
        raise SystemExit("a trace with whole steps of rank 0 is required; this one has none")
    sums = collections.defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    instruction = "before the first"
    queued = []
    for event in own:
        if event["cat"] == "instruction":
            instruction = event["name"]
        if event["cat"] != "kernel" or event["tid"] != 1:
            continue
        queued.append(event)
        values = event.get("args", {})
        for key in (("class", class_of(event["name"])), ("kernel", event["name"]),
                    ("instruction", instruction)):
            row = sums[key]
            for at, value in enumerate((event["dur"], values.get("flops", 0),
                                        values.get("bytes", 0), 1)):
                row[at] += value / len(steps)
    if queued:  # what no kernel filled: the queue waited
        first = min(event["ts"] for event in queued)
        last = max(event["ts"] + event["dur"] for event in queued)
        idle = last - first - sum(event["dur"] for event in queued)
        sums["class", "idle"][0] = max(idle, 0.0) / len(steps)
    return dict(sums), sum(steps) / len(steps) / 1000


def lines_of(sums, step_ms, group, most=100):
    """[(name, "12.3 ms", "34.5 %, 678 TFLOP/s, 16 times")]"""
    rows = sorted(((row, name) for (of, name), row in sums.items() if of == group), reverse=True)
    lines = []
    for (spent, flops, moved, count), name in rows[:most]:
        note = [f"{spent / step_ms / 10:.1f} %"]
        if flops and spent:
            note.append(f"{flops / spent / 1e6:.0f} TFLOP/s")
        elif moved and spent:
            note.append(f"{moved / spent / 1e3:.0f} GB/s")
        if count:
            note.append(f"{count:.0f} times")
        lines.append((name, f"{spent / 1000:.2f} ms", ", ".join(note)))
    return lines


def self_test():
    def event(name, cat, ts, dur, tid=1, pid=0, **values):
        return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur, "tid": tid, "pid": pid,
                "args": values}

    events = [{"ph": "M"}, event("step", "step", 0, 2000, 0), event("step", "step", 2000, 2000, 0),
              event("F", "instruction", 0, 5, 0), event("gemm", "kernel", 100, 400, flops=4e8),
              event("rmsnorm", "kernel", 500, 100, bytes=2e8), event("U", "instruction", 6, 5, 0),
              event("adamw", "kernel", 700, 300, bytes=3e8), event("gemm", "kernel", 0, 9, 0),
              event("gemm", "kernel", 0, 9, pid=1)]
    sums, step_ms = sums_of(events)
    assert step_ms == 2.0, step_ms
    assert sums["class", "products"] == [200.0, 2e8, 0.0, 0.5], sums
    assert sums["class", "idle"][0] == 50.0, sums
    assert sums["instruction", "F"][0] == 250.0 and sums["instruction", "U"][0] == 150.0, sums
    assert lines_of(sums, step_ms, "class")[0] == ("products", "0.20 ms", "10.0 %, 1 TFLOP/s, 0 times")
    assert lines_of(sums, step_ms, "kernel")[1] == ("adamw", "0.15 ms", "7.5 %, 1000 GB/s, 0 times")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", metavar="TRACE")
    parser.add_argument("--self-test", action="store_true", help="test the arithmetic; run nothing")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return
    if not options.trace:
        parser.error("TRACE is required")
    events = json.loads(pathlib.Path(options.trace).read_text())["traceEvents"]
    sums, step_ms = sums_of(events)
    print(f"a step takes {step_ms:.1f} ms")
    for group in ("class", "instruction", "kernel"):
        print(f"\n{group}")
        for name, value, note in lines_of(sums, step_ms, group):
            print(f"  {name:32} {value:>12}  {note}")


if __name__ == "__main__":
    main()
