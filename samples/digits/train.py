#!/usr/bin/env python3
"""Draws digits, trains a small classifier on them with numpy and writes what the demo needs.

    python samples/digits/train.py                     # digits.onnx, images.pgm beside this file
    xc convert samples/digits/digits.onnx samples/digits/digits.xcg

Needs numpy and onnx. Every random number comes from fixed seeds. The images are strokes of this
script's own, bent, scaled, thickened and made noisy: no data set is involved.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE = 28
CLASSES = 10
Params = dict[str, np.ndarray]


# ---- data: digits as strokes in the unit square, y down -------------------------------------------


def arc(cx: float, cy: float, rx: float, ry: float, start: float, end: float) -> np.ndarray:
    """Points of an elliptic arc; angles in degrees, clockwise from the right."""
    angle = np.radians(np.linspace(start, end, 13))
    return np.stack([cx + rx * np.cos(angle), cy + ry * np.sin(angle)], axis=1)


def line(*points: tuple[float, float]) -> np.ndarray:
    return np.array(points)


# Per digit one or more ways to write it; each is a list of strokes.
STROKES: list[list[list[np.ndarray]]] = [
    [[arc(0.5, 0.5, 0.26, 0.4, 0, 360)]],
    [[line((0.34, 0.26), (0.54, 0.1), (0.54, 0.9))], [line((0.5, 0.1), (0.5, 0.9))]],
    [[arc(0.5, 0.32, 0.24, 0.22, 180, 395), line((0.7, 0.44), (0.26, 0.9), (0.76, 0.9))]],
    [
        [arc(0.48, 0.3, 0.22, 0.2, 200, 450), arc(0.48, 0.7, 0.25, 0.2, 270, 520)],
        [line((0.26, 0.1), (0.7, 0.1), (0.46, 0.44)), arc(0.46, 0.67, 0.25, 0.23, 270, 500)],
    ],
    [
        [line((0.62, 0.9), (0.62, 0.1), (0.22, 0.64), (0.8, 0.64))],
        [line((0.28, 0.1), (0.26, 0.54), (0.74, 0.54)), line((0.68, 0.3), (0.66, 0.9))],
    ],
    [[line((0.72, 0.1), (0.32, 0.1), (0.3, 0.46)), arc(0.46, 0.65, 0.26, 0.24, 232, 500)]],
    [[line((0.64, 0.1), (0.36, 0.42), (0.26, 0.66)), arc(0.49, 0.68, 0.23, 0.21, 0, 360)]],
    [
        [line((0.24, 0.1), (0.76, 0.1), (0.42, 0.9))],
        [line((0.24, 0.1), (0.76, 0.1), (0.42, 0.9)), line((0.36, 0.5), (0.68, 0.5))],
    ],
    [[arc(0.5, 0.29, 0.2, 0.19, 0, 360), arc(0.5, 0.69, 0.24, 0.21, 0, 360)]],
    [
        [arc(0.5, 0.32, 0.22, 0.22, 0, 360), line((0.72, 0.32), (0.6, 0.9))],
        [arc(0.5, 0.32, 0.22, 0.22, 0, 360), line((0.72, 0.32), (0.7, 0.6)), arc(0.49, 0.66, 0.21, 0.24, 0, 130)],
    ],
]


def draw(digit: int, rng: np.random.Generator) -> np.ndarray:
    """One picture, (SIDE, SIDE) uint8, ink 255."""
    ways = STROKES[digit]
    turn, slant = np.radians(rng.uniform(-12, 12)), rng.uniform(-0.2, 0.2)
    rotate = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    scale = np.diag(rng.uniform(0.68, 0.98, 2))
    matrix = rotate @ np.array([[1, slant], [0, 1]]) @ scale
    offset = 0.5 + rng.uniform(-0.06, 0.06, 2)
    starts, ends = [], []
    for stroke in ways[rng.integers(len(ways))]:
        points = (stroke - 0.5 + rng.normal(0, 0.012, stroke.shape)) @ matrix.T + offset
        starts.append(points[:-1])
        ends.append(points[1:])
    a, b = np.concatenate(starts), np.concatenate(ends)
    # Distance of every pixel centre to the nearest segment.
    centre = (np.arange(SIDE) + 0.5) / SIDE
    pixel = np.stack(np.meshgrid(centre, centre), axis=-1).reshape(-1, 1, 2)
    along = b - a
    t = np.clip(((pixel - a) * along).sum(-1) / np.maximum((along**2).sum(-1), 1e-9), 0, 1)
    distance = np.sqrt(((pixel - a - t[..., None] * along) ** 2).sum(-1)).min(axis=1)
    half = rng.uniform(0.022, 0.06)
    ink = np.clip((half - distance) * SIDE + 0.5, 0, 1) * rng.uniform(0.75, 1)
    ink += rng.normal(0, rng.uniform(0, 0.08), ink.shape)
    return (np.clip(ink, 0, 1) * 255).astype(np.uint8).reshape(SIDE, SIDE)


def make_set(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % CLASSES
    return np.stack([draw(int(label), rng) for label in labels]), labels


# ---- network: NHWC here, NCHW in the file ------------------------------------------------------


def init(rng: np.random.Generator) -> Params:
    def normal(rows: int, cols: int, gain: float = 2.0) -> np.ndarray:
        return rng.normal(0, np.sqrt(gain / rows), (rows, cols)).astype(np.float32)

    def zeros(n: int) -> np.ndarray:
        return np.zeros(n, np.float32)

    return {
        "conv1.w": normal(9, 8), "conv1.b": zeros(8),
        "conv2.w": normal(72, 16), "conv2.b": zeros(16),
        "dense.w": normal(784, 64), "dense.b": zeros(64),
        "norm.scale": np.ones(64, np.float32), "norm.bias": zeros(64),
        "head.w": normal(64, CLASSES, 1.0), "head.b": zeros(CLASSES),
    }  # fmt: skip


def patches(x: np.ndarray) -> np.ndarray:
    """(n, h, w, c) -> (n, h, w, 9 c): the 3x3 neighbourhood, zero outside."""
    n, h, w, c = x.shape
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return np.concatenate([padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=3)


def patches_back(grad: np.ndarray, channels: int) -> np.ndarray:
    n, h, w, _ = grad.shape
    out = np.zeros((n, h + 2, w + 2, channels), np.float32)
    for k in range(9):
        i, j = divmod(k, 3)
        out[:, i : i + h, j : j + w] += grad[..., k * channels : (k + 1) * channels]
    return out[:, 1:-1, 1:-1]


def pool(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """2x2 maximum, and a mask of where it was (shared among equals)."""
    n, h, w, c = x.shape
    blocks = x.reshape(n, h // 2, 2, w // 2, 2, c)
    top = blocks.max(axis=(2, 4), keepdims=True)
    mask = (blocks == top).astype(np.float32)
    return top[:, :, 0, :, 0], mask / mask.sum(axis=(2, 4), keepdims=True)


def pool_back(grad: np.ndarray, mask: np.ndarray) -> np.ndarray:
    n, h, _, w, _, c = mask.shape
    return (mask * grad[:, :, None, :, None]).reshape(n, 2 * h, 2 * w, c)


GELU_A, GELU_B = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)
EPSILON = np.float32(1e-5)


def stretch(x: np.ndarray) -> np.ndarray:
    """Full contrast for every picture."""
    low, high = x.min(axis=(1, 2, 3), keepdims=True), x.max(axis=(1, 2, 3), keepdims=True)
    return (x - low) / (high - low + np.float32(1e-3))


def forward(p: Params, x: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """x: (n, SIDE, SIDE, 1) in [0, 1]. Returns logits and what the way back needs."""
    k: dict[str, np.ndarray] = {}
    k["c1"] = patches(stretch(x))
    k["z1"] = k["c1"] @ p["conv1.w"] + p["conv1.b"]
    k["s1"] = k["z1"] / (1 + np.abs(k["z1"]))
    p1, k["m1"] = pool(0.5 * k["z1"] * (1 + k["s1"]))
    k["c2"] = patches(p1)
    k["r2"] = np.maximum(k["c2"] @ p["conv2.w"] + p["conv2.b"], 0)
    p2, k["m2"] = pool(k["r2"])
    k["flat"] = p2.reshape(len(x), -1)
    h = k["h"] = k["flat"] @ p["dense.w"] + p["dense.b"]
    k["t"] = np.tanh(GELU_A * (h + GELU_B * h**3))
    g = 0.5 * h * (1 + k["t"])
    centred = g - g.mean(axis=1, keepdims=True)
    k["inv"] = 1 / np.sqrt((centred**2).mean(axis=1, keepdims=True) + EPSILON)
    k["norm"] = centred * k["inv"]
    k["n"] = k["norm"] * p["norm.scale"] + p["norm.bias"]
    return k["n"] @ p["head.w"] + p["head.b"], k


def backward(p: Params, k: dict[str, np.ndarray], d: np.ndarray) -> Params:
    """d: gradient of the logits."""
    out = {"head.w": k["n"].T @ d, "head.b": d.sum(0)}
    d = d @ p["head.w"].T
    out["norm.scale"], out["norm.bias"] = (d * k["norm"]).sum(0), d.sum(0)
    d = d * p["norm.scale"]
    d = k["inv"] * (d - d.mean(1, keepdims=True) - k["norm"] * (d * k["norm"]).mean(1, keepdims=True))
    h, t = k["h"], k["t"]
    d = d * (0.5 * (1 + t) + 0.5 * h * (1 - t**2) * GELU_A * (1 + 3 * GELU_B * h**2))
    out["dense.w"], out["dense.b"] = k["flat"].T @ d, d.sum(0)
    d = pool_back((d @ p["dense.w"].T).reshape(-1, 7, 7, 16), k["m2"]) * (k["r2"] > 0)
    out["conv2.w"] = k["c2"].reshape(-1, 72).T @ d.reshape(-1, 16)
    out["conv2.b"] = d.sum((0, 1, 2))
    d = pool_back(patches_back(d @ p["conv2.w"].T, 8), k["m1"])
    d = d * 0.5 * (1 + k["s1"] + k["z1"] / (1 + np.abs(k["z1"])) ** 2)
    out["conv1.w"] = k["c1"].reshape(-1, 9).T @ d.reshape(-1, 8)
    out["conv1.b"] = d.sum((0, 1, 2))
    return out


def softmax(logits: np.ndarray) -> np.ndarray:
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def as_input(images: np.ndarray) -> np.ndarray:
    return images[..., None].astype(np.float32) / np.float32(255)


def train(count: int, epochs: int) -> Params:
    rng = np.random.default_rng(1)
    images, labels = make_set(count, seed=2)
    p = init(rng)
    mean = {name: np.zeros_like(w) for name, w in p.items()}
    square = {name: np.zeros_like(w) for name, w in p.items()}
    step, batch, steps = 0, 64, epochs * (count // 64)
    for epoch in range(epochs):
        order, loss = rng.permutation(count), 0.0
        for at in range(0, count - batch + 1, batch):
            pick = order[at : at + batch]
            logits, kept = forward(p, as_input(images[pick]))
            d = softmax(logits)
            loss -= float(np.log(d[np.arange(batch), labels[pick]] + 1e-9).mean())
            d[np.arange(batch), labels[pick]] -= 1
            step += 1
            rate = 3e-3 * 0.5 * (1 + np.cos(np.pi * step / steps))
            for name, g in backward(p, kept, d / np.float32(batch)).items():  # Adam
                mean[name] = 0.9 * mean[name] + 0.1 * g
                square[name] = 0.99 * square[name] + 0.01 * g * g
                m, s = mean[name] / (1 - 0.9**step), square[name] / (1 - 0.99**step)
                p[name] = (p[name] - rate * m / (np.sqrt(s) + 1e-8)).astype(np.float32)
        print(f"epoch {epoch + 1}: loss {loss / (count // batch):.4f}", flush=True)
    return p


# ---- files --------------------------------------------------------------------------------------


def export(p: Params, path: Path) -> None:
    """Writes the classifier with GELU, LayerNorm and Softmax in elementary operators, as exporters do."""
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def scalar(name: str, value: float) -> str:
        return constant(name, np.array(value, np.float32))

    def node(op: str, *inputs: str, out: str, **attributes: object) -> str:
        nodes.append(helper.make_node(op, list(inputs), [out], name=out, **attributes))
        return out

    def conv_weight(name: str, channels: int) -> str:
        w = p[name]  # (3 * 3 * channels, filters)
        return constant(name, w.reshape(3, 3, channels, -1).transpose(3, 2, 0, 1))

    def conv(name: str, x: str, channels: int) -> str:
        weight, bias = conv_weight(f"{name}.w", channels), constant(f"{name}.b", p[f"{name}.b"])
        return node("Conv", x, weight, bias, out=name, kernel_shape=[3, 3], pads=[1] * 4)

    def max_pool(x: str, out: str) -> str:
        return node("MaxPool", x, out=out, kernel_shape=[2, 2], strides=[2, 2])

    one, half = scalar("one", 1), scalar("half", 0.5)
    low = node("ReduceMin", "image", out="contrast.low", axes=[1, 2, 3])
    high = node("ReduceMax", "image", out="contrast.high", axes=[1, 2, 3])
    span = node("Sub", high, low, out="contrast.span")
    span = node("Add", span, scalar("contrast.epsilon", 1e-3), out="contrast.above_zero")
    x = node("Div", node("Sub", "image", low, out="contrast.ink"), span, out="contrast")
    # A gate that no library has a kernel for: 0.5 z (1 + z / (1 + |z|)).
    z = conv("conv1", x, 1)
    soft = node("Div", z, node("Add", node("Abs", z, out="gate.abs"), one, out="gate.below"), out="gate.softsign")
    opened = node("Add", soft, one, out="gate.open")
    x = max_pool(node("Mul", node("Mul", z, half, out="gate.half"), opened, out="gate"), "conv1.pool")
    x = max_pool(node("Relu", conv("conv2", x, 8), out="conv2.relu"), "conv2.pool")
    x = node("Flatten", x, out="flat")
    dense = p["dense.w"].reshape(7, 7, 16, 64).transpose(2, 0, 1, 3).reshape(784, 64)  # rows c, y, x
    h = node("Gemm", x, constant("dense.w", dense), constant("dense.b", p["dense.b"]), out="dense")
    cube = node("Pow", h, scalar("three", 3), out="gelu.cube")
    small = node("Mul", cube, scalar("gelu.b", float(GELU_B)), out="gelu.small")
    inner = node("Mul", node("Add", h, small, out="gelu.sum"), scalar("gelu.a", float(GELU_A)), out="gelu.inner")
    gate = node("Add", node("Tanh", inner, out="gelu.tanh"), one, out="gelu.gate")
    g = node("Mul", node("Mul", h, half, out="gelu.half"), gate, out="gelu")
    centred = node("Sub", g, node("ReduceMean", g, out="norm.mean", axes=[1]), out="norm.centred")
    variance = node("ReduceMean", node("Mul", centred, centred, out="norm.square"), out="norm.variance", axes=[1])
    shifted = node("Add", variance, scalar("norm.epsilon", float(EPSILON)), out="norm.shifted")
    unit = node("Div", centred, node("Sqrt", shifted, out="norm.deviation"), out="norm.unit")
    scaled = node("Mul", unit, constant("norm.scale", p["norm.scale"]), out="norm.scaled")
    n = node("Add", scaled, constant("norm.bias", p["norm.bias"]), out="norm")
    logits = node("Gemm", n, constant("head.w", p["head.w"]), constant("head.b", p["head.b"]), out="logits")
    top = node("ReduceMax", logits, out="softmax.max", axes=[1])
    e = node("Exp", node("Sub", logits, top, out="softmax.shifted"), out="softmax.exp")
    total = node("ReduceSum", e, constant("softmax.axes", np.array([1])), out="softmax.sum")
    node("Div", e, total, out="probability")

    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 1, SIDE, SIDE])
    output = helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["n", CLASSES])
    graph = helper.make_graph(nodes, "digits", [image], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="xc samples/digits")
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def main() -> None:
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=here)
    parser.add_argument("--count", type=int, default=8000, help="training images")
    parser.add_argument("--epochs", type=int, default=5)
    args = parser.parse_args()

    start = time.perf_counter()
    params = train(args.count, args.epochs)
    images, labels = make_set(2000, seed=3)  # never trained on
    probability = softmax(forward(params, as_input(images))[0])
    accuracy = float((probability.argmax(1) == labels).mean())
    print(f"held out: {accuracy:.2%} of {len(labels)} in {time.perf_counter() - start:.0f} s")
    if accuracy < 0.95:
        raise SystemExit("the accuracy is below 95 %")
    export(params, args.out / "digits.onnx")
    # One tall PGM: 40 pictures of SIDE rows, their labels in a comment.
    keep = slice(0, 40)
    text = f"P5\n# labels {' '.join(str(label) for label in labels[keep])}\n{SIDE} {SIDE * 40}\n255\n"
    (args.out / "images.pgm").write_bytes(text.encode() + images[keep].tobytes())


if __name__ == "__main__":
    main()
