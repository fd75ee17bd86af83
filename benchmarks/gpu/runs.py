"""What the parts of a device run share: the rows of the table, and our program's runs."""
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

import workload

# fake: the script itself is tried where there is no card, on a device that this CPU plays.
DEVICE = os.environ.get("FM_GPU_DEVICE", "cuda")
DEVICE_FAILED = 27  # core/exit_codes.h
PEAKS = {"B200": 2250e12, "H200": 989e12, "H100": 989e12, "A100": 312e12}


def cut(text, most=120_000):
    """The begin, where most faults are told first, and the end of a long text."""
    return text if len(text) <= most else f"{text[:most // 2]}\n...\n{text[-most // 2:]}"


def run_group(words, limit, folder, environment):
    """(exit code, stdout, stderr) of a program; the code is None where it and all that it started
    were killed at the limit: nothing shares the card with the next measurement."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          cwd=folder, env=environment, start_new_session=True) as program:
        try:
            out, err = program.communicate(timeout=limit)
            return program.returncode, out, err
        except subprocess.TimeoutExpired:
            os.killpg(program.pid, signal.SIGKILL)
            out, err = program.communicate()
            return None, out, err


class CardWatch:
    """What NVIDIA's driver says of the card while a program runs: of memory everything, where each
    program's own count leaves out some of its libraries' work space."""

    QUERY = "memory.used,clocks.sm,power.draw"

    def __enter__(self):
        words = ["nvidia-smi", f"--query-gpu={self.QUERY}", "--format=csv,noheader,nounits",
                 "-lms", "500"]
        self.text = ""
        try:
            self.smi = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, start_new_session=True)
        except OSError:
            self.smi = None
        return self

    def __exit__(self, *_):
        if self.smi:
            self.smi.terminate()
            self.text = self.smi.communicate()[0]

    def __str__(self):
        """"38.2 GB used, 1,755 MHz, 690 W": the most memory, and medians where it works hardest."""
        lines = [[float(word) for word in line.split(",")] for line in self.text.splitlines()
                 if line.count(",") == 2 and "N/A" not in line]
        if not lines:
            return ""
        hard = sorted(lines, key=lambda line: line[2])[len(lines) // 2:]
        clock, power = (statistics.median(line[at] for line in hard) for at in (1, 2))
        most = max(line[0] for line in lines) * 2**20 / 1e9
        return f"{most:.1f} GB used, {clock:,.0f} MHz, {power:.0f} W"


class Session:
    """One device run: OUT/gpu.json is written anew with every row, OUT/log.txt grows by all that
    programs say."""

    def __init__(self, bundle, out, seconds):
        self.bundle, self.out = pathlib.Path(bundle).resolve(), pathlib.Path(out).resolve()
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="fmengine_gpu_"))
        self.end = time.monotonic() + seconds
        self.rows, self.details, self.peak = [], {}, 0.0
        self.out.mkdir(parents=True, exist_ok=True)
        # Of our programs alone: the system's want their own.
        self.libraries = f"{self.bundle}/lib:{self.bundle}/bin/late:" + os.environ.get("LD_LIBRARY_PATH", "")

    def row(self, name, value, note=""):
        self.rows.append((name, value, note))
        print(f"{name:40} {value:>22}  {note}", flush=True)
        whole = {"rows": self.rows, "details": self.details}
        (self.out / "gpu.json").write_text(json.dumps(whole, indent=1))

    def program(self, name):
        return self.bundle / "bin" / name

    def call(self, name, words, limit, variables=None, right=0):
        """The output of a program; None, and a row, where its exit code is not `right` or there is
        no time left."""
        left = self.end - time.monotonic() - 5
        if DEVICE != "cuda":
            limit *= 20  # nobody waits for a card
        if left < 10:
            self.row(name, "no time left")
            return None
        environment = {**os.environ, **(variables or {})}
        if str(self.bundle / "bin") in str(words):
            environment["LD_LIBRARY_PATH"] = self.libraries
        try:
            code, out, err = run_group([str(word) for word in words], min(limit, left),
                                       self.bundle, environment)
        except OSError as error:
            self.row(name, "failed", str(error)[:80])
            return None
        self.details[name] = {"code": code, "out": out[-6000:], "err": err[-3000:]}
        with open(self.out / "log.txt", "a", encoding="utf-8") as log:
            log.write(f"== {name}: exit code {code}\n{cut(out)}\n-- errors\n{cut(err)}\n")
        if code == right:
            return out
        if code is None:
            self.row(name, "failed", f"no end after {min(limit, left):.0f} s")
            return None
        said = (err.strip() or out.strip()).splitlines() or [""]
        line = said[-1] if said[0].startswith("Traceback") else said[0]
        self.row(name, f"exit code {code}", line[:200])
        if code == DEVICE_FAILED and "FME_DEVICE_CHECK" not in environment:
            self.call(f"{name}, kernel by kernel", words, 40,
                      {**(variables or {}), "FME_DEVICE_CHECK": "1"})
        return None

    def words(self, folder, output, steps, more=(), device=DEVICE):
        """Of a run of the model in `folder`, as workload.written made it."""
        length = json.loads((folder / "config.json").read_text())["max_position_embeddings"]
        return ["--deepspeed_config", folder / "deepspeed.json", "--data_path",
                folder / "tokens.bin", "--max_seq_len", length, "--train_steps", steps,
                "--output_dir", output, "--device", device, "--resume", "never", "--seed", 7,
                "--allow_repeat", "--save_strategy", "no", *more]

    def train(self, name, folder, steps, limit, device=DEVICE, more=(), variables=None, ranks=1,
              before=()):
        """Ours: the lines of metrics.jsonl; None where it failed. `before`: the program that runs
        it."""
        output = self.work / name.replace(" ", "_")
        if "--init_ckpt" not in more:
            more = ("--model_config", folder / "config.json", *more)
        words = self.words(folder, output, steps, more, device)
        if ranks == 1:
            words = [*before, self.program("fmengine-train"), *words]
        else:
            words = [self.program("fmengine"), "run", "--nproc_per_node", ranks, "--",
                     self.program("fmengine-train"), *words, "--share_device"]
        if self.call(name, words, limit, variables) is None:
            return None
        lines = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if "step" in line]

    def planned_bytes(self, name, folder):
        """What the plan says that a rank needs of its card; None where it failed."""
        words = self.words(folder, self.work / "planned", 1, device="cuda")
        said = self.call(f"{name} plan", [self.program("fmengine-train"), "--plan", "--json",
                                          "--model_config", folder / "config.json",
                                          "--device_card", "H200", *words], 30)
        if said is None:
            return None
        parts = ("params", "grads", "optimizer", "slots", "scratch", "activations", "tables")
        rank = json.loads(said)["ranks"][0]
        return sum(rank[f"{part}_bytes"] for part in parts)

    def tell_rate(self, name, model, lines, note=""):
        """Tokens per second of a run, by the median of its steps but the first two."""
        step_time = median_step(lines)
        rate = workload.tokens_per_step(model) / step_time
        mfu = f"MFU {100 * rate * workload.flops_per_token(model) / self.peak:.1f} %, " \
            if self.peak else ""
        self.row(name, f"{rate:,.0f} tokens/s",
                 f"{mfu}step {step_time:.3f} s, first {lines[0]['step_time']:.1f} s{note}")
        return rate


def median_step(lines):
    return statistics.median(line["step_time"] for line in lines[2:] or lines)


def worst_gap(lines, others, key="loss"):
    """Between the losses, or norms, of two runs, relative; infinite where one has no number."""
    gaps = [abs(a[key] - b[key]) / abs(a[key]) for a, b in zip(lines, others)]
    whole = len(lines) == len(others) and gaps and all(map(math.isfinite, gaps))
    return max(gaps) if whole else math.inf


def results(lines):
    return [(line["loss"], line["grad_norm"]) for line in lines]
