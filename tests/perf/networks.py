#!/usr/bin/env python3
"""Whole networks beside those of the shared benchmarks: xc, onnxruntime and OpenVINO, ratio to the better, geometric mean.

    tests/perf/networks.py [--seconds 0.5] [--threads 1] [--spelling old|new] [--dtype f32|f16|bf16] [--markdown] [NAME ...]

Nobody tunes for these: image networks of torchvision with random weights, and networks of other fields (zoo.py, fields.py). Each
is exported in two spellings: `old`, the exporter by tracing at opset 14 (norms, Gelu and attention in pieces), and `new`,
the one by torch.export at opset 20. With --dtype their weights and all they compute are of that type; what goes in and comes
out stays f32. All engines get the same arrays in one process and take turns; medians of the rounds.
Results are compared as well: a network whose results differ prints so and fails the run. XC_RULES=off and XC_JIT=... act
as everywhere. Exported files are kept in --dir.

Needs the packages numpy, torch, torchvision, onnx, onnxscript, onnxruntime, openvino and the binding `xc`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

warnings.filterwarnings("ignore")

import numpy as np
import torch

from fields import FIELDS
from zoo import NETWORKS, Network


DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ROUNDINGS = {"f32": 1, "f16": 2, "bf16": 16}  # of how far apart results may be: engines round in other places


class Narrow(torch.nn.Module):
    """A network that computes in another floating-point type than it is given and asked for."""

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype):
        super().__init__()
        self.module, self.dtype = module.to(dtype), dtype

    def forward(self, *x: torch.Tensor) -> object:
        given = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)  # of what it makes on the way
        try:
            result = self.module(*(v.to(self.dtype) if v.is_floating_point() else v for v in x))
        finally:
            torch.set_default_dtype(given)
        return result.float() if isinstance(result, torch.Tensor) else tuple(v.float() for v in result)


def export(name: str, network: Network, spelling: str, dtype: str, folder: Path) -> Path:
    path = folder / f"{name.replace(' ', '_')}.{spelling}{'' if dtype == 'f32' else '.' + dtype}.onnx"
    if not path.exists():
        torch.manual_seed(1)
        torch.backends.mha.set_fastpath_enabled(False)
        module, inputs = network.make().eval(), network.inputs()
        if dtype != "f32":
            module = Narrow(module, DTYPES[dtype])
        names = [f"in{k}" for k in range(len(inputs))]
        part = path.with_suffix(".part")
        with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):  # exporters chat
            if spelling == "old":
                torch.onnx.export(module, inputs, str(part), input_names=names, opset_version=14, dynamo=False)
            else:
                torch.onnx.export(module, inputs, str(part), input_names=names, opset_version=20, dynamo=True,
                                  external_data=False, verbose=False)
        part.rename(path)
    return path


Run = Callable[[list[np.ndarray]], list[np.ndarray]]


def load(engine: str, path: Path, threads: int, dtype: str = "f32") -> Run:
    if engine == "xc":
        import xc
        session = xc.Session(str(path), threads=threads)
        return session.run
    if engine == "ort":
        import onnxruntime as ort
        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [port.name for port in session.get_inputs()]
        return lambda inputs: session.run(None, dict(zip(names, inputs)))
    import openvino as ov
    core = ov.Core()
    compiled = core.compile_model(core.read_model(str(path)), "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": dtype,
        "ENABLE_CPU_PINNING": False})
    request, outputs = compiled.create_infer_request(), len(compiled.outputs)

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        results = request.infer(dict(enumerate(inputs)), share_inputs=True, share_outputs=True)
        return [results[k] for k in range(outputs)]
    return run


def difference(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    """The largest, relative to the largest value of that output; infinite where one side alone is NaN."""
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        apart = np.abs(x - y)[~((x == y) | (np.isnan(x) & np.isnan(y)))]
        largest = float(np.abs(y[np.isfinite(y)]).max(initial=0))
        worst = max(worst, float(np.where(np.isnan(apart), np.inf, apart).max(initial=0)) / max(1e-6, largest))
    return worst


def try_engines(label: str, path: Path, engines: list[str], threads: int,
                inputs: list[np.ndarray], dtype: str = "f32") -> tuple[dict[str, Run], dict[str, list[np.ndarray]]]:
    """The engines that run the model, and their first results; of the others it says why."""
    runs, results = {}, {}
    for engine in engines:
        try:
            run = load(engine, path, threads, dtype)
            results[engine] = [np.array(a) for a in run(inputs)]
            runs[engine] = run
        except Exception as error:
            print(f"# {label}: {engine}: {str(error)[:200]!r}", flush=True)
    return runs, results


def measure(runs: dict[str, Run], inputs: list[np.ndarray], seconds: float) -> dict[str, float]:
    """Microseconds, median of rounds in which the engines take turns."""
    length = {}
    for engine, run in runs.items():
        start, calls = time.perf_counter(), 0
        until = 1.5 if engine == "xc" else 0.05  # xc adapts meanwhile
        while (elapsed := time.perf_counter() - start) < until or calls < (100 if engine == "xc" and elapsed < 15 else 2):
            run(inputs)
            calls += 1
        begin = time.perf_counter()
        run(inputs)
        length[engine] = time.perf_counter() - begin
    rounds: dict[str, list[float]] = {engine: [] for engine in runs}
    for _ in range(12):
        for engine, run in runs.items():
            times = []
            run(inputs)
            for _ in range(max(1, min(2000, int(seconds / 12 / max(length[engine], 1e-7))))):
                begin = time.perf_counter()
                run(inputs)
                times.append(time.perf_counter() - begin)
            rounds[engine].append(statistics.median(times))
    return {engine: statistics.median(times) * 1e6 for engine, times in rounds.items()}


def ratio_to_better(us: dict[str, float]) -> float:
    """Of the peers' times to xc's."""
    return min((time for engine, time in us.items() if engine != "xc"), default=math.nan) / us["xc"]


def summary(ratios: list[float], failed: int) -> int:
    """Prints it; the exit status of the tool."""
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"geometric mean {mean:.2f} of {len(ratios)}, worst {min(ratios):.2f}; {failed} failed")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--spelling", choices=["old", "new"], default="old")
    parser.add_argument("--dtype", choices=list(DTYPES), default="f32")
    parser.add_argument("--engines", default="xc,ort,ov")
    parser.add_argument("--dir", type=Path, default=Path("networks"))
    parser.add_argument("--tolerance", type=float, default=5e-3)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    engines = options.engines.split(",")

    ratios, failed = [], 0
    if options.markdown:
        print(f"| network | {' | '.join(engines)} | ratio |\n|---|{'---|' * (len(engines) + 1)}")
    for name, network in (NETWORKS | FIELDS).items():
        if options.names and not any(part in name for part in options.names):
            continue
        try:
            path = export(name, network, options.spelling, options.dtype, options.dir)
        except Exception as error:  # an exporter's own failure says nothing of the engines
            print(f"# {name}: not exported: {str(error)[:150]!r}", flush=True)
            continue
        torch.manual_seed(2)
        inputs = [x.numpy() for x in network.inputs()]
        runs, results = try_engines(name, path, engines, options.threads, inputs, options.dtype)
        failed += "xc" not in runs
        if "xc" not in runs:
            continue
        us = measure(runs, inputs, options.seconds)
        after = runs["xc"](inputs)
        peer = next((results[engine] for engine in ("ort", "ov") if engine in results), results["xc"])
        off = max(difference(results["xc"], peer), difference(after, peer))
        if off > options.tolerance * ROUNDINGS[options.dtype]:
            print(f"# {name}: results differ by {off:.1e}", flush=True)
            failed += 1
        ratio = ratio_to_better(us)
        ratios.append(ratio)
        shown = [f"{us[engine]:.1f}" if engine in us else "-" for engine in engines]
        if options.markdown:
            print(f"| {name} | {' | '.join(shown)} | {ratio:.2f} |", flush=True)
        else:
            print(f"{name:26s} {' '.join(f'{e}={t}' for e, t in zip(engines, shown))}  ratio={ratio:.2f}", flush=True)
    return summary(ratios, failed)


if __name__ == "__main__":
    sys.exit(main())
