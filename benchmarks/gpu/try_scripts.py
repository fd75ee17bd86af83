#!/usr/bin/env python3
"""try_scripts.py BUILD: the parts of a device run on the fake device, where there is no card.

Small models, and no peer that only a card can run. Every row must say what it says on a card that
has no fault; the fake device's numbers are this CPU's.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("losses", "layouts", "transformers", "profile", "start", "choices", "offload",
         "sanitizer")
# Rows by the begin of their names, and the words that one of them may have.
WANTED = {
    "30 steps fp32, loss, worst gap to CPU": "0.00e+00", "30 steps fp32, twice": "same bits",
    "30 steps bf16, grad_norm, worst gap to CPU": "0.00e+00", "30 steps bf16, twice": "same bits",
    "ZeRO 0 on 2 ranks": "bits of one rank", "ZeRO 1 on 2 ranks": "bits of one rank",
    "ZeRO 2 on 2 ranks": "bits of one rank", "ZeRO 3 on 2 ranks": "bits of one rank",
    "a pipeline on 2 ranks": "bits of one rank",
    "30 steps bf16, grad_norm, worst gap to transformers": "e-0",
    "G1 traced step": " ms", "G1 class products": " ms", "G1 class update": " ms",
    "G1 kernel gemm": " ms", "G1 instruction forward": " ms",
    "G1 memory taken after step 1": "0 bytes", "G1 start to step 1, no plans kept": " s",
    "G1 start to step 1, plans kept": " s", "G1 step, attention own / default": ".",
    "G1 step, products tuned / default": ".", "G1 step, order canonical / default": ".",
    "G1 offload cpu / none": ".", "G1 offload cpu, losses and norms": "same bits",
    "compute-sanitizer, planted fault": "seen", "compute-sanitizer memcheck": "clean",
    "compute-sanitizer racecheck": "clean",
}
# Stands for NVIDIA's: it finds what is planted, and runs everything else.
SANITIZER = """#!/bin/sh
case "$*" in
  --help) echo --report-api-errors ;;
  *gtest_filter=Planted*) exit 9 ;;
  *) while [ "${1##*/}" != fmengine-train ]; do shift; done; exec "$@" ;;
esac
"""
BAD = ("failed", "exit code", "no time left", "DIFFERENT", "MORE THAN", "TOO FAR")


def make_bundle(build, bundle):
    (bundle / "bin").mkdir(parents=True)
    for name in ("fmengine", "fmengine-run", "fmengine-train", "late"):
        (bundle / "bin" / name).symlink_to(build / name)
    sanitizer = bundle / "sanitizer" / "compute-sanitizer"
    sanitizer.parent.mkdir()
    sanitizer.write_text(SANITIZER)
    sanitizer.chmod(0o755)
    for script in [*HERE.glob("*.py"), *HERE.glob("*.json")]:
        (bundle / script.name).symlink_to(script)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="fm_gpu_scripts_") as folder:
        bundle, out = pathlib.Path(folder) / "bundle", pathlib.Path(folder) / "out"
        make_bundle(build, bundle)
        environment = {**os.environ, "FM_GPU_DEVICE": "fake", "FME_PYTHON": sys.executable,
                       "PATH": f"{bundle}/sanitizer:{os.environ['PATH']}"}
        subprocess.run([sys.executable, "-B", HERE / "measure.py", bundle, out, "30000", *PARTS],
                       env=environment, check=True)
        rows = json.loads((out / "gpu.json").read_text())["rows"]
    problems = [row for row in rows
                if row[0] != "card" and any(bad in f"{row[1]} {row[2]}" for bad in BAD)]
    for name, words in WANTED.items():
        if not any(row[0].startswith(name) and words in row[1] for row in rows):
            problems.append(f"no row '{name}' with '{words}'")
    for problem in problems:
        print("PROBLEM:", problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
