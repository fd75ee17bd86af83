"""Our side: what identifies the engine, how it starts, and what it reports."""

import hashlib
import json
import os
import shutil
import subprocess

from comparison import processes


def parse_metrics(text):
    """Losses, step times and FLOPs of a step out of metrics.jsonl; a step's last line wins."""
    lines = {}
    for line in text.splitlines():
        entry = json.loads(line)
        if "step" not in entry:
            continue
        lines[entry["step"]] = entry
    steps = [lines[step] for step in sorted(lines)]
    if not steps or sorted(lines) != list(range(1, len(steps) + 1)):
        raise ValueError("metrics.jsonl must have every step from 1")
    if any(entry["skipped"] for entry in steps):
        raise ValueError("no step may be skipped")
    return {
        "losses": [entry["loss"] for entry in steps],
        "step_ms": [round(entry["step_time"] * 1e3, 3) for entry in steps],
        "flops_per_step": steps[-1]["gflops"] * steps[-1]["step_time"] * 1e9,
    }


def git(folder, *words):
    """Output of git in the folder, "" where there is none."""
    command = ["git", "-C", folder, *words]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


class Engine:
    """One binary of fmengine-train."""

    def __init__(self, program):
        self.program = os.path.abspath(program)
        folder = os.path.dirname(self.program)
        with open(self.program, "rb") as file:
            sha = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        changed = git(folder, "status", "--porcelain", "--untracked-files=no")
        self.identity = {
            "commit": git(folder, "rev-parse", "--short=12", "HEAD") or "unknown",
            "changed": bool(changed),
            "binary": sha,
        }

    def default_probe(self):
        """Where the build that made the engine puts the probe."""
        return os.path.join(os.path.dirname(self.program), "benchmarks", "probe")

    def version(self):
        """What the binary says about itself."""
        done = subprocess.run([self.program, "--version"], capture_output=True, text=True)
        return done.stdout.strip()

    def command(self, work, shape, paths):
        """One training run; `paths` has config, weights, tokens, output."""
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        steps = str(work["warmup"] + work["steps"])
        return ["mpirun", *root, "-np", str(work["ranks"]), "--bind-to", "core", self.program,
                "--deepspeed_config", paths["config"], "--init_ckpt", paths["weights"],
                "--data_path", paths["tokens"], "--data_format", "tokens_i32",
                "--max_seq_len", str(shape["T"]), "--train_steps", steps, "--log_steps", steps,
                "--save_strategy", "no", "--resume", "never",
                "--output_dir", paths["output"]]  # fmt: skip

    def environment(self):
        """Variables of our run."""
        return processes.clean_environment()

    def read(self, output):
        """The result of a run; its folder is removed."""
        with open(f"{output}/metrics.jsonl") as file:
            result = parse_metrics(file.read())
        shutil.rmtree(output)
        return result
