"""Damaged files for every reader, read in one program (reader_mutations.cc): each is taken or
refused as a wrong file; no signal, no end that never comes, no memory beyond a multiple of the
file."""

import subprocess

INPUTS = 20_000  # at FAULTS=1000


def read_all(case):
    """The program's own table is the table; its last line counts."""
    program = case.settings.build / "tests" / "faults" / "reader_mutations"
    count = INPUTS * case.settings.scale // 1000
    words = [program, "--count", str(count), "--seed", str(case.settings.seed)]
    ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=4 * 3600)
    print(ended.stdout, end="", flush=True)
    case.expect(ended.returncode == 0, f"exit code {ended.returncode} of reader_mutations")
    inputs, taken = ended.stdout.splitlines()[-1].split()[1:3]
    case.count("inputs", int(inputs))
    case.count("taken", int(taken))


def run(suite):
    """All readers, one after the other."""
    suite.case("readers", read_all)
