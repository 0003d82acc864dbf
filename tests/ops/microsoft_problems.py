"""Problems of the operators of com.microsoft; onnxruntime gives the answers, numpy where it has no kernel."""
from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from extra_problems import Maker, Problem

F = np.float32


def ms(m: Maker, name: str, op: str, outputs: int, arrays: list, **attrs: object) -> Problem:
    return m.problem(f"{op}_{name}", op, outputs, arrays, domain="com.microsoft", **attrs)


def activations(m: Maker) -> Iterator[Problem]:
    x = m.floats(2, 3, 5) * F(2)
    yield ms(m, "plain", "Gelu", 1, [x])
    yield ms(m, "plain", "FastGelu", 1, [x])
    yield ms(m, "bias", "FastGelu", 1, [x, m.floats(5)])
    yield ms(m, "bias", "BiasGelu", 1, [x, m.floats(5)])
    yield ms(m, "empty", "BiasGelu", 1, [x[:0], m.floats(5)])
    yield ms(m, "plain", "QuickGelu", 1, [x])
    yield ms(m, "alpha", "QuickGelu", 1, [x], alpha=0.75)
    half = x.astype(np.float16)
    yield ms(m, "f16", "FastGelu", 1, [half])
    problem = ms(m, "f16", "Gelu", 1, [half])
    wide = half.astype(np.float64)  # onnxruntime's kernel of half precision is off by more than a rounding
    problem.expected = [(wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))).astype(np.float16)]
    yield problem


def norms(m: Maker) -> Iterator[Problem]:
    x, skip, lines = m.floats(2, 3, 8), m.floats(2, 3, 8), [m.floats(8) for _ in range(3)]
    gamma, beta, bias = lines
    full, simple = "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"
    yield ms(m, "all", full, 1, [x, skip, gamma, beta, bias], epsilon=0.01)
    yield ms(m, "plain", full, 1, [x, skip, gamma])
    yield ms(m, "no_beta", full, 1, [x, skip, gamma, None, bias])
    yield ms(m, "batchless_skip", full, 1, [x, skip[:1], gamma, beta])
    yield ms(m, "matrix_skip", full, 1, [x, skip[0], gamma, beta])
    yield ms(m, "tokens", full, 1, [x[0], skip[0], gamma, beta])
    half = [v.astype(np.float16) for v in (x, skip, gamma, beta)]
    yield ms(m, "f16", full, 1, half)
    total = (x + skip + bias).astype(np.float64)
    mean = total.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt(((total - mean) ** 2).mean(-1, keepdims=True) + 0.01)
    y = (total - mean) * inverse * gamma + beta
    problem = ms(m, "statistics", full, 4, [x, skip, gamma, beta, bias], epsilon=0.01)
    problem.expected = [v.astype(F) for v in (y, mean, inverse, total)]  # onnxruntime's CPU kernel has no statistics
    yield problem
    yield ms(m, "bias", simple, 1, [x, skip, gamma, bias], epsilon=0.01)
    yield ms(m, "plain", simple, 1, [x, skip, gamma], epsilon=1e-5)
    problem = ms(m, "sum", simple, 4, [x, skip, gamma], epsilon=0.01)
    problem.node.output[1] = ""
    total = (x + skip).astype(np.float64)
    inverse = 1 / np.sqrt((total**2).mean(-1, keepdims=True) + 0.01)
    problem.expected = [v.astype(F) for v in (total * inverse * gamma, inverse, total)]
    yield problem


def embeddings(m: Maker) -> Iterator[Problem]:
    op = "EmbedLayerNormalization"
    ids, segments = np.array([[3, 0, 6, 1], [5, 5, 2, 4]], np.int32), np.array([[0, 0, 1, 1], [1, 0, 1, 0]], np.int32)
    words, places, table = m.floats(7, 6), m.floats(5, 6), m.floats(2, 6)
    gamma, beta = m.floats(6), m.floats(6)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    yield ms(m, "all", op, 3, [ids, segments, words, places, table, gamma, beta, mask,
                               np.array([[4, 2, 0, 1], [1, 1, 3, 2]], np.int32)], epsilon=0.001)
    yield ms(m, "no_segments", op, 2, [ids, None, words, places, None, gamma, beta])
    yield ms(m, "one_row_of_positions", op, 2,
             [ids, None, words, places, None, gamma, beta, None, np.array([[4, 0, 2, 1]], np.int32)])


def products(m: Maker) -> Iterator[Problem]:
    for a, b, attrs in (
        ((2, 3), (3, 4), {}),
        ((3, 2), (4, 3), {"transA": 1, "transB": 1, "alpha": 0.5}),
        ((2, 5, 3), (2, 4, 3), {"transB": 1, "alpha": -1.5}),
        ((5, 2, 3), (2, 3, 4), {"transBatchA": 1}),
        ((5, 2, 3), (3, 2, 4), {"transBatchA": 1, "transBatchB": 1}),
        ((3, 2, 6, 5), (4, 2, 6, 3), {"transBatchA": 1, "transBatchB": 1, "transA": 1, "transB": 1}),
        ((2, 0), (0, 4), {"alpha": 2.0}),
    ):
        name = "x".join(map(str, a)) + "_" + "_".join(attrs) if attrs else "plain"
        yield ms(m, name, "FusedMatMul", 1, [m.floats(*a), m.floats(*b)], **attrs)
    for c in (None, (4,), (3, 1)):
        for activation, extra in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {}),
                                  ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4})):
            name = f"{activation}_{'no_c' if c is None else len(c)}"
            arrays = [m.floats(2, 3), m.floats(4, 2)] + ([] if c is None else [m.floats(*c)])
            yield ms(m, name, "FusedGemm", 1, arrays, transA=1, transB=1, alpha=0.5, beta=2.0,
                     activation=activation, **extra)
    x, w, b = m.floats(1, 4, 6, 5), m.floats(3, 4, 3, 3), m.floats(3)
    for activation, parameters in (("Relu", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 1.5]), ("Tanh", []),
                                   ("Sigmoid", []), ("HardSigmoid", [0.3, 0.4])):
        yield ms(m, activation, "FusedConv", 1, [x, w, b], pads=[1, 1, 1, 1], activation=activation,
                 activation_params=parameters)
    yield ms(m, "sum", "FusedConv", 1, [x, w, b, m.floats(1, 3, 6, 5)], pads=[1, 1, 1, 1], activation="Relu")
    yield ms(m, "sum_only", "FusedConv", 1, [x, w, None, m.floats(1, 3, 4, 3)], strides=[1, 1])
    yield ms(m, "grouped", "FusedConv", 1, [x, m.floats(4, 2, 3, 3)], group=2, strides=[2, 2], auto_pad="SAME_UPPER",
             activation="Relu")


def weights(m: Maker) -> Iterator[Problem]:
    def packed(*dims: int) -> np.ndarray:
        return m.random.integers(0, 256, dims).astype(np.uint8)

    def scales(*dims: int) -> np.ndarray:
        return (np.abs(m.floats(*dims)) * F(0.1)).astype(F)

    op = "MatMulNBits"
    for bits in (2, 4, 8):
        for n, k, block in ((5, 32, 16), (3, 40, 16)):
            blocks = -(-k // block)
            b, s = packed(n, blocks, block * bits // 8), scales(n, blocks)
            zeros = packed(n, -(-blocks * bits // 8))
            attrs = {"N": n, "K": k, "bits": bits, "block_size": block}
            x = m.floats(2, 3, k)
            yield ms(m, f"{bits}bits_{k}", op, 1, [x, b, s], **attrs)
            yield ms(m, f"{bits}bits_{k}_zeros", op, 1, [x, b, s, zeros], **attrs)
            yield ms(m, f"{bits}bits_{k}_flat", op, 1, [x[0], b, s.reshape(-1), zeros.reshape(-1)], **attrs)
    four = {**attrs, "bits": 4}
    yield ms(m, "float_zeros", op, 1, [x, packed(n, blocks, block // 2), s, np.abs(m.floats(n, blocks)) * F(9)], **four)
    yield ms(m, "bias", op, 1, [x, b, s, zeros, None, m.floats(n)], accuracy_level=1, **attrs)
    yield ms(m, "empty", op, 1, [x[:0], b, s], **attrs)


def integers(m: Maker) -> Iterator[Problem]:
    for kind in (np.uint8, np.int8):
        low = 0 if kind == np.uint8 else -128
        b = m.random.integers(low, low + 256, (6, 5)).astype(kind)
        one, each = np.array([0.02], F), np.abs(m.floats(5)) * F(0.1)
        zero, zeros = np.array([3], kind), m.random.integers(low // 4, low // 4 + 60, 5).astype(kind)
        x, bias, name = m.floats(2, 3, 6) * F(3), m.floats(5), np.dtype(kind).name
        yield ms(m, f"{name}_plain", "DynamicQuantizeMatMul", 1, [x, b, one])
        yield ms(m, f"{name}_zero", "DynamicQuantizeMatMul", 1, [x, b, one, zero, bias])
        yield ms(m, f"{name}_columns", "DynamicQuantizeMatMul", 1, [x, b, each, zeros, bias])
        a = m.random.integers(0, 256, (2, 3, 6)).astype(np.uint8)
        a_scale, a_zero = np.array(0.05, F), np.array(120, np.uint8)
        op = "MatMulIntegerToFloat"
        yield ms(m, f"{name}_plain", op, 1, [a, b, a_scale, one])
        yield ms(m, f"{name}_columns", op, 1, [a, b, a_scale, each, a_zero, zeros, bias])
        yield ms(m, f"{name}_no_a_zero", op, 1, [a, b, a_scale, each, None, zeros])


def problems() -> Iterator[Problem]:
    for family in (activations, norms, embeddings, products, weights, integers):
        yield from family(Maker())
