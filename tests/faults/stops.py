"""SIGSTOP of a rank: the others name it, and end with 21 after --hang_s; a short one does nothing."""

import signal
import time

import checkpoints
import jobs
import metrics
import tiny

STEPS = 40
HANG_S = 10  # a core may be stolen for some seconds
ENDLESS = 1_000_000  # steps of a run that its stopped rank must end
LAYOUTS = (tiny.MPIRUN, tiny.HAND, tiny.PRIVATE, tiny.PRIVATE_HAND, tiny.HOSTS)


def stop_one(case, job):
    """Stops a random rank at a random step; the rank."""
    at = case.rng.randint(1, STEPS // 2)
    jobs.eventually(jobs.PATIENCE_S, lambda: checkpoints.printed_step(job) >= at or job.ended())
    rank = case.rng.randrange(job.launch.ranks)
    case.count("SIGSTOP" if job.send(rank, signal.SIGSTOP) else "came too late")
    return rank


def stopped(case, layout):
    """For ever: named at once, 21 after --hang_s, and the stopped one ends when it goes on."""
    run = tiny.Run(
        layout, steps=ENDLESS, timeout_s=2 * jobs.PATIENCE_S, more=("--hang_s", str(HANG_S))
    )
    job = case.start(tiny.launch(run, case.settings.scratch, case.folder / "out"))
    rank = stop_one(case, job)
    others = [job.started[r] for r in job.started if layout.starter != "hand" or r != rank]
    done = jobs.eventually(
        jobs.PATIENCE_S, lambda: all(p.poll() is not None for p in others), 0.02
    )
    case.expect(done, f"the others live {jobs.PATIENCE_S} s behind the stop")
    codes = [process.returncode for process in others]
    case.expect(set(codes) <= {20, 21} and 21 in codes, f"the others ended with {codes}")
    case.expect_words(job, f"fmengine: rank {rank} (host ", "is stopped (SIGSTOP or Ctrl-Z);")
    case.expect_words(job, "has been stopped (SIGSTOP or Ctrl-Z) for ")
    case.expect(set(codes) == {21}, f"the others ended with {codes}")
    job.send(rank, signal.SIGCONT)
    job.wait()


def paused(case, layout, references):
    """For less than the limit: the run goes on."""
    run = tiny.Run(layout, steps=STEPS, timeout_s=120, more=("--hang_s", "60"))
    output = case.folder / "out"
    job = case.start(tiny.launch(run, case.settings.scratch, output))
    rank = stop_one(case, job)
    time.sleep(case.rng.uniform(0.2, 3))
    job.send(rank, signal.SIGCONT)
    job.wait()
    case.expect_codes(job, (0,), "behind a short stop:")
    problem = metrics.difference(
        references.steps(run), metrics.steps(output / "metrics.jsonl"), STEPS
    )
    case.expect(not problem, f"the run differs: {problem}")


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    for layout in LAYOUTS:
        suite.repeat(f"stopped, {layout.name}", 10, stopped, layout)
    for layout in LAYOUTS:
        least = 1 if layout in (tiny.MPIRUN, tiny.HAND, tiny.HOSTS) else 0
        row = f"paused, {layout.name}"
        suite.repeat(row, 6, paused, layout, references, least=least)
