#!/usr/bin/env python3
"""Compare fmengine with DeepSpeed, DDP and FSDP2 on the same work, on CPU.

  benchmarks/compare.py --peers PEERS --python VENV/bin/python --workloads W1 W2 --zero 2

PEERS is the folder of the peers' scripts (peer_train.py, workloads.py, make_tokens.py), VENV a
Python environment with torch, transformers and deepspeed. Every run is kept in --work: the same
command started again continues. benchmarks/README.md tells how to read the report.
"""

import argparse
import datetime
import os
import shutil
import signal
import sys

from comparison import campaign, machine, pairs, peers, processes, report

PLACES = ("--peers", "--python", "--engine", "--probe", "--work", "--out", "--tcmalloc")


def parse(words):
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--peers", help="folder of the peers' scripts")
    add("--python", help="Python of the peers' environment")
    add("--engine", default="build/fmengine-train", help="our program")
    add("--probe", help="the probe (default: benchmarks/probe beside the engine)")
    add("--workloads", nargs="+", default=["W1", "W2"], metavar="W")
    add("--zero", default="2", choices=["0", "1", "2", "3", "same"],
        help="our ZeRO stage; same: that of the peer (default 2)")  # fmt: skip
    add("--against", nargs="+", choices=peers.NAMES, metavar="PEER",
        help=f"compare with these, screen no others: {' '.join(peers.NAMES)}")  # fmt: skip
    add("--pairs", type=int, default=7, help="quiet pairs per comparison (default 7)")
    add("--aa", type=int, default=2, help="pairs of ours against ours (default 2)")
    add("--steps", type=int, help="timed steps (default: the workload's)")
    add("--ranks", type=int, default=2)
    add("--tuned", action="store_true", help="peers with tcmalloc and the preloads of shim/")
    add("--tcmalloc", help="path of libtcmalloc_minimal for --tuned")
    add("--keep-noisy", action="store_true", help="use pairs whose probes differ by over 5 %%")
    add("--max-steal", type=float, default=0.02, metavar="PART",
        help="run again when other tenants took more of the CPUs (default 0.02)")  # fmt: skip
    add("--retry", action="store_true", help="run again what failed")
    add("--timeout", type=int, default=400, help="seconds for one run (default 400)")
    add("--lock", help="hold this file's lock around every single run")
    add("--work", default="output/compare", help="inputs and finished runs")
    add("--out", default="benchmarks/reports", help="where reports go")
    add("--self-test", action="store_true", help="test the arithmetic; run nothing")
    options = parser.parse_args(words)
    if not options.self_test and not (options.peers and options.python):
        parser.error("--peers and --python are required")
    if options.pairs < 1 or options.aa < 2:
        parser.error("at least 1 pair and 2 A/A pairs are required")
    return options


def shown_command(words):
    """The command line with names instead of this machine's folders."""
    shown = []
    hidden = None
    for word in words:
        if hidden:
            shown.append(hidden[2:].upper()) if hidden in PLACES else shown.pop()
            hidden = None
            continue
        shown.append(word)
        hidden = word if word in (*PLACES, "--lock") else None
    return " ".join(["benchmarks/compare.py", *shown])


def check_tools(options):
    """Refuses to begin without what a side needs to start."""
    names = ["mpirun"]
    if any(name.startswith("deepspeed") for name in options.against or peers.NAMES):
        names.append("numactl")  # deepspeed --bind_cores_to_rank calls it
    for name in names:
        if not shutil.which(name):
            sys.exit(f"{name} is required in PATH; install it")
    for path in (options.engine, options.python, f"{options.peers}/peer_train.py"):
        if not os.path.exists(path):
            sys.exit(f"no such file: {path}")


def zero_against(options, name):
    """Our ZeRO stage against a peer."""
    return peers.zero_of(name) if options.zero == "same" else int(options.zero)


def screen(run, work, options):
    """Every peer once and ours at every stage needed: admission and memory."""
    names = options.against or peers.NAMES
    ours = {}
    found = {}
    for name in names:
        zero = zero_against(options, name)
        if zero not in ours:
            ours[zero] = run.run_side(work, campaign.OURS, zero, "screen")
            if "error" in ours[zero]:
                raise processes.RunFailed(f"our side must run: {ours[zero]['error']}")
        found[name] = judge(ours[zero], run.run_side(work, name, None, "screen"))
    return ours, found


def judge(ours, record):
    """The entry of a peer in the screen."""
    entry = {"record": record}
    if "error" not in record:
        try:
            entry["admitted"] = pairs.check_losses(ours["losses"], record["losses"])
        except pairs.NotAdmitted as problem:
            entry["refused"] = str(problem)
            entry["record"] = {name: record[name] for name in record if not name.endswith("_ms")}
    return entry


def chosen(options, screened):
    """Peers to pair with: the named ones, or the fastest and DeepSpeed at our stage."""
    admitted = [name for name in screened if "admitted" in screened[name]]
    if options.against:
        return admitted
    if not admitted:
        return []
    fastest = min(admitted, key=lambda name: screened[name]["record"]["steady_ms"])
    stages = "0123" if options.zero == "same" else options.zero
    wanted = [fastest, *(f"deepspeed{zero}" for zero in stages)]
    return [name for name in dict.fromkeys(wanted) if name in admitted]


def compare_with(run, work, options, name):
    """All pairs with one peer."""
    zero = zero_against(options, name)
    sides = {"ours": (campaign.OURS, zero), "theirs": (name, None)}
    entry = {"peer": name, "zero": zero}
    try:
        entry["pairs"] = run.run_pairs(work, sides, f"{name}-", options.pairs)
        entry["summary"] = pairs.summarize(entry["pairs"], options.keep_noisy)
    except (pairs.NotAdmitted, processes.RunFailed) as problem:
        entry["refused"] = str(problem)
    return entry


def compare_workload(run, workload, options):
    """Screen, A/A pairs and pairs of one workload."""
    work = campaign.work_of(workload, options.ranks, options.steps)
    ours, screened = screen(run, work, options)
    names = chosen(options, screened)
    zero = zero_against(options, names[0]) if names else next(iter(ours))
    both = {"ours": (campaign.OURS, zero), "theirs": (campaign.OURS, zero)}
    same = run.run_pairs(work, both, "aa", options.aa)
    return {
        "work": work,
        "shape": run.peers.shape(workload),
        "ours": ours,
        "screen": screened,
        "aa": {"pairs": same, "summary": pairs.summarize(same, options.keep_noisy)},
        "comparisons": [compare_with(run, work, options, name) for name in names],
    }


def main(words):
    """Runs the workloads and rewrites the report after each."""
    options = parse(words)
    if options.self_test:
        from comparison import self_test

        return self_test.run()
    check_tools(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a run in progress is ended
    here = machine.describe()
    run = campaign.Campaign(options, here)
    if not os.path.exists(run.probe):
        sys.exit(f"the probe must be built (cmake --build build --target probe): {run.probe}")
    result = {
        "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
        "machine": here,
        "engine": run.engine.identity,
        "version": run.engine.version(),
        "tuned": options.tuned,
        "keep_noisy": options.keep_noisy,
        "command": shown_command(words),
        "workloads": [],
    }
    for workload in options.workloads:
        result["workloads"].append(compare_workload(run, workload, options))
        campaign.say(f"wrote {report.write(result, options.out)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
