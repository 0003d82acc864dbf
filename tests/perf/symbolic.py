#!/usr/bin/env python3
"""Networks of networks.py with symbolic sizes, for size_streams.py: images in batches, or of any height and width, and others.

    tests/perf/symbolic.py DIR [NAME ...]

Writes DIR/NAME.onnx and the arrays it was exported with, DIR/NAME.npz: by torch.export at opset 20; image networks whose height and
width are open (NAME.size.onnx), which that refuses, by tracing at opset 17. NAME selects.

Needs the packages numpy, torch, torchvision, onnx and onnxscript.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import numpy as np
import torch
from torch.export import Dim

from fields import FIELDS
from zoo import NETWORKS, Lambda, Network

# Open axes by input. Image networks, which are not listed, take any batch.
OPEN: dict[str, list[set[int]]] = {
    "gpt 64": [{1}], "llama block 100": [{1}], "speech encoder": [{2}], "mixer": [{0}], "experts": [{0}], "wavenet": [{2}],
    "recommender 128": [{0}, {0}], "pointnet": [{2}], "graph convolution": [{0}, {0, 1}], "tagger": [{0, 1}], "denoiser": [{2}],
    "decoder 2d": [{0}], "conformer": [{1}], "temporal convolutions": [{2}], "state space": [{1}], "radiance field": [{0}, {0}, {0}],
    "sines": [{0}], "linear attention": [{1}], "masked sets": [{0, 1}, {0, 1}], "l2svm 200x50": [{0}, set(), {0}],
    "poisson 20000x64": [{0}, set(), {0}], "standardise 5000x100": [{0}], "cosine 64x256x300": [{0}, {0}],
    "factorisation 1000x800": [{0, 1}, {0}, {0}], "black-scholes 100": [{0}, {0}, {0}], "page rank 400": [{0, 1}, {0}],
    "logistic steps": [{0}, set(), {0}], "mixture step": [{0}, set(), set(), set()], "overlaps 200x300": [{0}, {0}],
    "adam 1000000": [{0}] * 4, "revenue 60000": [{0}] * 4,
}
# Fully convolutional but for the pooling in front of the classifier.
ANY_SIZE = ("resnet18", "mobilenet_v3_small", "efficientnet_b0", "squeezenet1_1", "shufflenet_v2_x1_0", "densenet121",
            "regnet_y_400mf", "mnasnet0_5", "convnext_tiny")


def open_axes(name: str, network: Network) -> list[set[int]] | None:
    if name in OPEN:
        return OPEN[name]
    inputs = network.inputs()
    return [{0}] if len(inputs) == 1 and inputs[0].dim() == 4 else None


def export(name: str, network: Network, axes: list[set[int]], path: Path, tracing: bool) -> None:
    torch.manual_seed(1)
    torch.backends.mha.set_fastpath_enabled(False)
    module, inputs = network.make().eval(), network.inputs()
    if not tracing:  # an axis of one element would be taken for a constant
        inputs = tuple(torch.cat([x, x]) if 0 in opened and len(x) == 1 else x for x, opened in zip(inputs, axes))
    names = [f"in{k}" for k in range(len(inputs))]
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):  # exporters chat
        if tracing:
            torch.onnx.export(module, inputs, str(path), input_names=names, opset_version=17, dynamo=False,
                              dynamic_axes={port: {axis: f"{port}_{axis}" for axis in opened} for port, opened in zip(names, axes)})
        else:
            shapes = tuple({axis: Dim.AUTO for axis in opened} for opened in axes)
            torch.onnx.export(module, inputs, str(path), input_names=names, opset_version=20, dynamo=True, external_data=False,
                              verbose=False, dynamic_shapes=(shapes,) if isinstance(module, Lambda) else shapes)
    np.savez(path.with_suffix(".npz"), **{port: x.numpy() for port, x in zip(names, inputs)})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for name, network in (NETWORKS | FIELDS).items():
        if options.names and not any(part in name for part in options.names):
            continue
        file = name.replace(" ", "_")
        wanted = [(options.dir / f"{file}.onnx", open_axes(name, network), False)]
        if name in ANY_SIZE:
            wanted.append((options.dir / f"{file}.size.onnx", [{2, 3}], True))
        for path, axes, tracing in wanted:
            if axes is None or path.exists():
                continue
            try:
                export(name, network, axes, path, tracing)
                print(path.name, flush=True)
            except Exception as error:  # an exporter's own failure says nothing of the engines
                path.unlink(missing_ok=True)
                print(f"# {path.name}: not exported: {str(error)[:150]!r}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
