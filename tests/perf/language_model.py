#!/usr/bin/env python3
"""Steps and prompts of a language model with weights of 4 bits, as model builders write it for CPUs, against onnxruntime.

    tests/perf/language_model.py [--layers 4] [--size 2048] [--heads 32] [--kv-heads 8] [--inner 5632] [--level 4]
                                 [--seconds 2.5] [--keep FILE.onnx]

Layers of MatMulNBits (blocks of 32, zero points, accuracy_level as given), GroupQueryAttention with rotary positions
and a cache, SkipSimplifiedLayerNormalization; random weights. Both engines run on one thread, in turn, with the same
inputs; least times in milliseconds, and the largest difference of the logits by the largest logit. Then tokens one
after the other, each run with a cache longer by one: medians, once with caches that the runs return and get again,
once with caches that stay in their memory. Prints tables in Markdown. The machine should do nothing else.

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


class Generation:
    """Tokens one after the other: next_token() is a run."""

    def __init__(self, flags: argparse.Namespace, first: int, count: int, shared: bool) -> None:
        self.x = inputs_of(flags, 1, 1, first)
        self.shared, self.first, self.done = shared, first, 0
        self.names = [name for name in self.x if name.startswith("past")]
        if shared:
            for name in self.names:
                self.x[name] = np.pad(self.x[name], ((0, 0), (0, 0), (0, count), (0, 0)))

    def next_token(self) -> np.ndarray:
        self.x["mask"] = np.ones((1, self.first + self.done + 1), np.int64)
        logits, *presents = self.run()
        self.done += 1
        if not self.shared:
            self.x.update(zip(self.names, presents))
        self.x["ids"] = np.argmax(np.asarray(logits)[:, -1:], -1)
        return logits


class Own(Generation):
    def __init__(self, session: xc.Session, *rest) -> None:
        super().__init__(*rest)
        self.session = session

    def run(self) -> list:
        outputs = [None, *(self.x[name] for name in self.names)] if self.shared else None
        return self.session.run(self.x, outputs=outputs)


class Peer(Generation):
    def __init__(self, session: ort.InferenceSession, *rest) -> None:
        super().__init__(*rest)
        self.session = session
        self.outputs = [output.name for output in session.get_outputs()]
        self.caches = [ort.OrtValue.ortvalue_from_numpy(self.x[name]) for name in self.names]

    def run(self) -> list:
        if not self.shared:
            return self.session.run(None, self.x)
        binding = self.session.io_binding()
        for name in ("ids", "mask"):
            binding.bind_cpu_input(name, self.x[name])
        binding.bind_output(self.outputs[0])
        for name, output, cache in zip(self.names, self.outputs[1:], self.caches):
            binding.bind_ortvalue_input(name, cache)
            binding.bind_ortvalue_output(output, cache)
        self.session.run_with_iobinding(binding)
        return [binding.get_outputs()[0].numpy()]


def generate(flags: argparse.Namespace, session: xc.Session, peer: ort.InferenceSession) -> None:
    print("\n| cache | in the cache | tokens | xc, ms per token | onnxruntime, ms | ratio | other tokens |")
    print("|---|---|---|---|---|---|---|")
    count = 64
    for shared in (False, True):
        for first in (16, 512, 2048):
            engines = [Own(session, flags, first, count, shared), Peer(peer, flags, first, count, shared)]
            spent, others = ([], []), 0
            for _ in range(count):
                for k, engine in enumerate(engines):
                    begin = time.perf_counter()
                    engine.next_token()
                    spent[k].append(time.perf_counter() - begin)
                others += int((engines[0].x["ids"] != engines[1].x["ids"]).any())
            own, other = (float(np.median(s)) * 1e3 for s in spent)
            print(f"| {'one memory' if shared else 'returned'} | {first} | {count} | {own:.2f} | {other:.2f} | "
                  f"{other / own:.2f} | {others} |", flush=True)


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
        generate(flags, session, peer)


if __name__ == "__main__":
    main()
