"""One start of a program as a user makes it: alone, as ranks by hand, under mpirun."""

import contextlib
import dataclasses
import os
import pathlib
import resource
import signal
import socket
import subprocess
import time

import isolation

# A watchdog on a busy machine for what takes seconds. No program is right or wrong by it: where a
# time is promised, the program keeps its own --timeout_s and says so by its exit code.
PATIENCE_S = 300
JOB = "FM_FAULTS_JOB"  # variable of every process of a job; its value is the job's folder
FOREIGN = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMIX_", "PMI_", "SLURM_", "ORTE_")
FOREIGN += ("FME_", "OMP_", "TORCHELASTIC_", "PET_", "RAY_")

# Variables of ranks that are started one by one.
BY_RANK = {
    "hand": {
        "MASTER_ADDR": "{address}",
        "MASTER_PORT": "{port}",
        "WORLD_SIZE": "{count}",
        "RANK": "{rank}",
        "LOCAL_RANK": "{rank}",
        "LOCAL_WORLD_SIZE": "{count}",
    },
    "pet": {
        "PET_MASTER_ADDR": "{address}",
        "PET_MASTER_PORT": "{port}",
        "PET_NNODES": "{count}",
        "PET_NODE_RANK": "{rank}",
        "PET_NPROC_PER_NODE": "1",
    },
}


class Endless(Exception):
    """A job did not end within its limit."""


@dataclasses.dataclass(frozen=True)
class Launch:
    """What is started."""

    words: list  # arguments of the program, the same for all ranks
    starter: str = "mpirun"  # mpirun, hand, pet, alone, engine, none
    ranks: int = 2
    hosts: tuple = ()  # FME_HOST of every rank, by hand
    spaces: tuple = ()  # network namespace of every rank, by hand
    address: str = "127.0.0.1"
    port: int = 0  # 0: a free one
    engine: tuple = ()  # words before the program, where an engine starts it
    only: tuple = ()  # ranks to start now, by hand; () is all
    program: str = "fmengine-train"
    memory: int = 0  # RLIMIT_AS in bytes
    cpu_s: int = 0  # RLIMIT_CPU: work without an end is seen on a busy machine, too
    variables: tuple = ()  # further (name, value)


class HeldPort:
    """A port that nobody else gets: bound, but not listened at. A rank 0 may listen there, because
    both set SO_REUSEADDR; where none does, connections are refused."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self.socket.family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.bind(("", 0))
        self.number = self.socket.getsockname()[1]

    def close(self):
        """Anybody may have it."""
        self.socket.close()


def eventually(limit, condition, pause=0.005):
    """Waits for a condition; its last value."""
    end = time.monotonic() + limit
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(pause)


def blocks(pid, number):
    """True for a process that keeps this signal for itself: the default action is not taken."""
    lines = file_text(f"/proc/{pid}/status").splitlines()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith("SigBlk:")]
    return any(mask >> (number - 1) & 1 for mask in masks)


def has_variable(pid, entry):
    """True for a living process with NAME=value."""
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/environ", "rb") as file:
            return entry.encode() in file.read().split(b"\0")
    return False


def file_text(path):
    """A file's text; "" when there is none."""
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


class Job:
    """Processes with a mark in their environment, by which all of them are found."""

    def __init__(self, settings, launch, folder):
        self.launch = launch
        self.folder = folder
        self.scratch = settings.scratch
        self.program = str(settings.build / launch.program)
        self.held = None if launch.port else HeldPort()
        self.port = launch.port or self.held.number
        self.started = {}  # key -> Popen; the key is a rank by hand, else 0
        folder.mkdir(parents=True)
        self.begin = time.monotonic()
        if launch.starter in BY_RANK:
            for rank in launch.only or range(launch.ranks):
                self.start_rank(rank)
        elif launch.starter == "mpirun":
            words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(launch.ranks)]
            self.start(0, [*words, self.program, *launch.words], {})
        elif launch.starter == "engine":
            words = [word.replace("PORT", str(self.port)) for word in launch.engine]
            self.start(0, [*words, self.program, *launch.words], {})
        elif launch.starter == "alone":
            self.start(0, [self.program, *launch.words], {})

    def start_rank(self, rank, words=None, port=0):
        """One rank by hand; it may look for rank 0 at another port."""
        launch = self.launch
        count = str(launch.ranks)
        values = {"address": launch.address, "port": port or self.port, "count": count, "rank": rank}
        variables = {n: v.format(**values) for n, v in BY_RANK[launch.starter].items()}
        if launch.hosts:
            variables["FME_HOST"] = launch.hosts[rank]
        inside = ["ip", "netns", "exec", launch.spaces[rank]] if launch.spaces else []
        self.start(rank, [*inside, self.program, *(words or launch.words)], variables)

    def start(self, key, words, variables):
        """One process with its outputs in files."""
        environment = {n: v for n, v in os.environ.items() if not n.startswith(FOREIGN)}
        environment.update(variables)
        environment.update({"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1"})
        environment.update({"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", JOB: str(self.folder)})
        environment["TMPDIR"] = str(self.scratch)  # mpirun's; root's may be another's
        environment.update(self.launch.variables)
        limits = {resource.RLIMIT_AS: self.launch.memory, resource.RLIMIT_CPU: self.launch.cpu_s}

        def prepare():
            isolation.die_with_parent()
            for kind, most in limits.items():
                if most:
                    resource.setrlimit(kind, (most, most))

        with open(self.folder / f"out.{key}", "ab") as out, open(
            self.folder / f"err.{key}", "ab"
        ) as err:
            self.started[key] = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                preexec_fn=prepare,
                start_new_session=True,
            )

    def alive(self):
        """Pids of everything that this job started and that lives."""
        return isolation.processes_with(JOB, str(self.folder))

    def rank_pid(self, rank):
        """Pid of a rank; None while there is none."""
        if self.launch.starter != "mpirun":
            return self.started[rank].pid
        for pid in self.alive():
            if has_variable(pid, f"OMPI_COMM_WORLD_RANK={rank}"):
                return pid
        return None

    def ranks_alive(self):
        """Pids of living processes of the program, without launchers."""
        if self.launch.starter != "mpirun":
            return [p.pid for p in self.started.values() if p.poll() is None]
        launcher = self.started[0].pid
        return [pid for pid in self.alive() if pid != launcher and self.is_rank(pid)]

    def is_rank(self, pid):
        """True where mpirun has given a rank."""
        return any(has_variable(pid, f"OMPI_COMM_WORLD_RANK={r}") for r in range(self.launch.ranks))

    def send(self, rank, number):
        """A signal to a rank; False when it is not there."""
        pid = self.rank_pid(rank)
        if pid is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    def ended(self):
        """True when every started process has ended and no child lives."""
        return all(p.poll() is not None for p in self.started.values()) and not self.alive()

    def wait(self, limit=PATIENCE_S):
        """Waits for the end; Endless at the limit."""
        if not eventually(limit, self.ended, 0.01):
            raise Endless(f"no end within {limit} s ({len(self.alive())} processes live)")
        return self.codes()

    def codes(self):
        """Exit codes in order of the ranks; 128 + signal when killed."""
        codes = [self.started[key].poll() for key in sorted(self.started)]
        return [128 - code if code is not None and code < 0 else code for code in codes]

    def out(self):
        """All of stdout."""
        return "".join(file_text(path) for path in sorted(self.folder.glob("out.*")))

    def err(self):
        """All of stderr."""
        return "".join(file_text(path) for path in sorted(self.folder.glob("err.*")))

    def text(self):
        """Both."""
        return self.out() + self.err()

    def tail(self, lines=8):
        """The end of both, and the codes."""
        parts = [f"exit codes {self.codes()}"]
        for name, text in (("out", self.out()), ("err", self.err())):
            told = [line for line in text.splitlines() if line.strip("- ")]
            parts += [f"{name}: {line[:300]}" for line in told[-lines:]]
        return "\n".join(parts)

    def close(self):
        """Kills what still lives; True when nothing is left."""
        gone = isolation.kill_all(JOB, str(self.folder))
        for process in self.started.values():
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if self.held:
            self.held.close()
        return gone
