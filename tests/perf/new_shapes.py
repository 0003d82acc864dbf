#!/usr/bin/env python3
"""What the first run of a new shape costs beyond its later ones.

    tests/perf/new_shapes.py ONNX_DIR [--sizes 1:128] [--shapes 90] [--modes auto,off] [--threads 1] [NAME ...]

ONNX_DIR holds models, such as the benchmark networks; NAME selects. Symbolic sizes (a batch `b` is 1) take random
values of the range, each once in one session: a first run and five more, whose median is the steady one. Every run has
inputs of its own, which were read just before: values that a run has seen already take it less time whatever its shape
(swiglu of 35 rows 71 us, with new values 104). The first third of the shapes only warms the session up. The aim is a tenth of the steady run, 20 us and
0.2 us per step beyond it: "over" counts the shapes that miss it, "worst" tells by how much. "Once known" is the same of a second
pass over the same sizes, with new values: what caches and the machine's noise alone make of a run of another size than the one before. Prints a
table in Markdown, in microseconds. The machine should do nothing else.

Needs the packages numpy and the binding `xc` (bindings/python).
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import xc


def inputs_of(session, size: int, generator) -> list:
    out = []
    for port in session.inputs:
        dims = [d if isinstance(d, int) else (1 if d == "b" else size) for d in port.shape]
        integer = np.issubdtype(np.dtype(port.dtype), np.integer)
        out.append(generator.integers(0, 2, dims, port.dtype) if integer else
                   generator.standard_normal(dims, "float32").astype(port.dtype))
    return out


def timed(session, inputs) -> float:
    for array in inputs:
        array.sum()
    begin = time.perf_counter()
    session.run(inputs)
    return (time.perf_counter() - begin) * 1e6


def first_runs(session, sizes: list[int], seed: int) -> list[tuple[float, float]]:
    """Of each size the first run in turn and the median of five more; the first third of the sizes warms up."""
    generator = np.random.default_rng(seed)
    data = {size: [inputs_of(session, size, generator) for _ in range(6)] for size in sizes}
    out = []
    for size in sizes:
        first, *more = [timed(session, inputs) for inputs in data[size]]
        out.append((first, statistics.median(more)))
    return out[len(sizes) // 3:]


def measure(model: Path, mode: str, sizes: list[int], threads: int) -> str | None:
    session = xc.Session(str(model), threads=threads, jit=mode)
    if all(isinstance(d, int) for port in session.inputs for d in port.shape):
        return None
    steps = len(re.findall(r"^ +\d+ ", session.explain(), re.MULTILINE))
    new, known = first_runs(session, sizes, 3), first_runs(session, sizes, 4)
    missed = [first - (1.1 * steady + 20 + 0.2 * steps) for first, steady in new]
    missed_known = sum(first > 1.1 * steady + 20 + 0.2 * steps for first, steady in known)
    beyond = sorted(first - steady for first, steady in new)
    beyond_known = statistics.median(first - steady for first, steady in known)
    steady = statistics.median(s for _, s in new)
    return (f"| {model.stem} | {mode} | {steps} | {steady:.0f} | {statistics.median(beyond):.0f} | "
            f"{beyond[len(beyond) * 9 // 10]:.0f} | {beyond_known:.0f} | {sum(m > 0 for m in missed)} of {len(missed)} | "
            f"{missed_known} | {max(max(missed), 0):.0f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sizes", default="1:128")
    parser.add_argument("--shapes", type=int, default=90)
    parser.add_argument("--modes", default="auto,off")
    parser.add_argument("--threads", type=int, default=1)
    flags = parser.parse_intermixed_args()
    least, most = map(int, flags.sizes.split(":"))
    sizes = random.Random(3).sample(range(least, most + 1), min(flags.shapes, most - least + 1))
    print("| network | mode | steps | steady | beyond it, median | 90 of 100 | once known | over | once known | worst |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for model in sorted(flags.models.glob("*.onnx")):
        if flags.names and model.stem not in flags.names:
            continue
        for mode in flags.modes.split(","):
            if row := measure(model, mode, sizes, flags.threads):
                print(row, flush=True)


if __name__ == "__main__":
    sys.exit(main())
