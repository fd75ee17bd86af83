#!/usr/bin/env python3
"""Two ranks, or as many as its tensor parallelism needs, train a step with every configuration of tests/cli/public_configs.jsonl that loads.

    public_configs_train.py BUILD_FOLDER

A batch that two ranks cannot share must be
refused in DeepSpeed's words; every other run must end well and report one finite loss.
"""
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

SOURCES = pathlib.Path(__file__).resolve().parents[2]
MODEL = {"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 48, "vocab_size": 64, "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
         "hidden_act": "silu", "tie_word_embeddings": False}
BATCH = ("Check batch related parameters", "has to be greater than 0")


def fits(config, ranks=2):
    """Whether DeepSpeed's batch triad can be solved for so many ranks (specification, batch triad)."""
    total, micro, steps = (config.get(key) for key in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"))
    total = None if total == "auto" else total
    micro = 8 if micro == "auto" else micro
    steps = 1 if steps == "auto" else steps
    if total is None:
        return True
    if micro is None:
        steps = steps or 1
        micro = total // ranks // steps
    steps = steps or total // micro // ranks
    return micro > 0 and steps > 0 and micro * steps * ranks == total


def main():
    """Runs them."""
    program = pathlib.Path(sys.argv[1]) / "fmengine-train"
    rows = [json.loads(line) for line in (SOURCES / "tests/cli/public_configs.jsonl").read_text().splitlines()]
    variables = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    trained, unfit, failed = 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        (work / "model.json").write_text(json.dumps(MODEL))
        (work / "tokens.bin").write_bytes(struct.pack("<6400i", *(i * 7 % 64 for i in range(6400))))
        for row in rows:
            if row.get("refused"):
                continue
            # Drives that this machine does not have.
            (work / "ds.json").write_text(row["text"].replace("/local_nvme", str(work)))
            output = work / f"out{trained + unfit + len(failed)}"
            tensor = row.get("tensor_parallel", 1)
            ranks = max(2, tensor)
            command = ["mpirun", "-np", str(ranks), "--oversubscribe", str(program), "--model_config", str(work / "model.json"), "--deepspeed_config",
                       str(work / "ds.json"), "--data_path", str(work / "tokens.bin"), "--data_format", "tokens_i32", "--max_seq_len", "8",
                       "--max_steps", "1", "--save_strategy", "no", "--allow_repeat", "--output_dir", str(output)]
            done = subprocess.run(command, env=variables, capture_output=True, text=True)
            said = done.stdout + done.stderr
            metrics = output / "metrics.jsonl"
            losses = [json.loads(line)["loss"] for line in metrics.read_text().splitlines() if '"step"' in line] if metrics.exists() else []
            sequence = json.loads(row["text"]).get("sequence_parallel_size", 1)
            if not fits(json.loads(row["text"]), ranks // tensor // sequence):
                unfit += 1
                good = done.returncode == 10 and any(words in said for words in BATCH)
            else:
                trained += 1
                good = done.returncode == 0 and len(losses) == 1 and math.isfinite(losses[0])
            if not good:
                failed.append(row["source"])
                print(f"{row['source']}: exit {done.returncode}, losses {losses}\n{said[-600:]}")
    print(f"{trained} trained a step, {unfit} do not fit two ranks, {len(failed)} wrong")
    return 1 if failed or trained < 60 else 0


if __name__ == "__main__":
    sys.exit(main())
