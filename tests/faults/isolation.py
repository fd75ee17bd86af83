"""Where a family runs: own namespaces of processes, mounts and network, which the kernel takes
away with the last process, however it ended. Needs root or user namespaces; without them the
family runs as it is and the cases that mount or cut links are skipped."""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
MARK = "FM_FAULTS"  # variable of every process of a family; its value is the scratch folder
WORDS = "unshare --mount --net --pid --fork --kill-child --mount-proc".split()
LEVELS = {
    "root": WORDS,
    "user": [*WORDS, "--user", "--map-root-user"],
    "none": [],
}
PR_SET_PDEATHSIG = 1


def level():
    """The strongest level that this machine allows."""
    for name in ("root", "user"):
        with contextlib.suppress(OSError):
            probe = [*LEVELS[name], sys.executable, "-Bc", "import isolation; isolation.enter()"]
            done = subprocess.run(probe, capture_output=True, timeout=300, cwd=HERE)
            if done.returncode == 0:
                return name
    return "none"


def enter():
    """First thing inside: 127.0.0.1, a /run of our own, where ip keeps its namespaces, and a
    /dev/shm of our own, where OpenMPI names files by host and pid: two families share both."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for folder in ("/run", "/dev/shm"):
        subprocess.run(["mount", "-t", "tmpfs", "faults", folder], check=True)


def die_with_parent():
    """For preexec_fn: SIGKILL when the parent dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def processes_with(name, value):
    """Pids of living processes with this variable; one that is a zombie has none."""
    entry = f"{name}={value}".encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", "rb") as file:
                if entry in file.read().split(b"\0"):
                    found.append(int(pid))
    return found


def kill_all(name, value, limit_s=60):
    """Kills processes with this variable until none is left: a launcher may start one more."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        alive = [pid for pid in processes_with(name, value) if pid != os.getpid()]
        if not alive:
            return True
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return False
