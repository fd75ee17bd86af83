"""Parts of a device run that measure: ours beside peers, and where the time of a step goes."""
import json
import sys
import time

import kernel_classes
import runs
import workload


def ceilings(session):
    said = session.call("ceilings", [sys.executable, session.bundle / "ceilings.py"], 40)
    for name, value in json.loads(said.strip().splitlines()[-1]).items() if said else ():
        session.row(f"ceiling: {name}", value)


def ours(session, name, steps, limit):
    model = workload.MODELS[name]
    lines = session.train(f"{name} ours", workload.written(session.work, name), steps, limit)
    if not lines:
        return 0.0
    taken = max(line["device_mem_bytes"] for line in lines)
    return session.tell_rate(f"{name} ours", model, lines, f", card {taken / 1e9:.1f} GB")


def peer(session, name, variant, steps, limit):
    said = session.call(f"{name} peer {variant}",
                        [sys.executable, session.bundle / "peer.py", name, variant, steps,
                         workload.written(session.work, name)], limit)
    if said is None:
        return 0.0
    line = json.loads(said.strip().splitlines()[-1])
    session.row(f"{name} peer {variant}", f"{line['tokens_per_second']:,.0f} tokens/s",
                f"step {line['step_s']:.3f} s, first {line['first_step_s']:.1f} s, "
                f"allocated {line['allocated'] / 1e9:.1f} GB")
    return line["tokens_per_second"]


def pair(session, name):
    """Ours before and behind the peer, on the same card."""
    first = ours(session, name, 8, 70)
    best = max(peer(session, name, variant, 8, 120) for variant in ("B", "C"))
    second = ours(session, name, 8, 70)
    if best and (first or second):
        session.row(f"{name} ours / best peer", f"{max(first, second) / best:.3f}")


def g1(session):
    pair(session, "G1")


def g2(session):
    pair(session, "G2")


def g4(session):
    pair(session, "G4")


def profile(session):
    """A traced step of G1, by class of kernel, instruction and kernel; memory against the plan."""
    folder = workload.written(session.work, "G1")
    trace = session.out / "trace.json"
    lines = session.train("G1 traced", folder, 4, 90,
                          more=("--trace", trace, "--trace_steps", "3-3"))
    if not lines:
        return
    sums, step_ms = kernel_classes.sums_of(json.loads(trace.read_text())["traceEvents"])
    trace.unlink()  # it may be larger than what comes back
    plain = runs.median_step(lines[1:2])
    session.row("G1 traced step", f"{step_ms:.1f} ms", f"the one before it {1e3 * plain:.1f} ms")
    for group, most in (("class", 10), ("instruction", 12), ("kernel", 16)):
        for name, value, note in kernel_classes.lines_of(sums, step_ms, group, most):
            session.row(f"G1 {group} {name}", value, note)
    taken = [line["device_mem_bytes"] for line in lines]
    session.row("G1 memory taken after step 1", f"{max(taken) - taken[0]} bytes", "goal 0")
    planned = session.planned_bytes("G1", folder)
    if planned:
        session.row("G1 memory of the card / plan", f"{max(taken) / planned:.4f}",
                    f"{max(taken) / 1e9:.2f} and {planned / 1e9:.2f} GB, goal 0.98 to 1.02")


def start(session):
    """From exec to the end of step 1, without plans of attention kept from before, and with."""
    folder = workload.written(session.work, "G1")
    kept = {"XDG_CACHE_HOME": str(session.work / "plans")}
    for name in ("no plans kept", "plans kept"):
        begin = time.time()
        lines = session.train(f"G1 start, {name}", folder, 1, 60, variables=kept)
        if lines:
            session.row(f"G1 start to step 1, {name}", f"{lines[0]['time'] - begin:.1f} s",
                        f"of it the step {lines[0]['step_time']:.1f} s")


def choices(session):
    """What an order of sums that repeats itself costs (G7), and what cuDNN and timing gain."""
    canonical = workload.written(session.work, "G1", more={"communication_order": "canonical"},
                                 suffix="-canonical")
    folder = workload.written(session.work, "G1")
    times = {}
    for name, at, variables in (("default", folder, {}),
                                ("attention fast", folder, {"FME_ATTENTION": "fast"}),
                                ("attention own", folder, {"FME_ATTENTION": "own"}),
                                ("products tuned", folder, {"FME_GEMM": "tuned"}),
                                ("order canonical", canonical, {})):
        lines = session.train(f"G1 {name}", at, 8 if "tuned" in name else 6, 60,
                              variables=variables)
        if lines:
            times[name] = runs.median_step(lines[-4:])
    for name, spent in times.items():
        if name != "default" and "default" in times:
            session.row(f"G1 step, {name} / default", f"{spent / times['default']:.3f}",
                        f"{spent:.3f} and {times['default']:.3f} s")


def offload(session):
    """The optimizer in host memory against on the card: the same results, and what both cost."""
    rates, found = {}, {}
    for tier in ("none", "cpu", "none again"):
        zero = {"stage": 1, "offload_optimizer": {"device": tier.split()[0], "pin_memory": True}}
        folder = workload.written(session.work, "G1", "bf16", zero, suffix=f"-offload-{tier}")
        lines = session.train(f"G1 offload {tier}", folder, 8, 90)
        if not lines:
            continue
        found[tier] = runs.results(lines)
        rates[tier] = session.tell_rate(f"G1 optimizer offload {tier}", workload.MODELS["G1"], lines)
    without = max(rates.get("none", 0.0), rates.get("none again", 0.0))
    if "cpu" not in rates or not without:
        return
    session.row("G1 offload cpu / none", f"{rates['cpu'] / without:.3f}", "goal 0.70")
    same = all(other == found["cpu"] for other in found.values())
    session.row("G1 offload cpu, losses and norms", "same bits" if same else "DIFFERENT")
