#!/usr/bin/env python3
"""What adaptation costs a caller: streams made to defeat it, and the slowest calls around a swap.

    tests/perf/adaptation.py ONNX_DIR [--calls 20000] [--processes 3] [--tail-calls 4000] [--tails 10] [NAME ...]

ONNX_DIR holds models with one symbolic size, such as the benchmark networks norm_chain, masked_softmax and row_tmpl; NAME
selects. Modes auto and off run in processes that take turns; each process times every call.

Streams: `threshold`, five sizes with a fifth of the calls each, which is the share at which a size counts as frequent, one of
them another size in every second thousand; `fresh`, no size twice as long as there are others; `phases`, two sizes in turns of
500 calls. Printed: the sum of all calls from the load on in `auto` over that in `off`, medians of the processes, and the CPU
that auto spent on compiling and checking.

Tails: calls of one size in fresh processes, behind the first 100, among which kernels are compiled, tried and swapped in:
medians over the processes of the 99th and 99.9th of a hundred calls in both modes. The machine should do nothing else.

Needs the packages numpy and the binding `xc` (bindings/python).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

THREADS = 1


def sizes_of(kind: str, calls: int) -> list[int]:
    if kind == "threshold":
        return [1 + i % 97 if i % 5 == 4 and i // 1000 % 2 else 50 + i % 5 for i in range(calls)]
    if kind == "fresh":
        sizes = list(range(1, 1001))
        random.Random(5).shuffle(sizes)
        return [sizes[i % len(sizes)] for i in range(calls)]
    if kind == "phases":
        return [200 if i // 500 % 2 else 20 for i in range(calls)]
    return [64] * calls


def worker(model: str, mode: str, kind: str, calls: int) -> None:
    """Prints what one process measures."""
    sizes = sizes_of(kind, calls)
    generator = np.random.default_rng(3)
    begin = time.perf_counter()
    import xc
    session = xc.Session(model, threads=THREADS, jit=mode)
    loaded = time.perf_counter() - begin
    ports = [(port.shape, port.dtype) for port in session.inputs]
    whole = {}

    def inputs(size: int) -> list[np.ndarray]:
        """Parts of one array per port, so that no size costs memory of its own."""
        out = []
        for k, (shape, dtype) in enumerate(ports):
            dims = [d if isinstance(d, int) else size for d in shape]
            count = int(np.prod(dims))
            if k not in whole:
                most = int(np.prod([d if isinstance(d, int) else max(sizes) for d in shape]))
                whole[k] = generator.standard_normal(most, "float32").astype(dtype)
            out.append(whole[k][:count].reshape(dims))
        return out

    ready = {size: inputs(size) for size in sorted(set(sizes))}
    times = []
    for size in sizes:
        data = ready[size]
        begin = time.perf_counter()
        session.run(data)
        times.append(time.perf_counter() - begin)
    profile = session.profile()
    late = sorted(times[100:])
    print(json.dumps({"total": loaded + sum(times), "compile_ms": profile["compile_ms"],
                      "swaps": profile["swapped"], "p99": late[int(len(late) * 0.99)],
                      "p999": late[int(len(late) * 0.999)], "median": late[len(late) // 2]}))


def run(model: Path, mode: str, kind: str, calls: int) -> dict:
    """What one process measures. NumPy's helper threads spin for some milliseconds after its import: with two processors,
    they would drive the thread that compiles to the processor of the caller, which then stands for a slice of the scheduler."""
    command = [sys.executable, __file__, "--worker", str(model), mode, kind, str(calls)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        return worker(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--tail-calls", type=int, default=4000)
    parser.add_argument("--tails", type=int, default=10)
    flags = parser.parse_args()
    models = [m for m in sorted(flags.models.glob("*.onnx")) if not flags.names or m.stem in flags.names]

    print("| network | stream | auto, ms | off, ms | auto / off | compiling, ms of CPU | swaps |\n|---|---|---|---|---|---|---|")
    for model in models:
        for kind in ("threshold", "fresh", "phases"):
            seen = {mode: [] for mode in ("auto", "off")}
            for _ in range(flags.processes):
                for mode, results in seen.items():
                    results.append(run(model, mode, kind, flags.calls))
            total = {mode: statistics.median(r["total"] for r in results) * 1e3 for mode, results in seen.items()}
            compiling, swaps = (statistics.median(r[k] for r in seen["auto"]) for k in ("compile_ms", "swaps"))
            print(f"| {model.stem} | {kind} | {total['auto']:.0f} | {total['off']:.0f} | {total['auto'] / total['off']:.3f} | "
                  f"{compiling:.0f} | {swaps:.0f} |", flush=True)

    print("\n| network | median, auto / off, us | 99 of 100 | 99.9 of 100 | swaps |\n|---|---|---|---|---|")
    for model in models:
        seen = {mode: [] for mode in ("auto", "off")}
        for _ in range(flags.tails):
            for mode, results in seen.items():
                results.append(run(model, mode, "constant", flags.tail_calls))
        cells = [" / ".join(f"{statistics.median(r[k] for r in seen[mode]) * 1e6:.1f}" for mode in ("auto", "off"))
                 for k in ("median", "p99", "p999")]
        print(f"| {model.stem} | {' | '.join(cells)} | {statistics.median(r['swaps'] for r in seen['auto']):.0f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
