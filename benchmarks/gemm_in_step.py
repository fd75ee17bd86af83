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


def products_of(trace):
    """({shape: [microseconds a step, flops a step]}, ranks, milliseconds of a step); of rank 0"""
    events = [event for event in json.loads(pathlib.Path(trace).read_text())["traceEvents"] if event["ph"] == "X"]
    ranks = len({event["pid"] for event in events})
    own = [event for event in events if event["pid"] == 0]
    steps = [event["dur"] for event in own if event["cat"] == "step"]
    if not steps:
        raise SystemExit(f"a trace with whole steps is required; {trace} has none")
    found = collections.defaultdict(lambda: [0.0, 0])
    for event in own:
        if event["name"] == "gemm":
            values = event["args"]
            row = found[values["m"], values["n"], values["k"]]
            row[0] += event["dur"] / len(steps)
            row[1] += values["flops"] / len(steps)
    return found, ranks, sum(steps) / len(steps) / 1000


def shape_of(form, rows, outputs, inputs):
    """(m, n, k) of the product behind a benchmark's name"""
    return {"forward": (rows, outputs, inputs), "input_gradient": (rows, inputs, outputs),
            "weight_gradient": (outputs, inputs, rows)}[form]


def benchmark_rates(program, element, ranks):
    """{shape: GFLOP/s} of rank 0's copy"""
    command = [program, f"--benchmark_filter=gemm_.*<{element}>", "--benchmark_format=json",
               "--benchmark_repetitions=3", "--benchmark_min_time=0.2"]
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < ranks:
        raise SystemExit(f"a core for each of the trace's {ranks} ranks is required; there are {len(cores)}")
    copies = [subprocess.Popen(["taskset", "-c", str(core), *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True) for core in cores[:ranks]]
    texts = [copy.communicate()[0] for copy in copies]
    best = collections.defaultdict(float)
    for row in json.loads(texts[0][texts[0].index("{"):])["benchmarks"]:
        name = NAME.match(row["run_name"])
        if name and row["run_type"] == "iteration":
            key = (name[1], *(int(side) for side in name.groups()[2:]))
            best[key] = max(best[key], row["FLOP/s"] / 1e9)
    rates = collections.defaultdict(list)
    for (form, *sides), rate in best.items():
        rates[shape_of(form, *sides)].append(rate)
    return {shape: sum(forms) / len(forms) for shape, forms in rates.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--benchmark", default=str(BENCHMARK), metavar="PROGRAM")
    parser.add_argument("--bf16", action="store_true", help="products of bf16")
    options = parser.parse_args()
    products, ranks, step_ms = products_of(options.trace)
    rates = benchmark_rates(options.benchmark, "fm::core::Bf16" if options.bf16 else "float", ranks)
    print(f"{'m':>6} {'n':>6} {'k':>6} {'ms a step':>10} {'in step':>9} {'benchmark':>10} {'ratio':>6}   GFLOP/s")
    compared = wanted = 0.0
    for shape, (spent, flops) in sorted(products.items(), key=lambda item: -item[1][0]):
        rate = flops / spent / 1000
        if shape in rates:
            compared += spent
            wanted += flops / rates[shape] / 1000
        beside = f"{rates[shape]:10.0f} {rate / rates[shape]:6.2f}" if shape in rates else f"{'-':>10} {'-':>6}"
        print(f"{shape[0]:6} {shape[1]:6} {shape[2]:6} {spent / 1000:10.1f} {rate:9.0f} {beside}")
    all_products = sum(spent for spent, _ in products.values())
    print(f"products take {all_products / 1000:.0f} of the step's {step_ms:.0f} ms; {100 * compared / all_products:.0f} % of that "
          f"time has a benchmark, at {wanted / compared:.2f} of its rate")


if __name__ == "__main__":
    main()
