"""Problems of the operators of com.microsoft; onnxruntime gives the answers, numpy where it has no kernel."""
from __future__ import annotations

import copy
import math
from collections.abc import Iterator

import numpy as np
import onnx
from extra_problems import Maker, Problem
from onnx import helper

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
    # The block of each row of the weights: in blocks of any size, and in those of the attribute.
    yield ms(m, "any_blocks", op, 1, [x, packed(n, blocks, block // 2), s, None, m.random.integers(0, blocks, k).astype(np.int32)],
             **four)
    n, k, four = 5, 32, {"N": 5, "K": 32, "bits": 4, "block_size": 16}
    of, b, s, zeros = m.random.permutation(np.arange(k) // 16).astype(np.int32), packed(n, 2, 8), scales(n, 2), packed(n, 1)
    yield ms(m, "in_blocks", op, 1, [m.floats(2, k), b, s, None, of], **four)
    problem = ms(m, "in_blocks_zeros", op, 1, [m.floats(2, k), b, s, zeros, of], **four)  # onnxruntime's CPU forgets the zeros
    codes, zero = (np.stack([v & 15, v >> 4], -1).reshape(n, -1).astype(np.float64) for v in (b, zeros))
    problem.expected, problem.alone = [(problem.arrays()[0] @ ((codes - zero[:, of]) * s[:, of]).T).astype(F)], True
    yield problem


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
    # The last query sees the keys behind it, too.
    for name, count in (("one", 1), ("two", 2)):
        yield ms(m, f"causal_{name}_of_four", "MultiHeadAttention", 1, [q[:, :count], k, v, None, given["keys"]],
                 num_heads=2, unidirectional=1)
    yield ms(m, "causal_one_by_head", "MultiHeadAttention", 1, [q[:, :1], m.floats(2, 2, 4, 4), m.floats(2, 2, 4, 4)],
             num_heads=2, unidirectional=1)


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
    for name, given in (("prompt", prompt), ("token", token)):
        yield ms(m, f"sink_{name}", op, 3, [*given, None, None, None, None, m.floats(2)], **heads)
        yield ms(m, f"smooth_{name}", op, 3, given, smooth_softmax=1, **heads)
        norms = [np.abs(m.floats(16)) + F(0.5) for _ in range(2)]
        problem = ms(m, f"normed_{name}", op, 3, [*given, *caches, *[None] * 5, *norms], do_rotary=1, qk_norm_epsilon=0.01,
                     **heads)
        operands = []  # onnxruntime's CPU kernel takes heads that are normalised already
        for x, weights in zip(given, norms):
            split = x.reshape(*x.shape[:2], -1, 16).astype(np.float64)
            rms = np.sqrt((split**2).mean(-1, keepdims=True) + 0.01)
            operands.append((split / rms * weights).reshape(x.shape).astype(F))
        problem.expected = by_onnxruntime(op, [*operands, *given[2:], *caches], 3, domain="com.microsoft", do_rotary=1, **heads)
        yield problem
    yield ms(m, "all_keys", op, 3, prompt, causal=0, **heads)


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


def by_onnxruntime(op: str, arrays: list, outputs: int = 1, **attrs: object) -> list:
    """What onnxruntime answers for an operator of the standard: the oracle where an operator is that in another layout."""
    import onnxruntime

    problem = Maker().problem(op, op, outputs, arrays, **attrs)
    session = onnxruntime.InferenceSession(problem.model().SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, problem.inputs)


def retyped(problem: Problem, kind: type) -> Problem:
    """The same in another type of floats, whose numbers halves() and f64 have exactly."""
    out, name = copy.deepcopy(problem), np.dtype(kind).name
    out.name += f"_{name}"
    out.inputs = {k: v.astype(kind) if v.dtype == F else v for k, v in problem.inputs.items()}
    out.expected = [v.astype(kind) for v in problem.expected]
    return out


def emptied(problem: Problem, *batched: int) -> Problem:
    """The same without samples, which these inputs and all results have along axis 0."""
    out = copy.deepcopy(problem)
    out.name += "_empty"
    out.inputs = {k: v[:0] if int(k[1:]) in batched else v for k, v in problem.inputs.items()}
    out.expected = [v[:0] for v in problem.expected]
    return out


def halves(m: Maker, *dims: int) -> np.ndarray:
    """Numbers that f16 has, in f32."""
    return m.floats(*dims).astype(np.float16).astype(F)


def quantisers(m: Maker) -> Iterator[Problem]:
    x = np.concatenate([m.floats(2, 3, 7).reshape(-1) * F(4), np.array([0.25, 0.75, -0.25, 1e6, -1e6, 1.25], F)]).reshape(6, 8)
    each = np.abs(m.floats(8)) * F(0.1) + F(0.01)
    for kind in (np.uint8, np.int8, np.uint16, np.int16):
        name, zero = np.dtype(kind).name, kind(np.iinfo(kind).max // 2 - 3)
        yield ms(m, name, "QuantizeLinear", 1, [x, F(0.5), zero])
        zeros = m.random.integers(0, 90, 8).astype(kind)
        yield ms(m, f"{name}_columns", "QuantizeLinear", 1, [x, each, zeros], axis=-1)
        codes = m.random.integers(np.iinfo(kind).min, np.iinfo(kind).max, (3, 4, 2)).astype(kind)
        yield ms(m, name, "DequantizeLinear", 1, [codes, F(0.03), zero])
        yield ms(m, f"{name}_axis", "DequantizeLinear", 1, [codes, each[:4], zeros[:4]], axis=1)
    yield ms(m, "plain", "QuantizeLinear", 1, [x, F(0.3)])
    half = (x[:5] * F(0.1)).astype(np.float16)
    yield ms(m, "f16", "QuantizeLinear", 1, [half, np.float16(0.03), np.uint8(100)])
    yield ms(m, "f16", "DequantizeLinear", 1, [codes.astype(np.int8), np.float16(0.03), np.int8(-7)])
    yield ms(m, "i32", "DequantizeLinear", 1, [codes.astype(np.int32), F(0.03)])
    import ml_dtypes  # what numpy lacks; onnxruntime takes no such array from Python

    for kind, low, high in ((ml_dtypes.int4, -8, 7), (ml_dtypes.uint4, 0, 15)):
        name, zero = np.dtype(kind).name, np.array(low + 6).astype(kind)
        problem = ms(m, name, "QuantizeLinear", 1, [x, F(0.5), zero])
        problem.expected = [np.clip(np.rint(x / F(0.5)) + low + 6, low, high).astype(np.int8).astype(kind)]
        yield problem
        codes = m.random.integers(low, high + 1, (3, 5)).astype(np.int8)
        problem = ms(m, name, "DequantizeLinear", 1, [codes.astype(kind), F(0.25), zero])
        problem.expected = [(codes - F(low + 6)) * F(0.25)]
        yield problem


def layouts(m: Maker) -> Iterator[Problem]:
    """Images and filters with their channels last."""
    def last(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(x, 1, -1))

    for kind in (np.uint8, np.int8):
        name, low = np.dtype(kind).name, np.iinfo(kind).min
        x, w = (m.random.integers(low, low + 256, dims).astype(kind) for dims in ((1, 6, 5, 4), (6, 4, 3, 3)))
        w, bias = w.view(np.int8), m.random.integers(-500, 500, 6).astype(np.int32)
        one = [F(0.02), kind(low + 110)]
        each = [np.abs(m.floats(6)) * F(0.02) + F(0.005), np.zeros(6, np.int8)]
        result = [F(0.7), kind(low + 128)]
        yield ms(m, f"{name}_grouped", "QLinearConv", 1, [x, *one, w[:, :2], F(0.02), np.int8(0), *result], channels_last=1,
                 group=2, strides=[2, 1])
        yield ms(m, f"{name}_last", "QLinearConv", 1, [x, *one, w, *each, *result, bias], channels_last=1, pads=[1, 0, 1, 2])
        yield ms(m, f"{name}_first", "QLinearConv", 1, [np.moveaxis(x, -1, 1).copy(), *one, w, *each, *result, bias],
                 auto_pad="SAME_UPPER")
        yield ms(m, name, "NhwcMaxPool", 1, [x], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
        yield ms(m, f"{name}_ceil", "NhwcMaxPool", 1, [x], kernel_shape=[2, 2], strides=[2, 2], dilations=[2, 1], ceil_mode=1)
        quanta = [F(0.05), kind(low + 118), F(0.043), kind(low + 128)]
        for include in (0, 1):
            yield ms(m, f"{name}_{include}_last", "QLinearAveragePool", 1, [x, *quanta], kernel_shape=[3, 2], strides=[2, 2],
                     pads=[1, 1, 1, 0], count_include_pad=include, channels_last=1)
        yield ms(m, f"{name}_last", "QLinearGlobalAveragePool", 1, [x, *quanta], channels_last=1)
    x, w, b = halves(m, 2, 4, 6, 5), halves(m, 6, 2, 3, 3), halves(m, 6)
    window = {"group": 2, "pads": [1, 0, 1, 1], "strides": [1, 2]}
    [plain] = by_onnxruntime("Conv", [x, w, b], **window)
    for name, bias in (("bias", b), ("plain", None)):
        problem = ms(m, name, "NhwcConv", 1, [last(x), last(w), bias], **window)
        problem.expected = [last(plain if bias is not None else by_onnxruntime("Conv", [x, w], **window)[0])]
        yield problem
    yield from (retyped(problem, np.float16), emptied(problem, 0))
    wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (0, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))[:, :, ::1, ::2]
    parts = [np.einsum("nchwij,ocij->nohw", *both) for both in zip(np.split(windows, 2, 1), np.split(w.astype(np.float64), 2, 0))]
    problem = retyped(problem, np.float64)
    problem.expected = [last(np.concatenate(parts, 1))]
    yield problem
    addend = halves(m, *plain.shape)
    for name, activation, parameters, f in (
            ("relu", "Relu", [], lambda y: np.maximum(y, 0)), ("clip", "Clip", [-0.5, 1.5], lambda y: np.clip(y, F(-0.5), F(1.5)))):
        problem = ms(m, name, "NhwcFusedConv", 1, [last(x), w, b, last(addend)], activation=activation,
                     activation_params=parameters, **window)
        problem.expected = [last(f(plain + addend))]
        yield problem
    yield from (retyped(problem, np.float16), emptied(problem, 0, 3))


def quantised_blocks(m: Maker) -> Iterator[Problem]:
    """Attention, embeddings and recurrent layers as dynamic quantisation writes them."""
    op = "QAttention"
    for kind in (np.uint8, np.int8):
        name, low = np.dtype(kind).name, np.iinfo(kind).min
        x = m.random.integers(0, 256, (2, 3, 5)).astype(np.uint8)
        w = m.random.integers(low + 64, low + 192, (5, 24)).astype(kind)
        one, zero = [F(0.02), F(0.03)], [np.uint8(131), kind(low + 120)]
        b = m.floats(24)
        yield ms(m, f"{name}_plain", op, 1, [x, w, b, *one, None, *zero], num_heads=2)
        yield ms(m, f"{name}_no_zeros", op, 1, [x, w, b, F(0.01), F(0.01)], num_heads=2)
        each = [np.abs(m.floats(24)) * F(0.02) + F(0.01), np.full(24, low + 128).astype(kind)]
        yield ms(m, f"{name}_columns", op, 1, [x, w, b, one[0], each[0], masks(m, 3, 3)["keys"], zero[0], each[1]], num_heads=2)
    yield ms(m, "past", op, 2, [x, w, b, *one, masks(m, 3, 7)["keys"], *zero, m.floats(2, 2, 2, 4, 4)], num_heads=2,
             unidirectional=1)
    problem = ms(m, "signed", op, 1, [(x.astype(np.int16) - 128).astype(np.int8), w, b, *one, None, np.int8(3), zero[1]], num_heads=2)
    problem.expected = by_onnxruntime(op, [x, w, b, *one, None, *zero], domain="com.microsoft", num_heads=2)  # of bytes alone
    yield problem
    op = "QEmbedLayerNormalization"
    ids, segments = np.array([[3, 0, 6, 1], [5, 5, 2, 4]], np.int32), np.array([[0, 0, 1, 1], [1, 0, 1, 0]], np.int32)
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    for kind in (np.uint8, np.int8):
        name, low = np.dtype(kind).name, np.iinfo(kind).min

        def table(*dims: int) -> np.ndarray:
            return m.random.integers(low, low + 256, dims).astype(kind)
        tables = [table(7, 6), table(5, 6), table(2, 6), table(6), table(6)]
        scales = [F(v) for v in (0.02, 0.03, 0.01, 0.02, 0.015)]
        zeros = [kind(low + v) for v in (120, 131, 128, 90, 100)]
        yield ms(m, f"{name}_all", op, 2, [ids, segments, *tables, mask, *scales, *zeros], epsilon=0.001)
        bare = [[None if k == 2 else value for k, value in enumerate(group)] for group in (tables, scales, zeros)]
        yield ms(m, f"{name}_no_segments", op, 2, [ids, None, *bare[0], None, *bare[1], *bare[2]])
    # onnxruntime rounds the inputs of the products to 8 bits, too: here LSTM with weights of 8 bits is the oracle.
    op, seq, batch, size, hidden = "DynamicQuantizeLSTM", 4, 3, 2, 3
    for direction in ("forward", "reverse", "bidirectional"):
        dirs = 2 if direction == "bidirectional" else 1
        for kind in (np.uint8, np.int8):
            low = np.iinfo(kind).min
            w, r = (m.random.integers(low, low + 256, (dirs, rows, 4 * hidden)).astype(kind) for rows in (size, hidden))
            rest = [m.floats(dirs, 8 * hidden), np.array([4, 2, 3], np.int32), m.floats(dirs, batch, hidden),
                    m.floats(dirs, batch, hidden), m.floats(dirs, 3 * hidden)]
            for per, dims in (("column", (dirs, 4 * hidden)), ("direction", (dirs,))):
                quanta = [value for _ in range(2) for value in (
                    np.abs(m.floats(*dims)) * F(0.01) + F(0.002), m.random.integers(low + 100, low + 150, dims).astype(kind))]
                wide = [((x.astype(F) - zero.astype(F).reshape(dirs, 1, -1)) * scale.reshape(dirs, 1, -1)).transpose(0, 2, 1)
                        for x, scale, zero in ((w, *quanta[:2]), (r, *quanta[2:]))]
                x = m.floats(seq, batch, size)
                problem = ms(m, f"{direction}_{np.dtype(kind).name}_{per}", op, 3, [x, w, r, *rest, *quanta],
                             direction=direction, hidden_size=hidden)
                problem.expected = by_onnxruntime("LSTM", [x, *wide, *rest], 3, direction=direction, hidden_size=hidden)
                yield problem
    problem = ms(m, "plain", op, 2, [x, w, r, *[None] * 5, *quanta], direction=direction, hidden_size=hidden)
    problem.expected = by_onnxruntime("LSTM", [x, *wide], 2, direction=direction, hidden_size=hidden)
    yield problem
    problem = ms(m, "no_samples", op, 2, [x[:, :0], w, r, *[None] * 5, *quanta], direction=direction, hidden_size=hidden)
    problem.expected = [np.zeros((seq, dirs, 0, hidden), F), np.zeros((dirs, 0, hidden), F)]
    yield problem


def quantised_choices(m: Maker) -> Iterator[Problem]:
    for kind in (np.uint8, np.int8):
        name, low = np.dtype(kind).name, np.iinfo(kind).min
        x, y = (m.random.integers(low, low + 256, dims).astype(kind) for dims in ((2, 3, 4), (3, 1)))
        condition = m.random.integers(0, 2, (2, 1, 4)).astype(bool)
        quanta = [(F(scale), kind(low + zero)) for scale, zero in ((0.02, 120), (0.03, 99), (0.05, 131))]
        yield ms(m, name, "QLinearWhere", 1, [condition, x, *quanta[0], y, *quanta[1], *quanta[2]])
        yield ms(m, f"{name}_same", "QLinearWhere", 1, [condition, x, *quanta[0], y, *quanta[0], *quanta[0]])
        for axes, keep in (([1], 1), ([-1, 0], 0), ([], 1)):
            problem = ms(m, f"{name}_{len(axes)}_{keep}", "QLinearReduceMean", 1, [x, F(0.02), kind(low + 120), F(0.0137),
                                                                                 kind(low + 99)], keepdims=keep)
            problem.node.attribute.append(helper.make_attribute("axes", axes, attr_type=onnx.AttributeProto.INTS))
            wide = (x.astype(np.float64) - low - 120) * np.float64(F(0.02))
            mean = wide.mean(tuple(axes) or None, keepdims=bool(keep)) / np.float64(F(0.0137))
            problem.expected = [np.clip(np.rint(mean) + low + 99, low, low + 255).astype(kind)]
            yield problem
            if axes == [1]:
                yield emptied(problem, 0)


def tables(m: Maker) -> Iterator[Problem]:
    """Weights of few bits: rows of tables, floats of 4 bits."""
    op, ids = "GatherBlockQuantized", np.array([[3, 0], [4, 1]], np.int64)
    for bits in (2, 4, 8):
        fields = 8 // bits
        data, scales = m.random.integers(0, 256, (5, 64 // fields)).astype(np.uint8), np.abs(m.floats(5, 2)) * F(0.1)
        zeros = m.random.integers(0, 256, (5, -(-2 // fields))).astype(np.uint8)
        attrs = {"bits": bits, "block_size": 32, "quantize_axis": -1, "gather_axis": 0}
        yield ms(m, f"{bits}bits", op, 1, [data, ids, scales], **attrs)
        yield ms(m, f"{bits}bits_zeros", op, 1, [data, ids, scales, zeros], **attrs)
    yield ms(m, "half", op, 1, [data, ids.astype(np.int32)[0], scales.astype(np.float16)], **attrs)
    yield ms(m, "part", op, 1, [data[:, :40], ids, scales], **attrs)
    import ml_dtypes

    for kind, low in ((ml_dtypes.uint4, 0), (ml_dtypes.int4, -8)):  # onnxruntime takes no such array from Python
        codes, zeros = (m.random.integers(low, low + 16, dims) for dims in ((40, 3), (3, 3)))
        scales = np.abs(m.floats(3, 3)) * F(0.1)
        for name, given in (("plain", None), ("zeros", zeros)):
            problem = ms(m, f"{np.dtype(kind).name}_{name}", op, 1,
                         [codes.astype(np.int8).astype(kind), ids[0] % 3, scales,
                          None if given is None else given.astype(np.int8).astype(kind)],
                         block_size=16, quantize_axis=0, gather_axis=1)
            spread = [np.repeat(v, 16, 0)[:40] for v in (scales, zeros if given is not None else np.zeros((3, 3)))]
            problem.expected = [((codes - spread[1]) * spread[0])[:, ids[0] % 3].astype(F)]
            yield problem
    op = "MatMulBnb4"
    for kind in (0, 1):
        for k, n, block in ((32, 5, 16), (24, 3, 16), (7, 5, 32)):
            count = k * n
            b, absmax = m.random.integers(0, 256, -(-count // 2)).astype(np.uint8), np.abs(m.floats(-(-count // block)))
            attrs = {"K": k, "N": n, "block_size": block, "quant_type": kind}
            yield ms(m, f"{kind}_{k}", op, 1, [m.floats(2, 3, k), b, absmax], **attrs)


def exported(m: Maker) -> Iterator[Problem]:
    """What onnxruntime's extension of PyTorch's exporter writes."""
    x = m.floats(2, 4, 5)
    for upper in (0, 1):
        yield ms(m, f"plain_{upper}", "Trilu", 1, [x], upper=upper)
        yield ms(m, f"shifted_{upper}", "Trilu", 1, [x, np.array(-1)], upper=upper)
    yield ms(m, "default", "Trilu", 1, [(x[0] * 9).astype(np.int64), np.array(2)])
    for kind in (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64):  # not in onnxruntime's CPU kernel
        whole = m.random.integers(0, 100, (3, 4)).astype(kind)
        problem = ms(m, np.dtype(kind).name, "Trilu", 1, [whole, np.array(1)])
        problem.expected = [np.triu(whole, 1)]
        yield problem
    image, grid = m.floats(1, 2, 4, 5), m.floats(1, 3, 3, 2)
    for mode in ("bilinear", "nearest", "bicubic"):
        for k, padding in enumerate(("zeros", "border", "reflection")):
            yield ms(m, f"{mode}_{padding}", "GridSample", 1, [image, grid], mode=mode, padding_mode=padding, align_corners=k % 2)
    square = m.floats(3, 4, 4) + 2 * np.eye(4, dtype=F)
    square[0, 0, 0] = 0  # wants another pivot
    problem = ms(m, "plain", "Inverse", 1, [square])
    problem.expected = [np.linalg.inv(square.astype(np.float64)).astype(F)]
    yield problem
    for axis in (0, 2, -1):
        yield ms(m, f"axis_{axis}", "ExpandDims", 1, [x, np.array(axis, np.int32)])
    for metric in ("sqeuclidean", "euclidean"):
        yield ms(m, metric, "CDist", 1, [m.floats(4, 6), m.floats(3, 6)], metric=metric)
    batch, length, heads, size = 2, 3, 2, 4
    q, k, v = (m.floats(batch, length, heads * size) for _ in range(3))
    past, decay, beta = m.floats(batch, heads, size, size), -np.abs(m.floats(batch, length, heads)), m.floats(batch, length, heads)
    for rule, rest in (("linear", []), ("gated", [past, decay]), ("delta", [past, None, beta]), ("gated_delta", [past, decay, beta])):
        yield ms(m, rule, "LinearAttention", 2, [q, k, v, *rest], update_rule=rule, q_num_heads=heads, kv_num_heads=heads)
    x, w, b = m.floats(2, 3, 5), m.floats(3, 1, 4), m.floats(3)
    yield ms(m, "plain", "CausalConvWithState", 2, [x, w])
    yield ms(m, "past", "CausalConvWithState", 2, [x, w, b, m.floats(2, 3, 3)], activation="silu")
    for a, b, attrs in (((2, 3), (3, 4), {}), ((2, 3, 2), (2, 4, 3), {"transA": 1, "transB": 1, "alpha": 0.5})):
        yield ms(m, f"{len(a)}d", "TransposeMatMul", 1, [m.floats(*a), m.floats(*b)], **attrs)


def diffusion(m: Maker) -> Iterator[Problem]:
    """Of diffusion models and T5: onnxruntime's CPU has no kernels of these, a formula in f64 is the oracle."""
    def given(problem: Problem, batched: tuple, *expected: np.ndarray) -> Iterator[Problem]:
        problem.expected = [v.astype(F) for v in expected]
        yield from (problem, retyped(problem, np.float16))
        if batched:
            yield emptied(problem, *batched)

    x, bias, skip = halves(m, 2, 3, 8), halves(m, 8), halves(m, 2, 3, 8)
    yield from given(ms(m, "plain", "BiasAdd", 1, [x, bias, skip]), (0, 2), x.astype(np.float64) + bias + skip)
    left, right = np.split(x.astype(np.float64) + bias, 2, -1)
    gelu = right * 0.5 * (1 + np.vectorize(math.erf)(right / math.sqrt(2)))
    yield from given(ms(m, "plain", "BiasSplitGelu", 1, [x, bias]), (0,), left * gelu)

    def softmax(scores: np.ndarray, axis: int) -> np.ndarray:
        flat = scores.reshape(*scores.shape[:axis], -1)
        weights = np.exp(flat - flat.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)).reshape(scores.shape)
    scores = halves(m, 2, 2, 3, 4)
    wide_scores = ms(m, "f64", "BiasSoftmax", 1, [scores.astype(np.float64), halves(m, 3, 4).astype(np.float64)], axis=3,
                     is_inner_broadcast=0)
    wide_scores.expected = [softmax(sum(wide_scores.arrays()), 3)]
    yield wide_scores
    for name, mask, axis, inner in (("inner", halves(m, 2, 1, 1, 4), 3, 1), ("outer", halves(m, 3, 4), 3, 0),
                                    ("several", halves(m, 1, 1, 3, 4), 2, 0)):
        yield from given(ms(m, name, "BiasSoftmax", 1, [scores, mask], axis=axis, is_inner_broadcast=inner),
                         () if inner else (0,), softmax(scores.astype(np.float64) + mask, axis))

    def group_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, groups: int, epsilon: float, silu: int) -> np.ndarray:
        parts = x.reshape(x.shape[0], groups, -1)
        normed = (parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + epsilon)
        y = normed.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
        return y / (1 + np.exp(-y)) if silu else y
    image, gamma, beta, bias = halves(m, 2, 6, 3, 2), halves(m, 6), halves(m, 6), halves(m, 6)
    wide = image.astype(np.float64)
    for silu in (0, 1):
        y = group_norm(wide, gamma, beta, 3, 1e-5, silu)
        yield from given(ms(m, f"first_{silu}", "GroupNorm", 1, [image, gamma, beta], groups=3, activation=silu, channels_last=0),
                         (0,), y)
        yield from given(ms(m, f"last_{silu}", "GroupNorm", 1, [np.moveaxis(image, 1, -1).copy(), gamma, beta], groups=3,
                            activation=silu), (0,), np.moveaxis(y, 1, -1))
    for name, dims in (("whole", (2, 6, 3, 2)), ("planes", (2, 6, 1, 1)), ("matrix", (2, 6))):
        skip = halves(m, *dims)
        total = wide + (skip if skip.ndim == 4 else skip[:, :, None, None]) + bias[:, None, None]
        y = group_norm(total, gamma, beta, 2, 0.01, 1)
        attrs = {"groups": 2, "activation": 1, "epsilon": 0.01}
        yield from given(ms(m, f"{name}_first", "SkipGroupNorm", 2, [image, gamma, beta, skip, bias], channels_last=0, **attrs),
                         (0, 3), y, total)
        turned = np.moveaxis(skip, 1, -1).copy() if skip.ndim == 4 else skip
        yield from given(ms(m, f"{name}_last", "SkipGroupNorm", 2, [np.moveaxis(image, 1, -1).copy(), gamma, beta, turned, bias],
                            **attrs), (0, 3), np.moveaxis(y, 1, -1), np.moveaxis(total, 1, -1))

    # PyTorch's T5Attention, as transformers has it.
    for both in (0, 1):
        buckets, heads, queries, keys, largest = 8, 2, 12, 12, 16
        table = halves(m, buckets, heads)
        distance = np.arange(keys)[None] - np.arange(queries)[:, None]
        half = buckets // 2 if both else buckets
        place = half * (distance > 0) if both else 0
        distance = abs(distance) if both else -np.minimum(distance, 0)
        exact = half // 2
        far = exact + np.log(np.maximum(distance, 1) / exact) / math.log(largest / exact) * (half - exact)
        place = place + np.where(distance < exact, distance, np.minimum(far.astype(np.int64), half - 1))
        stored = np.ascontiguousarray(table.T).reshape(buckets, heads)  # by head, in the dims of the table
        yield from given(ms(m, f"both_{both}", "RelativePositionBias", 1, [stored, np.array([queries]), np.array([keys])],
                       max_distance=largest, is_bidirectional=both), (), table[place].transpose(2, 0, 1)[None])

    problem = ms(m, "no_keys", "RelativePositionBias", 1, [stored, np.array([3]), np.array([0])], max_distance=largest)
    problem.expected = [np.zeros((1, heads, 3, 0), F)]
    yield problem

    query, shift, positions = halves(m, 2, 5, 8), halves(m, 8), halves(m, 1, 2, 5, 5)
    weights, offset, factor = halves(m, 4, 8), halves(m, 8), halves(m, 1, 2, 1, 1)
    heads = (query.astype(np.float64) + shift).reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)
    gates = 1 / (1 + np.exp(-(heads @ weights + offset).reshape(2, 2, 5, 2, 4).sum(-1)))
    gate = gates[..., :1] * (gates[..., 1:] * factor - 1) + 2
    yield from given(ms(m, "plain", "GatedRelativePositionBias", 1, [query, shift, positions, weights, offset, factor], num_heads=2),
                     (0,), gate * positions)


def problems() -> Iterator[Problem]:
    for family in (activations, norms, embeddings, products, weights, integers, rotations, attentions, grouped,
                   quantised, quantisers, layouts, quantised_blocks, quantised_choices, tables, exported, diffusion):
        yield from family(Maker())
