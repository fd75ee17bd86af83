#!/usr/bin/env python3
"""run.py FAMILY --build FOLDER [--case NAME]: one family of faults, or one case of it.

FAULTS=N scales the numbers of random cases (default 30; all families at 1000, two at a time, take
about an hour), FAULTS_SEED=N chooses them (default 1). Exit code 0 when every case ended as
expected."""

import argparse
import importlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import isolation
import suite

FAMILIES = {
    "kills": "SIGKILL and SIGTERM at random moments, resumed until finished",
    "damage": "flipped, cut, swapped and deleted files of checkpoints",
    "power_loss": "images of a file system as a power loss leaves it",
    "storage": "full, read-only and vanishing disks",
    "stops": "SIGSTOP of ranks",
    "network": "cut and healed links between hosts",
    "tiers": "kills while state sleeps on a disk and saves go on beside the steps",
    "meeting": "ranks that do not come, and strangers, before the ranks have met",
    "strangers": "strangers at every open port of a run that trains",
    "divergence": "broken learning rates and epsilons",
    "inputs": "mutated JSON, config.json, safetensors, JSONL and token files",
    "readers": "thousands of damaged files over all readers, in one program",
    "launchers": "two ranks under each engine: the same losses, and a rank that is killed",
    "examples": "the files of examples/, interrupted and resumed",
    "hosts": "faults over two hosts under `fmengine launch --max_restarts`",
    "moving_inputs": "files that are cut or never end while they are read",
}


def parse():
    """Words of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--build", default="build", help="folder with fmengine-train")
    parser.add_argument("--case", default="", help="only this one")
    parser.add_argument("--inside", default="", help=argparse.SUPPRESS)
    parser.add_argument("--level", default="none", help=argparse.SUPPRESS)
    return parser.parse_args()


def inside(options):
    """The family itself, in its namespaces."""
    if options.level != "none":
        isolation.enter()
    settings = suite.Settings(
        build=pathlib.Path(options.build).resolve(),
        scratch=pathlib.Path(options.inside),
        level=options.level,
        scale=suite.scale(),
        seed=suite.seed(),
        only=options.case,
    )
    run = suite.Suite(options.family, settings)
    importlib.import_module(options.family).run(run)
    return run.finish()


def outside(options):
    """Starts the family in namespaces, keeps its limit, and clears up after it."""
    scratch = tempfile.mkdtemp(prefix="fm_faults_")
    level = isolation.level()
    words = [*isolation.LEVELS[level], sys.executable, "-B", __file__, *sys.argv[1:]]
    words += ["--inside", scratch, "--level", level]
    environment = {**os.environ, isolation.MARK: scratch}
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, lambda number, frame: sys.exit(128 + number))
    limit_s = suite.limit_s()
    family = None
    try:
        family = subprocess.Popen(words, env=environment, preexec_fn=isolation.die_with_parent)
        return family.wait(limit_s)
    except subprocess.TimeoutExpired:
        print(f"faults: {options.family}: no end within {limit_s} s", file=sys.stderr)
        return 1
    finally:
        if family is not None:
            family.kill()
            family.wait()
        isolation.kill_all(isolation.MARK, scratch)
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    arguments = parse()
    sys.exit(inside(arguments) if arguments.inside else outside(arguments))
