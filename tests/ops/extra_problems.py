"""Operator problems beyond the standard's own examples; onnxruntime gives the answers, or a formula."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper


@dataclass
class Problem:
    name: str
    node: onnx.NodeProto
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    expected: list[np.ndarray] | None = None  # instead of onnxruntime's, where that is not meant
    alone: bool = False  # no tests are derived from it, for which onnxruntime would be asked

    def arrays(self) -> list[np.ndarray]:
        return list(self.inputs.values())

    def model(self) -> onnx.ModelProto:
        inputs = [
            helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
            for k, v in self.inputs.items()
        ]
        outputs = [onnx.ValueInfoProto(name=k) for k in self.node.output if k]
        graph = helper.make_graph([self.node], self.name, inputs, outputs)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 4),
                  helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return onnx.shape_inference.infer_shapes(model)  # types of the outputs


class Maker:
    """Random inputs, the same at every run."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(20240607)

    def floats(self, *dims: int) -> np.ndarray:
        return np.round(self.random.standard_normal(dims), 3).astype(np.float32)

    def problem(self, name: str, op: str, outputs: int, arrays: list, **attrs: object) -> Problem:
        """`arrays` may hold None for absent inputs."""
        names = ["" if a is None else f"x{i}" for i, a in enumerate(arrays)]
        attrs = {k: v for k, v in attrs.items() if v != []}
        node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attrs)
        inputs = {n: np.asarray(a) for n, a in zip(names, arrays) if n}
        return Problem(name, node, inputs)


def recurrent(m: Maker) -> Iterator[Problem]:
    seq, batch, size, hidden = 4, 3, 2, 3
    lengths = np.array([4, 2, 3], np.int32)
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        for direction in ("forward", "reverse", "bidirectional"):
            dirs = 2 if direction == "bidirectional" else 1
            x = m.floats(seq, batch, size)
            w, r = m.floats(dirs, gates * hidden, size), m.floats(dirs, gates * hidden, hidden)
            b, h0 = m.floats(dirs, 2 * gates * hidden), m.floats(dirs, batch, hidden)
            arrays = [x, w, r, b, lengths, h0]
            attrs: dict = {"hidden_size": hidden, "direction": direction}
            outputs = 2
            if op == "LSTM":
                arrays += [m.floats(dirs, batch, hidden), m.floats(dirs, 3 * hidden)]
                outputs = 3
            yield m.problem(f"{op}_{direction}_lengths", op, outputs, arrays, **attrs)
            yield m.problem(f"{op}_{direction}_plain", op, outputs, arrays[:3], **attrs)
            yield m.problem(f"{op}_{direction}_clip", op, outputs, arrays, clip=0.4, **attrs)
        w, r, b = arrays[1][:1], arrays[2][:1], arrays[3][:1]
        count = {"LSTM": 3, "GRU": 2, "RNN": 1}[op]
        for names, alpha, beta in (
            (["HardSigmoid", "ScaledTanh", "Affine"], [0.3, 1.5, 0.7], [0.4, 0.5, 0.1]),
            (["Relu", "LeakyRelu", "Softsign"], [0.2], []),
            (["Sigmoid", "Softplus", "Elu"], [0.6], []),
            (["ThresholdedRelu", "Relu", "Tanh"], [0.3], []),
        ):
            yield m.problem(
                f"{op}_{names[0]}_{names[1]}", op, 2, [x, w, r, b],
                hidden_size=hidden, activations=names[:count],
                activation_alpha=alpha, activation_beta=beta,
            )  # fmt: skip
    yield m.problem("GRU_reset_after", "GRU", 2,
                    [x, m.floats(1, 9, 2), m.floats(1, 9, 3), m.floats(1, 18)],
                    hidden_size=3, linear_before_reset=1)  # fmt: skip
    yield m.problem("LSTM_coupled", "LSTM", 3,
                    [x, m.floats(1, 12, 2), m.floats(1, 12, 3), m.floats(1, 24)],
                    hidden_size=3, input_forget=1)  # fmt: skip


def windows(m: Maker) -> Iterator[Problem]:
    x1, x2, x3 = m.floats(2, 4, 9), m.floats(1, 4, 7, 8), m.floats(1, 2, 5, 4, 6)
    yield m.problem("conv_1d_dilated", "Conv", 1, [x1, m.floats(6, 2, 3), m.floats(6)],
                    group=2, dilations=[2], pads=[2, 1])  # fmt: skip
    yield m.problem("conv_2d_depthwise", "Conv", 1, [x2, m.floats(8, 1, 3, 3), m.floats(8)],
                    group=4, strides=[2, 1], pads=[1, 0, 1, 2])  # fmt: skip
    yield m.problem("conv_3d", "Conv", 1, [x3, m.floats(3, 2, 2, 3, 2)], strides=[1, 2, 3])
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield m.problem(f"conv_{auto}", "Conv", 1, [x2, m.floats(2, 4, 3, 2)],
                        auto_pad=auto, strides=[2, 3])  # fmt: skip
        for op in ("MaxPool", "AveragePool", "LpPool"):
            yield m.problem(f"{op}_{auto}", op, 1, [x2], auto_pad=auto, kernel_shape=[3, 2],
                            strides=[2, 3])  # fmt: skip
    for x, spatial in ((x1, 1), (x2, 2), (x3, 3)):
        for ceil in (0, 1):
            attrs = {"kernel_shape": [3] * spatial, "strides": [2] * spatial, "ceil_mode": ceil,
                     "pads": [1] * (2 * spatial)}  # fmt: skip
            yield m.problem(f"MaxPool_{spatial}d_ceil{ceil}", "MaxPool", 2, [x], **attrs)
            for include in (0, 1):
                yield m.problem(f"AveragePool_{spatial}d_ceil{ceil}_pad{include}", "AveragePool", 1,
                                [x], count_include_pad=include, **attrs)  # fmt: skip
    yield m.problem("MaxPool_dilated_columns", "MaxPool", 2, [x2], kernel_shape=[2, 3],
                    dilations=[2, 2], storage_order=1, pads=[1, 0, 0, 2])  # fmt: skip
    yield m.problem("AveragePool_dilated", "AveragePool", 1, [x2], kernel_shape=[2, 3],
                    dilations=[2, 2], pads=[1, 0, 1, 2], count_include_pad=1)  # fmt: skip
    # Windows longer than what they go over, by less than a stride.
    short = m.floats(1, 2, 2, 4)
    for op in ("MaxPool", "AveragePool", "LpPool"):
        yield m.problem(f"{op}_short", op, 1, [short], kernel_shape=[3, 5], strides=[2, 3], ceil_mode=1)
        yield m.problem(f"{op}_short_pads", op, 1, [short], kernel_shape=[5, 6], strides=[3, 2], ceil_mode=1,
                        pads=[1, 0, 1, 1])


def products(m: Maker) -> Iterator[Problem]:
    for a, b in (((3,), (3,)), ((2, 3), (3,)), ((3,), (4, 3, 2)), ((2, 1, 3, 4), (5, 4, 2)),
                 ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((1, 2, 3), (3, 3))):  # fmt: skip
        name = "matmul_" + "_by_".join("x".join(map(str, d)) for d in (a, b))
        yield m.problem(name, "MatMul", 1, [m.floats(*a), m.floats(*b)])
    big = np.array([[2**31 - 1, 7], [-3, 2**30]], np.int32)
    yield m.problem("matmul_wraps", "MatMul", 1, [big, big])
    for c in ((), (1,), (4,), (3, 1), (1, 4), (3, 4)):
        yield m.problem(f"gemm_c_{'x'.join(map(str, c))}", "Gemm", 1,
                        [m.floats(2, 3), m.floats(4, 2), m.floats(*c)],
                        transA=1, transB=1, alpha=0.5, beta=2.0)  # fmt: skip
    # Integers, which onnxruntime multiplies in floats.
    for kind in (np.int32, np.int64, np.uint32, np.uint64):
        low, high = np.iinfo(kind).min, np.iinfo(kind).max
        a, b, c = (m.random.integers(low, high, dims, kind, True) for dims in ((3, 2), (4, 3), (4,)))
        made = m.problem(f"gemm_wraps_{kind.__name__}", "Gemm", 1, [a, b, c], transA=1, transB=1,
                         alpha=3.0, beta=-2.0)  # fmt: skip
        wide = [v.astype(np.int64).astype(np.uint64) for v in (a, b, c)]
        product = wide[0].T @ wide[1].T * np.uint64(3) - wide[2] * np.uint64(2)
        made.expected = [product.astype(kind)]
        made.alone = True
        yield made


def norms(m: Maker) -> Iterator[Problem]:
    x = m.floats(2, 4, 3, 5)
    for axis in (1, 2, -1):
        dims = x.shape[axis:]
        yield m.problem(f"layer_norm_axis_{axis}", "LayerNormalization", 3,
                        [x, m.floats(*dims), m.floats(*dims)], axis=axis, epsilon=0.01)  # fmt: skip
    half = x.astype(np.float16)
    yield m.problem("layer_norm_f16", "LayerNormalization", 1,
                    [half, half[0, 0, 0], half[1, 0, 0]])  # fmt: skip
    yield m.problem("batch_norm_2d", "BatchNormalization", 1,
                    [x, m.floats(4), m.floats(4), m.floats(4), np.abs(m.floats(4))])  # fmt: skip
    yield m.problem("instance_norm_1d", "InstanceNormalization", 1,
                    [x[0], m.floats(3)[:3], m.floats(3)])  # fmt: skip
    for axis in (0, 1, -1):
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            yield m.problem(f"{op}_axis_{axis}", op, 1, [x * 5], axis=axis)
    yield m.problem("group_norm_no_axes", "GroupNormalization", 1,
                    [m.floats(3, 6), m.floats(6), m.floats(6)], num_groups=2)  # fmt: skip


def quantisation(m: Maker) -> Iterator[Problem]:
    x = m.floats(2, 3, 4) * 20
    scale, zero = np.array([0.1, 0.7, 0.02], np.float32), np.array([3, 120, 250], np.uint8)
    yield m.problem("quantize_axis", "QuantizeLinear", 1, [x, scale, zero], axis=1)
    yield m.problem("quantize_i8", "QuantizeLinear", 1,
                    [x, np.float32(0.05), np.int8(-7)])  # fmt: skip
    ties = np.array([0.5, 1.5, 2.5, -0.5, -1.5, np.inf, -np.inf], np.float32)
    yield m.problem("quantize_ties", "QuantizeLinear", 1, [ties, np.float32(1), np.uint8(10)])
    bytes_ = m.random.integers(0, 255, (2, 3, 4)).astype(np.uint8)
    yield m.problem("dequantize_axis", "DequantizeLinear", 1, [bytes_, scale, zero], axis=-2)
    yield m.problem("dequantize_block", "DequantizeLinear", 1,
                    [bytes_, np.abs(m.floats(2, 3, 2)), bytes_[:, :, :2]],
                    axis=2, block_size=2)  # fmt: skip


def shapes(m: Maker) -> Iterator[Problem]:
    x = m.floats(3, 4, 5)
    for mode in ("constant", "edge", "reflect", "wrap"):
        pads = np.array([1, 0, 2, 0, 3, 1], np.int64)
        yield m.problem(f"pad_{mode}", "Pad", 1, [x, pads], mode=mode)
        cut = np.array([-1, 2, 0, 0, -1, -2], np.int64)
        yield m.problem(f"pad_{mode}_negative", "Pad", 1, [x, cut], mode=mode)
    image = m.floats(1, 2, 4, 5)
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
                            "half_pixel_symmetric"):  # fmt: skip
            sizes = np.array([1, 2, 7, 3], np.int64)
            yield m.problem(f"resize_{mode}_{coordinates}", "Resize", 1,
                            [image, None, None, sizes], mode=mode,
                            coordinate_transformation_mode=coordinates)  # fmt: skip
    scales = np.array([1, 1, 2, 0.5], np.float32)
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        yield m.problem(f"resize_{rounding}", "Resize", 1, [image, None, scales],
                        nearest_mode=rounding)  # fmt: skip
    # Of version 11: axes that keep their size are not moved by half an element.
    for mode in ("nearest", "linear"):
        problem = m.problem(f"resize_{mode}_tf_half_pixel_for_nn", "Resize", 1,
                            [image, None, np.array([1, 1, 2, 2], np.float32)], mode=mode,
                            nearest_mode="round_prefer_ceil",
                            coordinate_transformation_mode="tf_half_pixel_for_nn")  # fmt: skip
        problem.alone = True
        yield problem


def transposed(m: Maker) -> Iterator[Problem]:
    x = m.floats(1, 4, 3, 4)
    w, b = m.floats(4, 2, 3, 2), m.floats(4)
    yield m.problem("conv_transpose_groups", "ConvTranspose", 1, [x, w, b], group=2, strides=[2, 3],
                    dilations=[1, 2], pads=[1, 0, 0, 1], output_padding=[1, 2])  # fmt: skip
    for auto in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        yield m.problem(f"conv_transpose_{auto}", "ConvTranspose", 1, [x, m.floats(4, 1, 3, 4)],
                        auto_pad=auto, strides=[2, 1])  # fmt: skip
    yield m.problem("conv_transpose_output_shape", "ConvTranspose", 1, [x, m.floats(4, 1, 3, 2)],
                    output_shape=[6, 8], strides=[2, 2])  # fmt: skip
    yield m.problem("conv_transpose_1d", "ConvTranspose", 1, [x[0], m.floats(3, 2, 4)],
                    strides=[3])  # fmt: skip


def einsums(m: Maker) -> Iterator[Problem]:
    for equation, dims in (
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("ij,kj", [(2, 3), (4, 3)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("ii->i", [(3, 3)]),
        ("i,j->ji", [(2,), (3,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("ab,b->a", [(2, 3), (3,)]),
    ):
        name = "einsum_" + equation.replace(",", "_").replace("->", "_to_").replace(".", "e")
        yield m.problem(name, "Einsum", 1, [m.floats(*d) for d in dims], equation=equation)


def vision(m: Maker) -> Iterator[Problem]:
    image = m.floats(2, 2, 6, 7)
    rois = np.array([[0, 0, 0, 4, 3], [1, 1, 2, 6, 5], [0, 5, 5, 5, 5]], np.float32)
    for scale in (1.0, 0.5):
        yield m.problem(f"max_roi_pool_{scale}", "MaxRoiPool", 1, [image, rois],
                        pooled_shape=[2, 3], spatial_scale=scale)  # fmt: skip
    index = np.array([0, 1, 0], np.int64)
    for ratio in (0, 2):
        for coordinates in ("half_pixel", "output_half_pixel"):
            yield m.problem(f"roi_align_{coordinates}_{ratio}", "RoiAlign", 1,
                            [image, rois[:, 1:] + np.float32(0.3), index], output_height=2,
                            output_width=2, sampling_ratio=ratio, spatial_scale=0.8,
                            coordinate_transformation_mode=coordinates)  # fmt: skip
    grid = m.floats(2, 3, 4, 2)
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            yield m.problem(f"grid_sample_{mode}_{padding}", "GridSample", 1, [image, grid],
                            mode=mode, padding_mode=padding, align_corners=0)  # fmt: skip
    yield m.problem("global_lp_pool_3", "GlobalLpPool", 1, [image], p=3)
    yield m.problem("global_lp_pool", "GlobalLpPool", 1, [image])
    x = np.round(m.floats(3, 5, 4))  # many ties
    for axis in (0, 1, -1):
        for largest in (0, 1):
            yield m.problem(f"top_k_axis_{axis}_{largest}", "TopK", 2,
                            [x, np.array([3], np.int64)], axis=axis, largest=largest)  # fmt: skip
    boxes = np.sort(np.abs(m.floats(2, 9, 4)), axis=2)[:, :, [0, 1, 2, 3]]
    scores = np.abs(m.floats(2, 3, 9))
    yield m.problem("nms_random", "NonMaxSuppression", 1,
                    [boxes, scores, np.array([4], np.int64), np.array([0.3], np.float32),
                     np.array([0.4], np.float32)])  # fmt: skip
    yield m.problem("nms_centred", "NonMaxSuppression", 1,
                    [boxes, scores, np.array([2], np.int64), np.array([0.1], np.float32)],
                    center_point_box=1)  # fmt: skip
    # Classes moved apart along both axes, as detectors do that suppress each for itself; one box is wide.
    random = np.random.default_rng(29)
    corner = random.uniform(0, 3, (1, 150, 2)) + 5 * random.integers(0, 8, (1, 150, 1))
    apart = np.concatenate([corner, corner + random.uniform(0.5, 2, (1, 150, 2))], 2).astype(np.float32)
    for name, extent in (("nms_apart", 4), ("nms_apart_one_wide", 20)):
        apart[0, 5, 3] = apart[0, 5, 1] + extent
        yield m.problem(name, "NonMaxSuppression", 1,
                        [apart.copy(), random.uniform(0, 1, (1, 1, 150)).astype(np.float32), np.array([150], np.int64),
                         np.array([0.2], np.float32)])  # fmt: skip


def quantised_products(m: Maker) -> Iterator[Problem]:
    def data(dtype: type, *dims: int) -> np.ndarray:
        info = np.iinfo(dtype)
        return m.random.integers(info.min, info.max, dims, endpoint=True).astype(dtype)

    x, w = data(np.uint8, 1, 4, 5, 6), data(np.int8, 6, 2, 3, 3)
    f32 = np.float32
    scales = np.abs(m.floats(6)) * f32(0.01) + f32(0.001)
    yield m.problem("qlinear_conv_channels", "QLinearConv", 1,
                    [x, f32(0.02), np.uint8(120), w, scales, np.zeros(6, np.int8), f32(0.3),
                     np.uint8(100), data(np.int32, 6) // (1 << 20)],
                    group=2, pads=[1, 1, 0, 0], strides=[2, 1])  # fmt: skip
    yield m.problem("conv_integer_zero_points", "ConvInteger", 1,
                    [x, data(np.uint8, 2, 4, 2, 2), np.uint8(7), np.uint8(130)],
                    pads=[1, 0, 1, 0])  # fmt: skip
    yield m.problem("matmul_integer_columns", "MatMulInteger", 1,
                    [data(np.uint8, 2, 3, 4), data(np.int8, 4, 5), np.uint8(9),
                     data(np.int8, 5)])  # fmt: skip
    yield m.problem("qlinear_matmul", "QLinearMatMul", 1,
                    [data(np.uint8, 3, 4), f32(0.03), np.uint8(11), data(np.uint8, 4, 2), f32(0.02),
                     np.uint8(128), f32(0.11), np.uint8(90)])  # fmt: skip
    yield m.problem("dynamic_quantize_zeros", "DynamicQuantizeLinear", 3,
                    [np.zeros((2, 3), f32)])  # fmt: skip
    yield m.problem("dynamic_quantize", "DynamicQuantizeLinear", 3, [m.floats(3, 7) - f32(1)])


def features(m: Maker) -> Iterator[Problem]:
    def ml(name: str, op: str, arrays: list, **attrs: object) -> Problem:
        return m.problem(name, op, 1, arrays, domain="ai.onnx.ml", **attrs)

    x, whole = m.floats(3, 4), np.arange(12).reshape(3, 4) - 5
    gaps = np.where(np.abs(x) < 0.5, np.float32("nan"), x)
    yield ml("imputer_each", "Imputer", [gaps], imputed_value_floats=[1.0, 2.0, 3.0, 4.0],
             replaced_value_float=float("nan"))
    yield ml("imputer_ints", "Imputer", [whole], imputed_value_int64s=[100], replaced_value_int64=-2)
    yield ml("scaler_each", "Scaler", [x], offset=[1.0, 2.0, -3.0, 0.5], scale=[2.0, 1.0, 0.5, 4.0])
    yield ml("scaler_all", "Scaler", [whole], offset=[1.5], scale=[0.25])
    for norm in ("MAX", "L1", "L2"):
        yield ml(f"normalizer_{norm}", "Normalizer", [np.abs(x)], norm=norm)
        yield ml(f"normalizer_{norm}_zero", "Normalizer", [np.zeros((2, 3), np.float32)], norm=norm)
    yield ml("vectorizer", "FeatureVectorizer", [x, m.floats(3, 2)], inputdimensions=[4, 2])
    yield ml("vectorizer_pads", "FeatureVectorizer", [x, m.floats(3, 2)], inputdimensions=[3, 4])
    yield ml("one_hot_ints", "OneHotEncoder", [whole], cats_int64s=[-1, 3, 5])
    words = np.array([["a", "b"], ["c", "a"]], object)
    yield ml("one_hot_strings", "OneHotEncoder", [words], cats_strings=["a", "c"], zeros=1)
    both = {"cats_strings": ["a", "c"], "cats_int64s": [7, -1]}
    yield ml("mapper_strings", "CategoryMapper", [words], default_int64=3, **both)
    yield ml("mapper_ints", "CategoryMapper", [whole], default_string="none", **both)
    weights = [round(float(v), 3) for v in m.random.standard_normal(8)]
    for transform in ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"):
        yield ml(f"linear_{transform}", "LinearRegressor", [x], coefficients=weights, targets=2,
                 intercepts=[0.5, -0.25], post_transform=transform)
    yield ml("linear_one", "LinearRegressor", [x], coefficients=weights[:4])


TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def transformed(scores: np.ndarray, kind: str) -> np.ndarray:
    """The post_transform of ai.onnx.ml along the last axis, in f64."""
    s = np.asarray(scores, np.float64)
    with np.errstate(all="ignore"):
        if kind == "LOGISTIC":
            return 1 / (1 + np.exp(-s))
        if kind == "PROBIT":  # Winitzki's approximation, as the standard's reference has it
            x = 2 * s - 1
            log = np.log((1 - x) * (1 + x))
            v = 2 / (np.pi * 0.147) + log / 2
            return np.sqrt(2) * np.sign(x) * np.sqrt(np.sqrt(v * v - log / 0.147) - v)
        if kind in ("SOFTMAX", "SOFTMAX_ZERO"):
            e = np.exp(s) * (1 if kind == "SOFTMAX" else s != 0)
            return e / e.sum(-1, keepdims=True)
    return s


def classifiers(m: Maker) -> Iterator[Problem]:
    """Linear models and support vector machines of ai.onnx.ml."""

    def ml(name: str, op: str, x: np.ndarray, expected: list | None = None, **attrs) -> Problem:
        outputs = 1 if op.endswith("Regressor") else 2
        out = m.problem(name, op, outputs, [x], domain="ai.onnx.ml", **attrs)
        out.expected = expected
        return out

    x = np.concatenate([m.floats(5, 3), np.zeros((1, 3), np.float32)])
    kinds = {"i64": (x * 4).astype(np.int64), "i32": (x * 4).astype(np.int32),
             "f64": x.astype(np.float64), "row": x[0], "none": x[:0]}  # fmt: skip
    w = [0.3, 0.1, 0.25, -0.3, -0.1, 0.5, 0.15, 0.2, -0.35]
    f64 = x.astype(np.float64)
    one_score = f64 @ np.float32(w[:3]).astype(np.float64) + np.float64(np.float32(0.1))
    for t in TRANSFORMS:
        own = None
        if t == "PROBIT":  # onnxruntime transforms one of the two scores, out of place
            pair = np.stack([transformed(1 - one_score, t), transformed(one_score, t)], 1)
            own = [np.where(one_score > 0, 9, 5), pair.astype(np.float32)]
        yield ml(f"linear_one_score_{t}", "LinearClassifier", x, own, classlabels_ints=[5, 9],
                 coefficients=w[:3], intercepts=[0.1], post_transform=t)  # fmt: skip
        yield ml(f"linear_three_{t}", "LinearClassifier", x, classlabels_strings=["a", "b", "c"],
                 coefficients=w, intercepts=[0.1, 0.2, -0.3], post_transform=t)  # fmt: skip
    for kind, data in kinds.items():
        yield ml(f"linear_{kind}", "LinearClassifier", data, classlabels_ints=[-1, 0, 7],
                 coefficients=w, intercepts=[0.1, 0.2, -0.3], multi_class=1)  # fmt: skip
    scores = f64 @ np.float32(w).astype(np.float64).reshape(3, 3).T
    yield ml("linear_no_intercepts", "LinearClassifier", x,
             [np.array([3, 1, 2])[scores.argmax(1)], scores.astype(np.float32)],
             classlabels_ints=[3, 1, 2], coefficients=w)  # fmt: skip

    vectors = [round(float(v), 3) for v in m.random.standard_normal(12)]
    for t in TRANSFORMS:
        for kernel, params in (("LINEAR", [0, 0, 0]), ("POLY", [0.4, 0.1, 3]), ("RBF", [0.5, 0, 0]),
                               ("SIGMOID", [0.3, -0.1, 0])):  # fmt: skip
            machine = {"support_vectors": vectors, "kernel_type": kernel,
                       "kernel_params": [float(p) for p in params], "post_transform": t}  # fmt: skip
            if t == "NONE" or kernel == "RBF":
                for prob in ({}, {"prob_a": [-1.5, -1.0, -2.0], "prob_b": [0.1, 0.2, -0.1]}):
                    yield ml(f"svc_three_{kernel}_{t}_{len(prob)}", "SVMClassifier", x,
                             classlabels_strings=["a", "b", "c"], vectors_per_class=[1, 2, 1],
                             coefficients=[0.5, 0.3, -0.4, -0.4, 0.1, 0.2, -0.3, 0.6],
                             rho=[0.1, -0.2, 0.05], **machine, **prob)  # fmt: skip
                for prob in ({}, {"prob_a": [-1.5], "prob_b": [0.1]}):
                    if t == "PROBIT" and not prob:
                        continue  # of onnxruntime, see above
                    yield ml(f"svc_two_{kernel}_{t}_{len(prob)}", "SVMClassifier", x,
                             classlabels_ints=[5, 9], vectors_per_class=[2, 2], rho=[0.1],
                             coefficients=[0.5, 0.3, -0.4, -0.4], **machine, **prob)  # fmt: skip
            if t == "NONE":
                for one_class in (0, 1):
                    yield ml(f"svr_{kernel}_{one_class}", "SVMRegressor", x, n_supports=4,
                             coefficients=[0.5, 0.3, -0.4, -0.4], rho=[0.1], one_class=one_class,
                             **machine)  # fmt: skip
    linear = {"kernel_params": [0.0, 0.0, 0.0], "coefficients": w, "rho": [0.15]}
    for t in TRANSFORMS:
        yield ml(f"svc_linear_{t}", "SVMClassifier", x, classlabels_ints=[4, 5, 6],
                 post_transform=t, **linear)  # fmt: skip
        # onnxruntime ignores the transform here.
        score = f64 @ np.float32(w[:3]).astype(np.float64) + np.float64(np.float32(0.15))
        yield ml(f"svr_linear_{t}", "SVMRegressor", x,
                 [transformed(score[:, None], t).astype(np.float32)], post_transform=t,
                 coefficients=w[:3], rho=[0.15])  # fmt: skip
    for kind, data in kinds.items():
        yield ml(f"svc_linear_{kind}", "SVMClassifier", data, classlabels_strings=["x", "y", "z"],
                 **linear)  # fmt: skip


def forests(m: Maker) -> Iterator[Problem]:
    """Tree ensembles of ai.onnx.ml 1 and 3."""
    x = np.concatenate([np.round(m.floats(7, 3), 1), np.array([[np.nan, 0.5, np.nan]], np.float32)])
    leaves = [(0, 2), (0, 3), (0, 4), (1, 1), (1, 2), (2, 0)]  # (tree, node)
    nodes = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1, 2],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2, 0],
        "nodes_truenodeids": [1, 2, 0, 0, 0, 1, 0, 0, 0],
        "nodes_falsenodeids": [4, 3, 0, 0, 0, 2, 0, 0, 0],
        "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0, 0],
        "nodes_values": [0.25, -0.5, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0, 0],
    }

    def modes(first: str, second: str = "BRANCH_LEQ") -> list[str]:
        return [first, "BRANCH_GT", *["LEAF"] * 3, second, *["LEAF"] * 3]

    def ensemble(name: str, kind: str, votes: list, expected: list | None = None,
                 x: np.ndarray = x, mode: str = "BRANCH_LEQ", **attrs) -> Problem:  # fmt: skip
        """`votes` are (leaf, target, weight)."""
        prefix = "class" if kind == "Classifier" else "target"
        table = {"treeids": [leaves[v[0]][0] for v in votes],
                 "nodeids": [leaves[v[0]][1] for v in votes], "ids": [v[1] for v in votes],
                 "weights": [v[2] for v in votes]}  # fmt: skip
        attrs = {**nodes, "nodes_modes": modes(mode), **attrs}
        for key, value in table.items():
            if key == "weights" and f"{prefix}_weights_as_tensor" in attrs:
                continue
            attrs[f"{prefix}_{key}"] = value
        out = m.problem(name, f"TreeEnsemble{kind}", 2 if kind == "Classifier" else 1, [x],
                        domain="ai.onnx.ml", **attrs)  # fmt: skip
        out.expected = expected
        return out

    weights = [0.1, 0.35, 0.2, 0.3, 0.05, 0.15]
    mixed = [-0.4, 0.35, 0.2, -0.3, 0.5, 0.05]
    for t in TRANSFORMS:
        for base in ([], [0.25]) if t != "PROBIT" else ():  # PROBIT: out of place, as above
            for name, w in (("positive", weights), ("mixed", mixed)):
                votes = [(i, 0, w[i]) for i in range(6)]
                yield ensemble(f"binary_{name}_{t}_{len(base)}", "Classifier", votes, base_values=base,
                               classlabels_int64s=[5, 9], post_transform=t)  # fmt: skip
        for base in ([], [0.25, 0.5, -0.1]):
            votes = [(i, k, weights[(i * 3 + k) % 6]) for i in range(6) for k in range(3)]
            yield ensemble(f"three_{t}_{len(base)}", "Classifier", votes, base_values=base,
                           classlabels_strings=["a", "b", "c"], post_transform=t)  # fmt: skip
    for kind, data in (("f64", x.astype(np.float64)), ("i64", (x[:7] * 2).astype(np.int64)),
                       ("i32", (x[:7] * 2).astype(np.int32)), ("none", x[:0]), ("row", x[0])):  # fmt: skip
        votes = [(i, i % 3, weights[i]) for i in range(6)] + [(2, 2, 0.125), (4, 1, 0.25)]
        if kind != "row":  # onnxruntime wants rank 2
            yield ensemble(f"classify_{kind}", "Classifier", votes, x=data,
                           classlabels_int64s=[7, 8, 6])  # fmt: skip
        if kind in ("f64", "none"):  # onnxruntime has no others
            yield ensemble(f"regress_{kind}", "Regressor", votes, x=data, n_targets=3)
    for mode in ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"):
        votes = [(i, 0, weights[i]) for i in range(6)]
        yield ensemble(mode, "Regressor", votes, mode=mode, n_targets=1)
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        for base in ([], [0.25, -0.5]):
            votes = [(i, k, mixed[(i + k) % 6]) for i in range(6) for k in range(2)]
            yield ensemble(f"{aggregate}_{len(base)}", "Regressor", votes, n_targets=2,
                           base_values=base, aggregate_function=aggregate)  # fmt: skip
    for t in TRANSFORMS:
        votes = [(i, k, weights[(i * 3 + k) % 6]) for i in range(6) for k in range(3)]
        yield ensemble(f"regress_{t}", "Regressor", votes, n_targets=3, post_transform=t)
    doubles = np.array(mixed, np.float64) / 3
    yield ensemble("as_tensor", "Regressor", [(i, 0, 0.0) for i in range(6)], x=x.astype(np.float64), n_targets=1,
                   target_weights_as_tensor=onnx.numpy_helper.from_array(doubles),
                   base_values_as_tensor=onnx.numpy_helper.from_array(np.array([0.1]))
                   )  # fmt: skip
    # Both of two classes have votes: the top one is the label (onnxruntime answers 0 and 1 there).
    both = x[:7]
    first = np.where(both[:, 0] <= 0.25, np.where(both[:, 1] > -0.5, 0, 1), 2)
    second = np.where(both[:, 2] <= np.float32(0.1), 3, 4)
    table = np.array([[0.5, 0.25], [0.125, 0.75], [0.25, 0.5], [1.0, 0.25], [0.5, 0.0], [0.25, 0.25]])
    scores = table[first] + table[second] + table[5]
    yield ensemble("both_of_two", "Classifier",
                   [(i, k, table[i, k]) for i in range(6) for k in range(2)],
                   [np.array([4, 3])[scores.argmax(1)], scores.astype(np.float32)], x=both,
                   classlabels_int64s=[4, 3])  # fmt: skip


def problems() -> Iterator[Problem]:
    import microsoft_problems

    for family in (recurrent, windows, products, norms, quantisation, shapes, transposed, einsums,
                   vision, quantised_products, features, classifiers, forests):  # fmt: skip
        yield from family(Maker())
    yield from microsoft_problems.problems()
