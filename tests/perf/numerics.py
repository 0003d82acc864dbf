#!/usr/bin/env python3
"""Fast numerics against tolerant ones: time of a call, ratio, largest difference.

    tests/perf/numerics.py ONNX_DIR [--seconds 2] [--threads 1] [--jit sync] [NAME ...]

ONNX_DIR holds the benchmark networks (shared/bench/export.py). Both modes get the same arrays in one process and take
turns once they have had `seconds` to pack weights and compile; the median of the turns counts. On one thread it is the
CPU time of that thread, which other work on the machine disturbs less. Ratio = tolerant / fast: above 1, fast
is faster. The difference is the largest of any output, relative to that output's largest value.

Needs the package numpy and the binding `xc` (bindings/python).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import xc

rng = np.random.default_rng(1)
TURNS, LEAST_TURN_S = 15, 0.02
CLOCK = time.thread_time


def f32(*dims: int) -> np.ndarray:
    return rng.standard_normal(dims, dtype=np.float32)


def tokens(n: int) -> np.ndarray:
    return rng.integers(0, 8000, (1, n), dtype=np.int64)


# name: its inputs at a size, and sizes
NETWORKS = {
    "bert_base": (lambda n: [tokens(n), np.ones((1, n), np.int64)], [16, 128, 384]),
    "resnet50": (lambda n: [f32(n, 3, 224, 224)], [1]),
    "mobilenet_v2": (lambda n: [f32(n, 3, 224, 224)], [1]),
    "unet": (lambda n: [f32(1, 3, n, n)], [128]),
    "decoder": (lambda n: [tokens(1), np.full((1, 1), n), *(f32(1, 12, n, 64) for _ in range(8))], [16, 256]),
    "mlp": (lambda n: [f32(n, 784)], [1, 64]),
    "gelu_chain": (lambda n: [f32(n, 3072)], [1, 32, 1024]),
    "swiglu": (lambda n: [f32(n, 4096), f32(n, 4096)], [256]),
    "masked_softmax": (lambda n: [f32(1, 12, n, n), f32(1, 1, 1, n)], [128, 512]),
}


def calls(session: xc.Session, inputs: list[np.ndarray], seconds: float) -> float:
    """Seconds per call over at least `seconds` by the clock."""
    count, start, clock_start = 0, time.perf_counter(), CLOCK()
    while True:
        session.run(inputs)
        count += 1
        if time.perf_counter() - start >= seconds:
            return (CLOCK() - clock_start) / count


def main() -> int:
    global CLOCK
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="networks; default: all that are there")
    parser.add_argument("--seconds", type=float, default=2.0, help="to tier up, per mode and size")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--jit", default="sync")
    args = parser.parse_args()
    if args.threads != 1:
        CLOCK = time.perf_counter
    print("| network | size | tolerant, us | fast, us | ratio | largest difference |\n|---|---|---|---|---|---|")
    for name, (inputs_of, sizes) in NETWORKS.items():
        path = args.folder / f"{name}.onnx"
        if not path.exists() or (args.names and name not in args.names):
            continue
        modes = [xc.Session(str(path), numerics=mode, threads=args.threads, jit=args.jit)
                 for mode in ("tolerant", "fast")]
        for size in sizes:
            inputs = inputs_of(size)
            for session in modes:
                calls(session, inputs, args.seconds)
            turns = [[calls(session, inputs, LEAST_TURN_S) for session in modes] for _ in range(TURNS)]
            tolerant, fast = (statistics.median(t[k] for t in turns) for k in range(2))
            apart = max(float(np.max(np.abs(a - b)) / max(np.max(np.abs(a)), 1e-30))
                        for a, b in zip(*(session.run(inputs) for session in modes), strict=True))
            print(f"| {name} | {size} | {tolerant * 1e6:.1f} | {fast * 1e6:.1f} | {tolerant / fast:.2f} | {apart:.1e} |",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
