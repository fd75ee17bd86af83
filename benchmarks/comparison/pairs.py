"""Arithmetic of a comparison by pairs: order, noise, ratios, intervals, admission of losses."""

import math
import random
import statistics

ADMISSION_STEPS = 50
FIRST_LOSS_LIMIT = 1e-6
WORST_LOSS_LIMIT = 2e-5
NOISE_LIMIT = 0.05
DRAWS = 10_000
SEED = 3407


class NotAdmitted(Exception):
    """The two sides did not do the same work: no speed number may be shown."""


def order_of(pair):
    """Sides of pair 0, 1, 2, ... in the order they run: ours theirs theirs ours ours ..."""
    return ("ours", "theirs") if pair % 2 == 0 else ("theirs", "ours")


def steady(step_ms, warmup):
    """Median step after the warm-up."""
    if len(step_ms) <= warmup:
        raise ValueError(f"steps after the warm-up are required ({len(step_ms)} of {warmup})")
    return statistics.median(step_ms[warmup:])


def apart(a, b):
    """How far two positive rates are apart, as a fraction of the smaller."""
    return max(a, b) / min(a, b) - 1.0


def total_rate(probe, rate):
    """Sum of a probe's rate over the cores that ran it at once."""
    return sum(core[rate] for core in probe)


def is_noisy(first, second, limit=NOISE_LIMIT):
    """True when the probes before the two halves of a pair differ by more than the limit."""
    return any(
        apart(total_rate(first, rate), total_rate(second, rate)) > limit
        for rate in ("fma_gflops", "read_gb_s")
    )


def bootstrap_interval(values, level=0.95):
    """Percentile interval of the median over resamples with replacement, with a fixed seed."""
    draw = random.Random(SEED)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(DRAWS))
    tail = (1.0 - level) / 2.0
    return medians[math.floor(tail * DRAWS)], medians[math.ceil((1.0 - tail) * DRAWS) - 1]


def select(pairs, keep_noisy):
    """(used, dropped) of pairs {"ours": run, "theirs": run}; a run without its CPUs never counts."""
    used, dropped = [], []
    for pair in pairs:
        noisy = is_noisy(pair["ours"]["probe"], pair["theirs"]["probe"]) and not keep_noisy
        stolen = any(run["stolen"] for run in pair.values())
        (dropped if noisy or stolen else used).append(pair)
    return used, dropped


def summarize(pairs, keep_noisy):
    """Median of the ratios theirs / ours with its interval; None without a quiet pair."""
    used, dropped = select(pairs, keep_noisy)
    summary = {"used": len(used), "dropped": len(dropped), "ratio": None}
    if not used:
        return summary
    ratios = [pair["theirs"]["steady_ms"] / pair["ours"]["steady_ms"] for pair in used]
    low, high = bootstrap_interval(ratios)
    summary.update(ratio=statistics.median(ratios), low=low, high=high, ratios=ratios)
    for side in ("ours", "theirs"):
        summary[f"{side}_ms"] = statistics.median(pair[side]["steady_ms"] for pair in used)
    summary["fma_gflops"] = statistics.median(
        total_rate(pair[side]["probe"], "fma_gflops") for pair in used for side in pair
    )
    return summary


def check_losses(ours, theirs):
    """(first, worst) relative difference over the first 50 steps; NotAdmitted when too far."""
    if len(ours) != len(theirs) or not ours:
        raise NotAdmitted(f"both sides need the same steps ({len(ours)}, {len(theirs)})")
    differences = [
        abs(a - b) / abs(b) if b else abs(a - b)
        for a, b in zip(ours[:ADMISSION_STEPS], theirs[:ADMISSION_STEPS], strict=True)
    ]
    if not all(math.isfinite(x) for x in differences):
        raise NotAdmitted("every loss must be finite")
    first, worst = differences[0], max(differences)
    if first > FIRST_LOSS_LIMIT or worst > WORST_LOSS_LIMIT:
        raise NotAdmitted(
            f"losses differ by {first:.1e} at the first step and {worst:.1e} at the worst, "
            f"{FIRST_LOSS_LIMIT:.0e} and {WORST_LOSS_LIMIT:.0e} are allowed"
        )
    return first, worst
