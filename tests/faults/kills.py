"""SIGKILL of a random rank, and SIGTERM or SIGINT to all, at random moments of runs that save every
2 steps: nobody is left, and the same command again ends with the numbers of an undisturbed run."""

import contextlib
import dataclasses
import os
import signal
import time

import checkpoints
import jobs
import metrics
import tiny

STEPS = 40
KILLS = 3  # in one run
TIMEOUT_S = 60  # of a start that is killed: before the ranks have met, the others wait for it


def wait_for_moment(case, job, victim):
    """Waits for a random moment: a step that is printed and a little more, or any time from when
    the victim is there. True when ranks have trained by then."""
    jobs.eventually(jobs.PATIENCE_S, lambda: job.rank_pid(victim) or job.ended())
    if case.rng.random() < 0.15:
        time.sleep(case.rng.uniform(0, 0.7))
    else:
        at = case.rng.randint(1, STEPS - 1)
        jobs.eventually(
            jobs.PATIENCE_S, lambda: checkpoints.printed_step(job) >= at or job.ended()
        )
        time.sleep(case.rng.uniform(0, 0.012))
    return checkpoints.printed_step(job) > 0


def wait_for_end(case, job, trained):
    """Until nobody lives. mpirun sometimes stays when a rank ends while it meets the others through
    MPI; that is OpenMPI's, as long as no rank stays, and counted."""
    if not trained and job.launch.starter == "mpirun":
        jobs.eventually(jobs.PATIENCE_S, lambda: job.ended() or not job.ranks_alive())
        if not jobs.eventually(5, lambda: job.ended() or job.ranks_alive()):
            case.count("mpirun stayed")
            job.started[0].kill()
    job.wait()


def check_resumed(case, job, newest):
    """A start behind a promise goes on from it or from a later one."""
    if checkpoints.printed_step(job) == 0:
        return
    at = checkpoints.resumed_at(job)
    case.expect(at >= newest, f"resumed at step {at} though step {newest} was said to be saved")


def check_survivors(case, job, victim, trained):
    """Exit codes of ranks by hand."""
    if job.launch.starter != "hand" or 0 in job.codes():
        return
    allowed = (20,) if trained else (14, 20)
    for rank, code in enumerate(job.codes()):
        wanted = (137,) if rank == victim else allowed
        case.expect(code in wanted, f"rank {rank} ended with {code}, expected {wanted}")
    if trained:
        case.expect_words(job, f"rank {victim}")


def kill_once(case, run, output, newest):
    """One start that is killed; the newest checkpoint that is promised then."""
    job = case.start(tiny.launch(run, case.settings.scratch, output))
    victim = case.rng.randrange(run.layout.ranks)
    trained = wait_for_moment(case, job, victim)
    case.count("SIGKILL" if job.send(victim, signal.SIGKILL) else "came too late")
    wait_for_end(case, job, trained)
    check_survivors(case, job, victim, trained)
    check_resumed(case, job, newest)
    case.count("before step 1", not trained)
    case.count("inside a save", bool(checkpoints.leftovers(output)))
    return max(newest, checkpoints.promised(job))


def end_once(case, run, output, newest, number):
    """One start that every rank is asked to end; the newest checkpoint that is promised then."""
    job = case.start(tiny.launch(run, case.settings.scratch, output))
    trained = wait_for_moment(case, job, run.layout.ranks - 1)
    for pid in job.ranks_alive():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
    wait_for_end(case, job, trained)
    if trained:
        case.expect_codes(job, (0, 75), "after a signal in training")
    check_resumed(case, job, newest)
    case.count("saved and ended (75)", 75 in job.codes())
    case.count("before step 1", not trained)
    if job.codes() == [75] * len(job.codes()) and trained:
        wanted = checkpoints.printed_step(job)
        at = max(checkpoints.listed(output), default=0)
        case.expect(at >= wanted, f"ended behind step {wanted}, the newest checkpoint is {at}")
    return max(newest, checkpoints.promised(job))


def check_finished(case, job, run, output, newest, references):
    """The last start, and what all of them wrote together."""
    case.expect_codes(job, (0,), "the last start:")
    check_resumed(case, job, newest)
    path = output / "metrics.jsonl"
    problem = metrics.difference(references.steps(run), metrics.steps(path), STEPS)
    case.expect(not problem, f"the merged run differs: {problem}")
    left = checkpoints.leftovers(output)
    case.expect(not left, f"left behind: {left}")
    latest = jobs.file_text(output / "latest")
    case.expect(latest == f"global_step{STEPS}", f"latest names {latest!r}")
    problem = metrics.repeated(path)
    case.expect(not problem, f"metrics.jsonl must show every step once: {problem}")


def killed(case, layout, references):
    """A run that is killed some times and then finished."""
    run = tiny.Run(layout, steps=STEPS)
    short = dataclasses.replace(run, timeout_s=TIMEOUT_S)
    output = case.folder / "out"
    newest = 0
    for _ in range(KILLS):
        newest = kill_once(case, short, output, newest)
    job = case.finish(tiny.launch(run, case.settings.scratch, output))
    check_finished(case, job, run, output, newest, references)


def ended(case, layout, number, references):
    """A run that is asked to end some times and then finished."""
    run = tiny.Run(layout, steps=STEPS)
    output = case.folder / "out"
    newest = 0
    for _ in range(KILLS):
        newest = end_once(case, run, output, newest, number)
    job = case.finish(tiny.launch(run, case.settings.scratch, output))
    check_finished(case, job, run, output, newest, references)


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    shares = {tiny.MPIRUN: 50, tiny.HAND: 50, tiny.HOSTS: 24, tiny.PIPE: 24, tiny.PRIVATE: 24}
    for layout, share in shares.items():
        suite.repeat(layout.name, share, killed, layout, references)
    for layout in (tiny.MPIRUN, tiny.HAND):
        for number in (signal.SIGTERM, signal.SIGINT):
            row = f"{layout.name} {signal.Signals(number).name}"
            suite.repeat(row, 16, ended, layout, number, references)
