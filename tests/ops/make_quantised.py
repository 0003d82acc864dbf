#!/usr/bin/env python3
"""Writes quantised/models.json: small quantised networks and what onnxruntime answers; and the cases of operators of xc
(cases/DequantizedMatMul.json, ExpNormal, Lookup, ReduceMaxNumber, RoundedQuotient, Unfold, UpdateCache).

    tests/ops/make_quantised.py        needs the packages numpy, onnx and onnxruntime

Inputs named x... come at the run, all others are weights. Products with weights quantised by blocks are answered
by numpy in float64: onnxruntime rounds their left side to 8 bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from generate_cases import case, write

rng = np.random.default_rng(11)
F32, U8, I8, I32 = np.float32, np.uint8, np.int8, np.int32


def u8(*dims: int) -> np.ndarray:
    return rng.integers(0, 256, dims, dtype=U8)


def i8(*dims: int) -> np.ndarray:
    return rng.integers(-127, 128, dims, dtype=I8)


def scales(n: int) -> np.ndarray:
    return (rng.random(n, dtype=F32) + F32(0.5)) * F32(0.01)


def graph_of(nodes: list, inputs: dict, outputs: dict) -> onnx.GraphProto:
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
             for n, a in inputs.items()]
    results = [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()]
    return helper.make_graph(nodes, "quantised", ports, results)


def answered(name: str, nodes: list, inputs: dict, outputs: dict) -> dict:
    graph = graph_of(nodes, inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    # Weights as initializers: only those are fused into quantised kernels.
    fed = {n: a for n, a in inputs.items() if n.startswith("x")}
    for n, a in inputs.items():
        if n not in fed:
            model.graph.initializer.append(onnx.numpy_helper.from_array(a, n))
    del model.graph.input[:]
    model.graph.input.extend(p for p in graph.input if p.name in fed)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return case(name, graph, list(inputs.values()), session.run(None, fed))


def dq(x: str, to: str, axis: int | None = None, zero: bool = True) -> onnx.NodeProto:
    names = [x, f"{x}_scale", f"{x}_zero"][: 3 if zero else 2]
    return helper.make_node("DequantizeLinear", names, [to], **({} if axis is None else {"axis": axis}))


def q(x: str, to: str) -> onnx.NodeProto:
    return helper.make_node("QuantizeLinear", [x, f"{to}_scale", f"{to}_zero"], [to])


def conv_block(relu: bool, zero: int, **attrs) -> tuple[list, dict]:
    nodes = [dq("x", "xf"), dq("w", "wf", 0, False), dq("b", "bf", 0, False),
             helper.make_node("Conv", ["xf", "wf", "bf"], ["c"], **attrs)]
    if relu:
        nodes.append(helper.make_node("Relu", ["c"], ["r"]))
    nodes.append(q("r" if relu else "c", "y"))
    w_scale = scales(8)
    return nodes, dict(x=u8(2, 6, 7, 9), x_scale=np.array(0.02, F32), x_zero=np.array(113, U8), w=i8(8, 6, 3, 3),
                       w_scale=w_scale, b=rng.integers(-4000, 4000, 8, dtype=I32), b_scale=w_scale * F32(0.02),
                       y_scale=np.array(0.05, F32), y_zero=np.array(zero, U8))


def residual() -> tuple[list, dict]:
    """Two convolutions, their sum, a pooled head: what quantised image networks are made of."""
    nodes, inputs = conv_block(True, 0, pads=[1, 1, 1, 1])
    nodes[-1].output[0] = "m"
    nodes += [dq("m", "mf"), dq("v", "vf", 0, False), helper.make_node("Conv", ["mf", "vf"], ["d"]), q("d", "k"),
              dq("k", "kf"), helper.make_node("Add", ["mf", "kf"], ["s"]), helper.make_node("Relu", ["s"], ["t"]),
              q("t", "y")]
    inputs |= dict(v=i8(8, 8, 1, 1), v_scale=scales(8), m_scale=np.array(0.05, F32), m_zero=np.array(0, U8),
                   k_scale=np.array(0.07, F32), k_zero=np.array(131, U8))
    nodes[nodes.index(next(n for n in nodes if n.output[0] == "m"))].input[1:] = ["m_scale", "m_zero"]
    return nodes, inputs


def gemm(transposed: bool) -> tuple[list, dict]:
    k, n = 37, 19
    nodes = [dq("x", "xf"), dq("w", "wf", 0 if transposed else 1),
             helper.make_node("Gemm", ["xf", "wf", "bias"], ["g"], transB=int(transposed)), q("g", "y")]
    return nodes, dict(x=i8(5, k), x_scale=np.array(0.03, F32), x_zero=np.array(-9, I8),
                       w=i8(n, k) if transposed else i8(k, n), w_scale=scales(n), w_zero=np.zeros(n, I8),
                       bias=rng.standard_normal(n, dtype=F32), y_scale=np.array(0.06, F32), y_zero=np.array(5, I8))


def attention() -> tuple[list, dict]:
    """Both sides at the run, a batch, no constant weights; and a bias between product and quantisation."""
    nodes = [dq("x", "xf"), dq("x2", "kf"), helper.make_node("MatMul", ["xf", "kf"], ["p"]), q("p", "m"),
             dq("m", "mf"), dq("w", "wf", zero=True), helper.make_node("MatMul", ["mf", "wf"], ["h"]),
             helper.make_node("Add", ["h", "bias"], ["a"]), q("a", "y")]
    return nodes, dict(x=u8(2, 5, 12), x_scale=np.array(0.02, F32), x_zero=np.array(128, U8), x2=u8(2, 12, 7),
                       x2_scale=np.array(0.03, F32), x2_zero=np.array(99, U8), m_scale=np.array(0.11, F32),
                       m_zero=np.array(120, U8), w=u8(7, 9), w_scale=np.array(0.01, F32),
                       w_zero=np.array(140, U8), bias=rng.standard_normal(9, dtype=F32),
                       y_scale=np.array(0.1, F32), y_zero=np.array(127, U8))


def dynamic() -> tuple[list, dict]:
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
             helper.make_node("MatMulInteger", ["q", "w", "z", "zw"], ["i"]),
             helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["s", "sw"], ["ss"]), helper.make_node("Mul", ["f", "ss"], ["m"]),
             helper.make_node("Add", ["m", "bias"], ["y"])]
    return nodes, dict(x=rng.standard_normal((4, 33), dtype=F32), w=i8(33, 21), zw=np.zeros(21, I8), sw=scales(21),
                       bias=rng.standard_normal(21, dtype=F32))


def blocked(name: str, low: int, high: int, dtype: str, block: int, rows: int, k: int, n: int, zero: bool) -> dict:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    blocks = -(-k // block)
    weights = rng.integers(low, high, (k, n))
    zeros = rng.integers(low, high, (blocks, n)) if zero else np.zeros((blocks, n), int)
    scale = (rng.random((blocks, n), dtype=F32) + F32(0.5)) * F32(0.1)
    x = rng.standard_normal((rows, k), dtype=F32)
    whole = (weights - np.repeat(zeros, block, 0)[:k]) * np.repeat(scale.astype(np.float64), block, 0)[:k]
    inputs = dict(x=x, w=weights.astype(kind), w_scale=scale)
    if zero:
        inputs["w_zero"] = zeros.astype(kind)
    nodes = [helper.make_node("DequantizeLinear", list(inputs)[1:], ["wf"], axis=0, block_size=block),
             helper.make_node("MatMul", ["x", "wf"], ["y"])]
    graph = graph_of(nodes, inputs, {"y": TensorProto.FLOAT})
    return case(name, graph, list(inputs.values()), [(x.astype(np.float64) @ whole).astype(F32)])


def as_one_op(blocked_case: dict, block: int) -> dict:
    """The same numbers as a problem of the operator that the two nodes become."""
    names = list(blocked_case["inputs"])
    node = {"op": "DequantizedMatMul", "domain": "xc", "attrs": {"block_size": {"int": block}}, "inputs": names,
            "outputs": ["y"]}
    return blocked_case | {"nodes": [node]}


def exp_normal(name: str, dtype: type) -> dict:
    """Both sides of the least argument whose power is a normal number, and what has no power: of numbers to 0."""
    least = np.log(np.finfo(dtype).tiny, dtype=np.longdouble)
    huge = -np.finfo(dtype).max
    x = np.array([-np.inf, huge, 2 * least, least * (1 + 1e-6), least * (1 - 1e-6), -1, -1e-30, -0.0, 0, np.nan], dtype)
    y = np.where(x < least, 0, np.exp(x.astype(np.float64))).astype(dtype)
    graph = graph_of([helper.make_node("ExpNormal", ["x"], ["y"], domain="xc")], {"x": x},
                     {"y": helper.np_dtype_to_tensor_dtype(y.dtype)})
    return case(name, graph, [x], [y])


def max_number(name: str, dtype: type) -> dict:
    """Of each row the largest that is no NaN; of a row of them, or of none, the least there is."""
    x = np.array([[1, np.nan, 3, -2], [np.nan] * 4, [-np.inf, np.nan, -np.inf, np.nan], [np.inf, -1, np.nan, 5],
                  [-7, -3, -3, -9]], dtype)
    y = np.fmax.reduce(np.concatenate([np.full((5, 1), -np.inf, dtype), x], axis=1), axis=1, keepdims=True)
    graph = graph_of([helper.make_node("ReduceMaxNumber", ["x", "axes"], ["y"], domain="xc")],
                     {"x": x, "axes": np.array([1])}, {"y": helper.np_dtype_to_tensor_dtype(y.dtype)})
    return case(name, graph, [x, np.array([1])], [y])


def activation() -> tuple[list, dict]:
    """A Gelu as it is written out, with bytes between its operators and constants that are bytes too."""
    nodes, inputs = [], dict(x=u8(3, 5, 40), x_scale=np.array(0.03, F32), x_zero=np.array(121, U8))
    steps = [("Div", "xf", 1.41421356, "d", 0.021, 121), ("Erf", "d", None, "e", 0.0079, 127),
             ("Add", "e", 1.0, "a", 0.0079, 0), ("Mul", "xf", "a", "m", 0.03, 20), ("Mul", "m", 0.5, "y", 0.015, 20)]
    nodes.append(dq("x", "xf"))
    for op, left, right, to, scale, zero in steps:
        operands = [left if left == "xf" else f"{left}f"]
        if isinstance(right, str):
            operands.append(f"{right}f")
        elif right is not None:
            inputs |= {f"c{to}": np.array(100, U8), f"c{to}_scale": np.array(right / 100, F32), f"c{to}_zero": np.array(0, U8)}
            nodes.append(dq(f"c{to}", f"c{to}f"))
            operands.append(f"c{to}f")
        inputs |= {f"{to}_scale": np.array(scale, F32), f"{to}_zero": np.array(zero, U8)}
        nodes += [helper.make_node(op, operands, [f"{to}r"]), q(f"{to}r", to)]
        if to != "y":
            nodes.append(dq(to, f"{to}f"))
    return nodes, inputs


def turned() -> tuple[list, dict]:
    """Bytes that are floats on their way through operators that only move them, in front of a product."""
    same = dict(scale=np.array(0.02, F32), zero=np.array(7, I8))
    inputs = dict(x=i8(3, 4, 10), x_scale=same["scale"], x_zero=same["zero"], rows=np.array([3, 2, 2, 10], np.int64),
                  t_scale=same["scale"], t_zero=same["zero"], r_scale=same["scale"], r_zero=same["zero"],
                  s_scale=np.array(0.025, F32), s_zero=np.array(3, I8), w=i8(10, 6), w_scale=np.array(0.01, F32),
                  w_zero=np.array(0, I8), y_scale=np.array(0.05, F32), y_zero=np.array(0, I8))
    nodes = [dq("x", "xf"), helper.make_node("Reshape", ["xf", "rows"], ["rr"]), q("rr", "r"), dq("r", "rf"),
             helper.make_node("Transpose", ["rf"], ["tt"], perm=[0, 2, 1, 3]), q("tt", "t"), dq("t", "tf"),
             helper.make_node("Split", ["tf"], ["s0", "s1"], axis=1, num_outputs=2), q("s1", "s"), dq("s", "sf"),
             dq("w", "wf"), helper.make_node("MatMul", ["sf", "wf"], ["p"]), q("p", "y")]
    return nodes, inputs


def lookup(name: str, dtype: type, to: type, dims: tuple) -> dict:
    x, table = (u8 if dtype == U8 else i8)(*dims), (u8 if to == U8 else i8)(256)
    y = table[x.view(U8)]
    graph = graph_of([helper.make_node("Lookup", ["x", "table"], ["y"], domain="xc")], {"x": x, "table": table},
                     {"y": helper.np_dtype_to_tensor_dtype(y.dtype)})
    return case(name, graph, [x, table], [y])


def rounded_quotient() -> dict:
    """Ties, zeros of both signs, what is infinite or no number; a divisor per column."""
    x = np.array([0.25, -0.25, 0.75, 1.25, -0.0, 0.0, np.inf, -np.inf, np.nan, 1e30, 0.2, -7.3], F32).reshape(3, 4)
    y = np.array([0.5, 0.1, -0.5, 3], F32)
    with np.errstate(invalid="ignore"):
        z = np.rint(x / y)
    graph = graph_of([helper.make_node("RoundedQuotient", ["x", "y"], ["z"], domain="xc")], {"x": x, "y": y},
                     {"z": TensorProto.FLOAT})
    return case("columns", graph, [x, y], [z])


def unfold(name: str, dims: tuple, axis: int, first: int, sizes: list, steps: list, dtype: type = F32) -> dict:
    x = np.arange(np.prod(dims), dtype=dtype).reshape(dims)
    index = first + sum(np.arange(n).reshape([-1] + [1] * (len(sizes) - i - 1)) * step
                        for i, (n, step) in enumerate(zip(sizes, steps)))
    y = np.take(x, np.broadcast_to(index, sizes), axis=axis)
    graph = graph_of([helper.make_node("Unfold", ["x"], ["y"], domain="xc", axis=axis, first=first, sizes=sizes,
                                       steps=steps)], {"x": x}, {"y": helper.np_dtype_to_tensor_dtype(y.dtype)})
    return case(name, graph, [x], [y])


def update_cache(name: str, dims: tuple, axis: int, entries: int, starts: list, length: int) -> dict:
    """Grown by zeros to `length`, then each sample's entries from where they start."""
    cache = np.arange(1, np.prod(dims) + 1, dtype=F32).reshape(dims)
    update = -np.arange(1, np.prod(dims) * entries // dims[axis] + 1, dtype=F32).reshape(
        [entries if i == axis else d for i, d in enumerate(dims)])
    y = np.zeros([max(d, length) if i == axis else d for i, d in enumerate(dims)], F32)
    y[tuple(slice(d) for d in dims)] = cache
    for sample, start in enumerate(starts):
        np.moveaxis(y[sample], axis - 1, 0)[start:start + entries] = np.moveaxis(update[sample], axis - 1, 0)
    arrays = {"cache": cache, "update": update, "starts": np.array(starts), "length": np.array([length])}
    graph = graph_of([helper.make_node("UpdateCache", list(arrays), ["y"], domain="xc", axis=axis)], arrays,
                     {"y": TensorProto.FLOAT})
    return case(name, graph, list(arrays.values()), [y])


def main() -> None:
    u, s, f = ({"y": t} for t in (TensorProto.UINT8, TensorProto.INT8, TensorProto.FLOAT))
    cases = [
        answered("conv", *conv_block(False, 121, pads=[1, 1, 1, 1]), u),
        answered("conv_relu_strided", *conv_block(True, 0, strides=[2, 1]), u),
        answered("conv_relu_kept", *conv_block(True, 30, pads=[0, 1, 2, 1]), u),
        answered("residual", *residual(), u),
        answered("gemm", *gemm(False), s),
        answered("gemm_transposed", *gemm(True), s),
        answered("attention", *attention(), u),
        answered("dynamic", *dynamic(), f),
        blocked("blocked_i4", -8, 8, "int4", 16, 3, 64, 33, False),
        blocked("blocked_u4_zero", 0, 16, "uint4", 32, 5, 96, 40, True),
        blocked("blocked_i8_one_row", -128, 128, "int8", 32, 1, 64, 70, False),
        blocked("blocked_u8_tail", 0, 256, "uint8", 32, 2, 72, 17, True),
        answered("activation", *activation(), u),
        answered("turned", *turned(), s),
    ]
    out = Path(__file__).parent / "quantised"
    out.mkdir(exist_ok=True)
    write(out / "models.json", cases)
    blocks = {"blocked_i4": 16, "blocked_u4_zero": 32, "blocked_i8_one_row": 32, "blocked_u8_tail": 32}
    write(Path(__file__).parent / "cases" / "DequantizedMatMul.json",
          [as_one_op(c, blocks[c["name"]]) for c in cases if c["name"] in blocks])
    write(Path(__file__).parent / "cases" / "ExpNormal.json",
          [exp_normal("float", np.float32), exp_normal("double", np.float64)])
    write(Path(__file__).parent / "cases" / "ReduceMaxNumber.json",
          [max_number("float", np.float32), max_number("double", np.float64)])
    write(Path(__file__).parent / "cases" / "RoundedQuotient.json", [rounded_quotient()])
    write(Path(__file__).parent / "cases" / "Lookup.json",
          [lookup("unsigned", U8, I8, (7, 30)), lookup("signed", I8, U8, (2, 3, 45)), lookup("one", I8, I8, ())])
    write(Path(__file__).parent / "cases" / "Unfold.json",
          [unfold("windows", (2, 9, 3), 1, 1, [3, 5], [1, 1]), unfold("backwards", (4, 6), -1, 5, [3], [-2]),
           unfold("frames", (20,), 0, 0, [5, 8], [3, 1], np.int64), unfold("one", (3, 4), 0, 2, [1, 1], [0, 0], U8)])
    write(Path(__file__).parent / "cases" / "UpdateCache.json",
          [update_cache("grows", (2, 3, 4, 5), 2, 2, [4, 1], 7), update_cache("stays", (2, 6, 3), 1, 3, [3, 0], 5)])


if __name__ == "__main__":
    main()
