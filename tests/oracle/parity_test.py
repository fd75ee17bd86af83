"""parity_test.py CASE... BUILD_FOLDER: trains each CASE with fmengine-train and compares with
transformers. "families": one case per family.

Losses and norms of every step, gradients of the first step, and the exported folder. The work
lies in BUILD_FOLDER/oracle; reference runs are made once and shared by the cases of one key.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys

import cases
import compare
import hf_loss
import train_reference

SOURCES = os.path.dirname(os.path.abspath(__file__))


class Engine:
    def __init__(self, case, build, reference, work):
        self.case, self.build, self.reference, self.work = case, build, reference, work
        shares_tokens = case.split_tokens or case.sequence_ranks > 1
        self.allowed = compare.FP32_TEN_STEPS if shares_tokens else compare.ALLOWED[case.precision]
        self.config = os.path.join(work, "ds_config.json")

    def write_config(self):
        case = self.case
        params = {
            "lr": cases.LR,
            "betas": cases.BETAS,
            "eps": cases.EPS,
            "weight_decay": cases.WEIGHT_DECAY,
        }
        config = {
            "train_micro_batch_size_per_gpu": case.micro_batch,
            "gradient_accumulation_steps": case.accumulation,
            "train_batch_size": case.micro_batch * case.accumulation * case.data_ranks,
            "gradient_clipping": cases.CLIP,
            "optimizer": {"type": "AdamW", "params": params},
            "zero_optimization": {"stage": case.zero},
            **({case.precision: {"enabled": True}} if case.precision != "fp32" else {}),
        }
        with open(self.config, "w") as file:
            json.dump(config, file, indent=1)

    def run(self, output, steps, *more):
        """Starts fmengine-train under mpirun; a failure shows what it said."""
        case = self.case
        ranks = case.data_ranks * case.pipe_ranks * case.model_ranks * case.sequence_ranks
        launcher = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none"]
        if os.geteuid() == 0:
            launcher.append("--allow-run-as-root")
        flags = {
            "deepspeed_config": self.config,
            "init_ckpt": os.path.join(self.reference, "model"),
            "data_path": os.path.join(self.reference, "tokens.bin"),
            "data_format": "tokens_i32",
            "max_seq_len": case.seq_len,
            "pipe_parallel_size": case.pipe_ranks,
            "model_parallel_size": case.model_ranks,
            "megatron_sequence_parallel": str(case.split_tokens).lower(),
            "sequence_parallel_size": case.sequence_ranks,
            "sequence_parallel": case.sequence_parallel,
            "schedule": case.schedule,
            "train_steps": steps,
            "save_steps": steps,
            "output_dir": os.path.join(self.work, output),
        }
        command = [*launcher, os.path.join(self.build, "fmengine-train")]
        for name, value in flags.items():
            command += [f"--{name}", str(value)]
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        done = subprocess.run(
            [*command, *more], env=environment, capture_output=True, text=True, timeout=600
        )
        if done.returncode != 0:
            print(done.stdout[-4000:], done.stderr[-4000:], sep="\n", file=sys.stderr)
            sys.exit(f"fmengine-train must end with 0, not {done.returncode}: {command} {more}")
        return os.path.join(self.work, output)


def reference_name(case, sources):
    """Changes with the case, with any program in `sources` and with the versions required there."""
    key = hashlib.sha256(repr(case.reference_key()).encode())
    for name in sorted(os.listdir(sources)):
        if name.endswith(".py") or name == "requirements.txt":
            with open(os.path.join(sources, name), "rb") as file:
                key.update(name.encode() + hashlib.sha256(file.read()).digest())
    return f"reference-{key.hexdigest()[:12]}"


def shared_reference(case, folder):
    """The folder of the reference run of this case; made by whoever comes first."""
    reference = os.path.join(folder, reference_name(case, SOURCES))
    os.makedirs(reference, exist_ok=True)
    with open(os.path.join(reference, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        train_reference.prepare(case, reference)
    return reference


def check_export(engine, output, steps):
    """The exported folder's loss on the next step's windows is what the engine finds there."""
    case = engine.case
    windows = case.micro_batch * case.accumulation * case.data_ranks
    tokens = os.path.join(engine.reference, "tokens.bin")
    exported = os.path.join(output, "hf")
    loss = hf_loss.loss_of_windows(exported, tokens, case.seq_len, steps * windows, windows)
    engine.run(os.path.basename(output), steps + 1, "--resume", "must")
    next_loss = compare.read_metrics(os.path.join(output, "metrics.jsonl"))[-1]["loss"]
    compare.compare_series("exported folder", [loss], [next_loss], engine.allowed.export)


def check(name, case, build):
    folder = os.path.join(build, "oracle")
    work = os.path.join(folder, name)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    engine = Engine(case, build, shared_reference(case, folder), work)
    engine.write_config()
    dumped = os.path.join(work, "gradients.safetensors")
    engine.run("first", 1, "--dump_gradients", dumped)
    theirs, exact = (
        os.path.join(engine.reference, f"{name}.safetensors") for name in ("gradients", "exact")
    )
    compare.compare_gradients(dumped, theirs, exact, engine.allowed)
    output = engine.run("run", case.steps)
    compare.compare_run(
        os.path.join(output, "metrics.jsonl"),
        os.path.join(engine.reference, "losses.jsonl"),
        engine.allowed,
    )
    check_export(engine, output, case.steps)


def main():
    *names, build = sys.argv[1:]
    chosen = cases.FAMILY_CASES if names == ["families"] else {n: all_cases()[n] for n in names}
    for name, case in chosen.items():
        print(f"{name}:", flush=True)
        check(name, case, os.path.abspath(build))


def all_cases():
    return cases.CASES | cases.FAMILY_CASES


if __name__ == "__main__":
    try:
        main()
    except compare.Mismatch as mismatch:
        sys.exit(str(mismatch))
