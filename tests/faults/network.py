"""Two hosts as network namespaces behind a switch, which is a third one: links that are cut for
ever end all ranks with 20, links that heal change nothing."""

import time

import checkpoints
import disks
import jobs
import metrics
import suite
import tiny

STEPS = 60
ENDLESS = 1_000_000  # steps of a run that a cut must end, by 8 s of silence
LAYOUT = tiny.Layout("2 hosts", starter="hand", ranks=4, zero=2, hosts=("a", "a", "b", "b"))
ADDRESSES = {"a": "10.77.0.1", "b": "10.77.0.2"}


def make_hosts(case, addresses=None):
    """A namespace for each name, with one cable to a bridge in the namespace `switch`."""
    addresses = addresses or ADDRESSES
    if case.settings.level == "none":
        raise suite.Skipped("network namespaces need root or user namespaces")
    for space in ("switch", *addresses):
        disks.call("ip", "netns", "add", space)
        case.undo.append(lambda name=space: disks.call("ip", "netns", "delete", name))
        disks.call("ip", "-n", space, "link", "set", "lo", "up")
    disks.call("ip", "-n", "switch", "link", "add", "bridge", "type", "bridge")
    disks.call("ip", "-n", "switch", "link", "set", "bridge", "up")
    for space, address in addresses.items():
        port = f"to_{space}"
        disks.call("ip", "-n", "switch", "link", "add", port, "type", "veth",
                   "peer", "name", "card", "netns", space)
        disks.call("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "card")
        disks.call("ip", "-n", space, "link", "set", "card", "up")
        disks.call("ip", "-n", "switch", "link", "set", port, "master", "bridge")
        disks.call("ip", "-n", "switch", "link", "set", port, "up")


CUTS = {  # how a cable fails: the words behind `ip -n switch link set PORT`, and those that heal it
    "down": (["down"], ["up"]),
    "silent": (["nomaster"], ["master", "bridge"]),
}


def start(case, steps):
    """4 ranks on 2 hosts, up to a random step."""
    make_hosts(case)
    run = tiny.Run(LAYOUT, steps=steps, save_steps=20, timeout_s=2 * jobs.PATIENCE_S)
    launch = tiny.launch(
        run, case.settings.scratch, case.folder / "out",
        spaces=LAYOUT.hosts, address=ADDRESSES["a"],
    )
    job = case.start(launch)
    at = case.rng.randint(1, STEPS // 3)
    jobs.eventually(jobs.PATIENCE_S, lambda: checkpoints.printed_step(job) >= at or job.ended())
    return run, job


def set_link(port, words):
    """One end of a cable at the switch."""
    disks.call("ip", "-n", "switch", "link", "set", port, *words)


def cut(case, kind):
    """For ever: all ranks end with 20, long before --timeout_s."""
    _, job = start(case, ENDLESS)
    set_link(case.rng.choice(["to_a", "to_b"]), CUTS[kind][0])
    job.wait()
    case.expect_codes(job, (20,), "behind a cut:")
    for side, ranks in ((0, (2, 3)), (2, (0, 1))):
        said = "".join(jobs.file_text(job.folder / f"err.{rank}") for rank in ranks)
        named = f"fmengine: rank {side} (host " in said and "cut off: silent for" in said
        case.expect(named, f"ranks {ranks} do not name rank {side}: {said[-500:]}")


def healed(case, kind, references):
    """For some seconds: the run goes on."""
    run, job = start(case, STEPS)
    port = case.rng.choice(["to_a", "to_b"])
    set_link(port, CUTS[kind][0])
    time.sleep(case.rng.uniform(1, 2.5))
    set_link(port, CUTS[kind][1])
    case.count("came too late", job.ended())
    job.wait()
    case.expect_codes(job, (0,), "behind a cut that healed:")
    got = metrics.steps(case.folder / "out" / "metrics.jsonl")
    problem = metrics.difference(references.steps(run), got, STEPS)
    case.expect(not problem, f"the run differs: {problem}")


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    for kind in CUTS:
        suite.repeat(f"cut, {kind}", 6, cut, kind)
        suite.repeat(f"healed, {kind}", 6, healed, kind, references)
