"""Before the ranks have met: ranks that do not come, die or do not agree, other services on the
port, and strangers. Every wait keeps --timeout_s, every rank says why it ends."""

import dataclasses
import os
import signal
import time

import jobs
import metrics
import sockets
import tiny

STEPS = 6
LIMIT_S = 3  # --timeout_s where the meeting must fail
HAND = tiny.Layout("by hand", starter="hand")
THREE = tiny.Layout("by hand 3 ranks", starter="hand", ranks=3, zero=3)


def start(case, only, timeout_s=LIMIT_S, name="out", **changes):
    """Some ranks of a job by hand."""
    run = tiny.Run(HAND, steps=STEPS, save_steps=0, timeout_s=timeout_s)
    launch = tiny.launch(run, case.settings.scratch, case.folder / name, only=only, **changes)
    return run, case.start(launch)


def check_numbers(case, references, run, output):
    """The run is the undisturbed one."""
    got = metrics.steps(output / "metrics.jsonl")
    problem = metrics.difference(references.steps(run), got, STEPS)
    case.expect(not problem, f"the run differs: {problem}")


def wait_for_port(job):
    """Until rank 0 listens; its ports."""
    return jobs.eventually(jobs.PATIENCE_S, lambda: sockets.listening(job.alive()) or job.ended())


def visited(case, kind, references):
    """Strangers at every port of rank 0 while rank 1 is on its way: they change nothing."""
    run, job = start(case, (0,), timeout_s=120)
    wait_for_port(job)
    strangers = sockets.Strangers(case.rng)
    case.undo.append(strangers.close)
    end = time.monotonic() + case.rng.uniform(0.3, 1)
    while time.monotonic() < end:
        for port in sockets.listening(job.alive()):
            case.count("connections", strangers.visit(port, kind))
        time.sleep(0.1)
    job.start_rank(1)
    job.wait()
    case.expect_codes(job, (0,), f"with strangers ({kind}):")
    check_numbers(case, references, run, case.folder / "out")


def visited_mpirun(case, kind, references):
    """Strangers at every port of mpirun and its ranks from the first one on. Ports of mpirun itself
    are OpenMPI's: the run is right or ends within the limit."""
    run = tiny.Run(tiny.MPIRUN, steps=STEPS, save_steps=0, timeout_s=8)
    job = case.start(tiny.launch(run, case.settings.scratch, case.folder / "out"))
    strangers = sockets.Strangers(case.rng)
    case.undo.append(strangers.close)
    seen = set()
    end = time.monotonic() + 0.8
    while time.monotonic() < end and not job.ended():
        for port in set(sockets.listening(job.alive())) - seen:
            seen.add(port)
            case.count("connections", strangers.visit(port, kind))
    had_ranks = bool(job.ranks_alive())
    gone = jobs.eventually(jobs.PATIENCE_S, lambda: job.ended() or not job.ranks_alive(), 0.02)
    case.expect(gone, f"ranks live {jobs.PATIENCE_S} s behind the strangers")
    jobs.eventually(3, job.ended, 0.02)
    case.count("mpirun stayed", not job.ended())
    case.count("rc 0", job.codes() == [0])
    if job.codes() == [0]:
        check_numbers(case, references, run, case.folder / "out")
    case.count("attacked while ranks met", had_ranks)


def start_with_token(case, only):
    """Some of three ranks by hand that have a job token."""
    token = "".join(case.rng.choices("0123456789abcdef", k=40))
    run = tiny.Run(THREE, steps=STEPS, save_steps=3, timeout_s=120)
    launch = tiny.launch(
        run, case.settings.scratch, case.folder / "out",
        only=only, variables=(("FME_JOB_TOKEN", token),),
    )
    return run, case.start(launch), token


def check_secrecy(case, job, token):
    """The token is in the environment of the ranks and nowhere else."""
    for pid in job.alive():
        line = jobs.file_text(f"/proc/{pid}/cmdline")
        case.expect(token not in line, f"the command line of process {pid} shows the token")
    for path in sorted(case.folder.rglob("*")):
        if path.is_file():
            case.count("files searched")
            case.expect(token.encode() not in path.read_bytes(), f"{path} holds the token")


def crowded(case, kind, references):
    """100 strangers at once at every port of ranks with a job token, while the last rank is on its
    way: they change nothing, and nothing shows the token."""
    run, job, token = start_with_token(case, (0,))
    wait_for_port(job)
    relay = sockets.Relay(job.port)
    strangers = sockets.Strangers(case.rng)
    case.undo += [strangers.close, relay.close]
    job.start_rank(1, port=relay.port)
    # Rank 1 has proved itself and said hello, and listens for the mesh.
    met = jobs.eventually(
        jobs.PATIENCE_S, lambda: b"fmemeet1" in relay.recording or job.ended(), 0.02
    )
    case.expect(met and not job.ended(), "rank 1 must come to rank 0")
    speak = {
        "half handshake": strangers.half_handshake,
        "replay": lambda connection: connection.sendall(relay.recording),
        "wrong token": strangers.wrong_token,
        "no token": strangers.no_token,
        "garbage": lambda connection: connection.sendall(case.rng.randbytes(100)),
    }[kind]
    for port in sockets.listening(job.alive()):
        case.count("connections", strangers.crowd(port, speak))
    check_secrecy(case, job, token)
    job.start_rank(2)
    job.wait()
    case.expect_codes(job, (0,), f"with strangers ({kind}):")
    check_numbers(case, references, run, case.folder / "out")
    check_secrecy(case, job, token)


CROWDS = ("half handshake", "replay", "wrong token", "no token", "garbage")


def tokens_differ(case, others):
    """A rank that has another token, or none: 14 within the limit, and both say why."""
    run = tiny.Run(HAND, steps=STEPS, save_steps=0, timeout_s=10)  # both must come within it
    pairs = [("FME_JOB_TOKEN", "ab" * 16)], [("FME_JOB_TOKEN", others)] if others else []
    if case.rng.random() < 0.5:
        pairs = pairs[::-1]
    output = case.folder / "out"
    launches = [
        tiny.launch(run, case.settings.scratch, output, only=(rank,), variables=tuple(pairs[rank]))
        for rank in (0, 1)
    ]
    zero = case.start(launches[0])
    one = case.start(dataclasses.replace(launches[1], port=zero.port))
    for job in (zero, one):
        job.wait()
        case.expect_codes(job, (14,))
        case.expect_words(job, "FME_JOB_TOKEN")
        case.expect("abab" not in job.text(), "a message shows a token")


def other_service(case, kind):
    """Something else listens on MASTER_PORT: 14 within the limit."""
    listener = sockets.Listener(sockets.ANSWERS[kind])
    case.undo.append(listener.close)
    _, job = start(case, (1,), port=listener.port)
    job.wait()
    case.expect_codes(job, (14,))
    case.expect_words(job, str(listener.port))


def absent(case, rank):
    """A rank that never starts: 14 within the limit, and it is named."""
    _, job = start(case, (1 - rank,))
    job.wait()
    case.expect_codes(job, (14,))
    case.expect_words(job, f"rank {rank}")


def killed(case):
    """A rank dies while the third one is awaited: the other ends within the limit."""
    victim = case.rng.randrange(2)
    run = tiny.Run(HAND, steps=STEPS, save_steps=0, timeout_s=LIMIT_S)
    launch = tiny.launch(
        run, case.settings.scratch, case.folder / "out", ranks=3, only=(0, 1)
    )
    job = case.start(launch)
    time.sleep(case.rng.uniform(0, 2))
    job.send(victim, signal.SIGKILL)
    job.wait()
    code = job.codes()[1 - victim]
    case.expect(code in (14, 20), f"rank {1 - victim} ended with {code}, expected 14 or 20")


def ended(case, rank):
    """SIGTERM while another rank is awaited: 75, long before --timeout_s."""
    _, job = start(case, (rank,), timeout_s=2 * jobs.PATIENCE_S)
    pid = job.rank_pid(rank)
    jobs.eventually(jobs.PATIENCE_S, lambda: jobs.blocks(pid, signal.SIGTERM) or job.ended())
    time.sleep(case.rng.uniform(0, 1))
    os.kill(pid, signal.SIGTERM)
    job.wait()
    case.expect_codes(job, (75,), "SIGTERM in the meeting:")


def mixed(case, first):
    """Two jobs on one port: no rank trains with a rank of the other."""
    port = jobs.HeldPort()
    case.undo.append(port.close)
    run = tiny.Run(HAND, steps=STEPS, save_steps=0, timeout_s=LIMIT_S)
    both = []
    for name in ("a", "b"):
        output = case.folder / name
        both.append(tiny.launch(run, case.settings.scratch, output, port=port.number, only=(0,)))
    one, other = case.start(both[0]), case.start(both[1])
    time.sleep(0.3)
    for job in (other, one) if first == "other" else (one, other):
        job.start_rank(1)
        time.sleep(0.3)
    for job in (one, other):
        job.wait()
        finished = [code == 0 for code in job.codes()]
        text = f"the ranks of one job end with {one.codes()}, those of the other {other.codes()}"
        case.expect(len(set(finished)) == 1, text)
        case.count("jobs that trained", finished[0])


def wrong_flag(case, rank):
    """A rank that is started wrongly says so; the other ends within the limit."""
    _, job = start(case, (1 - rank,))
    job.start_rank(rank, [*job.launch.words, "--bogus", "1"])
    job.wait()
    case.expect(job.codes()[rank] == 10, f"exit code {job.codes()[rank]} of the wrong rank")
    said = jobs.file_text(job.folder / f"err.{rank}")
    case.expect("bogus" in said, "the rank that was started wrongly must name the flag")
    case.expect(job.codes()[1 - rank] != 0, "the other rank must not finish")


def twice(case):
    """Two processes with one rank: all end within the limit, none trains."""
    _, job = start(case, (0, 1), ranks=3)
    extra = case.start(job.launch.__class__(**{**vars(job.launch), "port": job.port, "only": (1,)}))
    for at in (job, extra):
        at.wait()
        case.expect(0 not in at.codes(), "nobody may finish")


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    for kind in sockets.KINDS:
        suite.repeat(f"{kind}, by hand", 12, visited, kind, references)
        least = 1 if kind in sockets.WORST else 0
        suite.repeat(f"{kind}, mpirun", 8, visited_mpirun, kind, references, least=least)
    for kind in CROWDS:
        suite.repeat(f"100 at once, {kind}", 8, crowded, kind, references)
    for name, token in (("another", "cd" * 16), ("none", "")):
        suite.repeat(f"token of one rank {name}", 6, tokens_differ, token)
    for kind in sockets.ANSWERS:
        suite.repeat(f"listener {kind}", 6, other_service, kind)
    for rank in (0, 1):
        suite.repeat(f"rank {rank} never comes", 6, absent, rank)
        suite.repeat(f"SIGTERM, rank {rank}", 10, ended, rank)
        suite.repeat(f"wrong flag of rank {rank}", 6, wrong_flag, rank)
    suite.repeat("killed", 20, killed)
    for first in ("same", "other"):
        suite.repeat(f"two jobs, {first} first", 10, mixed, first)
    suite.repeat("rank 1 twice", 6, twice)
