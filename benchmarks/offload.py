#!/usr/bin/env python3
"""Offload beside DeepSpeed's: the same work and the same tiers, ours and theirs by turns.

  benchmarks/offload.py --peers PEERS --python VENV/bin/python --nvme FOLDER

PEERS and VENV are those of benchmarks/compare.py, whose pairs these are; FOLDER is on a local
drive. Prints a table: step time of both, the ratio with its interval, peak memory of all ranks
(without files in memory), and ours without offload as the speed that is kept. Every run stays in
--work: the same command started again continues.
"""

import argparse
import os
import signal
import sys

from comparison import campaign, engine, machine, pairs, peers, processes

# ZeRO stage, where the optimizer's state sleeps, where parameters sleep.
TIERS = {
    "z2-cpu": (2, "cpu", "none"),
    "z3-cpu": (3, "cpu", "none"),
    "z3-nvme": (3, "nvme", "none"),
    "z3-nvme-params": (3, "nvme", "nvme"),
}


def parse(words):
    """The command line, with what a campaign asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--peers", required=True, help="folder of the peers' scripts")
    add("--python", required=True, help="Python of the peers' environment")
    add("--nvme", required=True, help="folder on the drive that both sides use")
    add("--engine", default="build/fmengine-train", help="our program")
    add("--probe", help="the probe (default: benchmarks/probe beside the engine)")
    add("--workloads", nargs="+", default=["W2"], metavar="W")
    add("--tiers", nargs="+", choices=TIERS, default=["z2-cpu", "z3-cpu", "z3-nvme"])
    add("--pairs", type=int, default=5, help="quiet pairs per tier (default 5)")
    add("--steps", type=int, help="timed steps (default: the workload's)")
    add("--ranks", type=int, default=2)
    add("--keep-noisy", action="store_true", help="use pairs whose probes differ by over 5 %%")
    add("--max-steal", type=float, default=0.02, metavar="PART")
    add("--retry", action="store_true", help="run again what failed")
    add("--timeout", type=int, default=600, help="seconds for one run (default 600)")
    add("--lock", help="hold this file's lock around every single run")
    add("--work", default="output/offload", help="inputs and finished runs")
    options = parser.parse_args(words)
    options.tuned = False
    return options


class SleepingEngine(engine.Engine):
    """Ours with state that sleeps."""

    tiers = ("none", "none")
    nvme = ""

    def command(self, work, shape, paths):
        """As without, and where state sleeps."""
        optimizer, params = self.tiers
        flags = [] if optimizer == "none" else ["--offload_optimizer", optimizer]
        flags += [] if params == "none" else ["--offload_param", params]
        flags += ["--nvme_path", self.nvme] if "nvme" in self.tiers else []
        return [*super().command(work, shape, paths), *flags]


class SleepingPeers(peers.Peers):
    """DeepSpeed with state that sleeps."""

    tiers = ("none", "none")
    nvme = ""

    def command(self, name, work, tokens, result):
        """As without, and where state sleeps."""
        optimizer, params = self.tiers
        return [*super().command(name, work, tokens, result), "--offload", optimizer,
                "--offload-param", params, "--nvme-path", self.nvme]  # fmt: skip


class OffloadCampaign(campaign.Campaign):
    """Runs whose state sleeps where `tiers` says."""

    def __init__(self, options, here):
        super().__init__(options, here)
        self.engine = SleepingEngine(options.engine)
        self.peers = SleepingPeers(options.peers, options.python)
        self.tiers = ("none", "none")

    def sleep_in(self, optimizer, params):
        """Of the runs that follow."""
        self.tiers = (optimizer, params)
        for side, part in ((self.engine, "ours"), (self.peers, "theirs")):
            side.tiers = self.tiers
            side.nvme = os.path.join(os.path.abspath(self.options.nvme), part)
            os.makedirs(side.nvme, exist_ok=True)

    def key(self, work, side, zero, role):
        """Results of other tiers never mix."""
        return {**super().key(work, side, zero, role), "tiers": self.tiers}


def memory_of(record):
    """Peak PSS of all ranks as text."""
    if "error" in record or not record.get("memory"):
        return "-"
    return f"{record['memory']['pss_peak'] / 2**20:,.0f}"


def row_of(run, work, name):
    """One tier: a screen with memory, then pairs."""
    zero, optimizer, params = TIERS[name]
    theirs = f"deepspeed{zero}"
    run.sleep_in("none", "none")
    plain = run.run_side(work, campaign.OURS, zero, "screen")
    run.sleep_in(optimizer, params)
    screen = [run.run_side(work, side, at, "screen")
              for side, at in ((campaign.OURS, zero), (theirs, None))]  # fmt: skip
    sides = {"ours": (campaign.OURS, zero), "theirs": (theirs, None)}
    try:
        done = run.run_pairs(work, sides, f"{name}-", run.options.pairs)
    except (pairs.NotAdmitted, processes.RunFailed) as problem:
        return [work["workload"], name, "-", "-", str(problem).strip().split("\n")[-1]]
    summary = pairs.summarize(done, run.options.keep_noisy)
    if not summary["used"]:
        return [work["workload"], name, "-", "-", "no quiet pair"]
    kept = "-" if "error" in plain else f"{100 * plain['steady_ms'] / summary['ours_ms']:.0f} %"
    ratio = f"{summary['ratio']:.2f} [{summary['low']:.2f}, {summary['high']:.2f}]"
    return [work["workload"], name, f"{summary['ours_ms']:.0f}", f"{summary['theirs_ms']:.0f}",
            ratio, kept, *map(memory_of, screen), str(summary["used"])]  # fmt: skip


def main(words):
    """All tiers of all workloads, one line each as soon as it is known."""
    options = parse(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # a run in progress is ended
    run = OffloadCampaign(options, machine.describe())
    if not os.path.exists(run.probe):
        sys.exit(f"the probe must be built (cmake --build build --target probe): {run.probe}")
    head = ["work", "tiers", "ours ms", "theirs ms", "theirs / ours", "of our speed in memory",
            "ours MiB", "theirs MiB", "pairs"]  # fmt: skip
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|", flush=True)
    for workload in options.workloads:
        work = campaign.work_of(workload, options.ranks, options.steps)
        for name in options.tiers:
            print("| " + " | ".join(row_of(run, work, name)) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
