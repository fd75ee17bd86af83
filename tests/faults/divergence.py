"""Learning rates and epsilons that break a run: no good checkpoint is lost, nothing that is not
finite is saved or exported, and a sane learning rate goes on from the checkpoint that is named."""

import dataclasses
import re
import shutil

import checkpoints
import metrics
import tiny

GOOD = 20  # steps before the learning rate breaks
STEPS = 60
LAYOUTS = (tiny.MPIRUN, tiny.HAND, tiny.PIPE)
NAMED = re.compile(r"global_step(\d+)")


def train(case, run, output):
    """One start up to its end."""
    return case.finish(tiny.launch(run, case.settings.scratch, output))


def check_finite(case, output):
    """Every checkpoint and the export."""
    broken = checkpoints.not_finite_below(output)
    case.expect(not broken, f"files with NaN or Inf: {broken[:3]}")


def check_goes_on(case, run, output):
    """A start at a sane learning rate ends with finite losses."""
    job = train(case, run, output)
    case.expect_codes(job, (0,), "at a sane learning rate:")
    got = metrics.steps(output / "metrics.jsonl")
    at = checkpoints.resumed_at(job)
    case.expect(at > 0, "it must resume, not begin again")
    bad = [step for step in range(at + 1, STEPS + 1) if step not in got or "None" in got[step]]
    case.expect(not bad, f"steps without a finite loss: {bad}")
    case.expect(metrics.last_step(output / "metrics.jsonl") == STEPS, "it must reach the end")
    case.expect((output / "hf").exists(), "it must export")
    check_finite(case, output)


def diverged(case, layout):
    """The learning rate breaks behind step 20, or a step later or earlier."""
    good = GOOD + case.rng.choice((-1, 0, 0, 1))
    sane = tiny.Run(layout, steps=good)
    output = case.folder / "out"
    case.expect_codes(train(case, sane, output), (0,), "the good part:")
    before = checkpoints.listed(output)
    broken = dataclasses.replace(sane, steps=STEPS, lr=case.rng.choice((1e30, 1e25, 1e35)))
    job = train(case, broken, output)
    case.expect_codes(job, (23,), "the broken part:")
    after = checkpoints.listed(output)
    kept = [step for step in before if step in after]
    case.expect(kept, f"checkpoints {before} became {after}: no good one is left")
    named = [int(step) for step in NAMED.findall(job.err())]
    case.expect(named, "the end must name the checkpoint to go back to")
    case.expect(set(named) & set(after), f"checkpoints {named} are named, {after} are there")
    check_finite(case, output)
    copy = case.folder / "copy"
    shutil.copytree(output, copy)
    chosen = ("--resume", str(copy / f"global_step{kept[-1]}"))
    check_goes_on(case, dataclasses.replace(sane, steps=STEPS, more=chosen), copy)
    if after == kept or max(after) in before:  # else its weights were already broken when saved
        check_goes_on(case, dataclasses.replace(sane, steps=STEPS), output)
        case.count("resumed by itself")


def from_the_start(case, layout):
    """There never was a good step: 23, and nothing that is not finite stays."""
    run = tiny.Run(layout, steps=STEPS, lr=1e30)
    output = case.folder / "out"
    job = train(case, run, output)
    case.expect_codes(job, (23,))
    case.expect(not (output / "hf").exists(), "a broken run must not be exported")
    check_finite(case, output)
    case.count("checkpoints", len(checkpoints.listed(output)))


def no_eps(case, layout):
    """eps 0 divides 0 by 0 in rows without a gradient: refused, or defined."""
    run = tiny.Run(layout, steps=8, optimizer=(("eps", 0),))
    output = case.folder / "out"
    job = train(case, run, output)
    case.expect_codes(job, (0, 10))
    if output.exists():
        check_finite(case, output)


def run(suite):
    """All cases."""
    for layout in LAYOUTS:
        suite.repeat(f"lr breaks, {layout.name}", 24, diverged, layout)
        suite.repeat(f"lr broken from step 1, {layout.name}", 4, from_the_start, layout)
        suite.case(f"eps 0, {layout.name}", no_eps, layout)
