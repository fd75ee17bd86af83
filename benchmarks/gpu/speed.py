"""Parts of a device run that measure: ours beside peers, and where the time of a step goes."""
import gzip
import json
import os
import statistics
import sys
import time

import kernel_classes
import runs
import workload


def ceilings(session):
    said = session.call("ceilings", [sys.executable, session.bundle / "ceilings.py"], 40)
    for name, value in json.loads(said.strip().splitlines()[-1]).items() if said else ():
        session.row(f"ceiling: {name}", value)


def trained(session, name, *words, **more):
    """As session.train. Where that fails with cuDNN, once more without it, as all that follows."""
    lines = session.train(name, *words, **more)
    if lines or "FME_ATTENTION" in {**os.environ, **(more.get("variables") or {})}:
        return lines
    os.environ["FME_ATTENTION"] = "own"
    lines = session.train(f"{name}, own attention", *words, **more)
    if lines:
        session.row("what follows", "FME_ATTENTION=own", f"since {name} failed")
    else:
        del os.environ["FME_ATTENTION"]
    return lines


def ours(session, name, steps, limit):
    model = workload.MODELS[name]
    with runs.CardWatch() as card:
        lines = trained(session, f"{name} ours", workload.written(session.work, name), steps, limit)
    if not lines:
        return 0.0
    taken = max(line["device_mem_bytes"] for line in lines)
    return session.tell_rate(f"{name} ours", model, lines, f", took {taken / 1e9:.1f} GB; {card}")


def last_line(session, name, said):
    """A peer's last line; of one that was killed, too."""
    text = said or session.details.get(name, {}).get("out", "")
    lines = [line for line in text.splitlines() if line.startswith("{") and line.endswith("}")]
    return json.loads(lines[-1]) if lines else None


def peer(session, name, variant, steps, limit):
    title = f"{name} peer {variant}"
    with runs.CardWatch() as card:
        said = session.call(title, [sys.executable, session.bundle / "peer.py", name, variant, steps,
                                    workload.written(session.work, name)], limit)
    line = last_line(session, title, said)
    if line is None:
        return 0.0
    session.row(title, f"{line['tokens_per_second']:,.0f} tokens/s",
                f"step {line['step_s']:.3f} s of {len(line['losses'])}, first "
                f"{line['first_step_s']:.1f} s, {line['attention']}, allocated "
                f"{line['allocated'] / 1e9:.1f} GB; {card}")
    return line["tokens_per_second"]


def pair(session, name, variants=("C", "B")):
    """Ours before and behind the peer, on the same card: its best variant, the mean of ours."""
    rates = [ours(session, name, 8, 70)]
    best = max(peer(session, name, variant, 8, 200) for variant in variants)
    best = best or peer(session, name, "eager", 8, 120)  # it starts as fast as it is slow
    rates = [rate for rate in (*rates, ours(session, name, 8, 70)) if rate]
    if best and rates:
        session.row(f"{name} ours / best peer", f"{statistics.mean(rates) / best:.3f}")


def g1(session):
    pair(session, "G1")


def g2(session):
    pair(session, "G2", ["C"])


def g4(session):
    pair(session, "G4", ["C"])


def profile(session):
    """A traced step of G1, by class of kernel, instruction and kernel; memory against the plan."""
    folder = workload.written(session.work, "G1")
    trace = session.out / "trace.json"
    lines = trained(session, "G1 traced", folder, 4, 90,
                    more=("--trace", trace, "--trace_steps", "3-3"))
    if not lines:
        return
    text = trace.read_bytes()
    trace.unlink()
    sums, step_ms = kernel_classes.sums_of(json.loads(text)["traceEvents"])
    (session.out / "trace.json.gz").write_bytes(gzip.compress(text))
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
    times, defaults = {}, []
    for name, at, variables in (("default", folder, {}),
                                ("attention fast", folder, {"FME_ATTENTION": "fast"}),
                                ("attention own", folder, {"FME_ATTENTION": "own"}),
                                ("products tuned", folder, {"FME_GEMM": "tuned"}),
                                ("order canonical", canonical, {}), ("default", folder, {})):
        lines = session.train(f"G1 {name}", at, 8 if "tuned" in name else 6, 60,
                              variables=variables)
        if lines and name == "default":
            session.tell_rate("G1 default", workload.MODELS["G1"], lines)
            defaults.append(runs.median_step(lines[-4:]))
        elif lines:
            times[name] = runs.median_step(lines[-4:])
        elif name == "default":
            break
    for name, spent in times.items() if defaults else ():
        usual = statistics.mean(defaults)
        session.row(f"G1 step, {name} / default", f"{spent / usual:.3f}",
                    f"{spent:.3f} and {usual:.3f} s")


def offload(session):
    """The optimizer in host memory against on the card: the same results, and what both cost."""
    rates, found = {}, {}
    for tier in ("none", "cpu", "none again"):
        zero = {"stage": 1, "offload_optimizer": {"device": tier.split()[0], "pin_memory": True}}
        folder = workload.written(session.work, "G1", "bf16", zero, suffix=f"-offload-{tier}")
        lines = trained(session, f"G1 offload {tier}", folder, 8, 90)
        if not lines:
            continue
        found[tier] = runs.results(lines)
        rates[tier] = session.tell_rate(f"G1 optimizer offload {tier}", workload.MODELS["G1"], lines)
    without = [rate for tier, rate in rates.items() if tier != "cpu"]
    if "cpu" not in rates or not without:
        return
    session.row("G1 offload cpu / none", f"{rates['cpu'] / statistics.mean(without):.3f}",
                "goal 0.70")
    same = all(other == found["cpu"] for other in found.values())
    session.row("G1 offload cpu, losses and norms", "same bits" if same else "DIFFERENT")
