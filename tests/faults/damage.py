"""Files of checkpoints that are not as they were written: `fmengine checkpoint verify` finds each,
the newest whole one is resumed, the damage is named, and the run ends with the numbers of an
undisturbed one. Never a fresh start."""

import os
import shutil
import struct
import subprocess

import checkpoints
import metrics
import tiny

SAVED = 12  # checkpoints 4, 8, 12
STEPS = 14
RUN = tiny.Run(tiny.ALONE, steps=SAVED, save_steps=4, keep_last=0)


class Original:
    """The undamaged output folder that every case copies."""

    def __init__(self, suite):
        self.suite = suite
        self.references = tiny.References(suite)
        self.folder = None

    def copy_to(self, case, output):
        """A folder with checkpoints 4, 8 and 12."""
        if self.folder is None:
            self.folder = self.suite.settings.scratch / "original"
            launch = tiny.launch(RUN, case.settings.scratch, self.folder)
            case.expect(not any(case.finish(launch).codes()), "the first run must finish")
            case.expect(checkpoints.listed(self.folder) == [4, 8, 12], "it saves 4, 8 and 12")
        shutil.copytree(self.folder, output, symlinks=True)


def flip(case, path):
    """One bit of one byte."""
    data = bytearray(path.read_bytes())
    at = case.rng.randrange(len(data))
    data[at] ^= 1 << case.rng.randrange(8)
    path.write_bytes(data)
    case.flipped = at


def cut(case, path):
    """A shorter file, perhaps empty."""
    os.truncate(path, case.rng.randrange(path.stat().st_size))


def grow(case, path):
    """A longer file."""
    with open(path, "ab") as file:
        file.write(case.rng.randbytes(case.rng.randint(1, 5000)))


def delete(case, path):
    """No file."""
    path.unlink()


def zero(case, path):
    """A block of zeros, as file systems leave where data was never written."""
    data = bytearray(path.read_bytes())
    begin = case.rng.randrange(len(data))
    end = min(len(data), begin + 4096)
    if not any(data[begin:end]):  # it would be no damage
        return flip(case, path)
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)


def take_older(case, path):
    """The file of the same name of checkpoint 8."""
    older = path.parent.parent / "global_step8" / path.name
    path.write_bytes(older.read_bytes())


def swap(case, path):
    """Two files of one checkpoint under each other's names."""
    others = [p for p in checkpoints.files_of(path.parent) if p.read_bytes() != path.read_bytes()]
    other = case.rng.choice(others)
    aside = path.with_name("aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


def make_folder(case, path):
    """A folder in place of the file."""
    path.unlink()
    path.mkdir()


def make_fifo(case, path):
    """A pipe in place of the file: who opens it for reading waits."""
    path.unlink()
    os.mkfifo(path)


def make_loop(case, path):
    """A symbolic link to itself."""
    path.unlink()
    path.symlink_to(path.name)


DAMAGES = (flip, cut, grow, delete, zero, take_older, swap, make_folder, make_fifo, make_loop)


def resume(case, output, layout=tiny.ALONE):
    """The next start, from step 12 or an older one, up to step 14."""
    run = tiny.Run(layout, steps=STEPS, save_steps=4, keep_last=0)
    return case.finish(tiny.launch(run, case.settings.scratch, output))


def check_merged(case, original, output):
    """All starts together make the undisturbed run."""
    run = tiny.Run(tiny.ALONE, steps=STEPS)
    path = output / "metrics.jsonl"
    problem = metrics.difference(original.references.steps(run), metrics.steps(path), STEPS)
    case.expect(not problem, f"the merged run differs: {problem}")


def check_older(case, job, what, words):
    """Checkpoint 12 was not taken, 8 was, and all `words` are told."""
    case.expect_codes(job, (0,), f"{what}:")
    at = checkpoints.resumed_at(job)
    case.expect(at == 8, f"{what}: resumed at step {at}, expected 8")
    for word in words:
        case.expect(word in job.err(), f"{what}: stderr must name {word}")


def verify(case, folder):
    """What `fmengine checkpoint verify` says, and its exit code."""
    words = [str(case.settings.build / "fmengine-checkpoint"), "verify", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=tiny.VERIFY_S)
    return done.returncode, done.stdout + done.stderr


def words_of(case, path, before, damage):
    """What a message about this damage must name."""
    if damage in (swap, take_older):  # one of two files that do not fit together is named
        return [path.parent.name]
    words = [path.parent.name, path.name]
    if damage is flip and path.suffix == ".safetensors":
        (length,) = struct.unpack("<Q", before[:8])
        if case.flipped >= 8 + length:
            words.append(", elements [")
            case.count("in a tensor")
    return words


def check_verify(case, path, words):
    """Damage is found without a run."""
    code, said = verify(case, path.parent)
    case.expect(code == 12, f"verify: exit code {code}, expected 12: {said}")
    for word in words:
        case.expect(word in said, f"verify must name {word}: {said}")
    code, said = verify(case, path.parent.parent / "global_step8")
    case.expect(code == 0, f"verify of a whole one: exit code {code}: {said}")


def damaged(case, original, damage):
    """One damaged file of the newest checkpoint."""
    output = case.folder / "out"
    original.copy_to(case, output)
    path = case.rng.choice(checkpoints.files_of(output / "global_step12"))
    before = path.read_bytes()
    damage(case, path)
    if path.is_file() and not path.is_symlink() and path.read_bytes() == before:
        return  # an older state.json may be the same; then there is no damage
    words = words_of(case, path, before, damage)
    check_verify(case, path, words)
    job = resume(case, output)
    check_older(case, job, f"{damage.__name__} of {path.name}", words)
    check_merged(case, original, output)


def all_damaged(case, original):
    """No checkpoint is whole: 12, and no fresh start."""
    output = case.folder / "out"
    original.copy_to(case, output)
    for step in (4, 8, 12):
        flip(case, case.rng.choice(checkpoints.files_of(output / f"global_step{step}")))
    before = (output / "metrics.jsonl").read_bytes()
    job = resume(case, output)
    case.expect_codes(job, (12,))
    case.expect(checkpoints.printed_step(job) == 0, "no step may be trained")
    case.expect((output / "metrics.jsonl").read_bytes() == before, "metrics.jsonl was changed")


def emptied(case, original):
    """The folder of the newest checkpoint is there without files."""
    output = case.folder / "out"
    original.copy_to(case, output)
    for path in checkpoints.files_of(output / "global_step12"):
        path.unlink()
    job = resume(case, output)
    case.expect_codes(job, (0,))
    case.expect(checkpoints.resumed_at(job) == 8, "checkpoint 8 is the newest whole one")
    check_merged(case, original, output)


def missing(case, original):
    """The folder of the newest checkpoint is gone, `latest` names it still."""
    output = case.folder / "out"
    original.copy_to(case, output)
    shutil.rmtree(output / "global_step12")
    job = resume(case, output)
    case.expect_codes(job, (0,))
    case.expect(checkpoints.resumed_at(job) == 8, "checkpoint 8 is the newest whole one")
    check_merged(case, original, output)


def renamed(case, original):
    """A copy of checkpoint 4 under the name of a later one must not pass for it."""
    output = case.folder / "out"
    original.copy_to(case, output)
    shutil.copytree(output / "global_step4", output / "global_step13")
    job = resume(case, output)
    case.expect_codes(job, (0,))
    case.expect(checkpoints.resumed_at(job) == 12, "checkpoint 12 is the newest whole one")
    check_merged(case, original, output)


LATEST = {
    "none": None,
    "empty": b"",
    "older": b"global_step4",
    "absent": b"global_step99",
    "random": b"\x00\xff\xfe\n/",
    "path": b"../../etc",
}


def latest(case, original, content):
    """`latest` says something else: the newest whole checkpoint counts."""
    output = case.folder / "out"
    original.copy_to(case, output)
    (output / "latest").unlink()
    if content is not None:
        (output / "latest").write_bytes(content)
    job = resume(case, output)
    case.expect_codes(job, (0,))
    case.expect(checkpoints.resumed_at(job) == 12, "checkpoint 12 is the newest whole one")
    check_merged(case, original, output)


def lock(case, original):
    """A LOCK file of anything keeps nobody out when nobody holds it."""
    output = case.folder / "out"
    original.copy_to(case, output)
    (output / "LOCK").write_bytes(case.rng.randbytes(200))
    job = resume(case, output)
    case.expect_codes(job, (0,))
    check_merged(case, original, output)


def by_two_ranks(case, original):
    """A flip is found by whichever rank reads the byte."""
    output = case.folder / "out"
    original.copy_to(case, output)
    path = case.rng.choice(checkpoints.files_of(output / "global_step12"))
    flip(case, path)
    job = resume(case, output, tiny.MPIRUN)
    check_older(case, job, f"flip of {path.name}", ["global_step12", path.name])


def run(suite):
    """All cases."""
    original = Original(suite)
    suite.repeat("flip", 800, damaged, original, flip, least=8)
    for damage in DAMAGES[1:]:
        suite.repeat(damage.__name__.replace("_", " "), 100, damaged, original, damage, least=2)
    suite.repeat("flip, 2 ranks", 200, by_two_ranks, original, least=2)
    suite.repeat("all damaged", 60, all_damaged, original)
    for body in (emptied, missing, renamed, lock):
        suite.case(body.__name__, body, original)
    for name, content in LATEST.items():
        suite.case(f"latest/{name}", latest, original, content)
