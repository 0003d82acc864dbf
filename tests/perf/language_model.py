#!/usr/bin/env python3
"""Steps and prompts of a language model with weights of 4 bits, as model builders write it for CPUs, against onnxruntime.

    tests/perf/language_model.py [--layers 4] [--size 2048] [--heads 32] [--kv-heads 8] [--inner 5632] [--level 4]
                                 [--seconds 2.5] [--keep FILE.onnx]

Layers of MatMulNBits (blocks of 32, zero points, accuracy_level as given), GroupQueryAttention with rotary positions
and a cache, SkipSimplifiedLayerNormalization; random weights. Both engines run on one thread, in turn, with the same
inputs; least times in milliseconds, and the largest difference of the logits by the largest logit. Prints a table in
Markdown. The machine should do nothing else.

Needs the packages numpy, onnx, onnxruntime and the binding `xc` (bindings/python).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

import xc

MS = "com.microsoft"
BLOCK, WORDS, PLACES = 32, 8000, 4096
# batch, new tokens, tokens in the cache
CASES = ((1, 1, 0), (1, 1, 256), (1, 1, 1024), (4, 1, 128), (1, 64, 0), (1, 256, 0))


class Builder:
    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list = []
        self.weights: list = []

    def constant(self, value) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes):
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=names[0], domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def product(self, x: str, depth: int, columns: int, level: int) -> str:
        blocks = depth // BLOCK
        codes = self.constant(self.random.integers(0, 256, (columns, blocks, BLOCK // 2), dtype=np.uint8))
        scales = (self.random.random(columns * blocks) + 0.5) * 0.075 / depth ** 0.5
        zeros = self.constant(np.full(columns * (-(-blocks // 2)), 0x88, np.uint8))
        return self.add("MatMulNBits", x, codes, self.constant(scales.astype(np.float32)), zeros, domain=MS, K=depth,
                        N=columns, bits=4, block_size=BLOCK, accuracy_level=level)

    def normed_sum(self, x: str, y: str, size: int) -> tuple[str, str]:
        out = self.add("SkipSimplifiedLayerNormalization", x, y, self.constant(np.ones(size, np.float32)), outputs=4,
                       domain=MS, epsilon=1e-5)
        self.nodes[-1].output[1] = self.nodes[-1].output[2] = ""
        return out[0], out[3]


def model(flags: argparse.Namespace) -> onnx.ModelProto:
    b, size, head = Builder(), flags.size, flags.size // flags.heads
    kv = flags.kv_heads * head
    lengths = b.add("Sub", b.add("ReduceSum", "mask", b.constant(np.array([1])), keepdims=0), b.constant(np.array(1)))
    lengths = b.add("Cast", lengths, to=TensorProto.INT32)
    total = b.add("Gather", b.add("Shape", "mask"), b.constant(np.array(1)))
    total = b.add("Cast", total, to=TensorProto.INT32)
    angles = np.arange(PLACES)[:, None] / 10000 ** (np.arange(head // 2) / (head // 2))
    cos, sin = (b.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
    x = b.add("Gather", b.constant((b.random.standard_normal((WORDS, size)) / 2).astype(np.float32)), "ids")
    y = b.add("SimplifiedLayerNormalization", x, b.constant(np.ones(size, np.float32)), epsilon=1e-5, axis=-1)
    caches, presents = [], []
    for layer in range(flags.layers):
        past = [f"past_{layer}_key", f"past_{layer}_value"]
        caches += past
        q, k, v = (b.product(y, size, n, flags.level) for n in (size, kv, kv))
        y, *present = b.add("GroupQueryAttention", q, k, v, *past, lengths, total, cos, sin, outputs=3, domain=MS,
                            num_heads=flags.heads, kv_num_heads=flags.kv_heads, do_rotary=1)
        presents += present
        y, x = b.normed_sum(x, b.product(y, size, size, flags.level), size)
        gate, up = (b.product(y, size, flags.inner, flags.level) for _ in range(2))
        gate = b.add("Mul", b.add("Mul", gate, b.add("Sigmoid", gate)), up)
        y, x = b.normed_sum(x, b.product(gate, flags.inner, size, flags.level), size)
    b.nodes[-1].output[3] = ""
    logits = b.product(y, size, WORDS, flags.level)

    def infos(names, length):
        dims = ["batch", flags.kv_heads, length, head]
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in names]
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "length"]),
              helper.make_tensor_value_info("mask", TensorProto.INT64, ["batch", "total"]), *infos(caches, "past")]
    outputs = [helper.make_tensor_value_info(logits, TensorProto.FLOAT, ["batch", "length", WORDS]),
               *infos(presents, "total")]
    graph = helper.make_graph(b.nodes, "language_model", inputs, outputs, b.weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def inputs_of(flags: argparse.Namespace, batch: int, length: int, past: int) -> dict:
    random = np.random.default_rng(1)
    cache = (batch, flags.kv_heads, past, flags.size // flags.heads)
    return {"ids": random.integers(0, WORDS, (batch, length)), "mask": np.ones((batch, past + length), np.int64),
            **{f"past_{layer}_{what}": random.standard_normal(cache).astype(np.float32)
               for layer in range(flags.layers) for what in ("key", "value")}}


def least(runs: list, seconds: float) -> list[float]:
    """Of each, in turn, in milliseconds."""
    out = [float("inf")] * len(runs)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for k, run in enumerate(runs):
            begin = time.perf_counter()
            run()
            out[k] = min(out[k], (time.perf_counter() - begin) * 1e3)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in (("layers", 4), ("size", 2048), ("heads", 32), ("kv-heads", 8), ("inner", 5632), ("level", 4)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seconds", type=float, default=2.5)
    parser.add_argument("--keep", type=Path)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = flags.keep or Path(folder) / "model.onnx"
        onnx.save(model(flags), path)
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        begin = time.perf_counter()
        peer = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        middle = time.perf_counter()
        session = xc.Session(str(path), threads=1)
        print(f"load: xc {time.perf_counter() - middle:.2f} s, onnxruntime {middle - begin:.2f} s\n")
        print("| batch | new tokens | in the cache | xc, ms | onnxruntime, ms | ratio | difference |")
        print("|---|---|---|---|---|---|---|")
        for batch, length, past in CASES:
            x = inputs_of(flags, batch, length, past)
            for _ in range(3):
                got = np.asarray(session.run(x)[0])
            want = peer.run(None, x)[0]
            own, other = least([lambda: session.run(x), lambda: peer.run(None, x)], flags.seconds)
            off = np.abs(got - want).max() / np.abs(want).max()
            print(f"| {batch} | {length} | {past} | {own:.2f} | {other:.2f} | {other / own:.2f} | {off:.1e} |", flush=True)


if __name__ == "__main__":
    main()
