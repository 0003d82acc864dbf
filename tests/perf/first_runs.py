#!/usr/bin/env python3
"""Any ONNX files: time from the start of the load to the end of run 1, 3, 10, 30 and 100, xc against onnxruntime and OpenVINO.

    tests/perf/first_runs.py [--engines xc,ort] [--threads 1] [--rounds 2] [--seconds 1.5] MODEL.onnx ...

`xc-off` is xc in mode off. Each engine has a process of its own per round; engines take turns, and the least time of a run's
number counts. Printed: load and first run in ms, then for each number of runs the least time of the other engines over xc's. A
process ends after 100 runs, or once SECONDS have passed and three runs. Inputs are those of files.py. The machine should do nothing
else: what xc compiles in the background counts, too, where it takes time from the runs.

Needs the packages numpy, torch, onnxruntime, openvino (where asked for) and the binding `xc`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COUNTED = (1, 3, 10, 30, 100)


def worker(engine: str, path: str, arrays: str, threads: int, seconds: float) -> None:
    """Prints what one process measures, in seconds from the start of the load."""
    from memory import loader
    stored = np.load(arrays)
    feeds = {str(name): stored[f"in{k}"] for k, name in enumerate(stored["names"])}
    load = loader(engine, path, threads)
    begin = time.perf_counter()
    run = load()
    loaded = time.perf_counter() - begin
    ends = {}
    total = loaded
    for number in range(1, max(COUNTED) + 1):
        begin = time.perf_counter()
        run(feeds)
        total += time.perf_counter() - begin
        if number in COUNTED:
            ends[number] = total
        if total > seconds and number >= 3:
            break
    print(json.dumps({"load": loaded, "ends": ends}))


def least(engines: list[str], path: Path, arrays: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """By engine, the least time of each number of runs, and of the load."""
    out: dict[str, dict[str, float]] = {engine: {} for engine in engines}
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": str(options.threads)}
    for _ in range(options.rounds):
        for engine, known in out.items():
            command = [sys.executable, __file__, "--worker", engine, str(path), arrays, str(options.threads), str(options.seconds)]
            done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
            seen = json.loads(done.stdout)
            for key, value in {"load": seen["load"], **seen["ends"]}.items():
                known[key] = min(known.get(key, value), value)
    return out


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        worker(*sys.argv[2:5], int(sys.argv[5]), float(sys.argv[6]))
        return 0
    from files import feeds_of
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--engines", default="xc,ort")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.5)
    options = parser.parse_args()
    engines = options.engines.split(",")
    ratios: dict[str, list[float]] = {str(number): [] for number in COUNTED}
    with tempfile.TemporaryDirectory() as folder:
        arrays = f"{folder}/inputs.npz"
        for path in options.models:
            try:
                feeds = feeds_of(path)
                np.savez(arrays, names=list(feeds), **{f"in{k}": array for k, array in enumerate(feeds.values())})
                times = least(engines, path, arrays, options)
            except Exception as error:  # a file that an engine refuses says nothing of the others
                print(f"# {path.stem}: {str(error)[:150]!r}", flush=True)
                continue
            first = " ".join(f"{engine} {seen['load'] * 1e3:.1f}+{(seen['1'] - seen['load']) * 1e3:.1f}" for engine, seen in times.items())
            mine = times[engines[0]]
            shown = []
            for number in ratios:
                others = [times[engine].get(number) for engine in engines[1:]]
                if number in mine and all(others):
                    ratios[number].append(min(others) / mine[number])
                    shown.append(f"{number}:{ratios[number][-1]:.2f}")
            print(f"{path.stem:34s} {first}  {' '.join(shown)}", flush=True)
    for number, seen in ratios.items():
        if seen:
            print(f"run {number}: {float(np.exp(np.mean(np.log(seen)))):.2f} of {len(seen)}, the least {min(seen):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
