"""Comparisons that raise Mismatch with the worst place and both values."""

import json

import safetensors.torch

FIRST_LOSS_TOLERANCE = 1e-6  # relative
LOSS_TOLERANCE = 2e-5  # relative, every step
NORM_TOLERANCE = 1e-4  # relative; fp32 sums in another order
GRADIENT_TOLERANCE = 1e-5  # largest difference over largest magnitude, per tensor


class Mismatch(Exception):
    pass


def read_lines(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def read_metrics(path):
    """metrics.jsonl is appended to over restarts: the last line of a step wins."""
    lines = {line["step"]: line for line in read_lines(path) if "loss" in line}
    return [lines[step] for step in sorted(lines)]


def numeric(error):
    """NaN compares as nothing, so it must count as the worst."""
    return error if error == error else float("inf")


def relative(got, want):
    return numeric(abs(got - want) / abs(want))


def compare_series(name, got, want, tolerance):
    if len(got) != len(want):
        raise Mismatch(f"{name}: {len(want)} steps are expected, {len(got)} found")
    errors = [relative(g, w) for g, w in zip(got, want)]
    worst = max(range(len(errors)), key=errors.__getitem__)
    summary = (
        f"{name}: worst relative difference {errors[worst]:.2e} at step {worst}"
        f" (got {got[worst]:.9g}, want {want[worst]:.9g}, allowed {tolerance:.0e})"
    )
    if not errors[worst] <= tolerance:
        raise Mismatch(summary)
    print(summary)


def compare_run(metrics_file, losses_file):
    got, want = read_metrics(metrics_file), read_lines(losses_file)
    first = [[line[0]["loss"]] for line in (got, want)]
    compare_series("first loss", *first, FIRST_LOSS_TOLERANCE)
    for key, tolerance in (("loss", LOSS_TOLERANCE), ("grad_norm", NORM_TOLERANCE)):
        compare_series(key, *([line[key] for line in lines] for lines in (got, want)), tolerance)


def compare_gradients(got_file, want_file):
    got, want = (safetensors.torch.load_file(file) for file in (got_file, want_file))
    if got.keys() != want.keys():
        raise Mismatch(f"gradients: names differ: {sorted(got.keys() ^ want.keys())}")
    errors = {}
    for name in want:
        if got[name].shape != want[name].shape:
            raise Mismatch(f"{name}: {list(got[name].shape)} is not {list(want[name].shape)}")
        largest = want[name].abs().max()
        if largest == 0:
            raise Mismatch(f"{name}: a gradient of zeros compares nothing")
        errors[name] = numeric(((got[name] - want[name]).abs().max() / largest).item())
    worst = max(errors, key=errors.get)
    summary = f"gradients: {len(errors)} tensors, worst {errors[worst]:.2e} in {worst}"
    if not errors[worst] <= GRADIENT_TOLERANCE:
        raise Mismatch(f"{summary} (allowed {GRADIENT_TOLERANCE:.0e})")
    print(summary)
