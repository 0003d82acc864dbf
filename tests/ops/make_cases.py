#!/usr/bin/env python3
"""Writes operator problems with expected results: cases/{elementwise,functions,...}.json.

Expected values come from the onnx reference evaluator, run in float64 for float32 problems and rounded
once at the end, so that they are the mathematical result. Where the evaluator differs from the standard
the case gives its numpy expression instead (`expect`).

    tests/ops/make_cases.py [name ...]      needs the packages numpy and onnx
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from generate_cases import tensor

HERE = Path(__file__).resolve().parent
F32, F64, F16, I32, I64 = np.float32, np.float64, np.float16, np.int32, np.int64
rng = np.random.default_rng(7)


class File:
    """One file of single-node cases."""

    def __init__(self, name: str):
        self.name = name
        self.cases: list[dict] = []

    def case(self, op: str, inputs, outputs: int = 1, expect=None, opset: int = 23, wide: bool = True,
             note: str = "", **attrs) -> None:
        inputs = [None if x is None else np.asarray(x) for x in inputs]
        if expect is None:
            expect = evaluate(op, inputs, outputs, attrs, opset, wide)
        elif not isinstance(expect, (list, tuple)):
            expect = [expect]
        names = ["" if x is None else f"x{i}" for i, x in enumerate(inputs)]
        results = [f"y{i}" for i in range(len(expect))]
        self.cases.append({
            "name": f"{op}.{len(self.cases) + 1}" + (f" {note}" if note else ""),
            "nodes": [{"op": op, "attrs": {k: attribute(v) for k, v in attrs.items()},
                       "inputs": names, "outputs": results}],
            "inputs": {n: tensor(x) for n, x in zip(names, inputs) if x is not None},
            "outputs": {n: tensor(np.asarray(y)) for n, y in zip(results, expect)},
        })

    def write(self) -> None:
        path = HERE / "cases" / f"{self.name}.json"
        path.write_text("[\n" + ",\n".join(json.dumps(c) for c in self.cases) + "\n]\n")
        print(f"{path.name}: {len(self.cases)} cases")


def attribute(value) -> dict:
    if isinstance(value, (int, np.integer)):
        return {"int": int(value)}
    if isinstance(value, float):
        return {"float": float(F32(value))}  # attributes are float32
    if isinstance(value, str):
        return {"string": value}
    if isinstance(value, np.ndarray):
        return {"tensor": tensor(value)}
    return {"ints": [int(v) for v in value]}


def onnx_type(a: np.ndarray) -> int:
    return helper.np_dtype_to_tensor_dtype(a.dtype) if a.dtype.kind not in "OUS" else TensorProto.STRING


def evaluate(op, inputs, outputs, attrs, opset, wide):
    """Runs one node; float32 and float16 problems in float64 when `wide`."""
    narrow = next((x.dtype for x in inputs if x is not None and x.dtype in (F32, F16)), None)
    if not wide:
        narrow = None
    fed = [x.astype(F64) if narrow is not None and x is not None and x.dtype == narrow else x
           for x in inputs]
    attrs = {k: (numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v)
             for k, v in attrs.items()}
    names = ["" if x is None else f"x{i}" for i, x in enumerate(fed)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attrs)
    infos = [helper.make_tensor_value_info(n, onnx_type(x), x.shape)
             for n, x in zip(names, fed) if x is not None]
    outs = [helper.make_tensor_value_info(f"y{i}", TensorProto.UNDEFINED, None) for i in range(outputs)]
    graph = helper.make_graph([node], "g", infos, outs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    with np.errstate(all="ignore"):
        got = ReferenceEvaluator(model).run(None, {n: x for n, x in zip(names, fed) if x is not None})
        return [np.asarray(y).astype(narrow) if narrow is not None and np.asarray(y).dtype == F64
                else np.asarray(y) for y in got]


def normal(*shape, dtype=F32, scale=2.0):
    return (rng.standard_normal(shape) * scale).astype(dtype)


def ints(*shape, low=-9, high=10, dtype=I64):
    return rng.integers(low, high, shape).astype(dtype)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 20.0, -20.0, 88.0, -88.0, 1e-6, -1e-6, np.inf, -np.inf,
                    np.nan], F32)
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (4,)), ((2, 3, 4), (3, 1)),
          ((1,), (2, 2)), ((0, 3), (1, 3)), ((1, 3), (0, 1))]


def elementwise() -> None:
    f = File("elementwise")
    for op in ("Add", "Sub", "Mul", "Div"):
        for a, b in SHAPES:
            f.case(op, [normal(*a), normal(*b)])
        for t in ("int8", "int32", "int64", "uint8", "uint32", "uint64"):
            low = 1 if t[0] == "u" else -9
            x, y = ints(2, 4, low=low, dtype=t), ints(4, low=1, dtype=t)
            if op == "Sub":
                x = x + y
            if op == "Div":  # truncated
                wide = x.astype(I64)
                f.case(op, [x, y], expect=(np.sign(wide) * (np.abs(wide) // y.astype(I64))).astype(t))
            else:
                f.case(op, [x, y])
        f.case(op, [normal(2, 3, dtype=F64), normal(3, dtype=F64)])
        f.case(op, [normal(2, 3, dtype=F16), normal(3, dtype=F16)])
    f.case("Add", [np.array([127, -128], "int8"), np.array([1, -1], "int8")], note="wraps")
    for op in ("Max", "Min", "Sum", "Mean"):
        f.case(op, [normal(2, 3)])
        f.case(op, [normal(2, 3), normal(3), normal(2, 1)])
    for op in ("Max", "Min"):
        f.case(op, [ints(5, dtype=I32), ints(5, dtype=I32)])
        f.case(op, [SPECIAL[:, None], np.array([[0.25, np.nan, -np.inf]], F32)])
    for t in ("int8", "int32", "int64"):
        x, y = ints(3, 4, dtype=t), ints(4, low=1, high=5, dtype=t) * np.array([1, -1, 1, -1], t)
        f.case("Mod", [x, y], expect=np.mod(x, y))
        f.case("Mod", [x, y], expect=np.fmod(x, y), fmod=1)
    f.case("Mod", [normal(6), np.array([1.5, -0.7, 2, -3, 0.1, 1], F32)], fmod=1)
    f.case("Pow", [np.abs(normal(3, 4)) + F32(0.1), normal(4)])
    f.case("Pow", [normal(5), np.array([2, 3, 0, 1, -2], F32)])
    f.case("Pow", [ints(6, dtype=I64), np.array([0, 1, 2, 3, 4, 5], I64)])
    f.case("Pow", [normal(5), np.array([2, 3, 0, 1, -2], I64)],)
    f.case("Pow", [np.array([2, 3, 5], I32), np.array([2.0, 3.0, 0.5], F32)], expect=np.array([4, 27, 2], I32))
    for op in ("Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"):
        x, y = ints(3, 4, low=-2, high=3), ints(4, low=-2, high=3)
        f.case(op, [x, y])
        f.case(op, [x.astype(F32), y.astype(F32)])
        f.case(op, [SPECIAL[:, None], SPECIAL[None, :]])
        f.case(op, [np.array([0, 2**63, 2**64 - 1], "uint64"), np.array([1, 2**63 - 1, 5], "uint64")])
    f.case("Equal", [np.array([True, False]), np.array([True, True])])
    f.case("Equal", [np.array(["a", "b"], object), np.array(["a", "c"], object)],
           expect=np.array([True, False]))
    b = np.array([[True, False, True], [False, False, True]])
    for op in ("And", "Or", "Xor"):
        f.case(op, [b, b[:1]])
    f.case("Not", [b])
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        f.case(op, [ints(2, 3, low=-128, high=128, dtype="int16"), ints(3, low=-128, high=128, dtype="int16")])
        f.case(op, [ints(4, low=0, high=256, dtype="uint8"), ints(4, low=0, high=256, dtype="uint8")])
    f.case("BitwiseNot", [ints(4, dtype=I32)])
    f.case("BitwiseNot", [ints(4, low=0, high=256, dtype="uint8")])
    for t in ("uint8", "uint32"):
        f.case("BitShift", [np.array([16, 4, 1, 255], t), np.array([1, 2, 3, 7], t)], direction="RIGHT")
        f.case("BitShift", [np.array([16, 4, 1, 255], t), np.array([1, 2, 3, 7], t)], direction="LEFT")
    for op in ("Abs", "Neg", "Sign"):
        f.case(op, [normal(2, 3)])
        f.case(op, [ints(5, dtype=I32)])
        f.case(op, [SPECIAL])
    f.case("IsNaN", [SPECIAL])
    for neg in (0, 1):
        for pos in (0, 1):
            f.case("IsInf", [SPECIAL], detect_negative=neg, detect_positive=pos)
    f.case("Where", [b, normal(2, 3), normal(3)])
    f.case("Where", [np.array(True), ints(2, 2), ints(1, 2)])
    f.case("Where", [b[:, :1], np.array(["x"], object), np.array(["y", "z"], object)],
           expect=np.array([["x", "x"], ["y", "z"]], object))
    for t in (F32, I32):
        x = (normal(3, 4) * 3).astype(t)
        f.case("Clip", [x, np.array(-2, t), np.array(3, t)])
        f.case("Clip", [x, np.array(-2, t)])
        f.case("Clip", [x, None, np.array(1, t)], expect=np.minimum(x, t(1)))
        f.case("Clip", [x])
    f.case("Clip", [normal(5), np.array(2, F32), np.array(-1, F32)], expect=np.full(5, -1, F32), note="min above max")
    for a in ("float32", "float64", "float16", "int32", "int64", "uint8", "bool"):
        for to in ("float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool"):
            x = (normal(6) * 3).astype(F64)
            x = np.abs(x).astype(a) if "u" in a or to == "uint8" else x.astype(a)
            f.case("Cast", [x], expect=x.astype(to), to=int(helper.np_dtype_to_tensor_dtype(np.dtype(to))))
    x = np.array([300, -1, 2**40 + 3], I64)
    f.case("Cast", [x], expect=x.astype("int8"), to=int(TensorProto.INT8), note="wraps")
    f.case("CastLike", [normal(3), ints(2, dtype=I32)], wide=False)
    f.case("Identity", [normal(2, 3)])
    f.write()


def functions() -> None:
    f = File("functions")
    x = np.concatenate([SPECIAL, normal(20), normal(10, scale=20)])
    for op in ("Floor", "Ceil", "Round", "Exp", "Sin", "Cos", "Tan", "Tanh", "Erf", "Sinh", "Cosh", "Atan",
               "Asinh", "Sigmoid", "Relu", "Softplus", "Softsign", "HardSwish", "Mish"):
        finite = op in ("Sin", "Cos", "Tan", "Erf", "HardSwish", "Softsign", "Softplus", "Mish")
        data = x[np.isfinite(x)] if finite else x
        if op in ("Softplus",):
            with np.errstate(all="ignore"):
                d = data.astype(F64)
                f.case(op, [data], expect=(np.maximum(d, 0) + np.log1p(np.exp(-np.abs(d)))).astype(F32))
        elif op == "Mish":
            d = data.astype(F64)
            s = np.maximum(d, 0) + np.log1p(np.exp(-np.abs(d)))
            f.case(op, [data], expect=(d * np.tanh(s)).astype(F32))
        elif op == "Sigmoid":
            d = data.astype(F64)
            with np.errstate(all="ignore"):
                f.case(op, [data], expect=(1 / (1 + np.exp(-d))).astype(F32))
        else:
            f.case(op, [data])
    f.case("Round", [np.array([0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997], F32)])
    positive = np.abs(np.concatenate([normal(20), [1e-30, 1e30]]).astype(F32))
    for op in ("Log", "Sqrt", "Reciprocal"):
        f.case(op, [positive])
    f.case("Log", [np.array([0, -1, np.inf, np.nan], F32)])
    f.case("Sqrt", [np.array([0, -1, np.inf, np.nan], F32)])
    f.case("Acosh", [1 + positive])
    unit = np.array([-1, -0.999, -0.3, 0, 1e-5, 0.5, 0.9999, 1], F32)
    for op in ("Asin", "Acos", "Atanh"):
        f.case(op, [unit])
    finite = x[np.isfinite(x)]
    d = finite.astype(F64)
    f.case("LeakyRelu", [finite])
    f.case("LeakyRelu", [finite], alpha=0.25)
    f.case("PRelu", [normal(2, 3, 4), normal(3, 1)])
    f.case("ThresholdedRelu", [finite], alpha=0.5)
    with np.errstate(all="ignore"):
        f.case("Elu", [finite], expect=np.where(d < 0, 2.5 * np.expm1(d), d).astype(F32), alpha=2.5)
        a, g = 1.67326319217681884765625, 1.05070102214813232421875
        f.case("Selu", [finite], expect=(g * np.where(d > 0, d, a * np.expm1(np.minimum(d, 0)))).astype(F32))
        f.case("Celu", [finite], expect=np.where(d < 0, 1.5 * np.expm1(d / 1.5), d).astype(F32), alpha=1.5)
    f.case("Shrink", [finite], bias=0.25, lambd=1.5)
    f.case("HardSigmoid", [finite])
    f.case("HardSigmoid", [finite], alpha=0.5, beta=0.6)
    erf = np.vectorize(math.erf)
    f.case("Gelu", [finite], expect=(0.5 * d * (1 + erf(d / math.sqrt(2)))).astype(F32))
    f.case("Gelu", [finite], approximate="tanh")
    with np.errstate(all="ignore"):
        f.case("Swish", [finite], expect=(d / (1 + np.exp(-d))).astype(F32))
        f.case("Swish", [finite], expect=(d / (1 + np.exp(-1.5 * d))).astype(F32), alpha=1.5)
    f.write()


def shapes() -> None:
    f = File("shapes")
    x = np.arange(24, dtype=F32).reshape(2, 3, 4)
    for shape in ([6, 4], [-1], [2, -1, 2], [0, 12], [0, 0, 4], [1, 2, 3, 4], [0, -1]):
        f.case("Reshape", [x, np.array(shape, I64)])
    f.case("Reshape", [np.zeros((0, 3), F32), np.array([3, 0], I64)], allowzero=1)
    f.case("Reshape", [np.array(["a", "b"], object), np.array([2, 1], I64)], expect=np.array([["a"], ["b"]], object))
    for axis in (0, 1, 2, 3, -1):
        f.case("Flatten", [x], axis=axis)
    y = np.arange(6, dtype=I64).reshape(1, 2, 1, 3, 1)
    f.case("Squeeze", [y])
    f.case("Squeeze", [y, np.array([0, -1], I64)])
    f.case("Squeeze", [y, np.array([2], I64)])
    f.case("Unsqueeze", [x, np.array([0], I64)])
    f.case("Unsqueeze", [x, np.array([-1, 1], I64)])
    f.case("Unsqueeze", [np.array(3.0, F32), np.array([0, 1], I64)])
    f.case("Transpose", [x])
    for perm in ([0, 2, 1], [2, 0, 1], [1, 0, 2]):
        f.case("Transpose", [x], perm=perm)
    f.case("Expand", [np.arange(3, dtype=F32).reshape(3, 1), np.array([2, 1, 6], I64)])
    f.case("Expand", [np.arange(3, dtype=F32).reshape(3, 1), np.array([3, 4], I64)])
    f.case("Expand", [np.array(5, I64), np.array([2, 2], I64)])
    i = lambda *v: np.array(v, I64)
    for args in ((i(0), i(2)), (i(0, 1), i(1, 9)), (i(1, 0, 0), i(9, 9, 2), i(2, 0, 1)), (i(-1), i(-5), i(1), i(-1)),
                 (i(3), i(-100), i(-1), i(-2)), (i(1), i(2**63 - 1), i(-1), i(2)), (i(5), i(9), i(0)),
                 (i(2), i(1), i(2)), (i(-(2**62)), i(2**62), i(0), i(1)), (i(2**62), i(-(2**63)), i(2), i(-1))):
        f.case("Slice", [x, *args])
    f.case("Slice", [np.arange(9, dtype=F32), np.array([1], I32), np.array([8], I32), np.array([0], I32), np.array([3], I32)])
    f.case("Split", [x], outputs=3, axis=2, num_outputs=3)
    f.case("Split", [x], outputs=2, axis=0, num_outputs=2)
    f.case("Split", [x, i(1, 3)], outputs=2, axis=-1)
    f.case("Split", [np.arange(7, dtype=F32)], outputs=3, num_outputs=3)
    f.case("Concat", [x, x[:, :1]], axis=1)
    f.case("Concat", [x, x[:, :0], x], axis=-2)
    f.case("Concat", [i(1, 2), i(), i(3)], axis=0)
    f.case("Tile", [np.arange(6, dtype=F32).reshape(2, 3), i(2, 3)])
    f.case("Tile", [np.arange(3, dtype=I64), i(0)])
    f.case("Shape", [x])
    f.case("Shape", [x], start=1)
    f.case("Shape", [x], start=-2, end=-1)
    f.case("Shape", [x], start=2, end=1)
    f.case("Size", [x])
    f.case("ConstantOfShape", [i(2, 3)], value=np.array([7], I32))
    f.case("ConstantOfShape", [i(2)])
    f.case("ConstantOfShape", [i()], value=np.array([1.5], F32))
    f.case("Range", [np.array(2, I64), np.array(11, I64), np.array(3, I64)])
    f.case("Range", [np.array(5, I64), np.array(-4, I64), np.array(-2, I64)])
    f.case("Range", [np.array(5, I64), np.array(5, I64), np.array(1, I64)])
    least, most = -(2**63), 2**63 - 1  # their distance is more than an i64 holds
    for start, limit, delta in [(least, most, 2**62), (most, least, -(2**62)), (most, least, least), (0, 10, least),
                                (10, 0, least), (most - 3, most, 2), (least + 3, least, -2), (most, least, 1)]:
        f.case("Range", [np.array(k, I64) for k in (start, limit, delta)],
               expect=np.array(range(start, limit, delta), I64))
    f.case("Range", [np.array(0.5, F32), np.array(3, F32), np.array(0.75, F32)])
    f.case("EyeLike", [np.zeros((3, 4), F32)], k=1)
    f.case("EyeLike", [np.zeros((3, 3), I32)], dtype=int(TensorProto.FLOAT), k=-1)
    f.case("Constant", [], expect=np.array([1, 2], I64), value=np.array([1, 2], I64))
    f.case("Dropout", [x])
    f.case("Dropout", [x], outputs=2, expect=[x, np.ones_like(x, bool)])
    f.case("BitCast", [np.array([1.0, -2.0], F32)], expect=np.array([1.0, -2.0], F32).view(I32), to=int(TensorProto.INT32))
    f.write()


def indexing() -> None:
    f = File("indexing")
    x = normal(3, 4, 2)
    i = lambda *v: np.array(v, I64)
    f.case("Gather", [x, i(0, 2, -1)])
    f.case("Gather", [x, np.array([[0, 1], [3, -4]], I32)], axis=1)
    f.case("Gather", [x, np.array(1, I64)], axis=-1)
    f.case("Gather", [x, np.zeros((0, 2), I64)], axis=1)
    f.case("Gather", [np.array(["a", "b"], object), i(1, 1)], expect=np.array(["b", "b"], object))
    f.case("GatherElements", [x, ints(2, 4, 2, low=-3, high=3)], axis=0)
    f.case("GatherElements", [x, ints(3, 5, 2, low=0, high=4)], axis=1)
    f.case("GatherND", [x, np.array([[0, 1], [2, 3]], I64)])
    f.case("GatherND", [x, np.array([[[0, 1, 1]], [[-1, -1, 0]]], I64)])
    f.case("GatherND", [x, np.array([[1], [0], [3]], I64)], batch_dims=1)
    data = normal(3, 4)
    index = np.array([[0, 2, 1, 0], [2, 1, 0, 1]], I64)
    f.case("ScatterElements", [data, index, normal(2, 4)], axis=0)
    f.case("ScatterElements", [data, np.array([[0], [-1], [2]], I64), normal(3, 1)], axis=1)
    flipped = data.copy()
    flipped[:, 0] = data[::-1, 0]
    f.case("Scatter", [data, np.array([[2], [1], [0]], I64), data[:, :1]], expect=flipped)
    for reduction in ("add", "mul", "max", "min"):
        f.case("ScatterElements", [data, np.array([[0, 0, 2], [1, 1, 1], [3, 3, 3]], I64), normal(3, 3)], axis=1, reduction=reduction)
        f.case("ScatterND", [x, np.array([[0], [2], [0]], I64), normal(3, 4, 2)], reduction=reduction)
    f.case("ScatterND", [x, np.array([[0, 1], [2, -1]], I64), normal(2, 2)])
    f.case("ScatterND", [np.arange(8, dtype=I64), np.array([[4], [3], [1], [7]], I64), i(9, 10, 11, 12)])
    f.case("OneHot", [i(0, 2, -1), np.array(3, I64), np.array([0, 1], F32)])
    f.case("OneHot", [np.array([[1, 9], [2, 4]], I64), np.array(10, I64), np.array([1, 3], I32)], axis=1)
    f.case("NonZero", [np.array([[1, 0, 3], [0, 0, 2]], I64)])
    f.case("NonZero", [np.array([True, False, True])])
    cond = np.array([False, True, True])
    f.case("Compress", [x, cond], axis=0)
    f.case("Compress", [x, np.array([True, False, False, True])], axis=1)
    f.case("Compress", [x, np.array([False, True, False, False, True])])
    u = np.array([2, 1, 1, 3, 4, 3], F32)
    f.case("Unique", [u], outputs=4)
    f.case("Unique", [u], outputs=4, expect=[np.array([2, 1, 3, 4], F32), i(0, 1, 3, 4), i(0, 1, 1, 2, 3, 2), i(1, 2, 2, 1)], sorted=0)
    f.case("Unique", [np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], F32)], outputs=4, axis=0)
    f.case("Unique", [np.array([[1, 0, 0], [1, 0, 0], [2, 3, 3]], I64)], outputs=1, axis=1)
    for exclusive in (0, 1):
        for reverse in (0, 1):
            f.case("CumSum", [normal(2, 5), np.array(1, I64)], exclusive=exclusive, reverse=reverse)
    f.case("CumSum", [ints(3, 2), np.array(-2, I32)])
    y = normal(2, 4)
    f.case("CumProd", [y, np.array(1, I64)], expect=np.cumprod(y.astype(F64), 1).astype(F32))
    z = normal(4, 5)
    for k in (0, 1, -2):
        f.case("Trilu", [z, np.array(k, I64)], upper=1)
        f.case("Trilu", [z, np.array(k, I64)], upper=0)
    f.case("Trilu", [normal(2, 3, 3)])
    s = np.arange(16, dtype=F32).reshape(4, 4)
    f.case("ReverseSequence", [s, i(4, 3, 2, 1)], batch_axis=1, time_axis=0)
    f.case("ReverseSequence", [s, i(1, 2, 3, 4)], batch_axis=0, time_axis=1)
    d = np.arange(2 * 8 * 2 * 3, dtype=F32).reshape(2, 8, 2, 3)
    f.case("DepthToSpace", [d], blocksize=2)
    f.case("DepthToSpace", [d], blocksize=2, mode="CRD")
    f.case("SpaceToDepth", [np.arange(96, dtype=F32).reshape(1, 2, 6, 8)], blocksize=2)
    f.write()


def reductions() -> None:
    f = File("reductions")
    x, pos = normal(2, 3, 4), np.abs(normal(2, 3, 4)) + F32(0.1)
    i = lambda *v: np.array(v, I64)
    ops = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
           "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
    for op in ops:
        data = pos if op == "ReduceLogSum" else x
        f.case(op, [data])
        f.case(op, [data], keepdims=0)
        f.case(op, [data, i(1)])
        f.case(op, [data, i(-1, 0)], keepdims=0)
        f.case(op, [data, i()])
        d = data.astype(F64)  # nothing is reduced, the rest is done
        alone = {"ReduceL1": np.abs(d), "ReduceL2": np.abs(d), "ReduceSumSquare": d * d,
                 "ReduceLogSum": np.log(np.abs(d))}.get(op, d)
        f.case(op, [data, i()], expect=alone.astype(F32), noop_with_empty_axes=1)
        f.case(op, [data.astype(F64), i(2)])
        f.case(op, [data.astype(F16), i(2)])
    for op in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceSumSquare"):
        f.case(op, [ints(3, 4), i(1)])
        if op != "ReduceSumSquare":  # the evaluator widens it
            f.case(op, [ints(3, 4, dtype=I32), i(0)], keepdims=0)
    f.case("ReduceMax", [ints(6, low=0, high=200, dtype="uint8")])
    f.case("ReduceMax", [np.array([[True, False], [False, False]]), i(1)], expect=np.array([[True], [False]]))
    f.case("ReduceMin", [np.array([[True, False], [True, True]]), i(1)], expect=np.array([[False], [True]]))
    f.case("ReduceSum", [np.zeros((2, 0, 3), F32), i(1)])
    f.case("ReduceProd", [np.zeros((2, 0), F32), i(1)], keepdims=0)
    f.case("ReduceMax", [np.zeros((2, 0), F32), i(1)], expect=np.full((2, 1), -np.inf, F32))
    f.case("ReduceLogSumExp", [np.array([[-np.inf, -np.inf], [1000, 1001], [np.inf, 0]], F32), i(1)],
           expect=np.array([[-np.inf], [1001 + np.log1p(np.exp(-1.0))], [np.inf]], F32))
    p = normal(2, 3, 4, 5)
    for order in (1, 2, 3):
        f.case("GlobalLpPool", [p], expect=((np.abs(p.astype(F64)) ** order).sum((2, 3), keepdims=True) ** (1 / order)
               ).astype(F32), p=order)
    q = normal(2, 6, 3, 3)
    padded = np.pad(q.astype(F64) ** 2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    near = padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]
    f.case("LRN", [q], expect=(q / np.sqrt(2 + 0.25 / 3 * near)).astype(F32), size=3, alpha=0.25, beta=0.5, bias=2.0)
    for op in ("ArgMax", "ArgMin"):
        f.case(op, [x])
        f.case(op, [x], axis=-1, keepdims=0)
        t = np.array([[2, 2, 1], [1, 3, 3], [0, 0, 0]], I32)
        f.case(op, [t], axis=1)
        f.case(op, [t], axis=1, select_last_index=1)
    f.write()


def signal() -> None:
    """Spectra, and operators that have no other file: grids, determinants, losses, caches."""
    own = np.random.default_rng(11)
    draw = lambda *shape, dtype=F32: own.standard_normal(shape).astype(dtype)
    i = lambda *v: np.array(v, I64)
    s = lambda v: np.array(v, I64)
    f = File("signal")
    real, both = draw(2, 12, 3, 1), draw(2, 7, 3, 2)
    spectrum = lambda z: np.stack([z.real, z.imag], -1).astype(F32)
    complex_of = lambda x: x[..., 0].astype(F64) + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    for n in (1, 5, 12, 16):  # shorter and longer than the signal
        f.case("DFT", [real, s(n), s(1)], expect=spectrum(np.fft.fft(complex_of(real), n, axis=1)))
        f.case("DFT", [real, s(n), s(1)], expect=spectrum(np.fft.rfft(real[..., 0].astype(F64), n, axis=1)), onesided=1)
        f.case("DFT", [both, s(n), s(1)], expect=spectrum(np.fft.ifft(complex_of(both), n, axis=1)), inverse=1)
    for n in (11, 12):
        f.case("DFT", [both, s(n), s(1)], inverse=1, onesided=1,
               expect=np.fft.irfft(complex_of(both), n, axis=1)[..., None].astype(F32))
    f.case("DFT", [both], expect=spectrum(np.fft.fft(complex_of(both), axis=2)))
    f.case("DFT", [both, None, s(0)], expect=spectrum(np.fft.fft(complex_of(both), axis=0)))
    x, w = draw(2, 20, 1), draw(6)
    frames = lambda n, step: np.stack([x[:, k:k + n, 0].astype(F64) for k in range(0, 20 - n + 1, step)], 1)
    f.case("STFT", [x, s(3), w], expect=spectrum(np.fft.rfft(frames(6, 3) * w)))
    f.case("STFT", [x, s(4), None, s(8)], expect=spectrum(np.fft.fft(frames(8, 4))), onesided=0)
    f.case("STFT", [x, s(5), w, s(6)], expect=spectrum(np.fft.rfft(frames(6, 5) * w)))
    bare = x[..., 0]  # as onnxruntime takes real signals, too
    f.case("STFT", [bare, s(3), w], expect=spectrum(np.fft.rfft(frames(6, 3) * w)))
    f.case("STFT", [bare, s(4), None, s(8)], expect=spectrum(np.fft.fft(frames(8, 4))), onesided=0)
    for op, window in (("HannWindow", np.hanning), ("BlackmanWindow", np.blackman)):
        f.case(op, [s(9)], expect=window(9).astype(F32), periodic=0)
        f.case(op, [s(8)], expect=window(9)[:-1].astype(F32))
    f.case("HammingWindow", [s(10)], output_datatype=int(TensorProto.DOUBLE),
           expect=25 / 46 - 21 / 46 * np.cos(2 * np.pi * np.arange(10) / 10))
    f.case("MelWeightMatrix", [s(8), s(16), s(8192), np.array(0, F32), np.array(4096, F32)], wide=False)
    f.case("MelWeightMatrix", [s(5), s(64), s(8000), np.array(20, F32), np.array(3000, F32)], wide=False,
           output_datatype=int(TensorProto.DOUBLE))

    theta = draw(2, 2, 3)
    for corners in (0, 1):
        f.case("AffineGrid", [theta, i(2, 1, 4, 5)], align_corners=corners)
        f.case("AffineGrid", [draw(1, 3, 4), i(1, 1, 2, 3, 4)], align_corners=corners)
    c = draw(4, 7, 3)
    f.case("CenterCropPad", [c, i(2, 9, 3)], expect=np.pad(c[1:3], ((0, 0), (1, 1), (0, 0))))
    f.case("CenterCropPad", [c, i(4, 6)], expect=np.pad(c[:, 1:5], ((0, 0), (0, 0), (1, 2))), axes=[1, -1])
    m = draw(3, 4, 4)
    f.case("Det", [m], expect=np.linalg.det(m.astype(F64)).astype(F32))
    f.case("Det", [np.array([[0, 2], [3, 0]], F64)], expect=np.array(-6.0))
    cache = draw(2, 3, 5, 2)
    update = draw(2, 3, 2, 2)
    moved = cache.copy()
    moved[0, :, 1:3], moved[1, :, 3:5] = update[0], update[1]
    f.case("TensorScatter", [cache, update, i(1, 3)], expect=moved)
    moved = cache.copy()
    moved[:, :, 0:2] = update
    f.case("TensorScatter", [cache, update], expect=moved)
    moved = cache.copy()
    moved[0, :, 4], moved[0, :, 0], moved[1, :, 2:4] = update[0, :, 0], update[0, :, 1], update[1]
    f.case("TensorScatter", [cache, update, i(4, 7)], expect=moved, mode="circular")
    a, b = draw(2, 3), draw(2, 3)
    for alpha in (1.0, 0.5):
        f.case("SwiGLU", [a, b], expect=(a / (1 + np.exp(-alpha * a.astype(F64))) * b).astype(F32), alpha=alpha)

    scores, labels, weights = draw(3, 4, 2), i(0, 3, 1, 2, 2, 0).reshape(3, 2), np.abs(draw(4)) + F32(0.5)
    wide = scores.astype(F64)
    log_p = wide - np.log(np.exp(wide).sum(1, keepdims=True))
    picked = lambda p, w: -np.take_along_axis(p, labels[:, None], 1)[:, 0] * w[labels]
    ones = np.ones(4)
    for op, p in (("NegativeLogLikelihoodLoss", wide), ("SoftmaxCrossEntropyLoss", log_p)):
        f.case(op, [scores, labels], expect=picked(p, ones).mean().astype(F32))
        f.case(op, [scores, labels, weights], expect=(picked(p, weights).sum() / weights[labels].sum()).astype(F32))
        f.case(op, [scores, labels, weights], expect=picked(p, weights).sum().astype(F32), reduction="sum")
        f.case(op, [scores, labels.astype(I32)], expect=picked(p, ones).astype(F32), reduction="none")
        kept = np.where(np.arange(4) == 2, 0.0, weights)
        f.case(op, [scores, labels, weights], expect=(picked(p, kept).sum() / kept[labels].sum()).astype(F32), ignore_index=2)
    f.case("SoftmaxCrossEntropyLoss", [scores, labels], outputs=2, expect=[picked(log_p, ones).mean().astype(F32), log_p.astype(F32)])
    f.write()


def main() -> None:
    makers = {g.__name__: g for g in (elementwise, functions, shapes, indexing, reductions, signal)}
    for name in sys.argv[1:] or makers:
        makers[name]()


if __name__ == "__main__":
    main()
