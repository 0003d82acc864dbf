#!/usr/bin/env python3
"""Any ONNX files: xc, onnxruntime and OpenVINO, ratio to the better, geometric mean.

    tests/perf/files.py [--seconds 0.3] [--threads 1] MODEL.onnx ...

The arrays of MODEL.npz, by input name, are fed where it lies beside the model; else random ones (dims that are not known are 1).
How engines take turns and what is compared is as in networks.py. converted.py makes such files with other tools than PyTorch's
exporter.

Needs the packages numpy, torch, onnxruntime, openvino and the binding `xc`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort

from networks import difference, measure, ratio_to_better, summary, try_engines


def feeds_of(path: Path) -> dict[str, np.ndarray]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    ports = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).get_inputs()
    beside = path.with_suffix(".npz")
    if beside.exists():
        arrays = np.load(beside)
        return {port.name: arrays[port.name] for port in ports}
    random = np.random.default_rng(1)
    out = {}
    for port in ports:
        dims = [dim if isinstance(dim, int) else 1 for dim in port.shape]
        kind = {"tensor(float)": "f4", "tensor(double)": "f8", "tensor(int64)": "i8", "tensor(int32)": "i4",
                "tensor(uint8)": "u1", "tensor(int8)": "i1", "tensor(bool)": "?"}[port.type]
        floats = np.dtype(kind).kind == "f"
        out[port.name] = (random.standard_normal(dims) if floats else random.integers(0, 2, dims)).astype(kind)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tolerance", type=float, default=5e-3)
    options = parser.parse_args()
    ratios, failed = [], 0
    for path in options.models:
        try:
            inputs = list(feeds_of(path).values())
        except Exception as error:  # a file that onnxruntime refuses says nothing of xc
            print(f"# {path.stem}: {str(error)[:150]!r}", flush=True)
            continue
        runs, results = try_engines(path.stem, path, ["xc", "ort", "ov"], options.threads, inputs)
        failed += "xc" not in runs
        if "xc" not in runs or "ort" not in runs:
            continue
        us = measure(runs, inputs, options.seconds)
        try:
            apart = max(difference(xs, results["ort"]) for xs in (results["xc"], runs["xc"](inputs)))
        except ValueError:  # other detections, where scores are all but equal
            apart = float("inf")
        if apart > options.tolerance:
            print(f"# {path.stem}: results differ by {apart:.1e}", flush=True)
        ratios.append(ratio_to_better(us))
        shown = " ".join(f"{engine}={time:.1f}" for engine, time in us.items())
        print(f"{path.stem:32s} {shown}  ratio={ratios[-1]:.2f} difference={apart:.1e}", flush=True)
    return summary(ratios, failed)


if __name__ == "__main__":
    sys.exit(main())
