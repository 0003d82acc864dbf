#!/usr/bin/env python3
"""Any ONNX files with symbolic sizes: xc against onnxruntime and OpenVINO on streams of calls of changing sizes.

    tests/perf/size_streams.py --sizes 1:128 [--streams uniform,alternating] [--calls 100] [--engines xc,ort,ov] [--rounds 2] MODEL.onnx ...

What the shared streams.py does for its networks: time from the start of the load to the end of call 1, 10, 100 and the last, each
engine in a process of its own. Every symbol of the inputs takes a size of its own in each call. Streams: constant (the largest),
uniform, bimodal (a quarter the largest, the others the least), alternating (these two in turn), growing. Printed: for each of those
calls the least time of the other engines over xc's, and the least of it over all. Integer inputs are 0 or 1; with MODEL.npz beside the
model, up to the largest it has. Results of the last call are compared, too. Engines take turns, and the least time of each over the
rounds counts: whoever comes first after a pause may pay for memory. symbolic.py makes such files.

Needs the packages numpy, onnxruntime, openvino (where asked for) and the binding `xc`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

Sizes = list[tuple[int, ...]]  # by call, a size for each symbol
KINDS = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(int64)": "i8", "tensor(int32)": "i4", "tensor(bool)": "?"}


def stream(kind: str, least: int, most: int, calls: int, symbols: int) -> Sizes:
    generator = random.Random(7)
    size = {"constant": lambda call: most,
            "uniform": lambda call: generator.randint(least, most),
            "bimodal": lambda call: generator.choice([least, least, least, most]),
            "alternating": lambda call: (least, most)[call % 2],
            "growing": lambda call: least + call * (most - least) // max(1, calls - 1)}[kind]
    return [tuple(size(call) for _ in range(symbols)) for call in range(calls)]


def ports_of(path: Path) -> list[tuple[str, str, list[int | str]]]:
    """Name, type and dims of the inputs."""
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return [(port.name, KINDS[port.type], list(port.shape))
            for port in onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).get_inputs()]


def worker(engine: str, path: str, plan: str, out: str) -> None:
    """Prints the seconds from the start of the load to the end of the counted calls; results of the last call go to the file `out`."""
    from memory import loader
    with open(plan, encoding="utf-8") as file:
        told = json.load(file)
    generator = np.random.default_rng(5)

    def feeds(sizes: list[int]) -> dict[str, np.ndarray]:
        of = dict(zip(told["symbols"], sizes))
        made = {}
        for (name, kind, dims), most in zip(told["ports"], told["most"]):
            dims = [of.get(dim, dim) for dim in dims]
            made[name] = (generator.standard_normal(dims) if kind[0] == "f" else generator.integers(0, most + 1, dims)).astype(kind)
        return made

    known = {sizes: feeds(list(sizes)) for sizes in dict.fromkeys(map(tuple, told["calls"]))}
    load = loader(engine, path, told["threads"])
    begin = time.perf_counter()
    run = load()
    total = time.perf_counter() - begin
    ends = {}
    for number, sizes in enumerate(map(tuple, told["calls"]), 1):
        begin = time.perf_counter()
        results = run(known[sizes])
        total += time.perf_counter() - begin
        if number in (1, 10, 100, len(told["calls"])):
            ends[number] = total
    results = [results[k] for k in range(len(results))]
    np.savez(out, *[np.array(result) for result in results])
    print(json.dumps(ends))


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        worker(*sys.argv[2:6])
        return 0
    from networks import difference
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--sizes", required=True, help="LEAST:MOST")
    parser.add_argument("--streams", default="uniform,alternating")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--engines", default="xc,ort,ov")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--tolerance", type=float, default=5e-3)
    options = parser.parse_args()
    engines = options.engines.split(",")
    least, most = map(int, options.sizes.split(":"))
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": str(options.threads)}
    ratios: dict[int, list[float]] = {}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        plan = f"{folder}/plan.json"
        for path in options.models:
            ports = ports_of(path)
            symbols = list(dict.fromkeys(dim for _, _, dims in ports for dim in dims if not isinstance(dim, int)))
            beside = path.with_suffix(".npz")
            arrays = np.load(beside) if beside.exists() else {}
            largest = [int(arrays[name].max()) if kind[0] == "i" and name in arrays else 1 for name, kind, _ in ports]
            for kind in options.streams.split(","):
                calls = stream(kind, least, most, options.calls, len(symbols))
                Path(plan).write_text(json.dumps({"ports": ports, "symbols": symbols, "most": largest, "calls": calls,
                                                  "threads": options.threads}), encoding="utf-8")
                times: dict[str, dict[int, float]] = {}
                for _ in range(options.rounds):
                    for engine in engines:
                        done = subprocess.run([sys.executable, __file__, "--worker", engine, str(path), plan, f"{folder}/{engine}.npz"],
                                              capture_output=True, text=True, env=environment)
                        if done.returncode:
                            print(f"# {path.stem} {kind}: {engine}: {done.stderr.strip().splitlines()[-1][:200]}", flush=True)
                            continue
                        seen = {int(number): end for number, end in json.loads(done.stdout).items()}
                        known = times.setdefault(engine, seen)
                        times[engine] = {number: min(end, known[number]) for number, end in seen.items()}
                mine = times.pop(engines[0], None)
                failed += mine is None
                if mine is None or not times:
                    continue
                shown = []
                for number, end in mine.items():
                    ratio = min(other[number] for other in times.values()) / end
                    ratios.setdefault(number, []).append(ratio)
                    shown.append(f"{number}:{ratio:.2f}")
                off = difference(*[list(np.load(f"{folder}/{engine}.npz").values()) for engine in (engines[0], next(iter(times)))])
                if off > options.tolerance:
                    failed += 1
                    print(f"# {path.stem} {kind}: results differ by {off:.1e}", flush=True)
                last = " ".join(f"{engine}={end[max(end)] * 1e3:.0f}" for engine, end in {engines[0]: mine, **times}.items())
                print(f"{path.stem:28s} {kind:11s} {' '.join(shown)}  ms {last}", flush=True)
    for number, seen in ratios.items():
        print(f"call {number}: {float(np.exp(np.mean(np.log(seen)))):.2f} of {len(seen)}, the least {min(seen):.2f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
