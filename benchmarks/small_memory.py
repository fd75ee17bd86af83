#!/usr/bin/env python3
"""small_memory.py [--layers 27] [--limit_mb 6000] [--nvme FOLDER] [PROGRAM]: training in less memory than the state takes.

A Llama trains 5 steps on 2 ranks (mpirun, 1 thread each) inside a control group with that limit: ZeRO 3, parameters and
optimizer on NVMe, recomputation, layer-major order. It prints the losses, the seconds of each step and the group's own peak
(memory.max_usage_in_bytes, of version 1 groups; memory.peak of version 2), which counts the page cache too. With --twin it
trains the same without offload and without a limit, and compares the losses as text. As root.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile

GROUPS = pathlib.Path("/sys/fs/cgroup")


class Group:
    """A control group with a limit of memory, of either version."""

    def __init__(self, name, limit):
        self.old = (GROUPS / "memory").is_dir()
        self.path = (GROUPS / "memory" if self.old else GROUPS) / name
        self.path.mkdir()
        (self.path / ("memory.limit_in_bytes" if self.old else "memory.max")).write_text(str(limit))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def peak(self):
        return int((self.path / ("memory.max_usage_in_bytes" if self.old else "memory.peak")).read_text())

    def close(self):
        self.path.rmdir()


def model_of(options):
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": options.hidden,
            "num_hidden_layers": options.layers, "num_attention_heads": options.hidden // 64,
            "num_key_value_heads": options.hidden // 64, "intermediate_size": options.hidden * 11 // 4,
            "vocab_size": options.vocab, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
            "tie_word_embeddings": False}  # fmt: skip


def parameters(model):
    hidden, inner, vocab = model["hidden_size"], model["intermediate_size"], model["vocab_size"]
    block = 4 * hidden * hidden + 3 * hidden * inner + 2 * hidden
    return model["num_hidden_layers"] * block + 2 * vocab * hidden + hidden


def config_of(options, offloaded):
    zero = {"stage": 3}
    if offloaded:
        zero["offload_optimizer"] = {"device": "nvme", "nvme_path": options.nvme, "buffer_count": options.buffers}
        zero["offload_param"] = {"device": "nvme", "nvme_path": options.nvme, "max_in_cpu": 0}
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": options.micros,
              "gradient_clipping": options.clipping, "zero_optimization": zero, "activation_checkpointing": {},
              "optimizer": {"type": "AdamW", "params": {"lr": 3e-4}}}  # fmt: skip
    if options.bf16:
        config["bf16"] = {"enabled": True}
    return config


def train(options, folder, offloaded, group):
    """The lines of metrics.jsonl, one a step."""
    model = model_of(options)
    out = folder / ("tiers" if offloaded else "memory")
    (folder / "config.json").write_text(json.dumps(model))
    (folder / "ds.json").write_text(json.dumps(config_of(options, offloaded)))
    rows = 2 * options.micros * options.steps
    draw = random.Random(7)
    ids = [draw.randrange(options.vocab) for _ in range((options.seq + 1) * rows)]
    (folder / "tokens.bin").write_bytes(struct.pack(f"<{len(ids)}i", *ids))
    command = ["mpirun", "-np", "2", "--bind-to", "none", options.program, "--deepspeed_config", str(folder / "ds.json"),
               "--model_config", str(folder / "config.json"), "--data_path", str(folder / "tokens.bin"), "--data_format",
               "tokens_i32", "--max_seq_len", str(options.seq), "--train_steps", str(options.steps), "--output_dir", str(out),
               "--save_strategy", "no", "--threads", "1", "--schedule", options.schedule, *options.more]  # fmt: skip
    env = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False,
                          preexec_fn=None if group is None else group.enter)  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"the run ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines() if line.startswith('{"step"')]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", default="build/fmengine-train")
    for name, default in (("hidden", 2048), ("layers", 27), ("vocab", 32000), ("seq", 128), ("micros", 1), ("steps", 5),
                          ("buffers", 2), ("limit_mb", 6000)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--clipping", type=float, default=0.0, help="0: units may be updated early")
    parser.add_argument("--schedule", default="layer-major")
    parser.add_argument("--nvme", default="", help="a folder on a local drive; left out: beside the run's files")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--twin", action="store_true", help="compare with a run without offload")
    parser.add_argument("--more", nargs="*", default=[], help="further words for fmengine-train")
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="small_memory", dir=options.nvme or None))
    options.nvme = options.nvme or str(folder / "nvme")
    group = Group(f"small_memory_{os.getpid()}", options.limit_mb * 1_000_000)
    try:
        lines = train(options, folder, True, group)
        count = parameters(model_of(options))
        print(f"{count / 1e9:.2f} B parameters, {options.seq} tokens, peak {group.peak() / 1e6:.0f} MB of "
              f"{options.limit_mb} MB; parameters and moments take {12 * count / 1e6:.0f} MB in fp32")  # fmt: skip
        for line in lines:
            print(f"step {line['step']}: loss {line['loss']}, {line['step_time']:.1f} s")
        if options.twin:
            twin = train(options, folder, False, None)
            same = [a["loss"] == b["loss"] for a, b in zip(lines, twin, strict=True)]
            print("losses without offload:", "the same" if all(same) else [line["loss"] for line in twin])
    finally:
        group.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
