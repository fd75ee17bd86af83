#!/usr/bin/env python3
"""gemm_in_step.py TRACE: rates of the matrix products of a traced step beside those of kernels_benchmark.

TRACE is what `fmengine-train --trace FILE` wrote on this machine with one thread per rank. As many copies of the
benchmark as the trace has ranks run at once, each on a core of its own, because products share power and memory. Per
shape (m, n, k): milliseconds a step, GFLOP/s in the step (rank 0) and in the benchmark (mean of the forms with this
shape, best of the repetitions), and their ratio; last the same of all products, weighted by their time in the step.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import subprocess

BENCHMARK = pathlib.Path(__file__).resolve().parent.parent / "build" / "benchmarks" / "kernels_benchmark"
NAME = re.compile(r"gemm_(forward|input_gradient|weight_gradient)<(.*)>/(\d+)/(\d+)/(\d+)$")


def products_of(events):
    """({shape: [microseconds a step, flops a step]}, ranks, milliseconds of a step); of rank 0"""
    spans = [event for event in events if event["ph"] == "X"]
    own = [event for event in spans if event["pid"] == 0]
    steps = [event["dur"] for event in own if event["cat"] == "step"]
    if not steps:
        raise SystemExit("a trace with whole steps of rank 0 is required; this one has none")
    found = collections.defaultdict(lambda: [0.0, 0])
    for event in own:
        if event["name"] == "gemm":
            values = event["args"]
            row = found[values["m"], values["n"], values["k"]]
            row[0] += event["dur"] / len(steps)
            row[1] += values["flops"] / len(steps)
    return found, len({event["pid"] for event in spans}), sum(steps) / len(steps) / 1000


def shape_of(form, rows, outputs, inputs):
    """(m, n, k) of the product behind a benchmark's name"""
    return {"forward": (rows, outputs, inputs), "input_gradient": (rows, inputs, outputs),
            "weight_gradient": (outputs, inputs, rows)}[form]


def rates_of(rows):
    """{shape: GFLOP/s} of a benchmark's rows: the best repetition, the mean of forms"""
    best = collections.defaultdict(float)
    for row in rows:
        name = NAME.match(row["run_name"])
        if name and row["run_type"] == "iteration":
            key = (name[1], *(int(side) for side in name.groups()[2:]))
            best[key] = max(best[key], row["FLOP/s"] / 1e9)
    rates = collections.defaultdict(list)
    for key, rate in best.items():
        rates[shape_of(*key)].append(rate)
    return {shape: sum(forms) / len(forms) for shape, forms in rates.items()}


def benchmark_rates(program, element, ranks):
    """Those of the first of `ranks` copies."""
    command = [program, f"--benchmark_filter=gemm_.*<{element}>", "--benchmark_format=json",
               "--benchmark_repetitions=3", "--benchmark_min_time=0.2"]  # fmt: skip
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < ranks:
        raise SystemExit(f"a core for each of the trace's {ranks} ranks is required; there are {len(cores)}")
    copies = [subprocess.Popen(["taskset", "-c", str(core), *command], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True) for core in cores[:ranks]]  # fmt: skip
    texts = [copy.communicate()[0] for copy in copies]
    return rates_of(json.loads(texts[0][texts[0].index("{"):])["benchmarks"])


def table(products, rates, step_ms):
    """The report. A shape without a benchmark has no ratio."""
    lines = [f"{'m':>6} {'n':>6} {'k':>6} {'ms a step':>10} {'in step':>9} {'benchmark':>10} {'ratio':>6}   GFLOP/s"]
    compared = wanted = 0.0
    for shape, (spent, flops) in sorted(products.items(), key=lambda item: -item[1][0]):
        rate = flops / spent / 1000
        beside = f"{'-':>10} {'-':>6}"
        if shape in rates:
            compared += spent
            wanted += flops / rates[shape] / 1000
            beside = f"{rates[shape]:10.0f} {rate / rates[shape]:6.2f}"
        lines.append(f"{shape[0]:6} {shape[1]:6} {shape[2]:6} {spent / 1000:10.1f} {rate:9.0f} {beside}")
    all_products = sum(spent for spent, _ in products.values())
    share = f"{100 * compared / all_products:.0f} % of that time has a benchmark"
    ratio = f", at {wanted / compared:.2f} of its rate" if compared else ""
    lines.append(f"products take {all_products / 1000:.0f} of the step's {step_ms:.0f} ms; {share}{ratio}")
    return "\n".join(lines)


def self_test():
    def span(name, pid, dur, **values):
        return {"ph": "X", "name": name, "cat": "step" if name == "step" else "kernel", "pid": pid, "dur": dur,
                "args": values}  # fmt: skip

    product = {"m": 4, "n": 3, "k": 2, "flops": 48_000}
    events = [{"ph": "M"}, span("step", 0, 1000), span("step", 0, 3000), span("step", 1, 7), span("gemm", 0, 6, **product),
              span("gemm", 0, 10, **product), span("gemm", 1, 99, **product)]  # fmt: skip
    products, ranks, step_ms = products_of(events)
    assert (dict(products), ranks, step_ms) == ({(4, 3, 2): [8.0, 48_000]}, 2, 2.0)
    rows = [{"run_name": f"gemm_{form}<float>/{sides}", "run_type": kind, "FLOP/s": rate}
            for form, sides, kind, rate in (("forward", "4/3/2", "iteration", 7e9), ("forward", "4/3/2", "iteration", 8e9),
                                            ("forward", "4/3/2", "aggregate", 9e9),
                                            ("input_gradient", "4/2/3", "iteration", 16e9),
                                            ("weight_gradient", "5/6/7", "iteration", 1e9))]  # fmt: skip
    rates = rates_of(rows)
    assert rates == {(4, 3, 2): 12.0, (6, 7, 5): 1.0}, rates
    last = table(products, rates, step_ms).splitlines()[-1]
    assert last == "products take 0 of the step's 2 ms; 100 % of that time has a benchmark, at 0.50 of its rate", last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", metavar="TRACE")
    parser.add_argument("--benchmark", default=str(BENCHMARK), metavar="PROGRAM")
    parser.add_argument("--bf16", action="store_true", help="products of bf16")
    parser.add_argument("--self-test", action="store_true", help="test the arithmetic; run nothing")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return
    if not options.trace:
        parser.error("TRACE is required")
    products, ranks, step_ms = products_of(json.loads(pathlib.Path(options.trace).read_text())["traceEvents"])
    rates = benchmark_rates(options.benchmark, "fm::core::Bf16" if options.bf16 else "float", ranks)
    print(table(products, rates, step_ms))


if __name__ == "__main__":
    main()
