"""Disks that fail while a run saves: it says so, it ends with 26 after the third failed save or
goes on, and a later start loses no step that was saved."""

import contextlib
import os
import subprocess

import checkpoints
import disks
import jobs
import metrics
import suite
import tiny

STEPS = 80
LAYOUTS = {"mpirun": tiny.MPIRUN, "by hand": tiny.HAND}
ENDED = (0, 26)  # finished all the same, or the third failed save in a row


def start(case, layout, output, **changes):
    """A run on the disk of the case."""
    run = tiny.Run(layout, steps=STEPS, **changes)
    return run, case.start(tiny.launch(run, case.settings.scratch, output))


def wait_for_a_save(case, job):
    """Until a random number of checkpoints is promised."""
    at = 2 * case.rng.randint(1, 5)
    jobs.eventually(jobs.PATIENCE_S, lambda: checkpoints.promised(job) >= at or job.ended())


def check_promise(case, job, output):
    """What was said to be saved is there; its step."""
    newest = checkpoints.promised(job)
    if newest:
        text = f"step {newest} was said to be saved"
        case.expect((output / f"global_step{newest}" / "MANIFEST.json").exists(), text)
    return newest


def resume(case, references, run, output, newest):
    """The next start on a disk that works, up to the end."""
    job = case.finish(tiny.launch(run, case.settings.scratch, output))
    case.expect_codes(job, (0,), "on a disk that works:")
    at = checkpoints.resumed_at(job)
    case.expect(at >= newest, f"resumed at step {at}, step {newest} was said to be saved")
    path = output / "metrics.jsonl"
    got = metrics.steps(path)
    expected = references.steps(run)
    wrong = [step for step in expected if step > at and got.get(step) != expected[step]]
    case.expect(not wrong, f"steps behind the resumed {at} differ: {wrong}")
    wrong = [step for step in got if got[step] != expected.get(step)]
    case.expect(not wrong, f"lines of other numbers: {wrong}")


def fill(disk, leave):
    """What another program takes: all but `leave` bytes."""
    free = os.statvfs(disk)
    with contextlib.suppress(OSError), open(disk / "other", "wb") as file:
        file.write(bytes(max(0, free.f_bavail * free.f_frsize - leave)))


def full(case, layout, references):
    """A disk that takes a few checkpoints and no more; then there is room."""
    disk = case.folder / "disk"
    disks.tmpfs(case, disk, 160)
    fill(disk, case.rng.randint(2 << 20, 7 << 20))
    run, job = start(case, layout, disk / "out", keep_last=0)
    job.wait()
    case.expect_codes(job, (26,))
    newest = check_promise(case, job, disk / "out")
    case.count("checkpoints saved", len(checkpoints.listed(disk / "out")))
    (disk / "other").unlink()
    resume(case, references, run, disk / "out", newest)


def filled(case, layout, references):
    """Another program fills the disk in the middle of the run."""
    disk = case.folder / "disk"
    disks.tmpfs(case, disk, 64)
    run, job = start(case, layout, disk / "out")
    wait_for_a_save(case, job)
    fill(disk, 0)
    job.wait()
    case.expect_codes(job, ENDED)
    case.count("ended with 26", 26 in job.codes())
    newest = check_promise(case, job, disk / "out")
    (disk / "other").unlink()
    resume(case, references, run, disk / "out", newest)


def break_file_system(case, mounted):
    """An error of an ext4 with errors=remount-ro."""
    with open("/proc/self/mountinfo") as file:
        lines = [line.split() for line in file]
    device = [line[line.index("-") + 2] for line in lines if line[4] == str(mounted)][-1]
    try:
        with open(f"/sys/fs/ext4/{os.path.basename(device)}/trigger_fs_error", "w") as file:
            file.write("faults")
    except OSError as error:
        raise suite.Skipped("errors of ext4 need a writable /sys") from error


def read_only(case, layout, references):
    """The disk turns read-only in the run, as after an error of its file system."""
    disk = case.folder / "disk"
    image = case.folder / "disk.ext4"
    disks.make_ext4(case, image)
    disks.mount_image(case, image, disk, "errors=remount-ro")
    run, job = start(case, layout, disk / "out")
    wait_for_a_save(case, job)
    break_file_system(case, disk)
    job.wait()
    case.expect_codes(job, ENDED)
    newest = check_promise(case, job, disk / "out")
    case.count("ended with 26", 26 in job.codes())
    if 26 in job.codes():
        case.expect_words(job, "ead-only")
    disks.unmount(disk)
    subprocess.run(["e2fsck", "-fy", str(image)], capture_output=True)
    disks.mount_image(case, image, disk)
    resume(case, references, run, disk / "out", newest)


def vanished(case, layout, references):
    """The disk is unmounted in the run: that is said, and what it holds is good."""
    real = case.folder / "real"
    disk = case.folder / "disk"
    disks.tmpfs(case, real, 100)
    disks.mount(case, disk, "--bind", real)
    run, job = start(case, layout, disk / "out")
    wait_for_a_save(case, job)
    early = checkpoints.promised(job)
    disks.call("umount", "-l", disk)
    job.wait()
    case.expect_codes(job, ENDED)
    case.count("ended with 26", 26 in job.codes())
    if max(checkpoints.listed(real / "out"), default=0) < STEPS:
        case.expect(str(disk) in job.err(), "stderr must name the folder that went away")
    resume(case, references, run, real / "out", early)


def run(family):
    """All cases."""
    references = tiny.References(family)
    for name, layout in LAYOUTS.items():
        for body in (full, filled, read_only, vanished):
            row = f"{body.__name__.replace('_', ' ')}, {name}"
            family.repeat(row, 10, body, layout, references)
