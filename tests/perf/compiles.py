#!/usr/bin/env python3
"""What compiling a region costs, by phase, and how large its code is.

    tests/perf/compiles.py ONNX_DIR [--isa best] [--repeats 7] [--processes 3] [NAME ...]

ONNX_DIR holds models, such as the benchmark networks; NAME selects. Each model is compiled (mode sync) in processes of
its own: cold is the first time in a process, warm the least of the following ones, each in an engine of its own; of
several processes the least counts. Milliseconds of the thread's CPU time, from the `compiled` events; symbolic sizes
are 128, a batch 1. Prints a table in Markdown.

Needs the package numpy and the binding `xc` (bindings/python).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

PHASES = ["lower", "print", "read", "emit", "optimize", "generate", "link", "publish"]
SIZES = {"b": 1}


def compiles(model: Path) -> list[dict]:
    """The compiled regions of one engine: name, code bytes, milliseconds in all and by phase."""
    import numpy as np
    import xc

    session = xc.Session(str(model), threads=1, jit="sync")
    inputs = []
    for port in session.inputs:
        dims = [d if isinstance(d, int) else SIZES.get(d, 128) for d in port.shape]
        inputs.append(np.ones(dims, port.dtype))
    session.run(inputs)
    out = []
    for event in session.profile()["events"]:
        if event["kind"] != "compiled":
            continue
        phases = {name: float(ms) for name, ms in re.findall(r"(\w+) ([\d.]+)(?:,|$)", event["detail"])}
        total = event["compile_ms"]
        out.append({"name": event["subject"], "bytes": event["code_bytes"], "total": total, **phases})
    return out


def least(rows: list[list[dict]]) -> list[dict]:
    """Region by region, the least of every number."""
    return [{key: min(r[key] for r in same) for key in same[0]} for same in zip(*rows, strict=True)]


def measure(model: Path, arguments: argparse.Namespace) -> tuple[list[dict], list[dict]]:
    cold, warm = [], []
    for _ in range(arguments.processes):
        command = [sys.executable, __file__, str(model), "--repeats", str(arguments.repeats), "--one"]
        environment = dict(os.environ, XC_ISA=arguments.isa)
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        rounds = json.loads(result.stdout)
        cold.append(rounds[0])
        warm += rounds[1:]
    return least(cold), least(warm)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--isa", default="best")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_intermixed_args()
    if arguments.one:  # a process of its own for one model
        print(json.dumps([compiles(arguments.path) for _ in range(arguments.repeats)]))
        return 0
    print("| network | region | cold | warm | " + " | ".join(PHASES) + " | bytes |")
    print("|" + "---|" * (len(PHASES) + 5))
    for model in sorted(arguments.path.glob("*.onnx")):
        if arguments.names and model.stem not in arguments.names:
            continue
        for first, later in zip(*measure(model, arguments), strict=True):
            name = re.sub(r" \(\d+ nodes\)", "", first["name"])
            numbers = " | ".join(f"{later.get(phase, 0):.2f}" for phase in PHASES)
            print(f"| {model.stem} | {name} | {first['total']:.1f} | {later['total']:.1f} | {numbers} | {first['bytes']} |",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
