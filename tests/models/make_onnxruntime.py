#!/usr/bin/env python3
"""Writes the models of tests/models/onnxruntime: small networks as onnxruntime itself optimises and quantises them, with
cases of what it answers. `make_onnxruntime.py [DIR]`.

    transformer           a block of an encoder, optimised (ORT_ENABLE_EXTENDED)
    transformer_dynamic   the same with weights of 8 bits and dynamic quantisation, optimised
    encoder               a block of an encoder, as onnxruntime's offline tool for transformers writes it
    encoder_dynamic       the same with weights of 8 bits and dynamic quantisation
    recurrent_dynamic     LSTMs with weights of 8 bits
    convnet               a residual network of convolutions, optimised
    convnet_static        the same statically quantised in QOperator format
    convnet_last          the same quantised in QDQ format, optimised for the machine (ORT_ENABLE_ALL): channels last
    convnet_wide          the same with activations of 16 bits, by onnxruntime's own operators
    decoder               a block of a generative model, as its exporters write it, with a cache
    in_bytes              products with weights of 2, 4 and 8 bits whose other side may be rounded to bytes

Weights come from a seeded generator: the same package gives the same files.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import quantization
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType

F = np.float32
SIZE, HEADS, INNER, WORDS, LONGEST = 16, 2, 32, 24, 12


class Builder:
    """A graph under construction; weights and names are counted."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list = []
        self.weights: list = []

    def weight(self, *dims: int, scale: float = 0.3, around: float = 0.0) -> str:
        return self.constant(np.round(self.random.standard_normal(dims) * scale + around, 3).astype(F))

    def constant(self, value) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attrs):
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=names[0], domain=domain, **attrs))
        return names[0] if outputs == 1 else names

    def model(self, name: str, inputs: dict, outputs: dict, ai: int = 17) -> onnx.ModelProto:
        def infos(values):
            return [helper.make_tensor_value_info(key, kind, dims) for key, (kind, dims) in values.items()]
        graph = helper.make_graph(self.nodes, name, infos(inputs), infos(outputs), self.weights)
        opsets = [helper.make_opsetid("", ai), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def layer_norm(b: Builder, x: str) -> str:
    """Written out, as exporters do."""
    mean = b.add("ReduceMean", x, axes=[-1])
    centred = b.add("Sub", x, mean)
    variance = b.add("ReduceMean", b.add("Pow", centred, b.constant(F(2))), axes=[-1])
    deviation = b.add("Sqrt", b.add("Add", variance, b.constant(F(1e-5))))
    scaled = b.add("Mul", b.add("Div", centred, deviation), b.weight(SIZE, scale=0.1, around=1))
    return b.add("Add", scaled, b.weight(SIZE, scale=0.1))


def dense(b: Builder, x: str, size: int, out: int) -> str:
    return b.add("Add", b.add("MatMul", x, b.weight(size, out)), b.weight(out, scale=0.1))


def transformer() -> onnx.ModelProto:
    b = Builder(1)
    words = b.add("Gather", b.weight(WORDS, SIZE), "ids")
    length = b.add("Shape", "ids", start=1, end=2)
    places = b.add("Slice", b.weight(LONGEST, SIZE), b.constant(np.array([0])), length, b.constant(np.array([0])))
    x = layer_norm(b, b.add("Add", words, places))

    def heads() -> str:
        y = b.add("Reshape", dense(b, x, SIZE, SIZE), b.constant(np.array([0, 0, HEADS, SIZE // HEADS])))
        return b.add("Transpose", y, perm=[0, 2, 1, 3])
    q, k, v = heads(), heads(), heads()
    scores = b.add("MatMul", q, b.add("Transpose", k, perm=[0, 1, 3, 2]))
    scores = b.add("Div", scores, b.constant(F(np.sqrt(SIZE // HEADS))))
    shown = b.add("Unsqueeze", b.add("Cast", "mask", to=TensorProto.FLOAT), b.constant(np.array([1, 2])))
    hidden = b.add("Mul", b.add("Sub", b.constant(F(1)), shown), b.constant(F(-10000)))
    weights = b.add("Softmax", b.add("Add", scores, hidden), axis=-1)
    y = b.add("Transpose", b.add("MatMul", weights, v), perm=[0, 2, 1, 3])
    y = dense(b, b.add("Reshape", y, b.constant(np.array([0, 0, SIZE]))), SIZE, SIZE)
    x = layer_norm(b, b.add("Add", y, x))
    y = dense(b, x, SIZE, INNER)
    bell = b.add("Add", b.add("Erf", b.add("Div", y, b.constant(F(np.sqrt(2))))), b.constant(F(1)))
    y = b.add("Mul", b.add("Mul", y, bell), b.constant(F(0.5)))
    x = layer_norm(b, b.add("Add", dense(b, y, INNER, SIZE), x))
    out = b.add("Identity", x)
    return b.model("transformer", {"ids": (TensorProto.INT64, ["batch", "length"]),
                                   "mask": (TensorProto.INT64, ["batch", "length"])},
                   {out: (TensorProto.FLOAT, ["batch", "length", SIZE])})


def encoder() -> onnx.ModelProto:
    b = Builder(5)
    ms = {"domain": "com.microsoft", "epsilon": 1e-5}

    def lines() -> list[str]:
        return [b.weight(SIZE, scale=0.1, around=1), b.weight(SIZE, scale=0.1)]
    tables = [b.weight(WORDS, SIZE), b.weight(LONGEST, SIZE)]
    x, _ = b.add("EmbedLayerNormalization", "ids", "", *tables, "", *lines(), outputs=2, **ms)
    y = b.add("Attention", x, b.weight(SIZE, 3 * SIZE), b.weight(3 * SIZE, scale=0.1), "mask", domain="com.microsoft",
              num_heads=HEADS)
    y = b.add("MatMul", y, b.weight(SIZE, SIZE))
    x = b.add("SkipLayerNormalization", y, x, *lines(), b.weight(SIZE, scale=0.1), **ms)
    y = b.add("FastGelu", b.add("MatMul", x, b.weight(SIZE, INNER)), b.weight(INNER, scale=0.1), domain="com.microsoft")
    y = b.add("MatMul", y, b.weight(INNER, SIZE))
    x = b.add("SkipLayerNormalization", y, x, *lines(), b.weight(SIZE, scale=0.1), **ms)
    # The same once more with separate operands and rotary positions.
    q, k, v = (b.add("MatMul", x, b.weight(SIZE, SIZE)) for _ in range(3))
    angles = np.arange(LONGEST)[:, None] / 20 ** (np.arange(4) / 4)
    caches = [b.constant(np.round(f(angles), 3).astype(F)) for f in (np.cos, np.sin)]
    first = b.constant(np.array([0]))
    q, k = (b.add("RotaryEmbedding", one, first, *caches, domain="com.microsoft") for one in (q, k))
    y = b.add("MultiHeadAttention", q, k, v, b.weight(3 * SIZE, scale=0.1), "mask", domain="com.microsoft",
              num_heads=HEADS)
    out = b.add("SkipLayerNormalization", y, x, *lines(), **ms)
    return b.model("encoder", {"ids": (TensorProto.INT32, ["batch", "length"]),
                               "mask": (TensorProto.INT32, ["batch", "length"])},
                   {out: (TensorProto.FLOAT, ["batch", "length", SIZE])})


def convnet() -> onnx.ModelProto:
    b = Builder(2)

    def conv(x: str, out: int, channels: int, **attrs) -> str:
        return b.add("Conv", x, b.weight(out, channels, 3, 3), b.weight(out, scale=0.1), pads=[1, 1, 1, 1], **attrs)
    x = b.add("Relu", conv("image", 8, 3))
    y = conv(b.add("LeakyRelu", conv(x, 8, 8), alpha=0.1), 8, 8)
    x = b.add("Relu", b.add("Add", y, x))
    x = b.add("Concat", b.add("Sigmoid", conv(x, 4, 8)), b.add("Relu", conv(x, 4, 8)), axis=1)
    x = b.add("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = b.add("Flatten", b.add("GlobalAveragePool", x))
    x = b.add("Relu", b.add("Gemm", x, b.weight(12, 8), b.weight(12, scale=0.1), transB=1))
    x = b.add("Gemm", x, b.weight(5, 12), b.weight(5, scale=0.1), transB=1)
    out = b.add("Softmax", x, axis=-1)
    return b.model("convnet", {"image": (TensorProto.FLOAT, ["batch", 3, 8, 8])}, {out: (TensorProto.FLOAT, ["batch", 5])})


def recurrent() -> onnx.ModelProto:
    b = Builder(6)
    y, size = "x", INNER // 2
    for direction in ("forward", "bidirectional"):
        dirs, hidden = (2, 6) if direction == "bidirectional" else (1, 8)
        y = b.add("LSTM", y, b.weight(dirs, 4 * hidden, size), b.weight(dirs, 4 * hidden, hidden),
                  b.weight(dirs, 8 * hidden, scale=0.1), direction=direction, hidden_size=hidden, outputs=2)[0]
        y = b.add("Transpose", y, perm=[0, 2, 1, 3])
        size = dirs * hidden
        y = b.add("Reshape", y, b.constant(np.array([0, 0, size])))
    out = b.add("Identity", y)
    return b.model("recurrent", {"x": (TensorProto.FLOAT, ["length", "batch", INNER // 2])},
                   {out: (TensorProto.FLOAT, ["length", "batch", size])})


def decoder() -> onnx.ModelProto:
    """Grouped heads over a cache, rotary positions, simplified norms, weights of 4 bits."""
    b = Builder(3)
    ms = "com.microsoft"
    size, heads, kv_heads, block = 32, 2, 1, 16

    def bits(x: str, k: int, n: int) -> str:
        packed = b.constant(b.random.integers(0, 256, (n, k // block, block // 2)).astype(np.uint8))
        scales = b.weight(n, k // block, scale=0.01, around=0.04)
        zeros = b.constant(b.random.integers(0, 256, (n, -(-k // block // 2))).astype(np.uint8))
        return b.add("MatMulNBits", x, packed, scales, zeros, domain=ms, K=k, N=n, bits=4, block_size=block)
    x = b.add("Gather", b.weight(WORDS, size), "ids")
    normed = b.add("SimplifiedLayerNormalization", x, b.weight(size, scale=0.1, around=1), epsilon=1e-5)
    # The lengths as exporters compute them, from the mask over past and new tokens.
    ones = b.add("ReduceSum", "mask", b.constant(np.array([1])), keepdims=0)
    lengths = b.add("Cast", b.add("Sub", ones, b.constant(np.array(1))), to=TensorProto.INT32)
    total = b.add("Cast", b.add("Gather", b.add("Shape", "mask"), b.constant(np.array(1))), to=TensorProto.INT32)
    angles = np.arange(32)[:, None] / 20 ** (np.arange(8) / 8)
    cos, sin = (b.constant(np.round(f(angles), 3).astype(F)) for f in (np.cos, np.sin))
    qkv = bits(normed, size, size + 2 * size // heads)
    y, *present = b.add("GroupQueryAttention", qkv, "", "", "past_key", "past_value", lengths, total, cos, sin, outputs=3,
                        domain=ms, num_heads=heads, kv_num_heads=kv_heads, do_rotary=1)
    normed, _, _, x = b.add("SkipSimplifiedLayerNormalization", bits(y, size, size), x,
                            b.weight(size, scale=0.1, around=1), outputs=4, domain=ms, epsilon=1e-5)
    b.nodes[-1].output[1] = b.nodes[-1].output[2] = ""
    gate = b.add("QuickGelu", bits(normed, size, INNER), domain=ms, alpha=1.0)
    y = bits(b.add("Mul", gate, bits(normed, size, INNER)), INNER, size)
    y = b.add("SkipSimplifiedLayerNormalization", y, x, b.weight(size, scale=0.1, around=1), domain=ms, epsilon=1e-5)
    out = b.add("FusedMatMul", y, b.weight(WORDS, size), domain=ms, transB=1, alpha=0.5)
    cache = ["batch", kv_heads, "past", size // heads]
    grown = ["batch", kv_heads, "total", size // heads]
    return b.model("decoder", {"ids": (TensorProto.INT64, ["batch", "length"]),
                               "mask": (TensorProto.INT64, ["batch", "total"]),
                               "past_key": (TensorProto.FLOAT, cache), "past_value": (TensorProto.FLOAT, cache)},
                   {out: (TensorProto.FLOAT, ["batch", "length", WORDS]), present[0]: (TensorProto.FLOAT, grown),
                    present[1]: (TensorProto.FLOAT, grown)})


def in_bytes() -> onnx.ModelProto:
    """MatMulNBits with accuracy_level 4: blocks of a row are rounded to 8 bits. All read the input, for a value next to
    a tie is rounded either way behind another operator."""
    b = Builder(5)
    outputs = {}
    for bits, k, n, block, zeros in ((4, 96, 70, 32, True), (8, 96, 33, 16, True), (2, 96, 5, 32, False), (4, 96, 130, 64, False)):
        blocks = -(-k // block)
        packed = b.constant(b.random.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8))
        inputs = ["x", packed, b.weight(n, blocks, scale=0.01, around=0.04)]
        if zeros:
            inputs.append(b.constant(b.random.integers(0, 256, (n, -(-blocks * bits // 8))).astype(np.uint8)))
        y = b.add("MatMulNBits", *inputs, domain="com.microsoft", K=k, N=n, bits=bits, block_size=block, accuracy_level=4)
        outputs[y] = (TensorProto.FLOAT, ["batch", "length", n])
    return b.model("in_bytes", {"x": (TensorProto.FLOAT, ["batch", "length", 96])}, outputs)


def optimised(model: onnx.ModelProto, path: Path, level=ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 3
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def text_cases(random) -> list[dict]:
    out = []
    for batch, length in ((1, 7), (3, 4)):
        mask = np.ones((batch, length), np.int64)
        mask[0, -2:] = 0
        out.append({"ids": random.integers(0, WORDS, (batch, length)), "mask": mask})
    return out


def image_cases(random) -> list[dict]:
    return [{"image": random.standard_normal((batch, 3, 8, 8)).astype(F)} for batch in (1, 4)]


def decoder_cases(random) -> list[dict]:
    out = []
    for batch, length, past in ((2, 5, 0), (2, 1, 5), (1, 1, 20)):
        cache = {key: random.standard_normal((batch, 1, past, 16)).astype(F) for key in ("past_key", "past_value")}
        out.append({"ids": random.integers(0, WORDS, (batch, length)), "mask": np.ones((batch, past + length), np.int64),
                    **cache})
    return out


def row_cases(random) -> list[dict]:
    return [{"x": random.standard_normal((*dims, 96)).astype(F)}
            for dims in ((1, 1), (2, 7), (1, 40), (3, 0))]


class Samples(CalibrationDataReader):
    def __init__(self, cases: list[dict]) -> None:
        self.rest = iter(cases)

    def get_next(self):
        return next(self.rest, None)


def write(root: Path, name: str, path: Path, cases: list[dict], tolerance: dict) -> None:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    model = onnx.load(path)
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    for k, case in enumerate(cases):
        answers = dict(zip([o.name for o in session.get_outputs()], session.run(None, case)))
        np.savez_compressed(folder / f"case_{k}.npz", **{f"in_{key}": value for key, value in case.items()},
                            **{f"out_{key}": value for key, value in answers.items()})
    meta = {"tolerance": {output.name: tolerance for output in model.graph.output}}
    (folder / "meta.json").write_text(json.dumps(meta) + "\n")
    ops = sorted({f"{node.domain}.{node.op_type}" for node in model.graph.node if node.domain})
    print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir())} bytes; {', '.join(ops)}")


def main(root: Path) -> None:
    random = np.random.default_rng(4)
    close, steps = {"rtol": 1e-4, "atol": 1e-5}, {"rtol": 0.02, "atol": 0.02}
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        made, path = here / "made.onnx", here / "out.onnx"
        text, images = text_cases(random), image_cases(random)
        optimised(transformer(), path)
        write(root, "transformer", path, text, close)
        onnx.save(transformer(), made)
        quantization.quantize_dynamic(made, here / "dynamic.onnx", weight_type=QuantType.QInt8, per_channel=True)
        optimised(onnx.load(here / "dynamic.onnx"), path)
        write(root, "transformer_dynamic", path, text, steps)
        onnx.save(encoder(), path)
        write(root, "encoder", path, [{k: v.astype(np.int32) for k, v in case.items()} for case in text], close)
        optimised(convnet(), path)
        write(root, "convnet", path, images, close)
        onnx.save(convnet(), made)
        quantization.quantize_static(made, path, Samples(image_cases(random) * 4), quant_format=QuantFormat.QOperator,
                                     activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True)
        write(root, "convnet_static", path, images, steps)
        onnx.save(decoder(), path)
        write(root, "decoder", path, decoder_cases(random), close)
        onnx.save(in_bytes(), path)
        write(root, "in_bytes", path, row_cases(random), {"rtol": 2e-5, "atol": 2e-5})
        quantised(root, here, np.random.default_rng(5))


def quantised(root: Path, here: Path, random) -> None:
    """What the quantiser makes of operators that are onnxruntime's own, and of recurrent layers; images for one machine."""
    close, steps = {"rtol": 1e-4, "atol": 1e-5}, {"rtol": 0.02, "atol": 0.02}
    made, path = here / "made.onnx", here / "out.onnx"
    onnx.save(encoder(), made)
    quantization.quantize_dynamic(made, path, weight_type=QuantType.QInt8,
                                  extra_options={"DefaultTensorType": TensorProto.FLOAT})
    write(root, "encoder_dynamic", path, [{k: v.astype(np.int32) for k, v in case.items()} for case in text_cases(random)],
          steps)
    onnx.save(recurrent(), made)
    quantization.quantize_dynamic(made, path, weight_type=QuantType.QInt8)
    sizes = ((5, 2), (1, 1))
    write(root, "recurrent_dynamic", path, [{"x": random.standard_normal((*size, INNER // 2)).astype(F)} for size in sizes], steps)
    onnx.save(convnet(), made)
    images = image_cases(random)
    quantization.quantize_static(made, path, Samples(images * 4), quant_format=QuantFormat.QDQ,
                                 activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, per_channel=True)
    optimised(onnx.load(path), here / "last.onnx", ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
    write(root, "convnet_last", here / "last.onnx", images, steps)
    quantization.quantize_static(made, path, Samples(images * 4), quant_format=QuantFormat.QDQ,
                                 activation_type=QuantType.QUInt16, weight_type=QuantType.QInt8,
                                 extra_options={"UseQDQContribOps": True})
    write(root, "convnet_wide", path, images, close)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "onnxruntime")
