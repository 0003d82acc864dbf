#!/usr/bin/env python3
"""Writes the tests of the ONNX standard to a folder, where the program of this directory runs them.

    dump_suite.py DIR

DIR/KIND/TEST/model.onnx, DIR/KIND/TEST/test_data_set_K/{input,output}_J.pb, and DIR/suite.json, which
lists the tests with the operator each is about and its tolerances. Input J belongs to the J-th input of
the graph that is no initializer, output J to its J-th output; a .pb file is a TensorProto, SequenceProto
or OptionalProto, as that input or output says.

Nothing is done when DIR already holds what this script would write. Exits with 77, which CTest takes for
"skipped", when the pinned version of the package onnx is not there.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

ONNX_VERSION = "1.23.2"
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh makes an environment that has it")
    sys.exit(77)


def to_proto(value, info):
    """A value as the protobuf message that the type of its input or output asks for."""
    if info.type.HasField("sequence_type"):
        return numpy_helper.from_list(list(value), info.name)
    if info.type.HasField("optional_type"):
        return numpy_helper.from_optional(value, info.name)
    if isinstance(value, onnx.TensorProto):
        return value
    return numpy_helper.from_array(np.asarray(value), info.name)


def write_case(case, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(case.model.SerializeToString(deterministic=True))
    for k, (inputs, outputs) in enumerate(case.data_sets):
        data = folder / f"test_data_set_{k}"
        data.mkdir()
        for stem, values, infos in (("input", inputs, case.model.graph.input),
                                    ("output", outputs, case.model.graph.output)):
            for j, value in enumerate(values):
                proto = to_proto(value, infos[j])
                (data / f"{stem}_{j}.pb").write_bytes(proto.SerializeToString(deterministic=True))


def transform_in_double() -> None:
    """Makes numpy.fft compute as numpy 1 did, with which the standard made its tests of DFT and STFT: in f64,
    rounded to f32 by the test. Since numpy 2.0 (its release notes) f32 is transformed in f32, and the noise of
    that (1.9e-7 where 0 is exact) exceeds the absolute tolerance of those tests, 1e-7."""
    for name in ("fft", "ifft", "rfft", "irfft"):
        def in_double(a, *args, _transform=getattr(np.fft, name), **named):
            a = np.asarray(a)
            return _transform(a.astype(np.complex128 if np.iscomplexobj(a) else np.float64), *args, **named)
        setattr(np.fft, name, in_double)


def write_light(case, folder: Path) -> None:
    """A model of the kind `real` as the package has it: without weights, which ConstantOfShape nodes make, with
    expected outputs for inputs 0, 1/n, 2/n, ... (onnx/backend/test/runner)."""
    source = Path(onnx.__file__).parents[1] / case.url
    model = onnx.load(source)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
    weights = {weight.name for weight in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in weights]
    for j, info in enumerate(inputs):
        dims = [dim.dim_value or 1 for dim in info.type.tensor_type.shape.dim]
        count = int(np.prod(dims))
        value = (np.arange(count).reshape(dims) / count).astype(np.float32)
        (data / f"input_{j}.pb").write_bytes(
            numpy_helper.from_array(value, info.name).SerializeToString(deterministic=True))
    for j in range(len(model.graph.output)):
        shutil.copyfile(f"{str(source).removesuffix('.onnx')}_output_{j}.pb", data / f"output_{j}.pb")


def cases_of(kind: str):
    """The test cases of a kind. Most draw from numpy's global generator, which is seeded so that two
    folders of the same versions are equal."""
    from onnx.backend.test.case.model import collect_testcases
    from onnx.backend.test.loader import load_model_tests

    np.random.seed(0)
    cases = list(load_model_tests(kind=kind))
    if kind == "simple":
        stored = {case.name for case in cases}
        np.random.seed(0)
        cases += [case for case in collect_testcases()
                  if case.kind == kind and case.model is not None and case.name not in stored]
    return cases


def operator_of(model) -> str:
    """The operator a test is about: that of its first node which is not there to make a constant."""
    nodes = [node for node in model.graph.node if node.op_type != "Constant"] or list(model.graph.node)
    domain, op = nodes[0].domain, nodes[0].op_type
    return op if domain in ("", "ai.onnx") else f"{domain}.{op}"


def value_kinds(infos) -> list[str]:
    """What the .pb files of inputs or outputs hold: "tensor", "sequence" or "optional"."""
    return [next(kind for kind in ("sequence", "optional", "tensor")
                 if kind == "tensor" or info.type.HasField(f"{kind}_type")) for info in infos]


def dump(root: Path) -> list[dict]:
    rows = []
    for kind in KINDS:
        operators = {}
        for case in cases_of(kind):
            folder = root / kind / case.name
            if kind == "real":
                write_light(case, folder)
            elif case.model is not None:
                write_case(case, folder)
            else:
                shutil.copytree(case.model_dir, folder)
            model = onnx.load(folder / "model.onnx", load_external_data=False)
            operators[case.name] = operator_of(model)
            weights = {weight.name for weight in model.graph.initializer}
            rows.append({
                "kind": kind, "name": case.name, "rtol": case.rtol, "atol": case.atol,
                "inputs": value_kinds(i for i in model.graph.input if i.name not in weights),
                "outputs": value_kinds(model.graph.output),
            })
        # A function body belongs to the operator whose meaning it is.
        for row in rows:
            if row["kind"] == kind:
                name = re.sub(r"_expanded(_ver\d+)?$", "", row["name"])
                row["op"] = operators.get(name, operators[row["name"]])
    return rows


def main(target: Path) -> int:
    if onnx.__version__ != ONNX_VERSION:
        print(f"skipped: onnx {onnx.__version__} is not the pinned {ONNX_VERSION}")
        return 77
    script = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    stamp = f"onnx {onnx.__version__}, numpy {np.__version__}, script {script}"
    index = target / "suite.json"
    if index.exists() and json.loads(index.read_text())["made_from"] == stamp:
        print(f"{target}: current ({stamp})")
        return 0
    warnings.simplefilter("ignore", RuntimeWarning)  # of expected values that are infinite
    target.parent.mkdir(parents=True, exist_ok=True)
    transform_in_double()
    root = Path(tempfile.mkdtemp(dir=target.parent, prefix=target.name + "."))
    rows = dump(root)
    (root / "suite.json").write_text(json.dumps({"made_from": stamp, "tests": rows}, indent=1))
    if target.exists():
        shutil.rmtree(target)
    os.rename(root, target)
    files = len(glob.glob(str(target / "**" / "*.pb"), recursive=True))
    print(f"{target}: {len(rows)} tests, {files} values ({stamp})")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(Path(sys.argv[1])))
