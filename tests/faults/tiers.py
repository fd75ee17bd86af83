"""SIGKILL and SIGTERM at random moments of runs whose state sleeps on a disk while their saves go
on beside the steps: nothing stays in nvme_path, and the merged run has the numbers of a run in
memory that nobody disturbed."""

import dataclasses
import json
import signal

import checkpoints
import kills
import tiny

# A comma in a name would cut nvme_path, which is a list.
ROWS = {
    "optimizer ZeRO 1": (dataclasses.replace(tiny.MPIRUN, name="tiers 1", zero=1), False),
    "optimizer ZeRO 3": (tiny.HAND, False),
    "both ZeRO 3": (tiny.MPIRUN, True),
    "both ZeRO 3 alone": (dataclasses.replace(tiny.ALONE, zero=3, accumulation=2), True),
    "both ZeRO 3 early": (dataclasses.replace(tiny.MPIRUN, name="early", clipping=0.0), True),
    "optimizer pipe 2 bf16": (tiny.PIPE, False),
}


def asleep(case, run, params):
    """The run with its state in a folder of the case."""
    nvme = case.folder / "nvme"
    block = {"device": "nvme", "nvme_path": str(nvme)}
    blocks = {"offload_optimizer": {**block, "buffer_count": case.rng.choice((2, 4))}}
    if params:
        blocks["offload_param"] = {**block, "max_in_cpu": 0}
    zero = tuple((key, json.dumps(value)) for key, value in blocks.items())
    return dataclasses.replace(run, zero=zero), nvme


def check_empty(case, nvme, trained):
    """No file has a name there; before the first step one may have, until the next start."""
    left = [path.name for path in nvme.rglob("*") if not path.is_dir()]
    case.count("named before step 1", bool(left and not trained))
    case.expect(not left or not trained, f"nvme_path holds {left}")


def disturbed(case, layout, params, references, number):
    """A run that is killed, or asked to end, some times and then finished."""
    run = tiny.Run(layout, steps=kills.STEPS)
    sleeping, nvme = asleep(case, run, params)
    short = dataclasses.replace(sleeping, timeout_s=kills.TIMEOUT_S)
    output = case.folder / "out"
    newest = 0
    for _ in range(kills.KILLS):
        if number == signal.SIGKILL:
            newest = kills.kill_once(case, short, output, newest)
        else:
            newest = kills.end_once(case, short, output, newest, number)
        check_empty(case, nvme, checkpoints.printed_step(case.jobs[-1]) > 0)
    job = case.finish(tiny.launch(sleeping, case.settings.scratch, output))
    kills.check_finished(case, job, run, output, newest, references)
    check_empty(case, nvme, True)
    case.expect("steps wait while" not in job.out(), "saves must hold slots beside the steps")
    case.expect(nvme.is_dir(), "state must have slept in nvme_path")


def run(suite):
    """All cases."""
    references = tiny.References(suite)
    for name, (layout, params) in ROWS.items():
        suite.repeat(name, 4, disturbed, layout, params, references, signal.SIGKILL)
    for name in ("optimizer ZeRO 3", "both ZeRO 3"):
        layout, params = ROWS[name]
        suite.repeat(f"{name} SIGTERM", 2, disturbed, layout, params, references, signal.SIGTERM)
