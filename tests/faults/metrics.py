"""metrics.jsonl of a run, compared number by number as it is written there."""

import json

KEYS = ("loss", "grad_norm", "lr")


def lines(path):
    """Objects of the whole lines, numbers as text; a torn last line is left out."""
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return []
    whole = text[: text.rfind(b"\n") + 1]
    return [json.loads(line, parse_float=str) for line in whole.splitlines() if line.strip()]


def steps(path):
    """step -> texts of its numbers; the last line of a step wins."""
    found = {}
    for line in lines(path):
        if "loss" in line:
            found[line["step"]] = tuple(str(line[key]) for key in KEYS)
    return found


def last_step(path):
    """The last step that was written, 0 without any."""
    return max(steps(path), default=0)


def difference(expected, got, last):
    """"" when `got` has steps 1 to `last` and no others, with the numbers of `expected`; else the
    first step that differs."""
    for step in range(1, last + 1):
        if step not in expected:
            return f"step {step} was not expected"
        if step not in got:
            return f"step {step} is missing"
        for key, wanted, found in zip(KEYS, expected[step], got[step]):
            if wanted != found:
                return f"step {step}: {key} is {found}, expected {wanted}"
    beyond = [step for step in got if step > last or step < 1]
    return f"steps {beyond} were not expected" if beyond else ""


def repeated(path):
    """"" when every step has one line, in order; else the first line that is not so."""
    order = [line["step"] for line in lines(path) if "loss" in line]
    for at, step in enumerate(order):
        if step != at + 1:
            return f"line {at + 1} of metrics.jsonl is of step {step} ({len(order)} lines)"
    return ""
