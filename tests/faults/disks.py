"""Small file systems for a case: they are mounted in the family's own namespace and unmounted
with the case."""

import subprocess

import suite

NEEDS = "mounting needs root or user namespaces"
LOOP_NEEDS = "mounting an image needs root and a loop device"


def call(*words):
    """A command that must succeed."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def may_mount(case):
    """Skips the case where nothing can be mounted."""
    if case.settings.level == "none":
        raise suite.Skipped(NEEDS)


def unmount(path):
    """Until nothing is mounted there; lazily, for a process that dies may hold it still."""
    while subprocess.run(["umount", "-l", str(path)], capture_output=True).returncode == 0:
        pass


def mount(case, path, *words):
    """mount WORDS PATH, undone with the case."""
    path.mkdir(parents=True, exist_ok=True)
    call("mount", *words, path)
    case.undo.append(lambda: unmount(path))


def tmpfs(case, path, megabytes):
    """A file system of this size in memory."""
    may_mount(case)
    mount(case, path, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs")


def make_ext4(case, image, megabytes=48):
    """An image file with an empty ext4."""
    may_mount(case)
    with open(image, "wb") as file:
        file.truncate(megabytes << 20)
    call("mkfs.ext4", "-q", "-F", image)


def mount_image(case, image, path, options="commit=300"):
    """Mounts an image through a loop device that goes with the mount."""
    try:
        mount(case, path, "-o", f"loop,{options}", image)
    except OSError as error:
        raise suite.Skipped(LOOP_NEEDS) from error
