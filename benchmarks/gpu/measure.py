#!/usr/bin/env python3
"""Runs the parts of a device run in turn, each within its limit, prints a table and writes JSON.

  measure.py BUNDLE OUT [SECONDS [PART ...]]

BUNDLE: made by prepare.sh. PART: a name of PARTS, or `correct` or `speed` for several; without one
all, the most important first. What fails is a row of the table, and the next part runs.
"""
import pathlib
import sys

import correctness
import runs
import speed


def facts(session):
    said = session.call("card", ["nvidia-smi",
                                 "--query-gpu=name,driver_version,clocks.max.sm,power.limit",
                                 "--format=csv,noheader"], 20)
    session.row("card, driver, clock, power", (said or "?").strip())
    session.peak = next((value for part, value in runs.PEAKS.items() if part in (said or "")), 0.0)
    commit = session.bundle / "commit"
    session.row("commit", commit.read_text().strip() if commit.exists() else "unknown")
    memory = pathlib.Path("/proc/meminfo").read_text().split()
    session.row("host memory", f"{int(memory[1]) / 2**20:.0f} GiB",
                f"{int(memory[7]) / 2**20:.0f} GiB available")
    report = session.call("report", [session.program("fmengine-train"), "--report"], 30)
    for line in (report or "").splitlines():
        if line.startswith(("GPU", " " * 11)):
            print(line)


PARTS = {"facts": facts, "tests": correctness.tests, "losses": correctness.losses,
         "layouts": correctness.layouts, "transformers": correctness.transformers,
         "profile": speed.profile, "g1": speed.g1, "choices": speed.choices, "start": speed.start,
         "ceilings": speed.ceilings, "g4": speed.g4, "offload": speed.offload, "g2": speed.g2,
         "sanitizer": correctness.sanitizer}
SEVERAL = {"correct": ["tests", "losses", "layouts", "transformers", "profile", "start",
                       "choices", "ceilings", "sanitizer"],
           "speed": ["g1", "offload", "g4", "g2"]}


def main():
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 480.0
    asked = [name for word in sys.argv[4:] for name in SEVERAL.get(word, [word])]
    unknown = [name for name in asked if name not in PARTS]
    if unknown:
        sys.exit(f"measure: a part must be one of {', '.join([*PARTS, *SEVERAL])} ({unknown[0]})")
    session = runs.Session(sys.argv[1], sys.argv[2], seconds)
    for name in dict.fromkeys(["facts", *(asked or PARTS)]):
        try:
            PARTS[name](session)
        except Exception as error:  # pylint: disable=broad-except
            session.row(name, "failed", repr(error)[:160])
    print("\n| part | value | note |\n|---|---|---|")
    for name, value, note in session.rows:
        print(f"| {name} | {value} | {note} |")


if __name__ == "__main__":
    main()
