"""Faults over two hosts under `fmengine launch --max_restarts`: each is named, the launcher starts
the run again, and it ends with the numbers of an undisturbed one."""

import contextlib
import os
import signal
import subprocess

import checkpoints
import cluster
import disks
import engines
import examples
import jobs
import metrics
import suite
import tiny

STEPS = 60
RESTARTS = 3
RUN = tiny.Run(tiny.HAND, steps=STEPS, save_steps=2, timeout_s=20)
PORT = 29500  # where `fmengine launch` lets ranks meet
OTHER_OFFSET_S = 1_000_000  # between the monotonic clocks of the hosts


class Place:
    """What one case has: hosts, slow programs, an output folder, the running command."""

    def __init__(self, case, megabytes=0):
        launcher = case.settings.build / "fmengine-launch"
        if not launcher.exists():
            raise suite.Skipped("not built: fmengine launch")
        self.case = case
        self.output = case.folder / "out"
        if megabytes:
            disks.tmpfs(case, self.output, megabytes)
        self.programs = examples.Programs(case, 50)
        self.hosts = cluster.Cluster(case)
        self.job = None

    def start(self):
        """fmengine launch, on the first host, through ssh or pdsh."""
        build = self.case.settings.build
        launcher = self.case.rng.choice(["ssh", "pdsh"])
        words = [build / "fmengine", "launch", f"--hostfile={self.hosts.folder}/hostfile",
                 f"--launcher={launcher}", f"--max_restarts={RESTARTS}", "--",
                 self.programs.folder / "fmengine-train"]
        words += tiny.words(RUN, self.case.settings.scratch, self.output)
        self.job = self.case.start(jobs.Launch([], starter="none"))
        self.job.start(0, self.hosts.on("hosta", *words), {})
        self.case.count(launcher)

    def train(self):
        """Until both ranks train and a checkpoint is there, up to a random step."""
        step = self.case.rng.randint(3, 12)
        jobs.eventually(jobs.PATIENCE_S, lambda: self.job.ended() or (
            len(engines.ranks(self.output)) == 2 and checkpoints.listed(self.output)
            and metrics.last_step(self.output / "metrics.jsonl") >= step))
        found = engines.ranks(self.output)
        self.case.expect(len(found) == 2, f"2 ranks train, found {found}")
        self.programs.slow.unlink()  # what is started from now on is fast
        return found

    def finish(self, references, *words, restarts=None):
        """The launcher ends with 0, and everything that must be named is."""
        self.job.wait()
        self.case.expect_codes(self.job, (0,), "behind the fault:")
        self.case.expect_words(self.job, *words)
        said = self.job.text().count("fmengine-launch: restart ")
        self.case.count("restarts", said)
        if restarts is not None:
            self.case.expect(said == restarts, f"{said} restarts, expected {restarts}")
        path = self.output / "metrics.jsonl"
        problem = metrics.difference(references.steps(RUN), metrics.steps(path), STEPS)
        self.case.expect(not problem, f"the run differs: {problem}")
        problem = metrics.repeated(path)
        self.case.expect(not problem, f"metrics.jsonl must show every step once: {problem}")


def signalled(case, references, number, named):
    """A signal to a rank, which is then named like that."""
    place = Place(case)
    place.start()
    victim = case.rng.randrange(2)
    os.kill(place.train()[victim], number)
    place.finish(references, named.format(victim), restarts=1)


def killed(case, references):
    """SIGKILL of a rank."""
    signalled(case, references, signal.SIGKILL, "rank {} on host")


def stopped(case, references):
    """SIGSTOP of a rank, for ever."""
    signalled(case, references, signal.SIGSTOP, "rank {} (host")


def cut(case, references):
    """A cable that carries nothing until the other host's rank has given up."""
    place = Place(case)
    place.start()
    first = place.train()[0]
    disks.call("ip", "-n", "switch", "link", "set", "to_hostb", "nomaster")
    jobs.eventually(jobs.PATIENCE_S, lambda: first not in engines.ranks(place.output).values())
    disks.call("ip", "-n", "switch", "link", "set", "to_hostb", "master", "bridge")
    place.finish(references, "rank 1 (host ", restarts=1)


def slow(case, references):
    """A cable of 50 Mbit/s for the rest of the run."""
    place = Place(case)
    place.start()
    place.train()
    queue = ("tbf", "rate", "50mbit", "burst", "16kb", "latency", "50ms")
    disks.call("tc", "-n", "switch", "qdisc", "add", "dev", "to_hostb", "root", *queue)
    place.finish(references, restarts=0)


def full(case, references):
    """A disk that is full until the first run has ended because of it."""
    place = Place(case, megabytes=64)
    filler = place.output / "filler"
    place.start()
    place.train()
    with contextlib.suppress(OSError), open(filler, "wb") as file:
        while True:
            file.write(bytes(1 << 16))
    jobs.eventually(jobs.PATIENCE_S, lambda: "fmengine-launch: restart " in place.job.text()
                    or place.job.ended())
    filler.unlink()
    place.finish(references, "26")


def refused(case, references):
    """A key that the other host does not take: named, and nothing is trained; then it does."""
    place = Place(case)
    keys = place.hosts.folder / "authorized_keys"
    text = keys.read_text()
    keys.write_text("")
    place.start()
    place.job.wait()
    case.expect(place.job.codes()[0] not in (0, None), f"codes {place.job.codes()}")
    case.expect_words(place.job, "hostb", "Permission denied")
    case.expect(not metrics.last_step(place.output / "metrics.jsonl"), "nothing is trained")
    keys.write_text(text)
    place.programs.slow.unlink()
    place.start()
    place.finish(references)


def other_build(case, references):
    """A program that computes otherwise on the second host: refused before step 1, and not started
    again; then the same one."""
    place = Place(case)
    program = place.programs.folder / "fmengine-train"
    other = case.folder / "other"
    other.write_text(program.read_text().replace("exec", "FME_GEMM=onednn exec"))
    other.chmod(0o755)
    disks.call(*place.hosts.on("hostb", "mount", "--bind", other, program))
    place.programs.slow.unlink()
    place.start()
    place.job.wait()
    case.expect_codes(place.job, (10,), "with another build:")
    case.expect_words(place.job, "same build", "rank 1: ")
    case.expect("fmengine-launch: restart" not in place.job.text(), "10 is permanent")
    disks.call(*place.hosts.on("hostb", "umount", program))
    place.start()
    place.finish(references, restarts=0)


def port_in_use(case, references):
    """Another service where the ranks meet, which goes once they have said so."""
    place = Place(case)
    script = f"import socket; s = socket.create_server(('', {PORT})); print(1, flush=True); input()"
    held = subprocess.Popen(place.hosts.on("hosta", engines.PYTHON, "-c", script),
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    case.undo.append(held.kill)
    held.stdout.readline()
    place.programs.slow.unlink()
    place.start()
    jobs.eventually(jobs.PATIENCE_S, lambda: "fmengine-launch: restart " in place.job.text()
                    or place.job.ended())
    held.communicate(b"\n")
    place.finish(references, str(PORT))


def clock(case, references):
    """The monotonic clocks of the hosts are eleven days apart."""
    place = Place(case)
    place.hosts.restart_host("hostb", ("unshare", "--time", "--monotonic", str(OTHER_OFFSET_S)))
    place.start()
    place.train()
    place.finish(references, restarts=0)


FAULTS = {"kill": killed, "stop": stopped, "cut": cut, "slow link": slow, "full disk": full,
          "refused key": refused, "another build": other_build, "port in use": port_in_use,
          "clock": clock}


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    for name, body in FAULTS.items():
        suite.repeat(name, 33, body, references)
