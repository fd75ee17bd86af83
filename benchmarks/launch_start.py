#!/usr/bin/env python3
"""launch_start.py [--build build] [--pairs 5]: seconds from `fmengine launch` to the end of step 1.

The demo model (5.1 M parameters, ZeRO 2, 2 ranks x 1 thread) on one host and on two, which are namespaces with an sshd each
(tests/faults/cluster.py); so it runs as root. Hosts take turns, so that a change of the machine meets them alike.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tests" / "faults"))
import cluster  # noqa: E402
import isolation  # noqa: E402
import suite  # noqa: E402
import tiny  # noqa: E402

HOSTFILES = {"1 host": "hosta slots=2\n", "2 hosts": "hosta slots=1\nhostb slots=1\n"}
CONFIG = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}}


def start_of(hosts, build, folder, launcher, hostfile):
    """Seconds until metrics.jsonl has a line."""
    output = pathlib.Path(tempfile.mkdtemp(dir=folder))
    words = [build / "fmengine", "launch", f"--hostfile={tiny.write(output / 'hostfile', hostfile)}", f"--launcher={launcher}", "--force_multi", "--", build / "fmengine-train",
             "--deepspeed_config", tiny.write(folder / "ds.json", CONFIG), "--model_config", ROOT / "configs/models/llama-5m-bytes.json",
             "--data_path", tiny.write(folder / "ids.bin", bytes(id for i in range(60000) for id in (i * 7919 % 251, 0, 0, 0))), "--data_format", "tokens_i32", "--max_seq_len", "256", "--train_steps", "3", "--save_strategy", "no", "--output_dir", output]
    metrics = output / "metrics.jsonl"
    begin = time.monotonic()
    with open(output / "log", "w") as log:
        job = subprocess.Popen(hosts.on("hosta", *words), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        while not (metrics.exists() and metrics.stat().st_size) and job.poll() is None:
            time.sleep(0.001)
        took = time.monotonic() - begin
        if job.wait() != 0:
            raise SystemExit((output / "log").read_text())
    return took


def inside(options):
    """In namespaces: measures and prints."""
    isolation.enter()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        case = suite.Case(suite.Settings(options.build, folder, level="root"), "launch_start", "hosts")
        hosts = cluster.Cluster(case)
        try:
            for launcher in ("ssh", "pdsh"):
                rows = {kind: [] for kind in HOSTFILES}
                for _ in range(options.pairs):
                    for kind, hostfile in HOSTFILES.items():
                        rows[kind].append(start_of(hosts, options.build, folder, launcher, hostfile))
                one, two = (statistics.median(rows[kind]) for kind in HOSTFILES)
                print(f"{launcher}: {one:.2f} s to the first step on one host, {two:.2f} s on two: {two - one:+.2f} s")
        finally:
            case.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda text: pathlib.Path(text).resolve(), default=ROOT / "build")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        return inside(options)
    return subprocess.run([*isolation.LEVELS["root"], sys.executable, __file__, *sys.argv[1:], "--inside"]).returncode


if __name__ == "__main__":
    sys.exit(main())
