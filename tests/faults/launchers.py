"""Engines that people start ranks with: two ranks of each have the same losses, and where one is
killed, the engine ends with a code that says so and the other rank names it."""

import collections
import contextlib
import os
import signal
import time

import cluster
import engines
import jobs
import metrics
import suite
import tiny

STEPS = 12
ENDLESS = 1_000_000  # steps of a run that a kill must end
RUN = tiny.Run(tiny.HAND, steps=STEPS, save_steps=0)


class Hosts:
    """The two hosts of all cases, made when the first one asks for them."""

    def __init__(self, run):
        self.place = collections.namedtuple("Place", "settings folder undo")(
            run.settings, run.settings.scratch / "hosts", [])
        self.made = None
        self.reason = None

    def get(self, kind):
        """`kind`: ssh or slurm."""
        if self.reason:
            raise suite.Skipped(self.reason)
        try:
            if self.made is None:
                self.made = cluster.Cluster(self.place)
            if kind == "slurm":
                self.made.need_slurm()
        except suite.Skipped as reason:
            self.reason = str(reason)
            raise
        return self.made

    def close(self):
        """They go with the family."""
        for call in reversed(self.place.undo):
            with contextlib.suppress(OSError):
                call()


def start(case, hosts, engine, steps):
    """A job under this engine."""
    build = case.settings.build
    engines.require(engine, build)
    made = hosts.get(engine.hosts) if engine.hosts else None
    run = tiny.Run(tiny.HAND, steps=steps, save_steps=0, timeout_s=2 * jobs.PATIENCE_S)
    words = tiny.words(run, case.settings.scratch, case.folder / "out")
    return case.start(engines.launch(engine, words, made, build))


def all_gone(job, output):
    """No process of the engine and no rank lives."""
    return job.ended() and not engines.ranks(output)


def finished(case, hosts, engine, references, seconds):
    """The run ends, and its numbers are those of ranks that were started by hand."""
    begin = time.monotonic()
    job = start(case, hosts, engine, STEPS)
    job.wait()
    seconds[engine.name] = [time.monotonic() - begin]
    case.expect_codes(job, (0,), engine.name)
    got = metrics.steps(case.folder / "out" / "metrics.jsonl")
    problem = metrics.difference(references.steps(RUN), got, STEPS)
    case.expect(not problem, f"the run differs: {problem}")


def killed(case, hosts, engine, seconds):
    """kill -9 of a rank in training: all are gone, the code says it, the rank is named."""
    output = case.folder / "out"
    job = start(case, hosts, engine, ENDLESS)
    ready = lambda: metrics.last_step(output / "metrics.jsonl") >= 2 and len(engines.ranks(output)) == 2
    jobs.eventually(jobs.PATIENCE_S, lambda: ready() or job.ended())
    victim = (int(case.name.rsplit("/", 1)[1]) + case.settings.seed) % 2
    os.kill(engines.ranks(output)[victim], signal.SIGKILL)
    begin = time.monotonic()
    took = []
    for condition in (lambda: not engines.ranks(output), lambda: all_gone(job, output)):
        gone = jobs.eventually(jobs.PATIENCE_S, condition, 0.01)
        took.append(time.monotonic() - begin)
        case.expect(gone, f"{engine.name}: processes live {jobs.PATIENCE_S} s behind the kill")
    codes = job.codes()
    ends = f"ranks gone in {took[0]:.2f} s, engine in {took[1]:.2f} s, code {codes}"
    print(f"{engine.name:24} rank {victim} killed: {ends}", flush=True)
    seconds.setdefault(engine.name, []).extend(took)
    if engine.starter == "pet":
        case.expect(codes.pop(victim) == 137, f"rank {victim} was killed ({codes})")
    case.expect(set(codes) <= set(engine.killed), f"exit codes {codes}, expected {engine.killed}")
    # An engine may end the other rank before it has passed on what that wrote: then it names the
    # victim itself.
    names = (f"rank {victim} (host ", f"rank {victim} on host", f"task {victim}: Killed")
    case.expect(any(name in job.text() for name in names), f"nothing names rank {victim}")


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    hosts = Hosts(suite)
    seconds = {}
    try:
        for engine in engines.ENGINES:
            suite.case(f"{engine.name}/run", finished, hosts, engine, references, seconds)
            share = 20 if engine.modules else 60  # those of Python take seconds to begin
            suite.repeat(f"{engine.name}/kill", share, killed, hosts, engine, seconds)
    finally:
        hosts.close()
    print(f"{'engine':24} {'run, s':>8}  then s until ranks and engine are gone, for each kill")
    for name, row in seconds.items():
        print(f"{name:24} " + " ".join(f"{value:8.2f}" for value in row))
