"""Strangers at every open port of a run that trains. Ranks by hand have none by then; mpirun's own
belong to OpenMPI, there only the ranks' end is ours."""

import checkpoints
import jobs
import metrics
import sockets
import tiny

STEPS = 300
LIMIT_S = 8  # --timeout_s of ranks whose mpirun is disturbed


def start(case, layout, timeout_s=120):
    """A run up to a random step."""
    run = tiny.Run(layout, steps=STEPS, save_steps=0, timeout_s=timeout_s)
    job = case.start(tiny.launch(run, case.settings.scratch, case.folder / "out"))
    at = case.rng.randint(1, 40)
    jobs.eventually(jobs.PATIENCE_S, lambda: checkpoints.printed_step(job) >= at or job.ended())
    strangers = sockets.Strangers(case.rng)
    case.undo.append(strangers.close)
    return run, job, strangers


def check_numbers(case, references, run):
    """The run is the undisturbed one."""
    got = metrics.steps(case.folder / "out" / "metrics.jsonl")
    problem = metrics.difference(references.steps(run), got, STEPS)
    case.expect(not problem, f"the run differs: {problem}")


def at_ranks(case, layout, kind, references):
    """Strangers at ports of ranks, who stay: the run is the undisturbed one."""
    run, job, strangers = start(case, layout)
    ports = sockets.listening(job.ranks_alive())
    case.count("ports", len(ports))
    for port in ports:
        case.count("connections", strangers.visit(port, kind))
    job.wait()
    case.expect_codes(job, (0,), f"with strangers ({kind}) at the ports of ranks:")
    check_numbers(case, references, run)


def at_launcher(case, kind, references):
    """Strangers at mpirun's own ports, who stay: the run is the undisturbed one, or every rank is
    gone within the limit."""
    run, job, strangers = start(case, tiny.MPIRUN, LIMIT_S)
    for port in sockets.listening([job.started[0].pid]):
        case.count("connections", strangers.visit(port, kind))
    gone = jobs.eventually(jobs.PATIENCE_S, lambda: job.ended() or not job.ranks_alive(), 0.02)
    case.expect(gone, f"ranks live {jobs.PATIENCE_S} s behind the strangers")
    jobs.eventually(3, job.ended, 0.02)
    case.count("mpirun stayed", not job.ended())
    case.count("rc 0", job.codes() == [0])
    if job.codes() == [0]:
        check_numbers(case, references, run)


def no_ports(case, layout, references):
    """Ranks by hand close their ports when they have met."""
    run, job, _ = start(case, layout)
    ports = sockets.listening(job.ranks_alive())
    case.expect(not ports, f"ports {ports} are open while the ranks train")
    job.wait()
    case.expect_codes(job, (0,))
    check_numbers(case, references, run)


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    for kind in sockets.KINDS:
        least = 1 if kind in sockets.WORST else 0
        for layout in (tiny.MPIRUN, tiny.PRIVATE):
            row = f"{kind}, {layout.name}"
            suite.repeat(row, 8, at_ranks, layout, kind, references, least=least)
        suite.repeat(f"{kind}, mpirun itself", 8, at_launcher, kind, references, least=least)
    for layout in (tiny.HAND, tiny.HOSTS):
        suite.repeat(f"no port, {layout.name}", 8, no_ports, layout, references)
