#!/usr/bin/env python3
"""Networks as onnxruntime's tools rewrite them: xc, onnxruntime and OpenVINO, ratio to the better.

    tests/perf/quantised.py [--seconds 0.5] [--dir networks] [--kinds dynamic,qdq,operators,optimised] [NAME ...]

Each network of networks.py named here is exported there in its old spelling, then rewritten: `dynamic` (quantize_dynamic,
signed weights), `qdq` and `operators` (quantize_static, QuantizeLinear pairs or QLinear operators), `optimised` (saved behind
onnxruntime's extended optimisations, with its own operators). The difference is the largest to onnxruntime's result,
relative to the largest value of that output.

Needs what networks.py needs.
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

from fields import FIELDS
from networks import difference, export, measure, ratio_to_better, summary, try_engines
from zoo import NETWORKS

NAMES = ["mobilenet_v3_small", "resnet18", "gpt 64", "speech encoder", "denoiser", "recommender 128", "masked sets"]


class Samples(CalibrationDataReader):
    def __init__(self, samples: list[dict[str, np.ndarray]]):
        self.left = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def rewrite(kind: str, path: Path, inputs: list[np.ndarray]) -> Path:
    to = path.with_suffix(f".{kind}.onnx")
    if to.exists():
        return to
    part = to.with_suffix(".part")
    names = [port.name for port in ort.InferenceSession(str(path)).get_inputs()]
    if kind == "dynamic":
        quantize_dynamic(path, part, weight_type=QuantType.QInt8)
    elif kind == "optimised":
        options = ort.SessionOptions()
        options.optimized_model_filepath = str(part)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    else:
        pairs = kind == "qdq"
        samples = Samples([dict(zip(names, inputs))] * 2)
        quantize_static(path, part, samples, quant_format=QuantFormat.QDQ if pairs else QuantFormat.QOperator,
                        per_channel=pairs, weight_type=QuantType.QInt8)
    part.rename(to)
    return to


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--dir", type=Path, default=Path("networks"))
    parser.add_argument("--kinds", default="dynamic,qdq,operators,optimised")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    ratios, failed = [], 0
    for name in options.names or NAMES:
        network = (NETWORKS | FIELDS)[name]
        path = export(name, network, "old", "f32", options.dir)
        torch.manual_seed(2)
        inputs = [x.numpy() for x in network.inputs()]
        for kind in options.kinds.split(","):
            try:
                rewritten = rewrite(kind, path, inputs)
            except Exception as error:  # a tool's own failure says nothing of the engines
                print(f"# {name} {kind}: not made: {str(error)[:100]!r}", flush=True)
                continue
            runs, results = try_engines(f"{name} {kind}", rewritten, ["xc", "ort", "ov"], 1, inputs)
            failed += "xc" not in runs
            if "xc" not in runs or len(runs) < 2:
                continue
            us = measure(runs, inputs, options.seconds)
            ratios.append(ratio_to_better(us))
            apart = difference(results["xc"], results["ort"]) if "ort" in results else math.nan
            shown = " ".join(f"{engine}={time:.1f}" for engine, time in us.items())
            print(f"{name:20s} {kind:10s} {shown}  ratio={ratios[-1]:.2f} difference={apart:.1e}", flush=True)
    return summary(ratios, failed)


if __name__ == "__main__":
    sys.exit(main())
