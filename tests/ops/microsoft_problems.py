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


def rotations(m: Maker) -> Iterator[Problem]:
    op, angles = "RotaryEmbedding", m.floats(12, 4)
    cos, sin = np.round(np.cos(angles), 3), np.round(np.sin(angles), 3)
    x, x4 = m.floats(2, 3, 16), m.floats(2, 2, 3, 8)
    each, first = np.array([[4, 0, 7], [1, 2, 3]], np.int64), np.array([5], np.int64)
    for name, positions in (("each", each), ("first", first)):
        for interleaved in (0, 1):
            yield ms(m, f"{name}_{interleaved}", op, 1, [x, positions, cos, sin], interleaved=interleaved)
            yield ms(m, f"{name}_{interleaved}_by_head", op, 1, [x4, positions, cos, sin], interleaved=interleaved)
    yield ms(m, "heads", op, 1, [x, each, cos, sin], num_heads=2)
    yield ms(m, "part", op, 1, [x, each, cos[:, :2], sin[:, :2]], num_heads=2, rotary_embedding_dim=4)
    yield ms(m, "empty", op, 1, [x[:0], each[:0], cos, sin])


def masks(m: Maker, queries: int, total: int) -> dict:
    """Masks of a batch of two."""
    some = np.ones((2, queries, total), np.int32)
    some[0, :, 0] = some[1, 0, -1] = 0
    return {"lengths": np.array([total, total - 1], np.int32), "keys": some[:, -1], "each": some}


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Operands [batch, sequence, heads, size]; the result [batch, sequence, heads * size]."""
    scores = np.einsum("bihd,bjhd->bhij", q.astype(np.float64), k) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    y = np.einsum("bhij,bjhd->bihd", weights / weights.sum(-1, keepdims=True), v)
    return y.reshape(*q.shape[:2], -1).astype(F)


def attentions(m: Maker) -> Iterator[Problem]:
    op = "MultiHeadAttention"
    q, k, v = m.floats(2, 3, 8), m.floats(2, 4, 8), m.floats(2, 4, 6)
    bias, score = m.floats(22), m.floats(1, 2, 3, 4)
    given = masks(m, 3, 4)
    yield ms(m, "plain", op, 1, [q, k, v], num_heads=2)
    yield ms(m, "scale", op, 1, [q, k, v], num_heads=2, scale=0.3)
    yield ms(m, "bias", op, 1, [q, k, v, bias], num_heads=2)
    for name, mask in given.items():
        yield ms(m, f"mask_{name}", op, 1, [q, k, v, bias, mask], num_heads=2)
    yield ms(m, "filter", op, 1, [q, k, v, None, given["keys"]], num_heads=2, mask_filter_value=-1.5)
    yield ms(m, "score_bias", op, 1, [q, k, v, None, given["keys"], score], num_heads=2)
    yield ms(m, "score_bias_batch", op, 1, [q, k, v, None, None, m.floats(2, 1, 3, 4)], num_heads=2)
    yield ms(m, "keys_by_head", op, 1, [q, m.floats(2, 2, 4, 4), m.floats(2, 2, 4, 4)], num_heads=2)
    both, all_three, split = m.floats(2, 4, 2, 2, 4), m.floats(2, 3, 2, 3, 4), q.reshape(2, 3, 2, 4)
    problem = ms(m, "packed_keys", op, 1, [q, both], num_heads=2)  # not in onnxruntime's CPU kernel
    problem.expected = [attended(split, both[:, :, :, 0], both[:, :, :, 1])]
    yield problem
    problem = ms(m, "packed_all", op, 1, [all_three], num_heads=2)
    problem.expected = [attended(*(all_three[:, :, :, k] for k in range(3)))]
    yield problem
    now, past = m.floats(2, 3, 8), (m.floats(2, 2, 5, 4), m.floats(2, 2, 5, 4))
    yield ms(m, "past", op, 3, [q, now, now, None, None, None, *past], num_heads=2)
    yield ms(m, "causal", op, 1, [q, now, now], num_heads=2, unidirectional=1)
    yield ms(m, "causal_past", op, 3, [q, now, now, None, masks(m, 3, 8)["keys"], None, *past], num_heads=2,
             unidirectional=1)
    yield ms(m, "empty", op, 1, [q[:0], k[:0], v[:0]], num_heads=2)
    op = "Attention"
    x, w, b = m.floats(2, 3, 5), m.floats(5, 24), m.floats(24)
    yield ms(m, "plain", op, 1, [x, w, b], num_heads=2)
    problem = ms(m, "no_bias", op, 1, [x, w], num_heads=2)  # onnxruntime's CPU kernel breaks down
    problem.expected = [attended(*(part.reshape(2, 3, 2, 4) for part in np.split(x.astype(np.float64) @ w, 3, -1)))]
    yield problem
    yield ms(m, "sizes", op, 1, [x, m.floats(5, 22), bias], num_heads=2, qkv_hidden_sizes=[8, 8, 6])
    for name, mask in masks(m, 3, 3).items():
        yield ms(m, f"mask_{name}", op, 1, [x, w, b, mask], num_heads=2)
    yield ms(m, "causal", op, 1, [x, w, b], num_heads=2, unidirectional=1, scale=0.4)
    yield ms(m, "score_bias", op, 1, [x, w, b, None, None, m.floats(2, 2, 3, 3)], num_heads=2)
    yield ms(m, "past", op, 2, [x, w, b, masks(m, 3, 7)["keys"], m.floats(2, 2, 2, 4, 4)], num_heads=2)
    yield ms(m, "past_causal", op, 2, [x, w, b, None, m.floats(2, 2, 2, 4, 4)], num_heads=2, unidirectional=1)
    yield ms(m, "keys_by_head_bias", "MultiHeadAttention", 1, [q, *past, m.floats(24)], num_heads=2)


def grouped(m: Maker) -> Iterator[Problem]:
    op, angles = "GroupQueryAttention", m.floats(16, 8)
    caches = [np.round(np.cos(angles), 3), np.round(np.sin(angles), 3)]
    heads = {"num_heads": 2, "kv_num_heads": 1}

    def inputs(batch: int, new: int, past: int, lengths: list, total: int, packed: bool = False) -> list:
        q, k, v = m.floats(batch, new, 32), m.floats(batch, new, 16), m.floats(batch, new, 16)
        cache = [m.floats(batch, 1, past, 16), m.floats(batch, 1, past, 16)]
        head = [np.concatenate([q, k, v], -1), None, None] if packed else [q, k, v]
        return [*head, *cache, np.array(lengths, np.int32), np.array(total, np.int32)]

    prompt, token = inputs(2, 5, 0, [4, 4], 5), inputs(2, 1, 6, [6, 6], 7)
    yield ms(m, "prompt", op, 3, prompt, **heads)
    yield ms(m, "token", op, 3, token, **heads)
    yield ms(m, "scale", op, 3, token, scale=0.3, softcap=2.0, **heads)
    # What lies in the cache behind the keys of a sample is nobody's: onnxruntime clears it in a cache of its own and leaves
    # it in one that is shared with the past.
    for name, past, lengths in (("buffer", 9, [6, 3]), ("ragged", 6, [6, 3])):
        problem = ms(m, name, op, 3, inputs(2, 1, past, lengths, 7), **heads)
        q, k, v, *caches_before = problem.arrays()[:5]
        now = [np.concatenate([cache, np.zeros((2, 1, max(7 - past, 0), 16), F)], 2) for cache in caches_before]
        for sample, last in enumerate(lengths):
            for cache, new in zip(now, (k, v)):
                cache[sample, 0, last] = new[sample, 0]
        rows = []
        for sample, last in enumerate(lengths):
            seen = [np.repeat(cache[sample : sample + 1, :, : last + 1].transpose(0, 2, 1, 3), 2, 2) for cache in now]
            rows.append(attended(q[sample : sample + 1].reshape(1, 1, 2, 16), *seen))
        problem.expected = [np.concatenate(rows), *now]
        yield problem
    yield ms(m, "several", op, 3, inputs(1, 3, 4, [6], 7), **heads)
    for interleaved in (0, 1):
        yield ms(m, f"rotary_{interleaved}_prompt", op, 3, [*prompt, *caches], do_rotary=1,
                 rotary_interleaved=interleaved, **heads)
        yield ms(m, f"rotary_{interleaved}_token", op, 3, [*token, *caches], do_rotary=1,
                 rotary_interleaved=interleaved, **heads)
    yield ms(m, "packed", op, 3, [*inputs(2, 1, 6, [6, 6], 7, True), *caches], do_rotary=1, **heads)
    # For a prompt, onnxruntime's CPU kernel counts up from the first position of the first sample.
    yield ms(m, "positions", op, 3, [*token, *caches, np.array([[9], [2]], np.int64)], do_rotary=1, **heads)
    yield ms(m, "positions_prompt", op, 3, [*prompt, *caches, np.tile(np.arange(3, 8), (2, 1))], do_rotary=1, **heads)
    yield ms(m, "window", op, 3, inputs(2, 1, 6, [6, 6], 7), local_window_size=3, **heads)
    yield ms(m, "window_prompt", op, 3, prompt, local_window_size=2, **heads)
    yield ms(m, "score_bias", op, 3, [*token, None, None, None, m.floats(1, 2, 1, 7)], **heads)
    first = inputs(2, 5, 0, [4, 4], 5)
    yield ms(m, "no_past", op, 3, [*first[:3], None, None, *first[5:]], **heads)


def quantised(m: Maker) -> Iterator[Problem]:
    for kind in (np.uint8, np.int8):
        name, low = np.dtype(kind).name, np.iinfo(kind).min

        def bytes_of(*dims: int) -> np.ndarray:
            return m.random.integers(low, low + 256, dims).astype(kind)

        def quantum(scale: float, zero: int) -> list:
            return [np.array(scale, F), np.array(low + zero, kind)]

        a, b = bytes_of(2, 3, 4), bytes_of(3, 1)
        for op in ("QLinearAdd", "QLinearMul"):
            yield ms(m, f"{name}_broadcast", op, 1, [a, *quantum(0.02, 120), b, *quantum(0.03, 99), *quantum(0.05, 131)])
            yield ms(m, f"{name}_same", op, 1, [a, *quantum(0.02, 120), a[::-1], *quantum(0.04, 0), *quantum(0.06, 90)])
        for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
            yield ms(m, name, op, 1, [a, *quantum(0.05, 128), *quantum(0.004, 10)])
        yield ms(m, f"{name}_alpha", "QLinearLeakyRelu", 1, [a, *quantum(0.05, 128), *quantum(0.04, 60)], alpha=0.3)
        for axis, opset in ((-1, 13), (1, 13), (1, 11)):
            yield ms(m, f"{name}_{axis}_{opset}", "QLinearSoftmax", 1, [a, *quantum(0.03, 128), *quantum(1 / 256, 0)],
                     axis=axis, opset=opset)
        x = bytes_of(1, 2, 5, 6)
        for include in (0, 1):
            yield ms(m, f"{name}_{include}", "QLinearAveragePool", 1, [x, *quantum(0.05, 118), *quantum(0.04, 128)],
                     kernel_shape=[3, 2], strides=[2, 2], pads=[1, 1, 1, 0], count_include_pad=include)
        yield ms(m, name, "QLinearGlobalAveragePool", 1, [x, *quantum(0.05, 118), *quantum(0.02, 128)])
        for axis in (1, -1):
            yield ms(m, f"{name}_{axis}", "QLinearConcat", 1,
                     [*quantum(0.05, 120), a, *quantum(0.02, 120), a[:, ::-1], *quantum(0.07, 99)], axis=axis)
    problem = ms(m, "empty", "QLinearSoftmax", 1, [a[:0], *quantum(0.03, 128), *quantum(1 / 256, 0)], opset=13)
    problem.expected = [a[:0]]  # onnxruntime breaks down
    yield problem
    for left, kind in ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)):
        first, low = np.iinfo(left).min, np.iinfo(kind).min
        name = f"{np.dtype(left).name}_{np.dtype(kind).name}"
        a = m.random.integers(first, first + 256, (3, 4)).astype(left)
        b = m.random.integers(low, low + 256, (4, 5)).astype(kind)
        c = m.random.integers(-900, 900, 5).astype(np.int32)
        a_scale, a_zero = np.array(0.02, F), np.array(first + 115, left)
        b_scale, b_zero = np.array(0.03, F), np.array(low + 120, kind)
        y = [np.array(0.09, F), np.array(first + 128, left)]
        yield ms(m, name, "QGemm", 1, [a, a_scale, a_zero, b, b_scale, b_zero, c, *y])
        yield ms(m, f"{name}_float", "QGemm", 1, [a, a_scale, a_zero, b, b_scale, b_zero, c])
        yield ms(m, f"{name}_turned", "QGemm", 1, [a.T, a_scale, a_zero, b.T, b_scale, b_zero, None, *y],
                 transA=1, transB=1)
        each = [np.abs(m.floats(5)) * F(0.05) + F(0.01), m.random.integers(low + 90, low + 160, 5).astype(kind)]
        yield ms(m, f"{name}_columns", "QGemm", 1, [a, a_scale, a_zero, b, *each, c, *y], alpha=0.5)


def problems() -> Iterator[Problem]:
    for family in (activations, norms, embeddings, products, weights, integers, rotations, attentions, grouped,
                   quantised):
        yield from family(Maker())
