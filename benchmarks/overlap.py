#!/usr/bin/env python3
"""Step times of two hosts whose link takes about as long as their arithmetic, ZeRO-2 and ZeRO-3.

    sudo benchmarks/overlap.py build/fmengine-train

The hosts are two network namespaces with one rank and one core each; the link is a veth pair that
tc's tbf limits on both ends. Per ZeRO stage four numbers of one run of this script:
  arithmetic  the median step with an unlimited link
  wire        bytes that a rank sends per step (--plan) over the rate of the limited link, which is
              measured by a plain socket
  waits       the median step with the limited link and "overlap_comm": false
  overlap     the same with "overlap_comm": true, and its ratio to max(arithmetic, wire)
Losses of all runs must be the same digits. Nothing else may run on the machine.
"""
import argparse
import contextlib
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import two_builds

HOSTS = {"fm_a": "10.79.0.1", "fm_b": "10.79.0.2"}
ROWS = 2
SHAPE = (512, 16, 8, 8, 1376, 2048, 256, ROWS, 1, None)  # as in two_builds.SHAPES; steps are a flag
WARM_UP = 2  # steps that do not count


def call(*words):
    """Runs a command that must succeed."""
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def hosts():
    """Two namespaces and the cable between them."""
    try:
        for space in HOSTS:
            call("ip", "netns", "add", space)
            call("ip", "-n", space, "link", "set", "lo", "up")
        call("ip", "-n", "fm_a", "link", "add", "card", "type", "veth", "peer", "name", "card", "netns", "fm_b")
        for space, address in HOSTS.items():
            call("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "card")
            call("ip", "-n", space, "link", "set", "card", "up")
        yield
    finally:
        for space in HOSTS:
            subprocess.run(["ip", "netns", "delete", space], check=False)


def limit(bytes_per_second):
    """Both directions of the cable; None: no limit."""
    for space in HOSTS:
        subprocess.run(["tc", "-n", space, "qdisc", "del", "dev", "card", "root"], check=False,
                       stderr=subprocess.DEVNULL)
        if bytes_per_second is not None:
            call("tc", "-n", space, "qdisc", "add", "dev", "card", "root", "tbf", "rate", f"{8 * int(bytes_per_second)}bit",
                 "burst", "128kb", "latency", "20ms")


SENDER = """
import socket, sys, time
peer = socket.create_connection((sys.argv[1], 29999))
piece = bytes(1 << 16)
begin = time.monotonic()
for _ in range(int(sys.argv[2])): peer.sendall(piece)
peer.shutdown(socket.SHUT_WR)
peer.recv(1)
print((int(sys.argv[2]) << 16) / (time.monotonic() - begin))
"""
RECEIVER = """
import socket
listener = socket.create_server(("0.0.0.0", 29999))
print("ready", flush=True)
peer, _ = listener.accept()
while peer.recv(1 << 16): pass
peer.sendall(b"x")
"""


def link_rate(seconds, bytes_per_second):
    """Bytes per second that a plain socket gets over the cable."""
    with subprocess.Popen(["ip", "netns", "exec", "fm_b", sys.executable, "-c", RECEIVER], stdout=subprocess.PIPE,
                          text=True) as receiver:
        receiver.stdout.readline()
        pieces = max(1, int(seconds * bytes_per_second) >> 16)
        sent = subprocess.run(["ip", "netns", "exec", "fm_a", sys.executable, "-c", SENDER, HOSTS["fm_b"], str(pieces)],
                              check=True, capture_output=True, text=True)
        receiver.wait()
    return float(sent.stdout)


def write_config(folder, stage, overlap):
    """The DeepSpeed JSON of one run, in the place of that of two_builds.py."""
    config = {"train_micro_batch_size_per_gpu": ROWS, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0,
              "zero_optimization": {"stage": stage, "overlap_comm": overlap},
              "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}
    (folder / "ds.json").write_text(json.dumps(config))


def wire_bytes(program, flags):
    """Bytes that a rank sends per step, by the plan for two hosts."""
    plan = subprocess.run([program, *flags, "--plan", "--json", "--plan_ranks", "2", "--ranks_per_host", "1"], check=True,
                          capture_output=True, text=True)
    return sum(json.loads(plan.stdout)["wire_bytes"][0].values())


def train(program, flags, steps):
    """(median step time in s, losses) of one run of both hosts."""
    with tempfile.TemporaryDirectory() as output:
        ranks = []
        for rank, space in enumerate(HOSTS):
            variables = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR=HOSTS["fm_a"], MASTER_PORT="29500",
                             FME_HOST=space, OMP_NUM_THREADS="1")
            ranks.append(subprocess.Popen(
                ["ip", "netns", "exec", space, "taskset", "-c", str(rank % (os.cpu_count() or 1)), program, *flags,
                 "--train_steps", str(steps), "--save_steps", "0", "--save_strategy", "no", "--resume", "never",
                 "--output_dir", output],
                env=variables, stdout=subprocess.DEVNULL))
        codes = [rank.wait() for rank in ranks]
        if any(codes):
            sys.exit(f"training ended with {codes}")
        rows = [json.loads(line) for line in (pathlib.Path(output) / "metrics.jsonl").read_text().splitlines() if line.startswith('{"step"')]
    return statistics.median(row["step_time"] for row in rows[WARM_UP:]), [row["loss"] for row in rows]


def main():
    """Measures both stages and prints them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--wire_share", type=float, default=1.0, help="wire time wanted, of the arithmetic's")
    options = parser.parse_args()
    program = str(pathlib.Path(options.program).resolve())
    with tempfile.TemporaryDirectory() as name, hosts():
        folder = pathlib.Path(name)
        flags = two_builds.write_inputs(folder, SHAPE)
        for stage in (2, 3):
            write_config(folder, stage, True)
            limit(None)
            arithmetic, expected = train(program, flags, options.steps)
            sent = wire_bytes(program, flags)
            limit(sent / arithmetic / options.wire_share)
            rate = link_rate(2.0, sent / arithmetic / options.wire_share)
            wire = sent / rate
            overlapped, losses = train(program, flags, options.steps)
            write_config(folder, stage, False)
            waiting, others = train(program, flags, options.steps)
            same = expected == losses == others
            print(f"ZeRO-{stage}: arithmetic {arithmetic:.3f} s, wire {wire:.3f} s ({sent / 1e6:.0f} MB at {rate / 1e6:.0f} MB/s), "
                  f"waits {waiting:.3f} s ({waiting / max(arithmetic, wire):.2f}), overlap {overlapped:.3f} s "
                  f"({overlapped / max(arithmetic, wire):.2f}); losses {'the same' if same else 'DIFFER'}", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    main()
