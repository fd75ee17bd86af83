#!/usr/bin/env python3
"""In place of fmengine-train in the self-test: it "trains", saves and resumes in a folder, and does
what FAULTS_FAKE says wrong when it resumes."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ARGUMENTS = dict(zip(sys.argv[1::2], sys.argv[2::2]))
OUTPUT = pathlib.Path(ARGUMENTS["--output_dir"])
LAST = int(ARGUMENTS["--train_steps"])
EVERY = int(ARGUMENTS["--save_steps"])


def replace(path, text):
    """All of a file or nothing of it: a kill may come in between."""
    new = path.with_name(f".new-{path.name}")
    new.write_text(text)
    new.rename(path)


def found():
    """The newest checkpoint that is whole."""
    steps = [int(path.name[11:]) for path in OUTPUT.glob("global_step*")]
    whole = [s for s in steps if (OUTPUT / f"global_step{s}" / "state").read_text() == f"{s}"]
    return max(whole, default=0)


def save(step):
    """A checkpoint of one file."""
    folder = OUTPUT / f"global_step{step}"
    new = OUTPUT / ".new"
    new.mkdir(exist_ok=True)
    (new / "state").write_text(f"{step}")
    shutil.rmtree(folder, ignore_errors=True)  # of a start that began again
    new.rename(folder)
    replace(OUTPUT / "latest", folder.name)
    print(f"saved {folder}", flush=True)


def keep_lines(path, last):
    """Lines of metrics.jsonl up to a step."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    replace(path, "".join(lines[:last]))


def main():
    """One start."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    at = found()
    wrong = os.environ.get("FAULTS_FAKE", "") if at else ""
    if wrong == "fresh":
        at = 0
    path = OUTPUT / "metrics.jsonl"
    if wrong != "repeat":
        keep_lines(path, at)
    if at:
        print(f"resuming at step {at}, sample {at}", flush=True)
        replace(OUTPUT / "latest", f"global_step{at}")
    if wrong == "hang":
        time.sleep(1000)
    if wrong == "leave":
        subprocess.Popen(["sleep", "1000"])
    if wrong == "signal":
        os.kill(os.getpid(), 11)
    for step in range(at + 1, LAST + 1):
        loss = 1 / step + (1e-9 if wrong == "drift" else 0)
        if not (wrong == "lose" and step == LAST):
            with open(path, "a") as file:
                file.write(json.dumps({"step": step, "loss": loss, "grad_norm": 1.5, "lr": 1e-3}))
                file.write("\n")
        print(f"step {step}/{LAST} loss", flush=True)
        if EVERY and step % EVERY == 0:
            save(step)
        time.sleep(0.002)


main()
