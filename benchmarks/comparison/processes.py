"""Starting one side of a comparison: lock, probe, memory, time limit, and the end of a launcher."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import time

POLL_S = 0.25
GRACE_S = 20  # for a launcher that hangs after its result is written
RANK_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_SIZE", "OMPI_COMM_WORLD_RANK")


class RunFailed(Exception):
    """A side ended without a result."""


@contextlib.contextmanager
def held(lock):
    """Holds an advisory lock on the file, when one is named."""
    if not lock:
        yield
        return
    with open(lock, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def parents():
    """{pid: parent} of every process that can be seen."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/stat") as file:
                found[int(entry)] = int(file.read().rsplit(")", 1)[1].split()[1])
    return found


def descendants(root):
    """Every process below `root`, deepest last."""
    parent_of = parents()
    found = [root]
    for pid in found:
        found += [child for child, parent in parent_of.items() if parent == pid]
    return found[1:]


def is_rank(pid):
    """True for a process that its launcher gave a rank."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            names = {item.split(b"=", 1)[0] for item in file.read().split(b"\0")}
    except OSError:
        return False
    return b"RANK" in names or b"OMPI_COMM_WORLD_RANK" in names


def kilobytes(path, key):
    """The value of a line `key: N kB`, in bytes; 0 when the process is gone."""
    with contextlib.suppress(OSError):
        with open(path) as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1]) * 1024
    return 0


class MemorySampler:
    """Peak over time of the sum of PSS over the ranks, and VmHWM of each."""

    def __init__(self):
        self.pss_peak = 0
        self.hwm_of = {}

    def sample(self, launcher):
        """One reading of every rank below the launcher."""
        ranks = [pid for pid in descendants(launcher) if is_rank(pid)]
        pss = sum(kilobytes(f"/proc/{pid}/smaps_rollup", "Pss") for pid in ranks)
        self.pss_peak = max(self.pss_peak, pss)
        for pid in ranks:
            hwm = kilobytes(f"/proc/{pid}/status", "VmHWM")
            self.hwm_of[pid] = max(self.hwm_of.get(pid, 0), hwm)

    def result(self):
        """What goes into a run's record, in bytes."""
        return {"pss_peak": self.pss_peak, "hwm_sum": sum(self.hwm_of.values())}


def cpu_ticks():
    """(stolen, all) ticks of /proc/stat since the machine started."""
    with open("/proc/stat") as file:
        ticks = [int(word) for word in file.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def stolen_fraction(before, after):
    """Part of the time between two readings that other tenants took."""
    return (after[0] - before[0]) / max(after[1] - before[1], 1)


def end(process):
    """Ends a launcher and everything it started: workers may have sessions of their own."""
    if process.poll() is not None:
        return
    for pid in [*descendants(process.pid), process.pid]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def is_json(path):
    """True when the file holds a whole JSON value."""
    try:
        with open(path) as file:
            json.load(file)
        return True
    except (OSError, ValueError):
        return False


def wait_for(process, done_file, timeout_s, sampler):
    """How the launcher ended: "exit N", or "ended" when it hung after writing its result."""
    begin = time.monotonic()
    done_at = None
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return f"exit {process.wait(POLL_S)}"
        now = time.monotonic()
        if sampler:
            sampler.sample(process.pid)
        if done_file and done_at is None and is_json(done_file):
            done_at = now
        if done_at is not None and now - done_at > GRACE_S:
            end(process)
            return "ended"
        if now - begin > timeout_s:
            end(process)
            raise RunFailed(f"no end within {timeout_s} s")


def tail(path, lines=8):
    """Last lines of a log, for a message."""
    with open(path, errors="replace") as file:
        return "".join(file.readlines()[-lines:])


def run(command, env, log, done_file=None, timeout_s=400, sampler=None):
    """Runs a command to its end; RunFailed with the end of its log otherwise."""
    with open(log, "w") as output:
        process = subprocess.Popen(
            command, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            ending = wait_for(process, done_file, timeout_s, sampler)
        except BaseException:
            end(process)
            raise
    # A peer that wrote its whole result and then fell at exit has finished.
    if not (is_json(done_file) if done_file else ending == "exit 0"):
        raise RunFailed(f"{ending}\n{tail(log)}")
    return ending


def clean_environment(**settings):
    """The environment without what another launcher left in it, one thread per rank."""
    env = {name: value for name, value in os.environ.items() if name not in RANK_NAMES}
    env.update(OMP_NUM_THREADS="1", **settings)
    return env


def run_probe(program, count):
    """The probe on `count` cores at once: one {"simd", "fma_gflops", "read_gb_s"} per core."""
    cores = sorted(os.sched_getaffinity(0))[:count]
    started = [
        subprocess.Popen(
            [program],
            stdout=subprocess.PIPE,
            preexec_fn=lambda core=core: os.sched_setaffinity(0, {core}),
        )
        for core in cores
    ]
    results = []
    for process in started:
        output, _ = process.communicate(timeout=30)
        if process.returncode != 0:
            raise RunFailed(f"the probe must run (exit {process.returncode})")
        results.append(json.loads(output))
    return results
