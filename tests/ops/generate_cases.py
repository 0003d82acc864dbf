#!/usr/bin/env python3
"""Write operator test cases: cases/<Op>.json from the node tests of the `onnx` package, and
cases/<Op>_ort.json from own problems (extra_problems.py) answered by onnxruntime. OP is a name, with
its domain in front for com.microsoft ("com.microsoft.Gelu").

Usage: generate_cases.py [--limit ELEMENTS] [--out DIR] OP...

A case is a small graph, its inputs and its expected outputs. Node tests draw from numpy's global
generator, which is seeded here: the same package versions give the same file. Cases with more than
--limit elements are left out.
"""
from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

# Expected values that are given rounded to a few digits: absolute error to allow.
ROUNDED = {
    "averagepool_2d_ceil_last_window_starts_on_pad": 1e-4,
    "gridsample_bicubic": 1e-4,
    "roialign_aligned_false": 1e-4,
    "roialign_aligned_true": 1e-4,
    # PROBIT near 1/2 cancels in the f32 of onnxruntime.
    "svc_two_RBF_PROBIT_2": 1e-5,
    "svc_linear_PROBIT": 1e-5,
}

# The earliest version of an operator whose node tests mean what the newest means.
SAME_SINCE = {"Attention": 23}

DTYPES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
    "int4": "i4", "uint4": "u4", "int2": "i2", "uint2": "u2",
    "float8_e4m3fn": "f8e4m3fn", "float8_e4m3fnuz": "f8e4m3fnuz",
    "float8_e5m2": "f8e5m2", "float8_e5m2fnuz": "f8e5m2fnuz",
    "float4_e2m1fn": "f4e2m1", "float6_e2m3fn": "f6e2m3", "float6_e3m2fn": "f6e3m2",
    "float8_e8m0fnu": "f8e8m0",
}  # fmt: skip


def number(x: object) -> object:
    """A JSON value that reads back as the same element."""
    if isinstance(x, (str, bytes)):
        return x if isinstance(x, str) else x.decode()
    if isinstance(x, (bool, np.bool_)):
        return int(x)
    if isinstance(x, (int, np.integer)):
        return int(x)
    value = float(x)  # type: ignore[arg-type]
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(x, np.float32):  # the shortest text that rounds to the same f32
        return float(str(x))
    return value


def tensor(x: np.ndarray) -> dict:
    x = np.asarray(x)
    dtype = "string" if x.dtype.kind in "OUS" else DTYPES[x.dtype.name]
    if dtype in ("i4", "u4", "i2", "u2"):
        flat = [int(v) for v in x.reshape(-1)]
    elif dtype in ("f16", "bf16") or dtype.startswith(("f8", "f4")):
        flat = [number(float(v)) for v in x.reshape(-1)]
    else:
        flat = [number(v) for v in x.reshape(-1)]
    return {"dtype": dtype, "dims": list(x.shape), "data": flat}


def attribute(a: onnx.AttributeProto) -> dict:
    kind = onnx.AttributeProto
    value = onnx.helper.get_attribute_value(a)
    if a.type == kind.INT:
        return {"int": value}
    if a.type == kind.FLOAT:
        return {"float": number(np.float32(value))}
    if a.type == kind.STRING:
        return {"string": value.decode()}
    if a.type == kind.INTS:
        return {"ints": list(value)}
    if a.type == kind.FLOATS:
        return {"floats": [number(np.float32(v)) for v in value]}
    if a.type == kind.STRINGS:
        return {"strings": [v.decode() for v in value]}
    if a.type == kind.TENSOR:
        return {"tensor": tensor(numpy_helper.to_array(value))}
    raise ValueError(f"attribute {a.name} of type {a.type}")


def case(name: str, graph: onnx.GraphProto, inputs: list, outputs: list) -> dict:
    nodes = [
        {
            "op": n.op_type,
            **({"domain": n.domain} if n.domain else {}),
            "attrs": {a.name: attribute(a) for a in n.attribute},
            "inputs": list(n.input),
            "outputs": list(n.output),
        }
        for n in graph.node
    ]
    rounded = {"absolute_error": ROUNDED[name]} if name in ROUNDED else {}
    return {
        "name": name,
        **rounded,
        "nodes": nodes,
        "inputs": {v.name: tensor(x) for v, x in zip(graph.input, inputs)},
        "outputs": {v.name: tensor(x) for v, x in zip(graph.output, outputs)},
    }


def elements(arrays: list) -> int:
    return sum(np.asarray(x).size for x in arrays)


def as_array(x: object) -> object:
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def node_tests(ops: set[str], limit: int) -> dict[str, list[dict]]:
    from onnx.backend.test.loader import load_model_tests

    np.random.seed(0)
    out: dict[str, list[dict]] = {op: [] for op in ops}
    for test in load_model_tests(kind="node"):
        graph = test.model.graph
        if len(graph.node) != 1 or graph.node[0].op_type not in ops or test.model.functions:
            continue
        op = graph.node[0].op_type
        domain = graph.node[0].domain
        version = next(o.version for o in test.model.opset_import if o.domain == domain)
        schema = onnx.defs.get_schema(op, domain=domain)
        if SAME_SINCE.get(op, schema.since_version) > version:
            continue  # an older meaning: the front end's business
        for inputs, outputs in test.data_sets:
            inputs, outputs = [as_array(x) for x in inputs], [as_array(x) for x in outputs]
            if elements(inputs + outputs) > limit:
                continue
            out[op].append(case(test.name.removeprefix("test_"), graph, inputs, outputs))
    return out


def key(node: onnx.NodeProto) -> str:
    """How OP names an operator: with its domain where names are those of the standard."""
    return f"{node.domain}.{node.op_type}" if node.domain == "com.microsoft" else node.op_type


def ort_problems(ops: set[str], limit: int) -> dict[str, list[dict]]:
    import extra_problems
    import onnxruntime

    out: dict[str, list[dict]] = {op: [] for op in ops}
    for problem in extra_problems.problems():
        if key(problem.node) not in ops:
            continue
        model = problem.model()
        names = [v.name for v in model.graph.input]
        outputs = problem.expected
        if outputs is None:
            try:
                session = onnxruntime.InferenceSession(
                    model.SerializeToString(), providers=["CPUExecutionProvider"]
                )
                outputs = session.run(None, dict(zip(names, problem.arrays())))
            except Exception as error:  # noqa: BLE001: every kind of refusal, each is reported
                print(f"{problem.name}: onnxruntime refuses: {error}")
                continue
        if elements(problem.arrays() + outputs) <= limit:
            out[key(problem.node)].append(
                case(problem.name, model.graph, problem.arrays(), outputs)
            )
    return out


def write(path: Path, cases: list[dict]) -> None:
    if not cases:
        return
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    path.write_text(f"[\n{lines}\n]\n")
    print(f"{path}: {len(cases)} cases, {path.stat().st_size} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=3000)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "cases")
    parser.add_argument("ops", nargs="+")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    ops = set(args.ops)
    for op, cases in node_tests(ops, args.limit).items():
        write(args.out / f"{op}.json", cases)
    for op, cases in ort_problems(ops, args.limit).items():
        write(args.out / f"{op}_ort.json", cases)


if __name__ == "__main__":
    main()
