"""frozen_parity.py BUILD_FOLDER: lower layers frozen, against torch's requires_grad.

Losses of 10 steps of AdamW from one folder, in pipes whose first ranks have no backward, and where
the head alone is trained.
"""

import dataclasses
import os
import re
import sys

import torch

import cases
import compare
import lora_parity
import tiny_llama

STEPS = 10


@dataclasses.dataclass(frozen=True)
class Frozen:
    shape: cases.Shape
    frozen: str  # --freeze
    zero: int
    pipe_ranks: int
    schedule: str = "1f1b"
    flags: tuple = ()


FROZEN = {
    "lower": Frozen(cases.ODD, r"embed_tokens|layers\.[0-2]\.", zero=3, pipe_ranks=2),
    "recomputed": Frozen(
        cases.ODD,
        r"embed_tokens|layers\.[01]\.|layers\.2\.(mlp|input)",
        zero=1,
        pipe_ranks=1,
        flags=("--gradient_checkpointing", "true"),
    ),
    "split": Frozen(cases.ODD, r"embed|layers\.[0-3]\.", zero=2, pipe_ranks=2, schedule="zb-v"),
    "tied": Frozen(cases.ODD_TIED, r"embed_tokens|layers\.[0-3]\.", zero=2, pipe_ranks=1),
    "head": Frozen(cases.ODD, r"embed_tokens|layers|norm", zero=3, pipe_ranks=2),
}


def reference(folder, frozen):
    model = tiny_llama.load_model(folder)
    for name, weight in model.named_parameters():
        weight.requires_grad_(re.search(frozen, name) is None)
    return model


def check(name, at, build):
    work = os.path.join(build, "oracle", f"frozen_{name}")
    case = cases.Case(
        at.shape,
        seq_len=37,
        micro_batch=2,
        steps=STEPS,
        accumulation=4,
        zero=at.zero,
        pipe_ranks=at.pipe_ranks,
        schedule=at.schedule,
    )
    engine, base, windows = lora_parity.new_run(case, build, work)
    output = engine.run("run", STEPS, "--freeze", at.frozen, *at.flags)
    want = lora_parity.reference_losses(reference(base, at.frozen), windows, case, STEPS)
    if want[0] == want[-1]:
        raise compare.Mismatch(f"{name}: the reference learns nothing")
    compare.compare_series("loss", lora_parity.losses_of(output), want, compare.FP32_TEN_STEPS.loss)


def main():
    build = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    for name, at in FROZEN.items():
        print(f"{name}:", flush=True)
        check(name, at, build)


if __name__ == "__main__":
    try:
        main()
    except compare.Mismatch as mismatch:
        sys.exit(str(mismatch))
