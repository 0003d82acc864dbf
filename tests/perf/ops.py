#!/usr/bin/env python3
"""Single operators in xc and onnxruntime: time of one call, ratio, geometric mean.

    tests/perf/ops.py [--seconds 0.3] [--threads 1] [--jit auto] [--markdown] [NAME ...]

NAME selects the cases whose label contains it. Every case is a model of one node (or of the few nodes that one
kernel replaces) at a size of real networks. Both engines get the same arrays in one process; they take turns, and
the shortest of the repetitions counts, because other work on the machine only ever adds time. Results are compared
as well: a case whose results differ prints so and fails the run. Ratio = onnxruntime / xc: above 1, xc is faster.

Needs the packages numpy, onnx, onnxruntime and the binding `xc` (bindings/python).
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

F32, F64, I64, I32, U8, I8 = np.float32, np.float64, np.int64, np.int32, np.uint8, np.int8
ML, MICROSOFT = "ai.onnx.ml", "com.microsoft"
OPSET = 23
IR_VERSION = 10
rng = np.random.default_rng(1)


@dataclass
class Case:
    """Nodes over `inputs` (given at the run) and `weights` (in the model); the last node's outputs are the results."""

    label: str
    nodes: list
    inputs: dict[str, np.ndarray]
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=lambda: ["y"])
    quanta: int = 0  # how far integer results may be apart
    tolerance: float = 2e-3  # of float results, relative to the largest

    def model(self) -> bytes:
        port = lambda n, a: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        graph = helper.make_graph(
            self.nodes, "op", [port(n, a) for n, a in self.inputs.items()],
            [helper.make_empty_tensor_value_info(n) for n in self.outputs],
            [numpy_helper.from_array(a, n) for n, a in self.weights.items()])
        model: ModelProto = helper.make_model(graph, opset_imports=[
            helper.make_opsetid(*domain) for domain in (("", OPSET), (ML, 3), (MICROSOFT, 1))])
        model.ir_version = IR_VERSION
        return model.SerializeToString()


def f32(*dims: int) -> np.ndarray:
    return rng.standard_normal(dims, dtype=F32)


def u8(*dims: int) -> np.ndarray:
    return rng.integers(0, 256, dims, dtype=U8)


def i8(*dims: int) -> np.ndarray:
    return rng.integers(-127, 128, dims, dtype=I8)


def one(label: str, op: str, *arrays: np.ndarray | None, weights: tuple[np.ndarray | None, ...] = (), outputs: int = 1,
        quanta: int = 0, **attrs) -> Case:
    """One node: `arrays` come at the run, `weights` follow them and are constants."""
    names, inputs, constants = [], {}, {}
    for where, values in ((inputs, arrays), (constants, weights)):
        for array in values:
            names.append("" if array is None else f"i{len(names)}")
            if array is not None:
                where[names[-1]] = array
    outs = ["y"] if outputs == 1 else [f"y{k}" for k in range(outputs)]
    return Case(f"{op} {label}".strip(), [helper.make_node(op, names, outs, **attrs)], inputs, constants, outs, quanta)


def vector(*values) -> np.ndarray:
    return np.array(values, I64)


def products() -> Iterator[Case]:
    for m, k, n in ((1, 768, 3072), (16, 768, 768), (128, 768, 768), (384, 512, 512)):
        yield one(f"{m}x{k}x{n}, weights", "MatMul", f32(m, k), weights=(f32(k, n),))
    yield one("12 heads 128x64x128", "MatMul", f32(1, 12, 128, 64), f32(1, 12, 64, 128))
    yield one("128x1000x1", "MatMul", f32(128, 1000), f32(1000, 1))
    yield one("6000x4x4", "MatMul", f32(6000, 4), f32(4, 4))
    yield one("64x1024x1000, transB", "Gemm", f32(64, 1024), weights=(f32(1000, 1024), f32(1000)), transB=1)
    yield one("bhid,bhjd->bhij", "Einsum", f32(2, 8, 64, 64), f32(2, 8, 64, 64), equation="bhid,bhjd->bhij")
    yield one("bii->bi", "Einsum", f32(64, 64, 64), equation="bii->bi")
    conv = lambda label, x, w, **attrs: one(label, "Conv", f32(*x), weights=(f32(*w), f32(w[0])), **attrs)
    yield conv("3x3 64->64 56x56", (1, 64, 56, 56), (64, 64, 3, 3), pads=[1] * 4)
    yield conv("1x1 256->64 56x56", (1, 256, 56, 56), (64, 256, 1, 1))
    yield conv("7x7/2 3->64 224x224", (1, 3, 224, 224), (64, 3, 7, 7), pads=[3] * 4, strides=[2, 2])
    yield conv("3x3 512->512 7x7", (1, 512, 7, 7), (512, 512, 3, 3), pads=[1] * 4)
    yield conv("depthwise 3x3 144 56x56", (1, 144, 56, 56), (144, 1, 3, 3), pads=[1] * 4, group=144)
    yield conv("1x1 24->60 in 3 groups 56x56", (1, 24, 56, 56), (60, 8, 1, 1), group=3)
    yield conv("3x3 64->64 in 8 groups 56x56", (1, 64, 56, 56), (64, 8, 3, 3), pads=[1] * 4, group=8)
    yield conv("1-D 5 128->128 400", (1, 128, 400), (128, 128, 5), pads=[2, 2])
    yield one("2x2/2 64->32 28x28", "ConvTranspose", f32(1, 64, 28, 28), weights=(f32(64, 32, 2, 2), f32(32)),
              strides=[2, 2])
    yield one("depthwise 4x4/2 64 28x28", "ConvTranspose", f32(1, 64, 28, 28), weights=(f32(64, 1, 4, 4), f32(64)),
              strides=[2, 2], pads=[1] * 4, group=64)
    hidden, size = 128, 64
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        yield one("seq 50, 64->128", op, f32(50, 1, size),
                  weights=(f32(1, gates * hidden, size) * 0.1, f32(1, gates * hidden, hidden) * 0.1,
                           f32(1, 2 * gates * hidden) * 0.1), hidden_size=hidden)
    q, k, v = (f32(1, 8, 128, 64) for _ in range(3))
    yield one("8 heads 128x64", "Attention", q, k, v)
    yield one("1x8x128x64", "RotaryEmbedding", f32(1, 8, 128, 64), f32(1, 128, 32), f32(1, 128, 32))


def integers() -> Iterator[Case]:
    small = lambda dtype, *dims: rng.integers(-5, 6, dims).astype(dtype)
    for dtype in (I32, I64):
        yield one(f"{np.dtype(dtype).name} 128x128x128", "MatMul", small(dtype, 128, 128), small(dtype, 128, 128))
        yield one(f"{np.dtype(dtype).name} 1x256x256", "MatMul", small(dtype, 1, 256), small(dtype, 256, 256))
    yield one("i32 100000, cubes", "Pow", small(I32, 100000), weights=(np.array(3, I32),))
    yield one("u32 100000", "BitShift", rng.integers(0, 99, 100000).astype(np.uint32),
              rng.integers(0, 9, 100000).astype(np.uint32), direction="LEFT")


def quantised() -> Iterator[Case]:
    zero, scale = np.array(128, U8), np.array(0.02, F32)
    s8_zero = np.array(0, I8)
    for m, k, n in ((1, 768, 3072), (128, 768, 768)):
        yield one(f"{m}x{k}x{n} u8s8", "MatMulInteger", u8(m, k), weights=(i8(k, n), zero, s8_zero))
        yield one(f"{m}x{k}x{n} u8s8", "QLinearMatMul", u8(m, k), weights=(
            scale, zero, i8(k, n), np.array(0.01, F32), s8_zero, np.array(0.7, F32), zero), quanta=1)
    yield one("128x768x768 u8u8", "MatMulInteger", u8(128, 768), weights=(u8(768, 768), zero, zero))
    qconv = lambda label, x, w, **attrs: one(label, "QLinearConv", u8(*x), weights=(
        scale, zero, i8(*w), np.full(w[0], 0.01, F32), np.zeros(w[0], I8), np.array(0.5, F32), zero,
        rng.integers(-9999, 9999, w[0], dtype=I32)), quanta=1, **attrs)
    yield qconv("3x3 64->64 56x56", (1, 64, 56, 56), (64, 64, 3, 3), pads=[1] * 4)
    yield qconv("1x1 256->64 56x56", (1, 256, 56, 56), (64, 256, 1, 1))
    yield qconv("depthwise 3x3 144 56x56", (1, 144, 56, 56), (144, 1, 3, 3), pads=[1] * 4, group=144)
    yield one("3x3 64->64 28x28", "ConvInteger", u8(1, 64, 28, 28), weights=(i8(64, 64, 3, 3), zero), pads=[1] * 4)
    yield one("128x768", "QuantizeLinear", f32(128, 768), weights=(scale, zero), quanta=1)
    yield one("128x768", "DequantizeLinear", u8(128, 768), weights=(scale, zero))
    yield one("128x768", "DynamicQuantizeLinear", f32(128, 768), outputs=3, quanta=1)
    yield qlinear_add()
    yield qdq_conv()
    yield dynamic_matmul()
    yield blocked_matmul(1)
    yield blocked_matmul(64)


def qlinear_add() -> Case:
    """Both operands come at the run, each with its scale and zero point behind it."""
    node = helper.make_node("QLinearAdd", ["a", "sa", "z", "b", "sb", "z", "sy", "z"], ["y"], domain=MICROSOFT)
    weights = dict(sa=np.array(0.02, F32), sb=np.array(0.03, F32), sy=np.array(0.04, F32), z=np.array(128, U8))
    return Case("QLinearAdd 200000", [node], dict(a=u8(200_000), b=u8(200_000)), weights, quanta=1)


def qdq_conv() -> Case:
    """DequantizeLinear -> Conv -> Relu -> QuantizeLinear, weights per channel."""
    nodes = [helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["xf"]),
             helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wf"], axis=0),
             helper.make_node("DequantizeLinear", ["b", "sb", "zb"], ["bf"], axis=0),
             helper.make_node("Conv", ["xf", "wf", "bf"], ["c"], pads=[1] * 4),
             helper.make_node("Relu", ["c"], ["r"]), helper.make_node("QuantizeLinear", ["r", "sy", "zy"], ["y"])]
    sw = np.linspace(0.005, 0.02, 64, dtype=F32)
    weights = dict(sx=np.array(0.02, F32), zx=np.array(128, U8), w=i8(64, 64, 3, 3), sw=sw, zw=np.zeros(64, I8),
                   b=rng.integers(-999, 999, 64, dtype=I32), sb=sw * F32(0.02), zb=np.zeros(64, I32),
                   sy=np.array(0.3, F32), zy=np.array(0, U8))
    return Case("QDQ Conv Relu 3x3 64->64 28x28", nodes, {"x": u8(1, 64, 28, 28)}, weights, quanta=1)


def dynamic_matmul() -> Case:
    """DynamicQuantizeLinear -> MatMulInteger -> Cast -> Mul: weights quantised before, activations at the run."""
    nodes = [helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
             helper.make_node("MatMulInteger", ["q", "w", "z", "zw"], ["i"]),
             helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
             helper.make_node("Mul", ["s", "sw"], ["ss"]), helper.make_node("Mul", ["f", "ss"], ["y"])]
    weights = dict(w=i8(768, 768), zw=np.array(0, I8), sw=np.array(0.01, F32))
    return Case("dynamic MatMul 128x768x768", nodes, {"x": f32(128, 768)}, weights)


def linear_attention(batch: int, steps: int, heads: int, size: int, rule: str, per_row: bool = False) -> Case:
    """A state of size x size per head; decays per head or per row of it."""
    rows = lambda width, scale: f32(batch, steps, width) * F32(scale)
    decay = -np.abs(rows(heads * size if per_row else heads, 0.1)) if "gated" in rule else None
    beta = rng.random((batch, steps, heads), dtype=F32) if "delta" in rule else None
    return one(f"{rule} {batch}x{steps}, {heads} heads of {size}" + (", decays per row" if per_row else ""), "LinearAttention",
               rows(heads * size, 1), rows(heads * size, size ** -0.5), rows(heads * size, 1), f32(batch, heads, size, size),
               decay, beta, outputs=2, domain=MICROSOFT, update_rule=rule, q_num_heads=heads, kv_num_heads=heads)


def recurrences() -> Iterator[Case]:
    for steps in (1, 64):
        yield linear_attention(1, steps, 16, 128, "gated_delta")
    yield linear_attention(4, 1, 8, 64, "gated_delta")
    yield linear_attention(1, 128, 16, 64, "gated", per_row=True)
    yield linear_attention(1, 128, 8, 64, "delta")


def blocked_matmul(rows: int) -> Case:
    """DequantizeLinear (int4, blocks of 32 along k) -> MatMul."""
    k, n, block = 2048, 2048, 32
    packed = helper.make_tensor("w", TensorProto.INT4, (k, n),
                                rng.integers(0, 256, k * n // 2, dtype=U8).tobytes(), raw=True)
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["wf"], axis=0, block_size=block),
             helper.make_node("MatMul", ["x", "wf"], ["y"])]
    scales = (rng.random((k // block, n), dtype=F32) + F32(0.5)) * F32(0.01)
    case = Case(f"MatMul of int4 blocks {rows}x{k}x{n}", nodes, {"x": f32(rows, k)}, dict(s=scales))
    case.tolerance = 2e-2  # onnxruntime rounds the rows of x to 8 bits
    plain = case.model

    def model() -> bytes:
        proto = ModelProto.FromString(plain())
        proto.graph.initializer.append(packed)
        return proto.SerializeToString()

    case.model = model  # type: ignore[method-assign]
    return case


def normalisations() -> Iterator[Case]:
    x = f32(128, 768)
    ones, zeros = np.ones(768, F32), np.zeros(768, F32)
    yield one("128x768", "LayerNormalization", x, weights=(ones, zeros))
    yield one("128x768", "RMSNormalization", x, weights=(ones,))
    yield one("1536x128", "Softmax", f32(1536, 128))
    yield one("64x1000", "LogSoftmax", f32(64, 1000))
    image, c = f32(1, 64, 56, 56), 64
    per = lambda: (np.ones(c, F32), np.zeros(c, F32))
    yield one("64x56x56", "BatchNormalization", image, weights=(*per(), np.zeros(c, F32), np.ones(c, F32)))
    yield one("64x56x56", "InstanceNormalization", image, weights=per())
    yield one("64x56x56, 8 groups", "GroupNormalization", image, weights=per(), num_groups=8)
    yield one("128x768", "LpNormalization", x, axis=-1)


def elementwise() -> Iterator[Case]:
    x = f32(128, 3072)
    for op in ("Relu", "Sigmoid", "Tanh", "Gelu", "Erf", "Exp", "Neg", "Abs", "Sqrt", "Softplus"):
        yield one("128x3072", op, np.abs(x) if op == "Sqrt" else x)
    yield one("128x3072, tanh", "Gelu", x, approximate="tanh")
    yield one("128x3072, small", "Relu", f32(1, 256))
    yield one("128x3072", "Clip", x, weights=(np.array(-1, F32), np.array(1, F32)))
    yield one("128x3072, square", "Pow", x, weights=(np.array(2, F32),))
    yield one("128x3072, 1.5", "Pow", np.abs(x), weights=(np.array(1.5, F32),))
    yield one("same", "Add", x, f32(128, 3072))
    yield one("row", "Add", x, f32(3072))
    yield one("column", "Mul", x, f32(128, 1))
    yield one("channel", "Mul", f32(1, 64, 56, 56), f32(1, 64, 1, 1))
    yield one("same", "Div", x, np.abs(f32(128, 3072)) + 1)
    yield one("mask", "Where", rng.random((128, 3072)) > 0.5, x, np.array(0, F32))
    yield one("i64, scalar", "Equal", rng.integers(0, 9, (128, 3072)), weights=(np.array(3, I64),))
    yield one("f32 to i64", "Cast", x, to=TensorProto.INT64)
    yield one("f32 to f16", "Cast", x, to=TensorProto.FLOAT16)
    yield one("128x3072", "ThresholdedRelu", x)
    for op in ("Tanh", "Exp", "Sigmoid"):
        yield one("f64 128x768", op, f32(128, 768).astype(F64))
    for dtype in (F32, F64):
        yield one(f"{np.dtype(dtype).name} 128x768", "Mod", (f32(128, 768) * 100).astype(dtype), np.array(7.5, dtype), fmod=1)


def movement() -> Iterator[Case]:
    for dims, perm in (((128, 768), (1, 0)), ((1, 128, 12, 64), (0, 2, 1, 3)), ((1, 12, 128, 64), (0, 1, 3, 2)),
                       ((1, 64, 56, 56), (0, 2, 3, 1)), ((1, 56, 56, 64), (0, 3, 1, 2))):
        yield one("x".join(map(str, dims)) + " by " + "".join(map(str, perm)), "Transpose", f32(*dims), perm=perm)
    yield one("channels 64+64 56x56", "Concat", f32(1, 64, 56, 56), f32(1, 64, 56, 56), axis=1)
    yield one("last axis 64+64", "Concat", f32(1536, 64), f32(1536, 64), axis=-1)
    yield one("3 of 128x2304", "Split", f32(128, 2304), outputs=3, axis=-1, num_outputs=3)
    yield one("128x768, every second", "Slice", f32(128, 768), weights=(vector(0), vector(768), vector(1), vector(2)))
    yield one("128x768, columns 100:400", "Slice", f32(128, 768), weights=(vector(100), vector(400), vector(1)))
    yield one("64x56x56 by 1", "Pad", f32(1, 64, 56, 56), weights=(vector(0, 0, 1, 1, 0, 0, 1, 1),))
    yield one("128 of 30000x768", "Gather", f32(30000, 768), rng.integers(0, 30000, 128))
    yield one("columns", "Gather", f32(128, 768), rng.integers(0, 768, 64), axis=1)
    yield one("128x768", "GatherElements", f32(128, 768), rng.integers(0, 128, (128, 768)), axis=0)
    yield one("1000 of 200x100", "GatherND", f32(200, 100, 16),
              np.stack([rng.integers(0, 200, 1000), rng.integers(0, 100, 1000)], 1))
    yield one("64 rows of 512x256", "ScatterND", f32(512, 256), rng.permutation(512)[:64].reshape(64, 1), f32(64, 256))
    yield one("128x768", "ScatterElements", f32(128, 768), np.tile(rng.permutation(128)[:64, None], (1, 768)),
              f32(64, 768), axis=0)
    yield one("1x768 to 128x768", "Expand", f32(1, 768), weights=(vector(128, 768),))
    yield one("8x64 by 1x16", "Tile", f32(64, 64), weights=(vector(1, 16),))
    yield one("10000 i64, limits at the run", "Range", np.array(0, I64), np.array(10000, I64), np.array(1, I64))
    yield one("128x128", "Trilu", f32(8, 128, 128), upper=0)
    yield one("128 of 1000", "OneHot", rng.integers(0, 1000, 128), weights=(np.array(1000, I64), np.array([0, 1], F32)))
    yield one("128x768", "NonZero", (rng.random((128, 768)) > 0.7).astype(F32))
    yield one("nearest x2, 64x28x28", "Resize", f32(1, 64, 28, 28),
              weights=(None, np.array([1, 1, 2, 2], F32)), mode="nearest", coordinate_transformation_mode="asymmetric",
              nearest_mode="floor")
    for scale, dims in ((1.5, (1, 64, 28, 28)), (0.5, (1, 64, 56, 56)), (2, (1, 256, 7, 7))):
        yield one(f"nearest x{scale}, {dims[1]}x{dims[2]}x{dims[3]}", "Resize", f32(*dims),
                  weights=(None, np.array([1, 1, scale, scale], F32)), mode="nearest",
                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    yield one("linear x2, 64x28x28", "Resize", f32(1, 64, 28, 28), weights=(None, np.array([1, 1, 2, 2], F32)),
              mode="linear")
    yield one("2, 64x56x56", "SpaceToDepth", f32(1, 64, 56, 56), blocksize=2)
    yield one("4, 3x224x224", "SpaceToDepth", f32(1, 3, 224, 224), blocksize=4)
    yield one("2, 64x56x56", "DepthToSpace", f32(1, 64, 56, 56), blocksize=2)


def reductions() -> Iterator[Case]:
    x = f32(128, 768)
    yield one("128x768, last axis", "ReduceMean", x, weights=(vector(-1),))
    yield one("128x768, first axis", "ReduceSum", x, weights=(vector(0),))
    yield one("64x56x56, image", "ReduceMean", f32(1, 64, 56, 56), weights=(vector(2, 3),))
    yield one("8x128x768, middle axis", "ReduceMax", f32(8, 128, 768), weights=(vector(1),))
    yield one("4096x28, last axis", "ReduceMax", f32(4096, 28), weights=(vector(-1),))
    yield one("128x768, last axis", "ReduceL2", x, weights=(vector(-1),))
    yield one("64x1000, last axis", "ArgMax", f32(64, 1000), axis=-1)
    yield one("64x128, first axis", "ArgMax", f32(64, 1000), axis=0)
    yield one("10 of 64x1000", "TopK", f32(64, 1000), weights=(vector(10),), outputs=2)
    yield one("5 of 64x100x64, middle axis", "TopK", f32(64, 100, 64), weights=(vector(5),), outputs=2, axis=1)
    yield one("8 of 1000x64", "TopK", f32(1000, 64), weights=(vector(8),), outputs=2)
    yield one("128x768, last axis", "CumSum", x, weights=(np.array(1, I64),))
    yield one("128x768, first axis", "CumSum", x, weights=(np.array(0, I64),))
    image = f32(1, 64, 112, 112)
    yield one("3x3/2 64x112x112", "MaxPool", image, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    yield one("2x2/2 64x112x112", "AveragePool", image, kernel_shape=[2, 2], strides=[2, 2])
    yield one("3x3 64x56x56", "AveragePool", f32(1, 64, 56, 56), kernel_shape=[3, 3], pads=[1] * 4)
    yield one("5x5 256x20x20", "MaxPool", f32(1, 256, 20, 20), kernel_shape=[5, 5], pads=[2] * 4)
    yield one("3x3 512x7x7", "MaxPool", f32(1, 512, 7, 7), kernel_shape=[3, 3], pads=[1] * 4)
    yield one("512x7x7", "GlobalAveragePool", f32(1, 512, 7, 7))
    yield one("128/1 16x8192", "MaxPool", f32(1, 16, 8192), kernel_shape=[128])
    yield one("64/64 32x4096", "AveragePool", f32(1, 32, 4096), kernel_shape=[64], strides=[64])


def halves() -> Iterator[Case]:
    f16 = lambda *dims: f32(*dims).astype(np.float16)
    yield one("f16 128x768x768, weights", "MatMul", f16(128, 768), weights=(f16(768, 768),))
    yield one("f16 12 heads 128x64x128", "MatMul", f16(1, 12, 128, 64), f16(1, 12, 64, 128))
    yield one("f16 3x3 64->64 28x28", "Conv", f16(1, 64, 28, 28), weights=(f16(64, 64, 3, 3), f16(64)), pads=[1] * 4)
    yield one("f16 1536x128", "Softmax", f16(1536, 128))
    yield one("f16 128x768", "LayerNormalization", f16(128, 768), weights=(np.ones(768, np.float16), f16(768)))
    yield one("f16 128x3072", "Gelu", f16(128, 3072))


def detection() -> Iterator[Case]:
    image = f32(1, 64, 56, 56)
    grid = np.tanh(f32(1, 56, 56, 2))
    yield one("linear 64x56x56", "GridSample", image, grid, mode="linear")
    yield one("nearest 64x56x56", "GridSample", image, grid, mode="nearest")
    yield one("cubic 16x56x56, border", "GridSample", f32(1, 16, 56, 56), grid, mode="cubic", padding_mode="border")
    yield one("linear 16x56x56, reflected", "GridSample", f32(1, 16, 56, 56), grid, mode="linear", padding_mode="reflection")
    yield one("linear 4x16x32x32", "GridSample", f32(1, 4, 16, 32, 32), np.tanh(f32(1, 16, 32, 32, 3)), mode="linear")
    yield one("3x3 32->32 28x28", "DeformConv", f32(1, 32, 28, 28), f32(32, 32, 3, 3), f32(1, 18, 28, 28), pads=[1] * 4)
    yield one("64x56x56, 5", "LRN", image, size=5)
    yield one("2x2/2 64x56x56", "LpPool", image, kernel_shape=[2, 2], strides=[2, 2])
    yield one("128x768, last axis", "ReduceLogSumExp", f32(128, 768), weights=(vector(-1),))
    yield one("128x1000", "Hardmax", f32(128, 1000))
    yield one("32x64x128", "ReverseSequence", f32(32, 64, 128), rng.integers(1, 32, 64), batch_axis=1, time_axis=0)
    yield one("half of 128x768", "Compress", f32(128, 768), rng.random(128) > 0.5, axis=0)


def rare() -> Iterator[Case]:
    """Operators that no model spends its time in."""
    many = rng.random((1, 1000, 2), dtype=F32)
    yield one("1000 boxes", "NonMaxSuppression", np.concatenate([many, many + F32(0.05)], 2),
              rng.random((1, 4, 1000), dtype=F32),
              weights=(np.array(100, I64), np.array(0.5, F32), np.array(0.2, F32)))
    yield one("64x64", "EyeLike", f32(64, 64))
    yield one("1000x1000", "EyeLike", f32(1000, 1000), k=2)
    yield one("256x1000", "SoftmaxCrossEntropyLoss", f32(256, 1000), rng.integers(0, 1000, 256))
    yield one("4x21x64x64, each", "NegativeLogLikelihoodLoss", f32(4, 21, 64, 64), rng.integers(0, 21, (4, 64, 64)), reduction="none")
    yield one("224x224 of 3x256x256", "CenterCropPad", f32(1, 3, 256, 256), weights=(vector(224, 224),), axes=[2, 3])
    yield one("10000 of 100", "Unique", rng.integers(0, 100, 10000), outputs=4)
    yield one("64 of 16x16", "Det", f32(64, 16, 16))
    words = np.array([f"word {k}" for k in rng.integers(0, 1000, 10000)], object)
    yield one("10000", "StringConcat", words, weights=(np.array([" of it"], object),))
    yield one("64 of 16x16", "Inverse", f32(64, 16, 16), domain=MICROSOFT)


def trees(count: int, depth: int, features: int) -> dict:
    """Full binary trees as TreeEnsembleRegressor and TreeEnsembleClassifier have them."""
    inner, nodes = 2**depth - 1, 2**(depth + 1) - 1
    ids = np.arange(nodes)
    leaf = ids >= inner
    tile = lambda values: np.tile(values, count).tolist()
    return dict(nodes_treeids=np.repeat(np.arange(count), nodes).tolist(), nodes_nodeids=tile(ids),
                nodes_featureids=rng.integers(0, features, count * nodes).tolist(),
                nodes_values=f32(count * nodes).tolist(),
                nodes_modes=["LEAF" if end else "BRANCH_LEQ" for end in leaf] * count,
                nodes_truenodeids=tile(np.where(leaf, 0, 2 * ids + 1)),
                nodes_falsenodeids=tile(np.where(leaf, 0, 2 * ids + 2)))


def learned() -> Iterator[Case]:
    count, depth, features = 100, 6, 32
    forest = trees(count, depth, features)
    leaves = [n for n, mode in enumerate(forest["nodes_modes"]) if mode == "LEAF"]
    at = lambda name: [forest[name][n] for n in leaves]
    for rows in (1, 1000):
        yield one(f"100 trees of depth 6, {rows} rows", "TreeEnsembleRegressor", f32(rows, features), domain=ML,
                  n_targets=1, target_treeids=at("nodes_treeids"), target_nodeids=at("nodes_nodeids"),
                  target_ids=[0] * len(leaves), target_weights=f32(len(leaves)).tolist(), **forest)
        yield one(f"100 trees of depth 6, {rows} rows", "TreeEnsembleClassifier", f32(rows, features), outputs=2,
                  domain=ML, classlabels_int64s=[0, 1, 2], class_treeids=at("nodes_treeids"),
                  class_nodeids=at("nodes_nodeids"), class_ids=[n % 3 for n in range(len(leaves))],
                  class_weights=rng.random(len(leaves)).tolist(), post_transform="NONE", **forest)
    x = f32(1000, 32)
    yield one("1000x32 to 3", "LinearClassifier", x, outputs=2, domain=ML, coefficients=f32(96).tolist(),
              intercepts=[0.1, 0.2, 0.3], classlabels_ints=[0, 1, 2], post_transform="SOFTMAX", multi_class=0)
    yield one("1000x32", "LinearRegressor", x, domain=ML, coefficients=f32(32).tolist(), intercepts=[0.5])
    yield one("1000x32", "Scaler", x, domain=ML, offset=f32(32).tolist(), scale=f32(32).tolist())
    yield one("1000x32, L2", "Normalizer", x, domain=ML, norm="L2")
    yield one("1000x32, 200 vectors", "SVMRegressor", x, domain=ML, kernel_type="RBF", n_supports=200,
              kernel_params=[0.1, 0.0, 3.0], support_vectors=f32(200 * 32).tolist(), coefficients=f32(200).tolist(),
              rho=[0.3])
    yield one("10000 of 100", "LabelEncoder", rng.integers(0, 100, 10000), domain=ML, keys_int64s=list(range(100)),
              values_floats=f32(100).tolist(), default_float=0.0)
    yield one("10000 of 100, to text", "LabelEncoder", rng.integers(0, 100, 10000), domain=ML,
              keys_int64s=list(range(100)), values_strings=[f"label {k}" for k in range(100)], default_string="none")
    yield one("1000x3", "ZipMap", rng.random((1000, 3), dtype=F32), domain=ML, classlabels_int64s=[0, 1, 2])
    yield one("10000 of 100", "OneHotEncoder", rng.integers(0, 100, 10000), domain=ML, cats_int64s=list(range(100)))


FAMILIES: tuple[Callable[[], Iterator[Case]], ...] = (products, recurrences, integers, quantised, normalisations, elementwise, movement,
                                                      reductions, halves, detection, learned, rare)


def same(got: list, want: list, case: Case) -> bool:
    """Equal up to the case's bounds."""
    for a, b in zip(got, want, strict=True):
        if isinstance(b, list):  # maps
            if a != b:
                return False
            continue
        a = np.asarray(a)
        if b.dtype.kind in "UO":
            if a.tolist() != b.tolist():
                return False
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.kind in "iub":
            if a.size and np.abs(a.astype(I64) - b.astype(I64)).max() > case.quanta:
                return False
        elif not np.abs(a.astype(F32) - b.astype(F32)).max(initial=0) <= case.tolerance * max(
                1, np.abs(b.astype(F32)).max(initial=0)):
            return False
    return True


def calls_per(seconds: float, f: Callable) -> int:
    start = time.perf_counter()
    f()
    return max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))


def measure(case: Case, threads: int, seconds: float, jit: str) -> tuple[float, float, bool]:
    """Seconds per call of xc and onnxruntime, and whether their results agree."""
    import onnxruntime
    import xc

    blob = case.model()
    session = xc.Session(blob, threads=threads, jit=jit)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    other = onnxruntime.InferenceSession(blob, options, providers=["CPUExecutionProvider"])
    arrays = list(case.inputs.values())
    runs = (lambda: session.run(arrays), lambda: other.run(None, case.inputs))
    agree = same(runs[0](), runs[1](), case)
    # Time to compile: regions are tried while the session runs.
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < 3 * seconds or (count < 100 and time.perf_counter() - begin < 12 * seconds):
        runs[0]()
        count += 1
    session.wait_idle(5.0)
    repeats = 60  # short ones: on a busy machine some of them run undisturbed
    calls = [calls_per(seconds / repeats, run) for run in runs]
    best = [math.inf, math.inf]
    for _ in range(repeats):
        for k, run in enumerate(runs):
            run()
            start = time.perf_counter()
            for _ in range(calls[k]):
                run()
            best[k] = min(best[k], (time.perf_counter() - start) / calls[k])
    return best[0], best[1], agree and same(runs[0](), runs[1](), case)


def main(families: Iterable[Callable[[], Iterator[Case]]] = FAMILIES, description: str | None = __doc__) -> int:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.3, help="measured per engine and case")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--jit", default="auto", choices=["auto", "off", "sync"])
    parser.add_argument("--markdown", action="store_true", help="rows of a table for README.md")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(options.threads))
    ratios, wrong = {}, []
    for case in (case for family in families for case in family()):
        if options.names and not any(name.lower() in case.label.lower() for name in options.names):
            continue
        try:
            ours, theirs, agree = measure(case, options.threads, options.seconds, options.jit)
        except Exception as error:  # one engine refuses the model: say so and go on
            print(f"# {case.label}: {str(error)[:160]}", flush=True)
            continue
        ratios[case.label] = theirs / ours
        if not agree:
            wrong.append(case.label)
        row = "| {:40s} | {:9.1f} | {:9.1f} | {:5.2f} |" if options.markdown else "{:40s} {:9.1f} {:9.1f} {:6.2f}"
        print(row.format(case.label, ours * 1e6, theirs * 1e6, theirs / ours) + ("" if agree else "  DIFFERENT"),
              flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        worst = min(ratios, key=ratios.__getitem__)
        print(f"geometric mean {mean:.2f} over {len(ratios)}; worst {ratios[worst]:.2f} ({worst}); "
              f"under 0.5: {', '.join(name for name, ratio in ratios.items() if ratio < 0.5) or 'none'}")
    if wrong:
        print(f"results differ: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
