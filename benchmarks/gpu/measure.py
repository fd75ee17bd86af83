#!/usr/bin/env python3
"""Runs the parts of a device run in turn, each within its limit, prints a table and writes JSON.

  measure.py BUNDLE OUT [SECONDS]

BUNDLE: made by prepare.sh. What fails is a row of the table, and the next part runs.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import workload

BUNDLE, OUT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
WORK = pathlib.Path(tempfile.mkdtemp(prefix="fmengine_gpu_"))
LIMIT = float(sys.argv[3]) if len(sys.argv) > 3 else 480.0
START = time.monotonic()
ROWS, DETAILS = [], {}
PEAKS = {"B200": 2250e12, "H200": 989e12, "H100": 989e12, "A100": 312e12}
# Of our programs alone: the system's want its own.
LIBRARIES = f"{BUNDLE}/lib:" + os.environ.get("LD_LIBRARY_PATH", "")


def row(name, value, note=""):
    ROWS.append((name, value, note))
    print(f"{name:34} {value:>22}  {note}", flush=True)
    (OUT / "gpu.json").write_text(json.dumps({"rows": ROWS, "details": DETAILS}, indent=1))


def call(name, words, limit, variables=None):
    """The output of a program; None, and a row, where it fails or there is no time left."""
    left = LIMIT - (time.monotonic() - START) - 5
    if left < 10:
        row(name, "no time left")
        return None
    environment = {**os.environ, **(variables or {})}
    if str(words[0]).startswith(f"{BUNDLE}/bin/"):
        environment["LD_LIBRARY_PATH"] = LIBRARIES
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                              timeout=min(limit, left), cwd=BUNDLE,
                              env=environment, check=False)
    except (subprocess.TimeoutExpired, OSError) as error:
        row(name, "failed", str(error)[:80])
        return None
    DETAILS[name] = {"code": done.returncode, "out": done.stdout[-6000:], "err": done.stderr[-3000:]}
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines() or [""]
        line = said[-1] if said[0].startswith("Traceback") else said[0]
        row(name, f"exit code {done.returncode}", line[:200])
        return None
    return done.stdout


def train(name, folder, steps, limit, device="cuda", more=(), variables=None):
    """Ours: the lines of metrics.jsonl; None where it failed."""
    output = WORK / name.replace(" ", "_")
    words = [BUNDLE / "bin/fmengine-train", "--deepspeed_config", folder / "deepspeed.json",
             "--model_config", folder / "config.json", "--data_path", folder / "tokens.bin",
             "--max_seq_len", MODEL_LENGTH[folder.name.split("-")[0]], "--train_steps", steps,
             "--output_dir", output, "--device", device, "--resume", "never", "--seed", 7,
             "--save_strategy", "no", *more]
    if call(name, words, limit, variables) is None:
        return None
    lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "step" in line]


MODEL_LENGTH = {name: model["max_seq_len"] for name, model in workload.MODELS.items()}


def facts():
    said = call("facts", ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,power.limit",
                          "--format=csv,noheader"], 20)
    row("card, driver, clock, power", (said or "?").strip())
    report = call("report", [BUNDLE / "bin/fmengine-train", "--report"], 30)
    for line in (report or "").splitlines():
        if line.startswith(("GPU", " " * 11)):
            print(line)
    return said or ""


def correctness(folders):
    for name, tests in (("kernels", "-CudnnOnCard.*"), ("cuDNN's attention", "CudnnOnCard.*")):
        said = call(name, [BUNDLE / "bin/cuda_device_test", "--gtest_brief=1",
                           f"--gtest_filter={tests}"], 60)
        if said is not None:
            row(f"{name} against fp64", "passed", said.strip().splitlines()[-1][:80])
    for element, tolerance in (("fp32", 1e-4), ("bf16", 2e-2)):
        folder = folders["tiny", element]
        cpu = train(f"tiny cpu {element}", folder, 30, 60, device="cpu")
        gpu = train(f"tiny gpu {element}", folder, 30, 60)
        again = train(f"tiny again {element}", folder, 30, 60)
        if not (cpu and gpu and again):
            continue
        gap = max(abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in zip(cpu, gpu))
        row(f"30 steps {element}, worst gap to CPU", f"{gap:.2e}",
            "good" if gap <= tolerance else f"MORE THAN {tolerance}")
        same = [a["loss"] for a in gpu] == [a["loss"] for a in again]
        row(f"30 steps {element}, twice", "same bits" if same else "DIFFERENT")
        if element == "fp32":
            continue
        own = train("tiny own attention", folder, 30, 60, variables={"FME_ATTENTION": "own"})
        if own:
            gap = max(abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in zip(own, gpu))
            row("30 steps bf16, cuDNN and own attention", f"{gap:.2e}",
                "good" if 0 < gap <= tolerance else "THE SAME KERNELS" if gap == 0 else "TOO FAR")


def ours(name, folder, steps, limit, peak):
    with CardMemory() as card:
        lines = train(name, folder, steps, limit)
    if not lines:
        return None
    model = workload.MODELS[name]
    step_time = statistics.median(line["step_time"] for line in lines[2:])
    rate = workload.tokens_per_step(model) / step_time
    mfu = rate * workload.flops_per_token(model) / peak if peak else 0.0
    row(f"{name} ours", f"{rate:,.0f} tokens/s", f"MFU {100 * mfu:.1f} %, step {step_time:.3f} s, "
        f"first {lines[0]['step_time']:.1f} s, card {card.peak / 1e9:.1f} GB")
    return rate


class CardMemory:
    """The most bytes of the first card that were in use while this was open, twice a second."""

    def __enter__(self):
        self.peak, self.over = 0, threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def look(self):
        words = ["nvidia-smi", "-i", "0", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        while not self.over.wait(0.5):
            said = subprocess.run(words, capture_output=True, text=True, check=False).stdout
            self.peak = max([self.peak, *(int(line) << 20 for line in said.split() if line.isdigit())])


def beside(name, steps, limit):
    """The optimizer in host memory against on the card: the same losses, and what both cost."""
    rates, losses = {}, {}
    for tier in ("none", "cpu", "none again"):
        zero = {"stage": 1, "offload_optimizer": {"device": tier.split()[0], "pin_memory": True}}
        folder = WORK / f"{name}-offload-{tier.replace(' ', '-')}"
        workload.write_all(folder, name, 2, "bf16", zero)
        with CardMemory() as card:
            lines = train(f"{name} offload {tier}", folder, steps, limit)
        if not lines:
            continue
        step_time = statistics.median(line["step_time"] for line in lines[2:])
        rates[tier] = workload.tokens_per_step(workload.MODELS[name]) / step_time
        losses[tier] = [(line["loss"], line["grad_norm"]) for line in lines]
        row(f"{name} optimizer offload {tier}", f"{rates[tier]:,.0f} tokens/s",
            f"step {step_time:.3f} s, card {card.peak / 1e9:.1f} GB")
    without = max(rates.get("none", 0.0), rates.get("none again", 0.0))
    if "cpu" not in rates or not without:
        return
    row(f"{name} offload cpu / none", f"{rates['cpu'] / without:.3f}", "goal 0.70")
    others = [losses[tier] for tier in losses if tier != "cpu"]
    row(f"{name} offload cpu, losses and norms",
        "same bits" if all(other == losses["cpu"] for other in others) else "DIFFERENT")


def attentions(name, folder, steps, limit):
    """What an order of sums that repeats itself costs (G7), and what cuDNN gains."""
    times = {}
    for attention in ("", "fast", "own"):
        lines = train(f"{name} attention {attention or 'repeatable'}", folder, steps, limit,
                      variables={"FME_ATTENTION": attention})
        if lines:
            times[attention] = statistics.median(line["step_time"] for line in lines[2:])
    for other in ("fast", "own"):
        if "" in times and other in times:
            row(f"{name} step, attention {other} / default", f"{times[other] / times['']:.3f}",
                f"{times[other]:.3f} and {times['']:.3f} s")


def peer(name, variant, folder, steps, limit):
    said = call(f"{name} peer {variant}", [sys.executable, BUNDLE / "peer.py", name, variant, steps,
                                           folder], limit)
    if said is None:
        return 0.0
    line = json.loads(said.strip().splitlines()[-1])
    row(f"{name} peer {variant}", f"{line['tokens_per_second']:,.0f} tokens/s",
        f"step {line['step_s']:.3f} s, first {line['first_step_s']:.1f} s, "
        f"allocated {line['allocated'] / 1e9:.1f} GB")
    return line["tokens_per_second"]


def pair(name, folder, peak):
    """Ours before and behind the peer, on the same card."""
    first = ours(name, folder, 8, 70, peak)
    best = max(peer(name, variant, folder, 8, 120) for variant in ("B", "C"))
    second = ours(name, folder, 8, 70, peak)
    if best and (first or second):
        row(f"{name} ours / best peer", f"{max(first or 0, second or 0) / best:.3f}")


def part(run, *arguments):
    """What goes wrong in a part is a row, and the next one runs."""
    try:
        run(*arguments)
    except Exception as error:  # pylint: disable=broad-except
        row(run.__name__, "failed", repr(error)[:160])


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    said = facts()
    peak = next((value for part, value in PEAKS.items() if part in said), 0.0)
    folders = {}
    for name, element, steps in (("tiny", "fp32", 30), ("tiny", "bf16", 30), ("G1", "bf16", 2),
                                 ("G4", "bf16", 2)):
        folders[name, element] = WORK / f"{name}-{element}"
        workload.write_all(folders[name, element], name, steps, element)
    part(correctness, folders)
    for name in ("G1", "G4"):
        part(pair, name, folders[name, "bf16"], peak)
        if name == "G1":
            part(attentions, name, folders[name, "bf16"], 6, 60)
    part(beside, "G1", 8, 90)
    print("\n| part | value | note |\n|---|---|---|")
    for name, value, note in ROWS:
        print(f"| {name} | {value} | {note} |")


if __name__ == "__main__":
    main()
