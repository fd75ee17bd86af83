#!/usr/bin/env python3
"""Our schedules against those of torch.distributed.pipelining.

    pipelining_parity.py BUILD

Orders: our CSV equals PyTorch's generators. Messages: PyTorch's validator and its simulator accept
what we write. Import: what PyTorch writes, with messages too, reads back as the same order.
"""
import csv
import pathlib
import subprocess
import sys
import tempfile

from torch.distributed.pipelining import schedules as torch_schedules


class Stage:
    """What a schedule asks of its stages."""

    def __init__(self, index, ranks, count):
        self.stage_index, self.group_rank, self.group_size, self.num_stages = index, 0, ranks, count
        self.is_first, self.is_last = index == 0, index == count - 1
        self.has_backward, self.submod = True, None
        self.stage_index_to_group_rank = None
        self.group = None
        self.device = "cpu"


# Our name, PyTorch's class, chunks per rank.
CASES = [("interleaved-1f1b", "ScheduleInterleaved1F1B", 2), ("interleaved-1f1b", "ScheduleInterleaved1F1B", 3),
         ("interleaved-zb", "ScheduleInterleavedZeroBubble", 2), ("looped-bfs", "ScheduleLoopedBFS", 2),
         ("zb-v", "ScheduleZBVZeroBubble", 2), ("dualpipe-v", "ScheduleDualPipeV", 2)]


def flat(action):
    """The computing actions of a cell."""
    if action is None:
        return []
    if action.sub_actions is not None:
        return [each for sub in action.sub_actions for each in flat(sub)]
    return [str(action)] if action.is_compute_op else []


def order_of(rows):
    return [[each for action in row for each in flat(action)] for row in rows]


def theirs(name, ranks, micros, chunks):
    stages = [Stage(rank, ranks, ranks * chunks) for rank in range(chunks)]
    schedule = getattr(torch_schedules, name)(stages, micros, loss_fn=lambda *_: None)
    return [schedule.pipeline_order[rank] for rank in range(ranks)]


def read(path):
    with open(path, newline="") as file:
        return [[torch_schedules._Action.from_str(cell) for cell in row] for row in csv.reader(file)]


def ours(train, ranks, micros, schedule, chunks, folder):
    """Computing actions, and all actions with messages."""
    paths = [folder / "order.csv", folder / "messages.csv"]
    command = [train, "--plan", "--plan_times", "1,1,1,0", "--micros", micros, "--pipe_parallel_size", ranks, "--schedule", schedule,
               "--virtual_stages", chunks, "--csv", paths[0], "--csv_messages", paths[1]]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    return [read(path) for path in paths]


def check_messages(rows, ranks, stages, micros):
    """PyTorch's own proofs of an order with messages."""
    owners = torch_schedules._validate_schedule(
        {rank: [a for a in row if a is not None and a.is_compute_op] for rank, row in enumerate(rows)}, ranks, stages, micros)
    torch_schedules._simulate_comms_compute({rank: list(row) for rank, row in enumerate(rows)}, lambda stage: owners[stage], stages)


def main():
    train = pathlib.Path(sys.argv[1]) / "fmengine-train"
    compared = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for schedule, their_name, chunks in CASES:
            for ranks in (2, 4):
                for micros in (2 * ranks, 4 * ranks):
                    rows = theirs(their_name, ranks, micros, chunks)
                    order, messages = ours(train, ranks, micros, schedule, chunks, folder)
                    case = (schedule, ranks, micros, chunks)
                    assert order_of(order) == order_of(rows), (case, order_of(order), order_of(rows))
                    check_messages(messages, ranks, ranks * chunks, micros)
                    with open(folder / "theirs.csv", "w", newline="") as file:
                        csv.writer(file).writerows(rows)
                    again, _ = ours(train, ranks, micros, folder / "theirs.csv", 0, folder)
                    assert order_of(again) == order_of(rows), case
                    compared += 1
    print(f"pipelining: {compared} orders equal PyTorch's, and its simulator accepts our messages")


if __name__ == "__main__":
    main()
