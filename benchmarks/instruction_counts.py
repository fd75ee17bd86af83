#!/usr/bin/env python3
"""Instructions per element of our own kernels, counted by callgrind: a slowdown without a clock.

instruction_counts.py PROGRAM            compares with instruction_counts.txt; ends with 1 when a
                                         kernel takes over 10 % more than what is written there
instruction_counts.py PROGRAM --write    writes that file

PROGRAM is build/benchmarks/instruction_counts. valgrind knows AVX2 at most, so AVX-512 and AMX are
not counted; nor is oneDNN. The counts belong to one compiler: another one needs --write first.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

VARIANTS = ("baseline", "avx2")
RECORD = pathlib.Path(__file__).with_suffix(".txt")
TOLERANCE = 1.10


def count(program, variant):
    """{kernel: instructions per element} of one variant."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/callgrind.out"
        ran = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program],
            env={"FME_SIMD": variant, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            sys.exit(f"valgrind ended with {ran.returncode}:\n{ran.stderr}")
        listing = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "--threshold=100", out],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    elements = {name: int(number) for name, number in map(str.split, ran.stdout.splitlines())}
    pattern = re.compile(
        rf"^\s*([\d,]+) .*fm::kernels::{variant}::(\w+)(<[\w:, ]+>)?\(", re.MULTILINE
    )
    counts = {}
    for total, kernel, types in pattern.findall(listing):
        # "swiglu<fm::core::Bf16>" is called swiglu<bf16> here, "swiglu<float>" swiglu
        types = types.replace("fm::core::Bf16", "bf16").replace(" ", "")
        name = kernel + ("" if types == "<float>" else types)
        if name in elements:
            counts[name] = max(counts.get(name, 0), int(total.replace(",", "")))
    missing = sorted(elements.keys() - counts.keys())
    if missing:
        sys.exit(f"callgrind saw no call of {', '.join(missing)} ({variant})")
    return {name: counts[name] / elements[name] for name in elements}


def table(counts):
    """The text of the record."""
    lines = [f"{'instructions per element':24}" + "".join(f"{v:>12}" for v in VARIANTS)]
    for name in counts[VARIANTS[0]]:
        lines.append(f"{name:24}" + "".join(f"{counts[v][name]:12.3f}" for v in VARIANTS))
    return "\n".join(lines) + "\n"


def recorded():
    """What the file says, in the shape of the counts."""
    counts = {variant: {} for variant in VARIANTS}
    for line in RECORD.read_text().splitlines()[1:]:
        name, *numbers = line.split()
        for variant, number in zip(VARIANTS, numbers, strict=True):
            counts[variant][name] = float(number)
    return counts


def slower(counts, before):
    """A line for each kernel that takes too many instructions, or that the file does not know."""
    lines = []
    for variant, kernels in counts.items():
        for name, now in kernels.items():
            then = before[variant].get(name)
            if then is None:
                lines.append(f"{name} ({variant}) is not in {RECORD.name}; use --write")
            elif now > then * TOLERANCE:
                lines.append(f"{name} ({variant}): {then:.3f} -> {now:.3f} instructions per element")
    return lines


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    counts = {variant: count(options.program, variant) for variant in VARIANTS}
    print(table(counts), end="")
    if options.write:
        RECORD.write_text(table(counts))
        return 0
    lines = slower(counts, recorded())
    print("\n".join(lines) or f"no kernel takes over {TOLERANCE - 1:.0%} more than {RECORD.name} says")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
