"""Files that change or never end while they are read: a run that has them already goes on, another
ends with the code of what is wrong; no signal, no end that never comes."""

import os
import time

import inputs
import tiny

CPU_S = 10
REFUSED = (10, 11)


def endless(case, flag, path):
    """A device that always has more."""
    changes = {flag: path}
    if flag == "jsonl":
        changes = {"data_path": path, "data_format": "jsonl"}
    words = inputs.arguments(case, **changes)
    job = case.start(
        tiny.jobs.Launch(words, starter="alone", ranks=1, memory=inputs.MEMORY, cpu_s=CPU_S)
    )
    job.wait()
    case.expect_codes(job, REFUSED)
    case.expect_words(job, path)


def cut_later(case, path, launch, first, last, allowed=(0, 11)):
    """Cuts a file at a random moment of a run."""
    job = case.start(launch)
    time.sleep(case.rng.uniform(first, last))
    size = path.stat().st_size
    os.truncate(path, case.rng.choice([0, case.rng.randrange(size)]))
    job.wait()
    case.expect_codes(job, allowed, f"{path.name} was cut:")
    case.count("finished", not any(job.codes()))
    if any(job.codes()):
        case.expect_words(job, path.name)


def changed(launch_run, case, **changes):
    """Words of a run with some replaced."""
    words = tiny.words(launch_run, case.settings.scratch, case.folder / "out")
    pairs = {**dict(zip(words[::2], words[1::2])), **changes}
    return [word for name, value in pairs.items() if value is not None for word in (name, value)]


def jsonl(case):
    """JSONL, mostly while it is read."""
    path = case.folder / "cut.jsonl"
    tiny.write(path, inputs.jsonl_bytes() * 300)
    model = tiny.write(case.folder / "bytes.json", inputs.BYTES)
    run = tiny.Run(tiny.MPIRUN, steps=30, save_steps=0)
    words = changed(
        run, case, **{"--data_path": str(path), "--data_format": None, "--model_config": model}
    )
    cut_later(case, path, tiny.jobs.Launch(words), 0.1, 0.9)


def token_file(case):
    """Token ids, mostly in training."""
    path = case.folder / "cut.bin"
    tiny.write(path, tiny.token_bytes())
    run = tiny.Run(tiny.MPIRUN, steps=300, save_steps=0)
    words = changed(run, case, **{"--data_path": str(path)})
    cut_later(case, path, tiny.jobs.Launch(words), 0.2, 1.5)


def safetensors(case, exported):
    """Weights, about when they are loaded."""
    folder = exported.copy_to(case)
    run = tiny.Run(tiny.MPIRUN, steps=30, save_steps=0)
    words = changed(run, case, **{"--init_ckpt": str(folder), "--model_config": None})
    cut_later(case, folder / "model.safetensors", tiny.jobs.Launch(words), 0.1, 0.7)


def run(suite):
    """All cases."""
    exported = inputs.Exported(suite)
    for flag in ("deepspeed_config", "model_config", "data_path", "jsonl"):
        for path in ("/dev/zero", "/dev/urandom"):
            suite.case(f"endless {flag}/{path[5:]}", endless, flag, path)
    suite.repeat("JSONL cut", 40, jsonl, least=4)
    suite.repeat("token file cut", 30, token_file)
    suite.repeat("safetensors cut", 30, safetensors, exported)
