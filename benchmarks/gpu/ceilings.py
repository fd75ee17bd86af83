#!/usr/bin/env python3
"""What the card and its link can do, by torch: one line of JSON."""
import json
import time

import torch


def seconds(run, times=10):
    """Of one run, once it is warm."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


def main():
    found = {}
    size = 8192
    a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    found["bf16 product 8192^3"] = f"{2 * size**3 / seconds(lambda: a @ b) / 1e12:.0f} TFLOP/s"
    source = torch.empty(1 << 31, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    copied = 2 * source.numel() / seconds(lambda: target.copy_(source)) / 1e12
    found["copy, both directions"] = f"{copied:.2f} TB/s"
    host = torch.empty(1 << 29, dtype=torch.uint8, pin_memory=True)
    there = source[: host.numel()]
    for name, run in (("host to device", lambda: there.copy_(host, non_blocking=True)),
                      ("device to host", lambda: host.copy_(there, non_blocking=True))):
        found[name] = f"{host.numel() / seconds(run) / 1e9:.1f} GB/s"
    print(json.dumps(found))


if __name__ == "__main__":
    main()
