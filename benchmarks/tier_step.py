#!/usr/bin/env python3
"""tier_step.py [--nvme FOLDER] [--hold GB] [--buffers 4 3 2] [--turns 3] [PROGRAM]: a step whose optimizer sleeps on NVMe.

W2 of two_builds.py (2 ranks x 1 thread) under ZeRO 3 trains in memory and with offload_optimizer on FOLDER's drive, in turns, for
each buffer_count. Printed per count: median step times, what a rank waited for the drive, the ratio to max(step in memory,
seconds of all moves at the drive's rate), and what --plan foretold. The rate is that which --plan measures, before each turn.

--hold holds reads and writes of the drive to so many GB/s each, by a control group (blkio of version 1, io of version 2; as
root), so that rates do not change under the measurement; the rate is then that number. --few_tokens takes 32 tokens a rank, so
that the drive decides. Nothing else may run on the machine.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

import two_builds

GROUPS = pathlib.Path("/sys/fs/cgroup")
FEW_TOKENS = (512, 8, 8, 4, 1376, 32000, 32, 1, 1, 13)
VARIABLES = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def drive_of(folder):
    """"major:minor" of the whole drive."""
    number = os.stat(folder).st_dev
    place = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    return ((place.parent if (place / "partition").exists() else place) / "dev").read_text().strip()


@contextlib.contextmanager
def held(drive, rate):
    """A control group that this process enters, if there is a rate."""
    if not rate:
        yield
        return
    old = (GROUPS / "blkio").is_dir()
    top = GROUPS / "blkio" if old else GROUPS
    group = top / f"tier_step_{os.getpid()}"
    group.mkdir()
    limit = int(rate * 1e9)
    if old:
        for way in ("read", "write"):
            (group / f"blkio.throttle.{way}_bps_device").write_text(f"{drive} {limit}")
    else:
        (group / "io.max").write_text(f"{drive} rbps={limit} wbps={limit}")
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield
    finally:
        (top / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def words_of(options, folder, buffers):
    """Flags of a run; buffers None: in memory."""
    shape = FEW_TOKENS if options.few_tokens else two_builds.SHAPES["W2"]
    flags = two_builds.write_inputs(folder, shape, stage=3)
    config = json.loads((folder / "ds.json").read_text())
    if buffers is not None:
        config["zero_optimization"]["offload_optimizer"] = {
            "device": "nvme", "nvme_path": options.nvme, "buffer_count": buffers}
    (folder / "ds.json").write_text(json.dumps(config))
    return [*flags, "--train_steps", str(options.steps), "--threads", "1", "--save_strategy", "no", "--output_dir",
            str(folder / "output")]


def train(options, buffers):
    """Median seconds of a step, and of waiting for the drive; bytes that a rank reads and writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        command = ["mpirun", "-np", "2", "--bind-to", "core", options.program, *words_of(options, folder, buffers)]
        subprocess.run(command, env=VARIABLES, check=True, capture_output=True)
        lines = (folder / "output" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines if line.startswith('{"step"')][two_builds.WARM_UP:]
    middle = [statistics.median(row.get(key, 0.0) for row in rows)
              for key in ("step_time", "nvme_wait", "nvme_read_bytes", "nvme_written_bytes")]
    return middle[0], middle[1], middle[2], middle[3]


def plan(options, buffers):
    """What --plan says: seconds of a step, and of its moves alone."""
    with tempfile.TemporaryDirectory() as name:
        command = [options.program, *words_of(options, pathlib.Path(name), buffers), "--plan", "--plan_ranks", "2",
                   "--host_cores", "2"]
        text = subprocess.run(command, env=VARIABLES, check=True, capture_output=True, text=True).stdout
    step = re.search(r"a step takes about ([0-9.]+)s: moves ([0-9.]+)s at", text)
    return float(step.group(1)), float(step.group(2))


def main():
    """Runs the turns and prints them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default="build/fmengine-train")
    parser.add_argument("--nvme", default=".", help="a folder on the drive")
    parser.add_argument("--hold", type=float, default=0.0, help="GB/s each way; 0: the drive as it is")
    parser.add_argument("--buffers", type=int, nargs="+", default=[4, 3, 2])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--few_tokens", action="store_true")
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    options.nvme = str(pathlib.Path(options.nvme).resolve())
    with held(drive_of(options.nvme), options.hold):
        for buffers in options.buffers:
            for _ in range(options.turns):
                foretold, moves = plan(options, buffers)
                memory = train(options, None)[0]
                step, waited, read, written = train(options, buffers)
                if options.hold:  # both ranks share the drive, whose two directions are held apart
                    moves = 2 * max(read, written) / (options.hold * 1e9)
                print(f"buffer_count {buffers}: in memory {memory:.2f} s, moves {moves:.2f} s, on NVMe {step:.2f} s (waited {waited:.2f}): "
                      f"{step / max(memory, moves):.2f} x the larger one; --plan foretold {foretold:.2f} s: {foretold / step:.2f} x", flush=True)


if __name__ == "__main__":
    main()
