#!/usr/bin/env python3
"""Recurrent networks and loops in xc and onnxruntime: time of one call, ratio, geometric mean.

    tests/perf/loops.py [--seconds 0.3] [--threads 1] [--jit auto] [--markdown] [NAME ...]

The same cells written three ways (an operator, the body of a Scan, the body of a Loop), small loops without products,
and the operators at small sizes. Measured and compared as ops.py does; NAME selects as there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import ops
from ops import F32, I64, f32, one

STEPS = 64
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


@dataclass
class Network(ops.Case):
    """A Case whose outputs have a known rank, which onnxruntime wants to see of control flow."""

    ranks: list[int] = field(default_factory=list)

    def model(self) -> bytes:
        model = ModelProto.FromString(super().model())
        for port, rank in zip(model.graph.output, self.ranks, strict=True):
            port.CopyFrom(helper.make_tensor_value_info(port.name, FLOAT, [None] * rank))
        return model.SerializeToString()


def port(name: str, kind: int, *dims: int):
    return helper.make_tensor_value_info(name, kind, dims)


def node(op: str, inputs: str, outputs: str, **attrs):
    """Names apart by spaces."""
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def cell(kind: str) -> list:
    """One time step over x, h (LSTM: and c) with captured w, r, b: makes h1 (and c1). Weights are [in, gates * out]."""
    if kind == "RNN":
        return [node("MatMul", "x w", "xw"), node("MatMul", "h r", "hr"), node("Add", "xw hr", "s"),
                node("Add", "s b", "sb"), node("Tanh", "sb", "h1")]
    if kind == "LSTM":
        return [node("MatMul", "x w", "xw"), node("MatMul", "h r", "hr"), node("Add", "xw hr", "s"),
                node("Add", "s b", "sb"), node("Split", "sb", "pi po pf pc", axis=-1, num_outputs=4),
                node("Sigmoid", "pi", "in"), node("Sigmoid", "po", "out"), node("Sigmoid", "pf", "keep"),
                node("Tanh", "pc", "g"), node("Mul", "keep c", "fc"), node("Mul", "in g", "ig"), node("Add", "fc ig", "c1"),
                node("Tanh", "c1", "tc"), node("Mul", "out tc", "h1")]
    return [node("MatMul", "x w", "xw"), node("Add", "xw b", "xb"), node("MatMul", "h r", "hr"),
            node("Split", "xb", "xz xr xn", axis=-1, num_outputs=3),
            node("Split", "hr", "hz hq hg", axis=-1, num_outputs=3), node("Add", "xz hz", "az"),
            node("Sigmoid", "az", "z"), node("Add", "xr hq", "ar"), node("Sigmoid", "ar", "q"),
            node("Mul", "q hg", "qn"), node("Add", "xn qn", "an"), node("Tanh", "an", "n"), node("Sub", "h n", "hmn"),
            node("Mul", "z hmn", "zh"), node("Add", "n zh", "h1")]


def spelled(kind: str, how: str, hidden: int, batch: int, steps: int = STEPS) -> ops.Case:
    states = ["h", "c"] if kind == "LSTM" else ["h"]
    width = GATES[kind] * hidden
    scale = F32(1 / np.sqrt(hidden))
    weights = dict(w=f32(hidden, width) * scale, r=f32(hidden, width) * scale, b=f32(width) * F32(0.1))
    inputs = {"xs": f32(steps, batch, hidden)} | {s + "0": f32(batch, hidden) for s in states}
    carried = [port(s, FLOAT, batch, hidden) for s in states]
    new = [port(s + "1", FLOAT, batch, hidden) for s in states] + [port("y", FLOAT, batch, hidden)]
    nodes = [*cell(kind), node("Identity", "h1", "y")]
    initial = [s + "0" for s in states]
    outs = [s + "n" for s in states] + ["ys"]
    if how == "Scan":
        body = helper.make_graph(nodes, "body", [*carried, port("x", FLOAT, batch, hidden)], new)
        graph = [helper.make_node("Scan", [*initial, "xs"], outs, body=body, num_scan_inputs=1)]
    else:
        nodes = [node("Gather", "xs i", "x", axis=0), *nodes, node("Identity", "go", "go1")]
        body = helper.make_graph(nodes, "body", [port("i", INT64), port("go", BOOL), *carried],
                                 [port("go1", BOOL), *new])
        graph = [helper.make_node("Loop", ["m", "", *initial], outs, body=body)]
        weights["m"] = np.array(steps, I64)
    return Network(f"{kind} {how} {batch}x{hidden}, {steps} steps", graph, inputs, weights, outs,
                   ranks=[2] * len(states) + [3])


def operator(kind: str, hidden: int, batch: int, steps: int, label: str = "", lengths: bool = False,
             **attrs) -> ops.Case:
    gates, dirs = GATES[kind], 2 if attrs.get("direction") == "bidirectional" else 1
    scale = F32(1 / np.sqrt(hidden))
    weights = [f32(dirs, gates * hidden, hidden) * scale, f32(dirs, gates * hidden, hidden) * scale,
               f32(dirs, 2 * gates * hidden) * F32(0.1)]
    if lengths:
        weights.append(ops.rng.integers(1, steps + 1, batch).astype(np.int32))
    return one(f"operator {batch}x{hidden}, {steps} steps{label}", kind, f32(steps, batch, hidden),
               weights=tuple(weights), hidden_size=hidden, **attrs)


def cells() -> Iterator[ops.Case]:
    for kind in GATES:
        for hidden in (32, 128, 512):
            for batch in (1, 8):
                for how in ("Scan", "Loop"):
                    yield spelled(kind, how, hidden, batch)
                attrs = {"linear_before_reset": 1} if kind == "GRU" else {}
                yield operator(kind, hidden, batch, STEPS, **attrs)


def small_operators() -> Iterator[ops.Case]:
    for kind in GATES:
        for hidden in (16, 32, 64):
            for steps in (1, 8, 32, 128):
                yield operator(kind, hidden, 1, steps)
        yield operator(kind, 64, 4, 32, ", bidirectional", direction="bidirectional")
        yield operator(kind, 64, 4, 32, ", lengths", lengths=True)


def newton(size: int, trips: int, until: bool) -> ops.Case:
    """Square roots; `until` no element is further than 1e-5 from the last."""
    nodes = [node("Div", "a x", "q"), node("Add", "x q", "s"), node("Mul", "s half", "x1")]
    if until:
        nodes += [node("Sub", "x1 x", "d"), node("Abs", "d", "e"), node("ReduceMax", "e", "m", keepdims=0),
                  node("Greater", "m eps", "go1")]
    else:
        nodes += [node("Identity", "go", "go1")]
    body = helper.make_graph(nodes, "body", [port("i", INT64), port("go", BOOL), port("x", FLOAT, size)],
                             [port("go1", BOOL), port("x1", FLOAT, size)])
    graph = [helper.make_node("Loop", ["trips", "", "x0"], ["y"], body=body)]
    return Network(f"Loop Newton {size}, {'until it converges' if until else f'{trips} steps'}", graph,
                   {"x0": np.ones(size, F32), "a": ops.rng.random(size, dtype=F32) * F32(50) + F32(1)},
                   dict(trips=np.array(trips, I64), half=np.array(0.5, F32), eps=np.array(1e-4, F32)), ["y"], ranks=[1])


def filters() -> Iterator[ops.Case]:
    for label, nodes, steps, size in (
            ("moving average", [node("Sub", "x s", "d"), node("Mul", "d a", "ad"), node("Add", "s ad", "s1")], 1000, 64),
            ("running maximum", [node("Max", "x s", "s1")], 1000, 16)):
        body = helper.make_graph([*nodes, node("Identity", "s1", "y")], "body",
                                 [port("s", FLOAT, size), port("x", FLOAT, size)],
                                 [port("s1", FLOAT, size), port("y", FLOAT, size)])
        graph = [helper.make_node("Scan", ["s0", "xs"], ["sn", "ys"], body=body, num_scan_inputs=1)]
        yield Network(f"Scan {label} {size}, {steps} steps", graph, {"xs": f32(steps, size), "s0": f32(size)},
                      dict(a=np.array(0.1, F32)), ["sn", "ys"], ranks=[1, 2])


def loops() -> Iterator[ops.Case]:
    yield newton(16, 20, False)
    yield newton(1024, 20, False)
    yield newton(1024, 50, True)
    yield from filters()


if __name__ == "__main__":
    sys.exit(ops.main((loops, cells, small_operators), __doc__))
