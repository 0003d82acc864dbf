"""Tests out of tests: a seed with symbolic dims, with a dim of 0, in another type, or wrong."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace

import microsoft  # noqa: F401  the schemas of onnxruntime
import numpy as np
import onnx
import oracle
from onnx import helper, shape_inference

# Relative tolerance per type of an output: some 4 units in its last place, and f32 arithmetic that the standard asks
# for inside (stash_type, f32 accumulation) where the reference has f64. bf16 is held to at least 2^-6 by the runner.
RTOL = {"f64": 1e-12, "f32": 4e-6, "f16": 2.0**-9, "bf16": 2.0**-6}
# The standard's evaluator computes these in f32 whatever their type, or with attributes that it does not round to
# f32 as a model file does.
ROUNDS_INSIDE = {"AffineGrid", "DeformConv", "Erf", "Gelu", "GroupNormalization", "HardSwish", "LRN", "LinearAttention"}
# The result depends on the width of the type, beyond wrapping: casts and what saturates.
DIRECT = {"BitCast", "CastLike", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear"}
# The types of inputs are those of attributes: seeds.py has a node for each.
TYPED_BY_ATTRIBUTES = {"LabelEncoder", "CategoryMapper"}
# What the two evaluators accept, and the standard's text forbids: dims that the size input, the sequence lengths or the
# split give as well.
BOUND_BY_VALUES = {"AffineGrid", "ReverseSequence"}
# Windows, transforms and regions need points: only the batch may be empty. Inputs that have it as their axis 0.
BATCHES = {"AveragePool": [0], "LpPool": [0], "MaxPool": [0], "Conv": [0], "FusedConv": [0], "ConvInteger": [0],
           "QLinearConv": [0], "ConvTranspose": [0], "MaxUnpool": [0, 1], "DeformConv": [0, 2, 4], "DFT": [0], "STFT": [0]}
# Refused by the standard's inference for a reason that is no rank: default axes, windows of old versions, scan lengths.
LENIENT = {"MeanVarianceNormalization", "Scan", "Split", "TreeEnsembleClassifier", "TreeEnsembleRegressor"}
NODE = "the_node"


def node_of(model):
    return model.graph.node[-1]


def schema_of(model):
    node = node_of(model)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    return onnx.defs.get_schema(node.op_type, versions.get(node.domain, versions.get("", 1)), node.domain)


def formal(schema, index: int, outputs: bool = False):
    """The formal parameter of an input or output, the last one standing for those of a variadic list."""
    parameters = schema.outputs if outputs else schema.inputs
    return parameters[min(index, len(parameters) - 1)] if parameters else None


def input_type_names(model) -> list[str]:
    """The types of the node's inputs in order; '' where absent or no tensor."""
    types = {info.name: info.type for info in model.graph.input}
    return [oracle.NAMES.get(types[name].tensor_type.elem_type, "")
            if name in types and types[name].HasField("tensor_type") else "" for name in node_of(model).input]


def elements(seed) -> int:
    return sum(v.size for v in seed.inputs if isinstance(v, np.ndarray))


def diverse(seeds: list) -> list:
    """Seeds in an order that brings other attributes and inputs first."""
    kinds: dict = {}
    for seed in seeds:
        node = node_of(seed.model)
        key = (len(node.input), tuple(sorted(a.name for a in node.attribute)), tuple(input_type_names(seed.model)))
        kinds.setdefault(key, []).append(seed)
    rounds = itertools.zip_longest(*kinds.values())
    return [seed for one in rounds for seed in one if seed is not None]


def each_tensor_type(type_proto):
    kind = type_proto.WhichOneof("value")
    if kind == "tensor_type":
        yield type_proto.tensor_type
    elif kind in ("sequence_type", "optional_type"):
        yield from each_tensor_type(getattr(type_proto, kind).elem_type)


def without_dims(infos) -> None:
    """Element types alone."""
    for info in infos:
        for tensor in each_tensor_type(info.type):
            tensor.ClearField("shape")


# ---- symbolic dims -------------------------------------------------------------------------------

def dynamic(seed):
    model, made = copy.deepcopy(seed.model), 0
    for info in model.graph.input:
        for tensor in each_tensor_type(info.type):
            for axis, dim in enumerate(tensor.shape.dim):
                dim.dim_param = f"{info.name}_{axis}"
                made += 1
    if made == 0 and not any(info.type.HasField("tensor_type") for info in model.graph.input):
        return None  # of scalars, the values are what only the run tells
    without_dims(model.graph.output)
    return replace(seed, kind="dynamic", model=model)


# ---- a dim of 0 ----------------------------------------------------------------------------------

def candidates(seed):
    """Sets of (input, axis) whose dim becomes 0: all of a size, those of them on one axis, one alone. Dims of 1 come
    last: they are there for the rank."""
    sizes = {(i, axis): size for i, value in enumerate(seed.inputs) if isinstance(value, np.ndarray)
             for axis, size in enumerate(value.shape)}
    node = node_of(seed.model)
    batches = BATCHES.get(node.op_type)
    if node.op_type == "FusedConv" and len(node.input) == 4:  # its summand
        batches = [0, [info.name for info in seed.model.graph.input].index(node.input[3])]
    if batches:
        yield {(i, 0) for i in batches if (i, 0) in sizes}
        return
    seen = set()
    for key, size in sorted(sizes.items(), key=lambda item: item[1] == 1):
        for wanted in ({k for k, s in sizes.items() if s == size},
                       {k for k, s in sizes.items() if s == size and k[1] == key[1]}, {key}):
            if size != 0 and frozenset(wanted) not in seen:
                seen.add(frozenset(wanted))
                yield wanted


def emptied(seed, axes):
    model, inputs = copy.deepcopy(seed.model), list(seed.inputs)
    for i, axis in axes:
        inputs[i] = np.take(inputs[i], [], axis=axis)
    for i, info in enumerate(model.graph.input):
        if isinstance(inputs[i], np.ndarray) and info.type.HasField("tensor_type"):
            del info.type.tensor_type.shape.dim[:]
            for size in inputs[i].shape:
                info.type.tensor_type.shape.dim.add().dim_value = size
    without_dims(model.graph.output)
    return replace(seed, kind="empty", name=seed.name, model=model, inputs=inputs)


def same_dims(a, b) -> bool:
    if isinstance(a, (list, tuple)) or isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same_dims, a, b))
    return np.shape(a) == np.shape(b)


def inferred_empty(test):
    """Outputs that the standard's shape inference knows to be empty, None where it does not."""
    bare = copy.deepcopy(test.model)
    inferred = shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True)
    out = []
    for info in inferred.graph.output:
        tensor = info.type.tensor_type
        dims = [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
        if not tensor.HasField("shape") or None in dims or 0 not in dims:
            return None
        out.append(np.zeros(dims, oracle.numpy_type(oracle.NAMES[tensor.elem_type])))
    return out


def empty(seed):
    """The first dim that can be 0, as two of onnxruntime, the standard's evaluator and its inference have it; else as
    one of them has it. Values are the evaluator's."""
    alone = None
    taboo = bound_dims(seed)
    for axes in candidates(seed):
        if axes & taboo:
            continue
        test = emptied(seed, axes)
        runtime, _ = oracle.first_answer([lambda: oracle.by_onnxruntime(test.model, test.inputs)])
        standard, _ = oracle.first_answer([lambda: oracle.by_reference(test.model, test.inputs)])
        inferred, _ = oracle.first_answer([lambda: inferred_empty(test)])
        answers = [answer for answer in (standard, runtime, inferred) if answer is not None]
        for a, b in itertools.combinations(answers, 2):
            if same_dims(a, b) and (a is standard or is_nothing(a)):
                return with_outputs(test, a)
        if alone is None and len(answers) == 1 and (answers[0] is standard or is_nothing(answers[0])):
            alone = with_outputs(test, answers[0])
    return alone


def is_nothing(outputs) -> bool:
    return all(isinstance(value, np.ndarray) and value.size == 0 for value in outputs)


def bound_dims(seed) -> set:
    """Dims that may not be 0, though evaluators take it: those that values of an input speak of as well, an axis whose
    largest element is asked for, coordinates."""
    node, inputs = node_of(seed.model), seed.inputs
    if node.op_type in ("Split", "SplitToSequence", "ArgMax", "ArgMin"):
        return {(0, attribute(node, "axis", 0) % inputs[0].ndim), (1, 0)}
    if node.op_type in ("GatherND", "ScatterND"):
        return {(1, inputs[1].ndim - 1)}
    if node.op_type not in BOUND_BY_VALUES:
        return set()
    sizes = {int(v) for value in inputs[1:] if value.dtype == np.int64 for v in value.ravel()}
    return {(i, axis) for i, value in enumerate(inputs) for axis, size in enumerate(value.shape) if size in sizes}


def with_outputs(test, outputs):
    kinds = [oracle.NAMES.get(oracle.elem_type(info.type)) for info in test.model.graph.output]
    return replace(test, outputs=[oracle.map_values(v, lambda a, n=name: oracle.to_type(a, n)) if name else v
                                  for v, name in zip(outputs, kinds)])


# ---- each type -----------------------------------------------------------------------------------

def converted(seed, schema, asked: int, name: str, claims):
    """The seed with all inputs of the constraint of input `asked` in another type; None where text would have to
    become a number."""
    model, inputs = copy.deepcopy(seed.model), list(seed.inputs)
    constraint = formal(schema, asked).type_str
    node, place = node_of(model), {info.name: k for k, info in enumerate(model.graph.input)}
    ready = False
    if not fits(node, asked, oracle.name_of(seed.inputs[place[node.input[asked]]]) if node.input[asked] in place else "",
                name):
        return None
    for k, wire in enumerate(node.input):
        if wire not in place:
            continue
        parameter, index = formal(schema, k), place[wire]
        alone = parameter.option == onnx.defs.OpSchema.FormalParameterOption.Variadic and not parameter.is_homogeneous
        if node.op_type == "CastLike" and not ready:
            inputs[place[node.input[0]]] = tame(node, inputs[place[node.input[0]]], name)
            ready = True
        if k == asked or (parameter.type_str == constraint and not alone):
            if not model.graph.input[index].type.HasField("tensor_type"):
                return None
            inputs[index] = oracle.convert(tame(node, inputs[index], name), name)
            oracle.set_elem_type(model.graph.input[index].type, oracle.TYPES[name])
    types = [oracle.NAMES.get(oracle.elem_type(info.type), "") for info in model.graph.input]
    if node.op_type == "Col2Im" and name == "string" and overlaps(seed):
        return None  # text has no sum
    without_dims(model.graph.output)
    outputs, oracle_used = oracle.evaluate_as(model, inputs, types, node.op_type in DIRECT, node)
    if seed.row.get("check") == "types":
        outputs = seed.outputs  # random by definition
    if outputs is None:
        return None
    inferred = oracle.output_types(model)
    for k, info in enumerate(model.graph.output):
        parameter = formal(schema, list(node.output).index(info.name), outputs=True)
        bound = next((place[wire] for i, wire in enumerate(node.input)
                      if wire in place and formal(schema, i).type_str == parameter.type_str), None)
        if bound is not None:
            oracle.set_elem_type(info.type, oracle.elem_type(model.graph.input[bound].type))
        elif inferred[k]:
            oracle.set_elem_type(info.type, inferred[k])
    test = with_outputs(replace(seed, kind="type", name=f"{seed.name}_{asked}_{name}", model=model, inputs=inputs), outputs)
    floats = [kind for kind in [*types, *(oracle.NAMES.get(oracle.elem_type(i.type), "") for i in model.graph.output)]
              if kind in RTOL]
    rtol = max((RTOL[kind] for kind in floats), default=1e-3)
    if node.op_type in ROUNDS_INSIDE:
        rtol = max(rtol, RTOL["f32"])
    if oracle_used > 0:
        rtol = max(rtol, 2 * RTOL["f32"]) * 2  # the evaluator rounds as well
    sizes = [np.max(np.abs(np.nan_to_num(np.asarray(v).astype(np.float64), posinf=0, neginf=0)), initial=0)
             for v in test.outputs if isinstance(v, np.ndarray) and oracle.name_of(v) in RTOL]
    kinds = [oracle.name_of(v) for v in test.outputs if isinstance(v, np.ndarray)]
    row = {**seed.row, "coarse": any(RTOL.get(kind, rtol) < rtol for kind in kinds)}
    return replace(test, rtol=rtol, atol=rtol * min(1.0, float(max(sizes, default=0))), row=row)


def overlaps(seed) -> bool:
    """Whether the blocks of Col2Im do."""
    counts = oracle.by_reference(seed.model, [np.ones_like(seed.inputs[0]), *seed.inputs[1:]])[0]
    return bool(np.max(counts) > 1)


def attribute(node, name: str, otherwise):
    return next((helper.get_attribute_value(a) for a in node.attribute if a.name == name), otherwise)


def tame(node, array, name: str):
    """Values without those whose cast or power the standard leaves open."""
    if node.op_type in ("Cast", "CastLike") and oracle.name_of(array) in oracle.FLOATS:
        numbers = np.abs(np.nan_to_num(array.astype(np.float64), nan=1, posinf=1, neginf=1))
        return np.where(numbers >= 1, 1.0 if name == "f8e8m0" else 1.5, 0.5).astype(array.dtype)
    if node.op_type == "QuantizeLinear" and name in oracle.FLOAT8S:
        return np.zeros_like(array)  # zero points of these the evaluator leaves out
    if node.op_type == "Pow" and name in ("i8", "u8"):
        return np.clip(array, -2, 2)
    return array


def fits(node, asked: int, old: str, name: str) -> bool:
    """Whether the attributes of a node go with another type of an input; some are changed so that they do."""
    kind = {**dict.fromkeys(oracle.FLOATS, "float"), **dict.fromkeys(oracle.RANGES, "integer")}
    number = name in oracle.FLOATS or kind.get(name) == "integer" and name not in ("i2", "u2", "i4", "u4")
    if node.op_type in TYPED_BY_ATTRIBUTES:
        return old == name
    if node.op_type in ("Imputer", "TfIdfVectorizer", "OneHotEncoder"):
        return kind.get(name) == kind.get(old) or (node.op_type == "OneHotEncoder" and number and old != "string")
    if attribute(node, "reduction", b"none") != b"none" and node.op_type.startswith("Scatter"):
        return number
    if node.op_type == "GridSample" and asked == 0 and name not in oracle.FLOATS:
        return attribute(node, "mode", b"linear") == b"nearest"
    same_width = {"f4e2m1": "u4", "f6e2m3": "f6e3m2", "f6e3m2": "f6e2m3", "i4": "u4", "u4": "i4", "i2": "u2", "u2": "i2", "i8": "u8", "u8": "i8", "bool": "u8",
                  "f16": "i16", "bf16": "i16", "i16": "u16", "u16": "i16", "f64": "i64", "c64": "i64", "c128": "c128"}
    if node.op_type == "BitCast" and name in same_width:
        set_attribute(node, "to", oracle.TYPES[same_width[name]])
    if node.op_type == "DequantizeLinear" and asked == 1 and name == "f8e8m0":
        set_attribute(node, "output_dtype", oracle.TYPES["f32"])
    return True


def set_attribute(node, name: str, value) -> None:
    for old in [a for a in node.attribute if a.name == name]:
        node.attribute.remove(old)
    node.attribute.append(helper.make_attribute(name, value))


def types(seeds: list, claims) -> list:
    """Up to two seeds for every type that is claimed for an input."""
    out = []
    schema = schema_of(seeds[0].model)
    asked_of = set()
    for k, claimed in enumerate(claims):
        parameter = formal(schema, k)
        if parameter is None or parameter.type_str in asked_of:
            continue
        asked_of.add(parameter.type_str)
        for name in claimed:
            found = 0
            for seed in seeds:
                given = node_of(seed.model).input[k:k + 1]
                if found == 2 or not given or not given[0] or np.size(seed.inputs[0]) == 0:
                    continue
                try:
                    test = converted(seed, schema_of(seed.model), k, name, claimed)
                except ValueError:
                    continue
                if test:
                    out.append(test)
                    found += 1
    return out


# ---- errors --------------------------------------------------------------------------------------

def wrong(seed, what: str, change, *told: str):
    """A seed changed by `change(model, inputs, node)`; the error must name the node and what is `told`."""
    model, inputs = copy.deepcopy(seed.model), list(seed.inputs)
    node = node_of(model)
    node.name = NODE
    if change(model, inputs, node) is False:
        return None
    without_dims(model.graph.output)
    return replace(seed, kind="error", name=f"{seed.name}_{what}", model=model, inputs=inputs, outputs=[],
                   row={"error": {"status": "INVALID_MODEL", "told": [NODE, *told]}})


def retype(model, inputs, index: int, name: str) -> None:
    oracle.set_elem_type(model.graph.input[index].type, oracle.TYPES[name])
    shape = np.asarray(inputs[index]).shape
    inputs[index] = np.full(shape, "1", object) if name == "string" else np.zeros(shape, oracle.numpy_type(name))


def refused_by_standard(model) -> bool:
    bare = copy.deepcopy(model)
    without_dims(bare.graph.output)
    try:
        shape_inference.infer_shapes(bare, strict_mode=True, check_type=True)
    except onnx.shape_inference.InferenceError:
        return True
    return False


def errors(seeds: list, claims) -> list:
    seed = seeds[0]
    schema = schema_of(seed.model)
    place = {info.name: k for k, info in enumerate(seed.model.graph.input)}
    node = node_of(seed.model)
    out = [wrong(seed, "attribute_unknown",
                 lambda m, i, n: n.attribute.append(helper.make_attribute("no_such", 1)), "no_such")]
    for attribute in node.attribute[:1]:
        other = 1 if attribute.type == onnx.AttributeProto.STRING else "text"

        def change_kind(m, i, n, name=attribute.name, value=other):
            old = next(a for a in n.attribute if a.name == name)
            n.attribute.remove(old)
            n.attribute.append(helper.make_attribute(name, value))
        out.append(wrong(seed, "attribute_kind", change_kind, attribute.name))
    required = onnx.defs.OpSchema.FormalParameterOption.Single
    imported = node.domain.startswith("ai.onnx.preview")  # rewritten by the type of its first input as it is read
    if schema.min_input > 0 and not imported and formal(schema, 0).option == required:
        def drop(m, i, n):
            n.input[0] = ""
        out.append(wrong(seed, "input_missing", drop))
    if schema.max_input < 100 and node.input:
        def add(m, i, n):
            n.input.extend([n.input[0]] * (schema.max_input + 1 - len(n.input)))
        out.append(wrong(seed, "input_too_many", add))
    for k, claimed in enumerate(claims):
        refused = [name for name in ("string", "bool", "c64", "f32", "i64") if name not in claimed]
        if k < len(node.input) and node.input[k] in place and refused:
            out.append(wrong(seed, f"type_of_{k}", lambda m, i, n, k=k, t=refused[0]: retype(m, i, place[n.input[k]], t)))
    for k, wire in enumerate(node.input if node.op_type not in LENIENT else []):
        for rank, shape in ((0, ()), (1, (2,)), (7, (1, 1, 1, 1, 1, 2, 2))):
            if rank == 7 and node.op_type == "DeformConv":
                continue  # valid, but not there
            if node.op_type == "OneHot" and k == 0:
                continue  # one index is fine
            if wire not in place or not isinstance(seed.inputs[place[wire]], np.ndarray):
                continue

            def rerank(m, i, n, index=place[wire], dims=shape):
                info = m.graph.input[index]
                if not info.type.HasField("tensor_type"):
                    return False
                i[index] = np.resize(np.asarray(i[index]), dims)
                del info.type.tensor_type.shape.dim[:]
                for size in dims:
                    info.type.tensor_type.shape.dim.add().dim_value = size
                return refused_by_standard(m)
            out.append(wrong(seed, f"rank_of_{k}_{rank}", rerank))
    return [test for test in out if test]
