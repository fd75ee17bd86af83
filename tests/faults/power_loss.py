"""Power loss: all ranks are stopped at a random moment, what their ext4 has given to its disk by
then is copied (commit=300: nothing goes there by itself), and the run resumes on the copy."""

import os
import signal
import subprocess
import time

import checkpoints
import disks
import jobs
import metrics
import tiny

STEPS = 40


def stop_all(job):
    """Every process of the job stands still."""
    for pid in job.alive():
        os.kill(pid, signal.SIGSTOP)


def crash(case, run, image, copy):
    """Runs on the image until a random moment; the newest checkpoint that is promised then."""
    mounted = case.folder / "disk"
    disks.make_ext4(case, image)
    disks.mount_image(case, image, mounted)
    job = case.start(tiny.launch(run, case.settings.scratch, mounted / "out"))
    at = case.rng.randint(2, STEPS - 2)
    jobs.eventually(jobs.PATIENCE_S, lambda: checkpoints.printed_step(job) >= at or job.ended())
    time.sleep(case.rng.uniform(0, 0.02))
    stop_all(job)
    newest = checkpoints.promised(job)
    case.count("stopped inside a save", bool(checkpoints.leftovers(mounted / "out")))
    subprocess.run(["cp", "--sparse=always", str(image), str(copy)], check=True)
    job.close()
    disks.unmount(mounted)
    return newest


def lost(case, layout, references):
    """One power loss."""
    run = tiny.Run(layout, steps=STEPS)
    copy = case.folder / "copy.ext4"
    newest = crash(case, run, case.folder / "disk.ext4", copy)
    mounted = case.folder / "after"
    disks.mount_image(case, copy, mounted)
    output = mounted / "out"
    job = case.finish(tiny.launch(run, case.settings.scratch, output))
    case.expect_codes(job, (0,), "the start behind the loss:")
    at = checkpoints.resumed_at(job)
    case.expect(at >= newest, f"resumed at step {at} though step {newest} was said to be saved")
    case.count("resumed", at > 0)
    expected = references.steps(run)
    got = metrics.steps(output / "metrics.jsonl")
    behind = {step: numbers for step, numbers in expected.items() if step > at}
    problem = [step for step in behind if got.get(step) != behind[step]]
    case.expect(not problem, f"steps behind the resumed {at} differ: {problem}")
    absent = [step for step in expected if step not in got]
    case.count("steps without a line", len(absent))
    problem = metrics.difference(expected, got, STEPS)
    case.expect(not problem, f"resumed at {at}, {len(absent)} steps have no line: {problem}")
    problem = metrics.repeated(output / "metrics.jsonl")
    case.expect(not problem, f"metrics.jsonl must show every step once: {problem}")


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    for layout in (tiny.MPIRUN, tiny.HAND):
        suite.repeat(layout.name, 60, lost, layout, references, least=2)
