"""The optimizer boundary of DeepSpeed ZeRO-2 on CPU, beside benchmarks/optimizer_boundary_benchmark.

deepspeed --num_accelerators 2 --bind_cores_to_rank benchmarks/comparison/boundary_deepspeed.py

A module of parameters whose gradients are there already: its backward hands over a ready tensor per
parameter, so that what remains of backward is DeepSpeed's reduction. Timed: backward and step, less
the same backward without DeepSpeed. Gradients are divided and summed over ranks, clipped, AdamW
runs, parameters are gathered: the work of our boundary.
"""
import argparse
import statistics
import time

import deepspeed
import torch
import torch.distributed as dist

BLOCK = 2 * 512 * 512 + 2 * 256 * 512 + 3 * 1376 * 512 + 2 * 512
SHAPES = {
    "one matrix": [33_554_432],
    "Llama of 10 units": [32000 * 512] + 8 * [BLOCK] + [32000 * 512 + 512],
}


class Ready(torch.autograd.Function):
    """A sum over all parameters whose gradients are `ready`."""

    @staticmethod
    def forward(ctx, ready, *parameters):
        ctx.ready = ready
        return parameters[0].detach().flatten()[0].clone().reshape(())

    @staticmethod
    def backward(ctx, scale):
        return (None, *ctx.ready)


class Rows(torch.nn.Module):
    def __init__(self, units):
        super().__init__()
        self.rows = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(n)) for n in units)
        generator = torch.Generator().manual_seed(1)
        self.ready = [1e-3 * torch.randn(n, generator=generator) for n in units]

    def forward(self):
        return Ready.apply(self.ready, *self.rows)


def engine_of(module, clip):
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": clip,
        "steps_per_print": 1_000_000,
        "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "weight_decay": 0.1}},
    }
    return deepspeed.initialize(model=module, model_parameters=module.parameters(), config=config)[0]


def seconds(call):
    dist.barrier()
    begin = time.perf_counter()
    call()
    spent = torch.tensor(time.perf_counter() - begin)
    dist.all_reduce(spent, dist.ReduceOp.MAX)
    return spent.item()


def bare_seconds(module, rounds):
    spent = []
    for _ in range(rounds):
        loss = module()
        spent.append(seconds(loss.backward))
        module.zero_grad(set_to_none=True)
    return statistics.median(spent)


def measure(name, units, rounds):
    for clip in (1e-3, 0.0):
        module = Rows(units)
        bare = bare_seconds(module, 3)
        engine = engine_of(module, clip)
        spent = []
        for _ in range(rounds + 2):
            loss = engine()
            spent.append(seconds(lambda: (engine.backward(loss), engine.step())))
        boundary = statistics.median(spent[2:]) - bare
        if dist.get_rank() == 0:
            print(f"{name:18} {sum(units) / 1e6:10.1f} {'active' if clip else 'none':10} "
                  f"{boundary / sum(units) * 1e9:10.3f}", flush=True)
        engine.destroy()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--local_rank", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    deepspeed.init_distributed()
    if dist.get_rank() == 0:
        print(f"{'parameters':18} {'millions':>10} {'clipping':10} {'ns each':>10}", flush=True)
    for name, units in SHAPES.items():
        measure(name, units, arguments.rounds)


if __name__ == "__main__":
    main()
