#!/usr/bin/env python3
"""Holds the element types that xc takes against the standard's schemas: `schema_types.py XC BUILD [--bless]`.

For every operator of the pinned onnx package, in its newest version: per input, what the schema allows and
`xc inspect --ops` does not claim, and the other way round. Operators on containers claim nothing, and some attributes
choose the type of an output (Cast's `to`): there the tool is asked to load the models of BUILD/onnx_suite and
BUILD/op_coverage with each type in turn. Every difference must be a line of types.txt with a reason; a line that is not needed fails.
--bless writes types.txt anew, reasons kept, "?" where there is none yet, which fails as well.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

try:
    import onnx
    from onnx import defs, helper

    import oracle
except ImportError as error:
    print(f"skipped: {error}; tools/setup.sh makes an environment that has it")
    sys.exit(77)

HERE = Path(__file__).resolve().parent
LIST = HERE / "types.txt"
DOMAINS = ("", "ai.onnx.ml")
# Attributes that choose the type of output 0, and operators whose constant does.
CHOICES = ("to", "dtype", "output_dtype", "output_datatype")
VALUES = ("ConstantOfShape", "Constant")
SEEDS = 24  # models per operator that are asked, each with other attributes


def tensor_types(texts) -> set[str]:
    """Names of xc of the tensors in "tensor(float)", "seq(tensor(int64))" ...; a name that is not known is an error:
    the standard has a new type."""
    numbers = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}
    return {oracle.NAMES[numbers[name]] for text in texts for name in re.findall(r"tensor\((\w+)\)", text)}


def newest_schemas() -> dict[str, object]:
    return {(s.domain + "." if s.domain else "") + s.name: s for s in defs.get_all_schemas() if s.domain in DOMAINS}


def choosing_attribute(schema) -> str | None:
    name = next((name for name in CHOICES if name in schema.attributes), None)
    return name or ("value" if schema.name in VALUES else None)


def of_inputs(claims: dict, schemas: dict):
    """(operator, input, allowed, claimed) of what is claimed."""
    for op, schema in sorted(schemas.items()):
        for k, claimed in enumerate((claims.get(op) or [])[:len(schema.inputs)]):
            yield op, schema.inputs[k].name, tensor_types(schema.inputs[k].types), set(claimed)


def seeds_of(build: Path, schemas: dict, wanted) -> dict[str, list]:
    """Models of one node of the wanted operators, of their newest version, each with other attributes or types: the
    standard's, and those that dump_coverage.py made."""
    out: dict[str, dict] = {}
    for suite in ("onnx_suite", "op_coverage"):
        for row in json.loads((build / suite / "suite.json").read_text())["tests"]:
            schema = schemas.get(row["op"])
            if row["kind"] not in ("node", "seed") or schema is None or not wanted(row["op"], schema):
                continue
            model = onnx.load(build / suite / row["kind"] / row["name"] / "model.onnx")
            version = next(e.version for e in model.opset_import if e.domain == schema.domain)
            node = model.graph.node[0]
            bodies = any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)  # of one type
            if len(model.graph.node) != 1 or version < schema.since_version or bodies:
                continue
            types = tuple(oracle.elem_type(info.type) for info in model.graph.input)
            key = (len(node.input), tuple(sorted(a.name for a in node.attribute)), types)
            out.setdefault(row["op"], {}).setdefault(key, model)
    return {op: list(models.values())[:SEEDS] for op, models in out.items()}


def with_choice(model, attribute: str, name: str):
    """Another type of output 0, by the attribute that chooses it."""
    other = copy.deepcopy(model)
    node = other.graph.node[0]
    for old in [a for a in node.attribute if a.name == attribute or a.name.startswith("value")]:
        node.attribute.remove(old)
    number = oracle.TYPES[name]
    value = helper.make_tensor("v", number, [1], [b"1" if name == "string" else 1]) if attribute == "value" else number
    node.attribute.append(helper.make_attribute(attribute, value))
    if node.op_type == "BitCast":  # of the same width
        oracle.set_elem_type(other.graph.input[0].type, number)
    for info in other.graph.output:
        info.ClearField("type")
    return other


def with_elements(model, name: str):
    """Another type of input 0 and of the inputs that have its type."""
    other = copy.deepcopy(model)
    old = oracle.elem_type(other.graph.input[0].type)
    for info in other.graph.input:
        if oracle.elem_type(info.type) == old:
            oracle.set_elem_type(info.type, oracle.TYPES[name])
    for info in other.graph.output:
        info.ClearField("type")
    return other


def asked(tool: str, seeds: dict, change) -> dict[str, set[str]]:
    """Per operator the names of types with which one of its models, changed, is taken."""
    taken: dict[str, set] = {op: set() for op in seeds}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        def takes(job) -> bool:
            op, name = job
            for k, model in enumerate(seeds[op]):
                path = Path(folder) / f"{op}_{name}_{k}.onnx"
                path.write_bytes(change(op, model, name).SerializeToString())
                if subprocess.run([tool, "inspect", str(path)], capture_output=True).returncode == 0:
                    return True
            return False

        jobs = [(op, name) for op in sorted(seeds) for name in oracle.TYPES]
        for (op, name), yes in zip(jobs, pool.map(takes, jobs)):
            if yes:
                taken[op].add(name)
    return taken


def of_containers(tool: str, build: Path, claims: dict, schemas: dict):
    """(operator, input 0, allowed, taken) of operators that claim nothing, because they take containers as well; not
    of those on maps, whose types are bound by their attributes."""
    def wanted(op, schema):
        return (bool(schema.inputs) and bool(tensor_types(schema.inputs[0].types)) and not claims.get(op)
                and not any(text.startswith("map") for text in schema.inputs[0].types))
    taken = asked(tool, seeds_of(build, schemas, wanted), lambda op, model, name: with_elements(model, name))
    for op, schema in sorted(schemas.items()):
        if wanted(op, schema):
            yield op, schema.inputs[0].name, tensor_types(schema.inputs[0].types), taken.get(op)


def of_choices(tool: str, build: Path, schemas: dict):
    """(operator, attribute, allowed, taken) of the operators whose attribute chooses the type of output 0."""
    taken = asked(tool, seeds_of(build, schemas, lambda op, schema: choosing_attribute(schema) is not None),
                  lambda op, model, name: with_choice(model, choosing_attribute(schemas[op]), name))
    for op, schema in sorted(schemas.items()):
        attribute = choosing_attribute(schema)
        if attribute:
            yield op, attribute, tensor_types(schema.outputs[0].types), taken.get(op)


def differences(rows) -> dict[tuple[str, str, str], str]:
    """(operator, place, kind) -> types."""
    out = {}
    order = list(oracle.TYPES)
    for op, place, allowed, claimed in rows:
        if claimed is None:
            out[op, place, "unasked"] = "*"
            continue
        for kind, names in (("missing", allowed - claimed), ("beyond", claimed - allowed)):
            if names:
                out[op, place, kind] = ",".join(sorted(names, key=order.index))
    return out


def read_list() -> dict[tuple[str, str, str], tuple[str, str]]:
    out = {}
    for line in LIST.read_text().splitlines() if LIST.exists() else ():
        if line and not line.startswith("#"):
            op, place, kind, names, reason = line.split(maxsplit=4)
            out[op, place, kind] = (names, reason)
    return out


def main(tool: str, build: Path, bless: bool) -> int:
    if not all((build / suite / "suite.json").exists() for suite in ("onnx_suite", "op_coverage")):
        print("skipped: dump_suite.py or dump_coverage.py has written nothing")
        return 77
    printed = subprocess.run([tool, "inspect", "--ops", "--json"], check=True, capture_output=True, text=True).stdout
    claims = {(row["domain"] + "." if row["domain"] else "") + row["name"]: row["input_types"]
              for row in json.loads(printed)}
    schemas = newest_schemas()
    found = differences([*of_inputs(claims, schemas), *of_containers(tool, build, claims, schemas),
                         *of_choices(tool, build, schemas)])
    listed = read_list()
    if bless:
        head = [line for line in LIST.read_text().splitlines() if line.startswith("#")] if LIST.exists() else []
        lines = [f"{op} {place} {kind} {names} {listed.get((op, place, kind), ('', '?'))[1]}"
                 for (op, place, kind), names in found.items()]
        LIST.write_text("\n".join([*head, *lines]) + "\n")
        listed = read_list()
    wrong = [f"{' '.join(key)} {names}: not in types.txt" for key, names in found.items() if key not in listed]
    wrong += [f"{' '.join(key)}: types.txt says {names}, found {found.get(key, 'nothing')}"
              for key, (names, _) in listed.items() if found.get(key) != names]
    wrong += [f"{' '.join(key)}: no reason" for key, (_, reason) in listed.items() if reason == "?"]
    print("\n".join(wrong) or f"{len(schemas)} operators, {len(listed)} differences, each with a reason")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), "--bless" in sys.argv[3:]))
