#!/usr/bin/env python3
"""Ray Train starts fmengine-train as its workers, one rank each:

    examples/ray_train.py --workers 8 --storage /shared/runs --name sft -- \
        --deepspeed_config configs/sft.json --init_ckpt HF_FOLDER --data_path chats.jsonl

All words behind `--` go to fmengine-train. On GPUs add --gpus 1 before it, and --device cuda behind
it. Checkpoints and metrics lie in STORAGE/NAME/fmengine, on a file system that all nodes see; each
new line of metrics.jsonl becomes a report to Ray. A lost worker or node starts all ranks again, and
they resume. So does this command, started again after the driver was lost."""

import argparse
import json
import os
import pathlib
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time

import ray
import ray.train
import ray.train.collective
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

ROOT = pathlib.Path(__file__).resolve().parent.parent


def parse():
    """Words of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, required=True, help="ranks")
    parser.add_argument("--storage", required=True, help="a folder that all nodes see")
    parser.add_argument("--name", required=True, help="of the run: a folder there")
    parser.add_argument("--build", default=str(ROOT / "build"), help="folder with the programs")
    parser.add_argument("--cpus", type=float, default=1, help="of a worker")
    parser.add_argument("--gpus", type=float, default=0, help="of a worker")
    parser.add_argument("--max_failures", type=int, default=20)
    parser.add_argument("words", nargs="+", help="of fmengine-train, behind --")
    return parser.parse_args()


def meeting_place():
    """Address and a free port of this worker, which is rank 0, and a secret of all ranks. Who takes
    the port before rank 0 does costs one start."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return ray.util.get_node_ip_address(), probe.getsockname()[1], secrets.token_hex(32)


def start_rank(settings, context, address, port, token):
    """The program, which ends with this worker, however that ends. Everybody on a host can read
    command lines, so the token is in the environment alone."""
    variables = {
        "RANK": context.get_world_rank(),
        "WORLD_SIZE": context.get_world_size(),
        "LOCAL_RANK": context.get_local_rank(),
        "LOCAL_WORLD_SIZE": context.get_local_world_size(),
        "MASTER_ADDR": address,
        "MASTER_PORT": port,
        "FME_MASTER_PORT": port,
    }
    output = pathlib.Path(settings["storage"]) / settings["name"] / "fmengine"
    words = ["setpriv", "--pdeathsig", "TERM", "env"]
    words += [f"{name}={value}" for name, value in variables.items()]
    words += [f"{settings['build']}/fmengine-train", "--resume", "auto"]
    words += ["--output_dir", str(output)]
    program = subprocess.Popen([*words, *settings["words"]],
                               env={**os.environ, "FME_JOB_TOKEN": token})
    return program, output


def end_with_node():
    """Where the driver of a local cluster is killed, Ray's processes of the node go at once, but its
    workers stay for a minute or more. This one ends, and its rank saves and ends with it."""
    node = os.getppid()

    def watch():
        while os.getppid() == node:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def text_of(path):
    """A file's text, "" while there is none."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def last_row(output):
    """The newest line of a step, {} without any."""
    try:
        with open(output / "metrics.jsonl", "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 65536))  # a long run has a large file
            lines = file.read().split(b"\n")[:-1]
    except FileNotFoundError:
        return {}
    for line in reversed(lines):
        if line.startswith(b'{"step":') and b'"loss"' in line:
            row = json.loads(line)
            return {key: row[key] for key in ("step", "loss", "grad_norm", "lr")}
    return {}


def report(row, output, checkpoint):
    """To Ray, with the checkpoint that is new. It lies in the storage already."""
    saved = ray.train.Checkpoint(output / checkpoint) if checkpoint else None
    ray.train.report(row, checkpoint=saved,
                     checkpoint_upload_mode=ray.train.CheckpointUploadMode.NO_UPLOAD)


def is_permanent(settings, code):
    """Whether another start would end alike."""
    words = [f"{settings['build']}/fmengine", "explain", str(code)]
    done = subprocess.run(words, capture_output=True, text=True)
    return done.stdout.splitlines()[:1] != ["try-again"]


def train(settings):
    """A worker. Reports are collective, so rank 0 says what all of them report and when they
    stop."""
    end_with_node()
    context = ray.train.get_context()
    first = context.get_world_rank() == 0
    together = ray.train.collective.broadcast_from_rank_zero
    place = together(meeting_place() if first else None)
    program, output = start_rank(settings, context, *place)
    reported, saved = 0, text_of(output / "latest")
    ended = False
    while not ended:
        try:
            program.wait(1)
        except subprocess.TimeoutExpired:
            pass
        news = None
        if first:
            news = (program.poll() is not None, last_row(output), text_of(output / "latest"))
        ended, row, latest = together(news)
        # The last checkpoint is written behind the last row.
        if row and (row["step"] > reported or ended and latest != saved):
            report(row, output, latest if first and latest != saved else "")
            reported, saved = row["step"], latest
    code = program.wait()
    code = code if code >= 0 else 128 - code
    if code != 0 and not is_permanent(settings, code):
        raise RuntimeError(f"fmengine-train ended with {code}; Ray starts all ranks again")
    return code


def main():
    """The driver."""
    settings = vars(parse())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    ray.init()
    resources = {"CPU": settings["cpus"], "GPU": settings["gpus"]}
    trainer = DataParallelTrainer(
        train,
        train_loop_config=settings,
        scaling_config=ray.train.ScalingConfig(
            num_workers=settings["workers"], use_gpu=settings["gpus"] > 0,
            resources_per_worker={name: number for name, number in resources.items() if number}),
        run_config=ray.train.RunConfig(
            name=settings["name"], storage_path=settings["storage"],
            failure_config=ray.train.FailureConfig(max_failures=settings["max_failures"])),
    )
    result = trainer.fit()
    print("last report:", result.metrics, "of", result.checkpoint)
    sys.exit(result.return_value)


if __name__ == "__main__":
    main()
