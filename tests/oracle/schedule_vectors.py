#!/usr/bin/env python3
"""Learning rates of transformers' schedules, for tests/cli/trainer_flags_test.cc.

    schedule_vectors.py FILE            compares FILE with what transformers computes now
    schedule_vectors.py FILE --write    writes it

A line: the schedule, base rate, warm-up steps, all steps, its parameters as JSON, ":", then the rate
of each optimizer step with 17 digits.
"""
import json
import pathlib
import sys

import torch
from transformers import get_scheduler

STEPS = 40
CASES = [("linear", {}), ("cosine", {}), ("cosine", {"num_cycles": 1.5}), ("cosine_with_restarts", {}),
         ("cosine_with_restarts", {"num_cycles": 3}), ("polynomial", {}), ("polynomial", {"power": 2.0, "lr_end": 1e-5}), ("constant", {}),
         ("constant_with_warmup", {}), ("inverse_sqrt", {}), ("inverse_sqrt", {"timescale": 25}), ("cosine_with_min_lr", {"min_lr": 1e-5}),
         ("cosine_with_min_lr", {"min_lr_rate": 0.1, "num_cycles": 0.75}), ("warmup_stable_decay", {"num_decay_steps": 10}),
         ("warmup_stable_decay", {"num_decay_steps": 8, "num_stable_steps": 9, "min_lr_ratio": 0.1, "decay_type": "linear"}),
         ("warmup_stable_decay", {"num_decay_steps": 12, "warmup_type": "cosine", "decay_type": "1-sqrt", "min_lr_ratio": 0.05}),
         ("warmup_stable_decay", {"num_decay_steps": 12, "warmup_type": "1-sqrt", "num_cycles": 0.25})]


def rates(name, kwargs, base, warmup, total):
    """The rate of each of STEPS optimizer steps."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
    schedule = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total, scheduler_specific_kwargs=dict(kwargs))
    out = []
    for _ in range(STEPS):
        out.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return out


def main():
    """Compares, or writes."""
    lines = []
    for name, kwargs in CASES:
        for base, warmup, total in ((5e-5, 0, 30), (3e-4, 7, 31), (2e-5, 1, 12)):
            if name == "warmup_stable_decay" and total < 30:
                continue
            shown = " ".join(f"{rate:.17g}" for rate in rates(name, kwargs, base, warmup, total))
            lines.append(f"{name} {base!r} {warmup} {total} {json.dumps(kwargs, separators=(',', ':'))} : {shown}")
    text = "\n".join(lines) + "\n"
    path = pathlib.Path(sys.argv[1])
    if "--write" in sys.argv[2:]:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"{path} is not what transformers computes; write it again")
    print(f"{len(lines)} schedules")


if __name__ == "__main__":
    main()
