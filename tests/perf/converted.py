#!/usr/bin/env python3
"""ONNX files as other tools write them, for files.py: each with an .npz of arrays to feed.

    tests/perf/converted.py [--dir converted] [keras|lite|detection|diffusion|boosted ...] [NAME ...]

keras (tensorflow, tf2onnx): networks of tf.keras with random weights, channels last and transposed around every operator.
lite (the same): TensorFlow Lite of some, in floats, in int8 and with weights alone in int8. detection (torchvision): detectors
and optical flow, with loops over classes, NonMaxSuppression, RoiAlign, GridSample. diffusion (diffusers): parts of image
generators, small. boosted (lightgbm, xgboost, onnxmltools): trees, on 1 row and on 500. Tools that miss a package are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx

warnings.filterwarnings("ignore")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

RANDOM = np.random.default_rng(0)
Arrays = list[np.ndarray]


def floats(*dims: int) -> np.ndarray:
    return RANDOM.standard_normal(dims).astype(np.float32)


def keep(path: Path, arrays: Arrays) -> None:
    names = [port.name for port in onnx.load(str(path), load_external_data=False).graph.input]
    np.savez(path.with_suffix(".npz"), **dict(zip(names, arrays)))


# ---- keras ---------------------------------------------------------------------------------------


def keras_networks() -> dict[str, tuple[Callable[[], object], Arrays]]:
    import tensorflow as tf
    K = tf.keras
    L = K.layers

    def application(name: str, size: int = 224) -> tuple[Callable[[], object], Arrays]:
        return lambda: getattr(K.applications, name)(weights=None, input_shape=(size, size, 3)), [floats(1, size, size, 3)]

    def layers(shape: tuple[int, ...], make: Callable[[], list]) -> tuple[Callable[[], object], Arrays]:
        return lambda: K.Sequential([L.Input(shape[1:], batch_size=shape[0]), *make()]), [floats(*shape)]

    def unet() -> object:
        image = L.Input((128, 128, 3), batch_size=1)
        x, skips = image, []
        for c in (16, 32, 64):
            x = L.BatchNormalization()(L.Conv2D(c, 3, padding="same", activation="relu")(x))
            x = L.Conv2D(c, 3, padding="same", activation="relu")(x)
            skips.append(x)
            x = L.MaxPooling2D()(x)
        x = L.Conv2D(128, 3, padding="same", activation="relu")(x)
        for c, skip in zip((64, 32, 16), reversed(skips)):
            x = L.Concatenate()([L.Conv2DTranspose(c, 2, strides=2, padding="same")(x), skip])
            x = L.Conv2D(c, 3, padding="same", activation="relu")(x)
        return K.Model(image, L.Conv2D(5, 1, activation="softmax")(x))

    def experts() -> object:
        rows = L.Input((100,), batch_size=256)
        made = [L.Dense(64, activation="relu")(L.Dense(128, activation="relu")(rows)) for _ in range(6)]
        together = L.Lambda(lambda v: tf.stack(v, 1))(made)
        towers = []
        for _ in range(3):
            gate = L.Dense(6, activation="softmax")(rows)
            mixed = L.Lambda(lambda v: tf.reduce_sum(v[0] * v[1][..., None], 1))([together, gate])
            towers.append(L.Dense(1, activation="sigmoid")(L.Dense(32, activation="selu")(mixed)))
        return K.Model(rows, towers)

    def generator() -> list:
        out = [L.Dense(4 * 4 * 256), L.Reshape((4, 4, 256)), L.BatchNormalization(), L.LeakyReLU()]
        for c in (128, 64):
            out += [L.Conv2DTranspose(c, 5, strides=2, padding="same"), L.BatchNormalization(), L.LeakyReLU()]
        return [*out, L.Conv2DTranspose(3, 5, strides=2, padding="same", activation="tanh")]

    def upsampling() -> list:
        return [L.Conv2D(32, 3, padding="same", activation="relu"), L.UpSampling2D(2, interpolation="bilinear"),
                L.Conv2D(16, 3, padding="same"), L.LeakyReLU(), L.UpSampling2D(2),
                L.Conv2D(3, 5, padding="same", activation="tanh")]

    def group_norms() -> list:
        block = [[L.Conv2D(32, 3, padding="same"), L.GroupNormalization(8), L.Activation("swish")] for _ in range(2)]
        return [*block[0], *block[1], L.GlobalAveragePooling2D(), L.Dense(3)]

    return {
        "MobileNet": application("MobileNet"), "MobileNetV3Small": application("MobileNetV3Small"),
        "DenseNet121": application("DenseNet121"), "NASNetMobile": application("NASNetMobile"),
        "Xception": application("Xception", 160), "InceptionV3": application("InceptionV3", 160),
        "ResNet50V2": application("ResNet50V2"),
        "lstm": layers((1, 100, 20), lambda: [L.LSTM(64, return_sequences=True), L.LSTM(64), L.Dense(10)]),
        "gru both ways": layers((4, 80, 40), lambda: [L.Bidirectional(L.GRU(64, return_sequences=True)), L.Dense(30)]),
        "convolutional lstm": layers((1, 10, 32, 32, 1), lambda: [
            L.ConvLSTM2D(16, 3, padding="same", return_sequences=True), L.ConvLSTM2D(8, 3, padding="same")]),
        "causal convolutions": layers((1, 2000, 16), lambda: [
            L.Conv1D(32, 3, padding="causal", dilation_rate=d, activation="relu") for d in (1, 2, 4, 8, 16, 32)]),
        "separable convolutions": layers((1, 1000, 40), lambda: [
            L.SeparableConv1D(64, 9, padding="same", activation="swish"), L.LayerNormalization(),
            L.SeparableConv1D(64, 9, padding="same", activation="swish"), L.GlobalAveragePooling1D(), L.Dense(12)]),
        "upsampling": layers((1, 64, 64, 8), upsampling), "group norms": layers((1, 64, 64, 3), group_norms),
        "generator": layers((1, 100), generator), "unet": (unet, [floats(1, 128, 128, 3)]),
        "experts": (experts, [floats(256, 100)]),
    }


def make_keras() -> Iterator[tuple[str, Callable[[Path], None]]]:
    import tensorflow as tf
    import tf2onnx

    def write(path: Path, make: Callable[[], object], arrays: Arrays) -> None:
        model = make()
        for weight in model.weights:
            if "moving_var" in weight.path or "gamma" in weight.path:
                weight.assign(RANDOM.uniform(0.5, 1.5, weight.shape))
        signature = [tf.TensorSpec(a.shape, tf.float32, name=f"in{k}") for k, a in enumerate(arrays)]
        function = tf.function(lambda *a: model(a[0] if len(a) == 1 else list(a), training=False), input_signature=signature)
        converted, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=18)
        onnx.save(converted, str(path))
        keep(path, arrays)

    for name, (make, arrays) in keras_networks().items():
        yield name, lambda path, make=make, arrays=arrays: write(path, make, arrays)


def make_lite() -> Iterator[tuple[str, Callable[[Path], None]]]:
    import tensorflow as tf
    K = tf.keras
    L = K.layers

    def autoencoder() -> object:
        widths = (128, 128, 128, 8, 128, 128, 128)
        return K.Sequential([L.Input((640,)), *[f() for c in widths for f in (lambda c=c: L.Dense(c), L.BatchNormalization, L.ReLU)],
                             L.Dense(640)])

    networks = {
        "autoencoder": (autoencoder, (1, 640)),
        "MobileNetV2": (lambda: K.applications.MobileNetV2(weights=None, input_shape=(160, 160, 3)), (1, 160, 160, 3)),
        "ResNet50": (lambda: K.applications.ResNet50(weights=None, input_shape=(128, 128, 3)), (1, 128, 128, 3)),
    }

    def write(path: Path, make: Callable[[], object], dims: tuple[int, ...], kind: str) -> None:
        converter = tf.lite.TFLiteConverter.from_keras_model(make())
        if kind != "floats":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if kind == "int8":
            converter.representative_dataset = lambda: ([floats(*dims)] for _ in range(8))
        with tempfile.NamedTemporaryFile(suffix=".tflite") as lite:
            lite.write(converter.convert())
            lite.flush()
            subprocess.run([sys.executable, "-m", "tf2onnx.convert", "--tflite", lite.name, "--output", str(path), "--opset", "16"],
                           check=True, capture_output=True)
        keep(path, [floats(*dims)])

    for name, (make, dims) in networks.items():
        for kind in ("floats", "int8", "weights"):
            yield f"{name} {kind}", lambda path, make=make, dims=dims, kind=kind: write(path, make, dims, kind)


# ---- torchvision, diffusers ----------------------------------------------------------------------


def export(path: Path, module: object, arguments: tuple, arrays: Arrays) -> None:
    import torch
    with torch.no_grad():
        torch.onnx.export(module, arguments, str(path), dynamo=False, opset_version=17)
    keep(path, arrays)


def make_detection() -> Iterator[tuple[str, Callable[[Path], None]]]:
    import torch
    import torchvision
    models = torchvision.models
    none = {"weights": None, "weights_backbone": None}
    small = {"min_size": 256, "max_size": 320}
    detectors = {
        "ssdlite": lambda: models.detection.ssdlite320_mobilenet_v3_large(**none),
        "faster rcnn": lambda: models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(**none),
        "mask rcnn": lambda: models.detection.maskrcnn_resnet50_fpn(**none, **small),
        "fcos": lambda: models.detection.fcos_resnet50_fpn(**none, **small),
    }

    def calm(module: torch.nn.Module) -> torch.nn.Module:
        for name, buffer in module.named_buffers():
            if "running_var" in name:
                buffer.uniform_(0.5, 1.5)
        return module.eval()

    class Main(torch.nn.Module):
        """The main result of a network that has several."""

        def __init__(self, inner: torch.nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, *x: torch.Tensor) -> torch.Tensor:
            y = self.inner(*x)
            return next(iter(y.values())) if isinstance(y, dict) else y[-1]

    def detector(path: Path, make: Callable[[], torch.nn.Module]) -> None:
        image = torch.rand(3, 320, 320)
        export(path, calm(make()), ([image],), [image.numpy()])

    def other(path: Path, make: Callable[[], torch.nn.Module], inputs: tuple[torch.Tensor, ...]) -> None:
        export(path, Main(calm(make())), inputs, [x.numpy() for x in inputs])

    for name, make in detectors.items():
        yield name, lambda path, make=make: detector(path, make)
    yield "deeplab", lambda path: other(path, lambda: models.segmentation.deeplabv3_mobilenet_v3_large(**none),
                                        (torch.randn(1, 3, 192, 192),))
    yield "optical flow", lambda path: other(path, lambda: models.optical_flow.raft_small(weights=None),
                                             tuple(torch.rand(1, 3, 128, 160) * 2 - 1 for _ in range(2)))


def make_diffusion() -> Iterator[tuple[str, Callable[[Path], None]]]:
    import diffusers
    import torch
    from torch import nn

    class Called(nn.Module):
        def __init__(self, inner: nn.Module, call: Callable[..., torch.Tensor]):
            super().__init__()
            self.inner, self.call = inner, call

        def forward(self, *x: torch.Tensor) -> torch.Tensor:
            return self.call(self.inner, *x)

    def autoencoder() -> nn.Module:
        return diffusers.AutoencoderKL(block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2,
                                       up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, norm_num_groups=8)

    def denoiser() -> nn.Module:
        return diffusers.UNet2DModel(
            sample_size=32, layers_per_block=1, block_out_channels=(32, 64, 64), norm_num_groups=8,
            down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"))

    def transformer() -> nn.Module:
        return diffusers.DiTTransformer2DModel(num_attention_heads=6, attention_head_dim=32, in_channels=4, num_layers=4,
                                               sample_size=16, patch_size=2, num_embeds_ada_norm=100)

    def joint() -> nn.Module:
        return diffusers.SD3Transformer2DModel(
            sample_size=16, patch_size=2, in_channels=4, num_layers=3, attention_head_dim=32, num_attention_heads=4,
            joint_attention_dim=96, caption_projection_dim=128, pooled_projection_dim=64, out_channels=4)

    step = torch.tensor([10])
    networks = {
        "decoder of latents": (autoencoder, lambda m, z: m.decode(z, return_dict=False)[0], (torch.randn(1, 4, 32, 32),)),
        "encoder of images": (autoencoder, lambda m, x: m.encode(x).latent_dist.mean, (torch.randn(1, 3, 64, 64),)),
        "denoising unet": (denoiser, lambda m, x, t: m(x, t, return_dict=False)[0], (torch.randn(1, 3, 32, 32), step)),
        "diffusion transformer": (transformer, lambda m, x, t, c: m(x, timestep=t, class_labels=c, return_dict=False)[0],
                                  (torch.randn(1, 4, 16, 16), step, torch.tensor([5]))),
        "joint transformer": (joint, lambda m, x, e, p, t: m(x, e, p, t, return_dict=False)[0],
                              (torch.randn(1, 4, 16, 16), torch.randn(1, 20, 96), torch.randn(1, 64), step)),
    }

    def write(path: Path, make: Callable[[], nn.Module], call: Callable, inputs: tuple[torch.Tensor, ...]) -> None:
        torch.manual_seed(0)
        module = make().eval()
        for parameter in module.parameters():
            parameter.data += 0.02 * torch.randn_like(parameter)
        export(path, Called(module, call), inputs, [x.numpy() for x in inputs])

    for name, (make, call, inputs) in networks.items():
        yield name, lambda path, make=make, call=call, inputs=inputs: write(path, make, call, inputs)


# ---- boosted trees -------------------------------------------------------------------------------


def make_boosted() -> Iterator[tuple[str, Callable[[Path], None]]]:
    import lightgbm
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    x = floats(4000, 30)
    product = x[:, 0] * x[:, 1]
    two, three = (product + np.sin(x[:, 2]) > 0).astype(int), np.digitize(x[:, 0] + x[:, 3] ** 2, [0, 1])
    kind = [("x", FloatTensorType([None, 30]))]

    def light(model: object) -> object:
        return onnxmltools.convert_lightgbm(model, initial_types=kind, zipmap=False)

    def extreme(model: object) -> object:
        return onnxmltools.convert_xgboost(model, initial_types=kind)

    forests = {
        "lightgbm two classes": lambda: light(lightgbm.LGBMClassifier(n_estimators=200, verbose=-1).fit(x, two)),
        "lightgbm three classes": lambda: light(lightgbm.LGBMClassifier(n_estimators=60, verbose=-1).fit(x, three)),
        "lightgbm": lambda: light(lightgbm.LGBMRegressor(n_estimators=300, num_leaves=63, verbose=-1).fit(x, product)),
        "xgboost two classes": lambda: extreme(xgboost.XGBClassifier(n_estimators=200, max_depth=6).fit(x, two)),
        "xgboost": lambda: extreme(xgboost.XGBRegressor(n_estimators=300, max_depth=8).fit(x, product)),
    }

    def write(path: Path, make: Callable[[], object], rows: int) -> None:
        onnx.save(make(), str(path))
        keep(path, [x[:rows]])

    for name, make in forests.items():
        for rows in (1, 500):
            yield f"{name} {rows}", lambda path, make=make, rows=rows: write(path, make, rows)


GROUPS = {"keras": make_keras, "lite": make_lite, "detection": make_detection, "diffusion": make_diffusion,
          "boosted": make_boosted}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dir", type=Path, default=Path("converted"))
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    groups = [g for g in options.names if g in GROUPS] or list(GROUPS)
    parts = [part for part in options.names if part not in GROUPS]
    for group in groups:
        networks = GROUPS[group]()
        while True:
            try:
                name, write = next(networks)
            except StopIteration:
                break
            except ImportError as error:
                print(f"# {group}: {error}", flush=True)
                break
            path = options.dir / f"{group}_{name.replace(' ', '_')}.onnx"
            if path.with_suffix(".npz").exists() or (parts and not any(part in name for part in parts)):
                continue
            try:
                with contextlib.redirect_stdout(io.StringIO()):  # converters chat
                    write(path)
                print(path, flush=True)
            except Exception as error:  # a tool's own failure says nothing of the engines
                print(f"# {group} {name}: not made: {str(error)[:150]!r}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
