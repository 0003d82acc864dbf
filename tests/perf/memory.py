#!/usr/bin/env python3
"""Memory and time to the first result: xc (modes auto and off), onnxruntime, OpenVINO, each in a process of its own.

    tests/perf/memory.py MODEL.onnx ... [--size 16] [--runs 30] [--engines xc,xc-off,ort,ov]

Symbolic dims are SIZE; one thread, f32. Printed per engine, in ms and MiB beyond what the process took before the load (Linux's
smaps_rollup): load, first run, resident after the load, most until the end, resident in the end, and of that what is the
process's own (the rest are pages of the model's file, which the system may take back at any time).

Needs numpy, onnx and the engines asked for.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

NUMPY = {1: "f4", 2: "u1", 3: "i1", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8"}


def resident() -> tuple[float, float]:
    """(all, anonymous) MiB of this process."""
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[2] == "kB":
            found[parts[0]] = int(parts[1]) / 1024
    return found["Rss:"], found["Anonymous:"]


def peak() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def feeds_of(path: str, size: int) -> dict[str, np.ndarray]:
    import onnx
    graph = onnx.load(path, load_external_data=False).graph
    constants = {i.name for i in graph.initializer}
    generator = np.random.default_rng(0)
    feeds = {}
    for port in graph.input:
        if port.name in constants:
            continue
        tensor = port.type.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else size for d in tensor.shape.dim]
        kind = NUMPY[tensor.elem_type]
        feeds[port.name] = (generator.standard_normal(dims).astype(kind) if kind[0] == "f"
                            else generator.integers(0, 2, dims).astype(kind))
    return feeds


def loader(engine: str, path: str, threads: int = 1):
    """Imports the engine; what it gives loads the model, and gives a function of the feeds."""
    if engine.startswith("xc"):
        import xc

        def load():
            session = xc.Session(path, threads=threads, jit="off" if engine == "xc-off" else "auto")
            return session.run
    elif engine == "ort":
        import onnxruntime

        def load():
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = threads
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            return lambda feeds: session.run(None, feeds)
    else:
        import openvino

        def load():
            settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
            return openvino.Core().compile_model(path, "CPU", settings).create_infer_request().infer
    return load


def worker(engine: str, path: str, size: int, runs: int) -> None:
    feeds = feeds_of(path, size)
    load = loader(engine, path)
    Path("/proc/self/clear_refs").write_text("5")  # what was needed until now is no peak of the engine's
    before, own_before = resident()
    begin = time.perf_counter()
    run = load()
    loaded = time.perf_counter()
    after_load = resident()[0]
    first_begin = time.perf_counter()
    run(feeds)
    first = time.perf_counter()
    while runs > 0 and time.perf_counter() - first < 20:
        run(feeds)
        runs -= 1
    time.sleep(0.5)
    end, own = resident()
    cells = [1e3 * (loaded - begin), 1e3 * (first - first_begin), after_load - before, peak() - before, end - before,
             own - own_before]
    print(" | ".join(f"{cell:.0f}" for cell in cells))


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        return worker(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--engines", default="xc,xc-off,ort,ov")
    flags = parser.parse_args()
    print("| model | file | engine | load | first run | loaded | most | in the end | of that own |\n|---|---|---|---|---|---|---|---|---|")
    for model in flags.models:
        for engine in flags.engines.split(","):
            command = [sys.executable, __file__, "--worker", engine, str(model), str(flags.size), str(flags.runs)]
            done = subprocess.run(command, capture_output=True, text=True)
            cells = done.stdout.strip().splitlines()[-1] if done.returncode == 0 else f"failed: {done.stderr.strip()[-80:]}"
            print(f"| {model.stem} | {model.stat().st_size / 2**20:.0f} | {engine} | {cells} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
