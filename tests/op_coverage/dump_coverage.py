#!/usr/bin/env python3
"""Derives, for every operator, the tests that it counts as done by, and writes them to a folder for xc_onnx_suite.

    dump_coverage.py XC DIR [OP...]

XC is the built tool, whose `inspect --ops --json` says which types each operator claims. The seeds are the standard's
own tests of single nodes and the nodes of seeds.py. Kinds of tests (DIR/KIND/TEST as dump_suite.py has them):

    seed      the nodes of seeds.py themselves
    dynamic   a seed with every dim of every input made a symbol of its own
    empty     a seed with a dim of 0, and what the standard's evaluator, onnxruntime or shape inference says
    type      a seed with the inputs of one type constraint converted to each type the operator claims for them
    error     a seed with an attribute, an input, a type or a rank that is wrong: the status, and the node is named

OP ("Gelu", "com.microsoft.Gelu") leaves the others out, for work on one; the table needs all. Nothing is done when DIR
already holds what this script would write. Exits with 77, "skipped" to CTest, when the
packages are not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "onnx_suite"))
try:
    import dump_suite
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    import mutations
    import oracle
    import seeds
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh makes an environment that has it")
    sys.exit(77)

# Results that are random by definition, and training, which xc does not do.
RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
LARGEST = 20000  # elements of a test from which others are derived


@dataclass
class Test:
    kind: str
    name: str
    op: str
    model: object
    inputs: list
    outputs: list
    rtol: float = 1e-3
    atol: float = 1e-7
    row: dict = field(default_factory=dict)  # what suite.json says beyond the ordinary


def map_proto(value: dict, info_type):
    """A map as xc takes it: the sequence of its keys and its values."""
    out = onnx.SequenceProto(elem_type=onnx.SequenceProto.TENSOR)
    key, element = info_type.map_type.key_type, oracle.elem_type(info_type.map_type.value_type)
    for numbers, number in ((value.keys(), key), (value.values(), element)):
        kind = helper.tensor_dtype_to_np_dtype(number)
        out.tensor_values.append(numpy_helper.from_array(np.array(list(numbers), kind)))
    return out


def to_proto(value, info):
    if info.type.HasField("map_type"):
        return map_proto(value, info.type)
    if info.type.HasField("sequence_type") and info.type.sequence_type.elem_type.HasField("map_type"):
        out = onnx.SequenceProto(elem_type=onnx.SequenceProto.SEQUENCE)
        for item in value:
            out.sequence_values.append(map_proto(item, info.type.sequence_type.elem_type))
        return out
    return dump_suite.to_proto(value, info)


def value_kinds(infos) -> list[str]:
    return ["sequence" if info.type.HasField("map_type") else dump_suite.value_kinds([info])[0] for info in infos]


def write(test: Test, root: Path) -> dict:
    folder = root / test.kind / test.name
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(test.model.SerializeToString(deterministic=True))
    for stem, values, infos in (("input", test.inputs, test.model.graph.input),
                                ("output", test.outputs, test.model.graph.output)):
        for j, value in enumerate(values):
            (data / f"{stem}_{j}.pb").write_bytes(to_proto(value, infos[j]).SerializeToString(deterministic=True))
    return {"kind": test.kind, "name": test.name, "op": test.op, "rtol": test.rtol, "atol": test.atol,
            "inputs": value_kinds(test.model.graph.input), "outputs": value_kinds(test.model.graph.output),
            "types": mutations.input_type_names(test.model), **test.row}


def node_seeds() -> list[Test]:
    """The standard's tests of single nodes, and those of seeds.py with their expected values."""
    out = []
    for case in dump_suite.cases_of("node"):
        op = dump_suite.operator_of(case.model)
        if "_expanded" in case.name or "training" in op or len(case.model.graph.node) != 1:
            continue
        inputs, outputs = case.data_sets[0]
        values = [numpy_helper.to_array(v) if isinstance(v, onnx.TensorProto) else v for v in inputs]
        row = {"check": "types"} if op in RANDOM or "training_dropout" in case.name else {}
        out.append(Test("seed", case.name, op, case.model, values, list(outputs), case.rtol, case.atol, row))
    for seed in seeds.seeds():
        if seed.outputs is not None:
            outputs = seed.outputs
        elif seed.random:
            outputs = [np.zeros([d.dim_value for d in info.type.tensor_type.shape.dim],
                                oracle.numpy_type(oracle.NAMES[oracle.elem_type(info.type)]))
                       for info in seed.model.graph.output]
        else:
            outputs, _ = oracle.first_answer([lambda s=seed: oracle.by_onnxruntime(s.model, s.inputs),
                                              lambda s=seed: oracle.by_reference(s.model, s.inputs)])
            assert outputs is not None, f"no evaluator has {seed.name}"
        row = {"check": "types"} if seed.random else {}
        out.append(Test("seed", seed.name, seed.op, seed.model, seed.inputs, outputs, 1e-3, 1e-6, row))
    return out


def has_nothing(value) -> bool:
    """A tensor without elements, or a sequence with one or of none."""
    if isinstance(value, (list, tuple)):
        return not value or any(map(has_nothing, value))
    return isinstance(value, np.ndarray) and value.size == 0


def derive(all_seeds: list[Test], claims: dict) -> list[Test]:
    by_op = defaultdict(list)
    for seed in all_seeds:
        by_op[seed.op].append(seed)
    out = []
    for op, group in sorted(by_op.items()):
        out += [seed for seed in group if seed.name.startswith("seed_")]
        out += [test for seed in group for test in [mutations.dynamic(seed)] if test]
        out += [replace(seed, kind="empty", name=f"{seed.name}_itself") for seed in group
                if any(has_nothing(v) for v in (*seed.inputs, *seed.outputs))]
        small = [seed for seed in group if mutations.elements(seed) <= LARGEST] or group
        diverse = mutations.diverse(small)
        found = 0
        for seed in diverse:
            test = mutations.empty(seed) if found < 8 else None
            if test:
                out.append(test)
                found += 1
        out += mutations.types(diverse, claims.get(op, []))
        out += mutations.errors(diverse, claims.get(op, []))
    return out


def main(tool: str, target: Path, only: list[str]) -> int:
    if onnx.__version__ != dump_suite.ONNX_VERSION:
        print(f"skipped: onnx {onnx.__version__} is not the pinned {dump_suite.ONNX_VERSION}")
        return 77
    printed = subprocess.run([tool, "inspect", "--ops", "--json"], check=True, capture_output=True, text=True).stdout
    digest = hashlib.sha256(printed.encode())
    for script in (*sorted(HERE.glob("*.py")), Path(dump_suite.__file__),
                   *sorted((HERE.parent / "ops").glob("*_problems.py"))):
        digest.update(script.read_bytes())
    stamp = (f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}, numpy {np.__version__}, "
             f"{digest.hexdigest()[:16]}{', only ' if only else ''}{' '.join(only)}")
    index = target / "suite.json"
    if index.exists() and json.loads(index.read_text())["made_from"] == stamp:
        print(f"{target}: current ({stamp})")
        return 0
    warnings.simplefilter("ignore")
    dump_suite.transform_in_double()
    claims = {(row["domain"] + "." if row["domain"] else "") + row["name"]: row["input_types"]
              for row in json.loads(printed)}
    tests = derive([seed for seed in node_seeds() if not only or seed.op in only], claims)
    target.parent.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(dir=target.parent, prefix=target.name + "."))
    rows = [write(test, root) for test in tests]
    (root / "suite.json").write_text(json.dumps({"made_from": stamp, "tests": rows}, indent=1))
    (root / "claims.json").write_text(json.dumps(claims, indent=1))
    if target.exists():
        shutil.rmtree(target)
    os.rename(root, target)
    print(f"{target}: {len(rows)} tests ({stamp})")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:]))
