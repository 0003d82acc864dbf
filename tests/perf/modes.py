#!/usr/bin/env python3
"""The shared benchmark networks at every size, in every mode, on one and two threads: do they agree with onnxruntime?

    tests/perf/modes.py BENCH_DIR ONNX_DIR [--runs 60] [NAME ...]

BENCH_DIR holds models.py of the shared benchmarks, ONNX_DIR what its export.py wrote. Mode auto runs until kernels have
been swapped in (--runs; heavy networks fewer). The number printed per mode is the largest difference over the largest
value of that output; at most 1e-3 is allowed. Steps on reference kernels are named. Exits 1 where a result is off or a
step is.

Needs the packages numpy, torch, onnxruntime and the binding `xc`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import xc

from networks import difference


def deviation(got: list, want: list) -> float:
    got = [np.asarray(g) for g in got]
    alike = [(g.shape, g.dtype) for g in got] == [(w.shape, w.dtype) for w in want]
    return difference(got, want) if alike else float("inf")


def run_in(mode: str, threads: int, path: Path, inputs: list, runs: int) -> tuple[list, list[str]]:
    session = xc.Session(str(path), threads=threads, jit=mode)
    end = time.monotonic() + 10
    outputs = session.run(inputs)
    if mode == "auto":
        for _ in range(runs):
            outputs = session.run(inputs)
            if time.monotonic() > end:
                break
    fell_back = [line.strip() for line in session.explain().splitlines() if " reference " in line and "->" in line]
    return outputs, fell_back


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", type=Path)
    parser.add_argument("onnx", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=int, default=60)
    arguments = parser.parse_args()
    sys.path.insert(0, str(arguments.bench))
    from models import ENTRIES

    failed = 0
    for name in arguments.names or ENTRIES:
        path = arguments.onnx / f"{name}.onnx"
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        peer = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        for size in ENTRIES[name][3]:
            torch.manual_seed(1)
            inputs = [value.numpy() for value in ENTRIES[name][1](size)]
            want = peer.run(None, dict(zip([port.name for port in peer.get_inputs()], inputs, strict=True)))
            row = []
            for mode in ("off", "auto", "sync"):
                for threads in (1, 2):
                    got, fell_back = run_in(mode, threads, path, inputs, arguments.runs)
                    worst = deviation(got, want)
                    row.append(f"{mode}/{threads} {worst:.1e}")
                    for line in fell_back:
                        print(f"{name} {size} {mode}: on a reference kernel: {line}")
                    failed += worst > 1e-3 or bool(fell_back)
            print(f"{name:15s} {size:7d}  {'  '.join(row)}", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
