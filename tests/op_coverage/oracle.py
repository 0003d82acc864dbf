"""Expected values: types by name, values converted to a type, and the evaluators that say what a model of one node
gives. Integers are computed in 64 bits and wrapped, floats in f64 and rounded once, moves of narrow types in a wide
one. No value comes from xc."""

from __future__ import annotations

import copy
import multiprocessing
import resource

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, reference, shape_inference

P = TensorProto
PATIENCE_S = 20  # for a node of a few elements: it hangs
TYPES = {
    "f32": P.FLOAT, "f64": P.DOUBLE, "f16": P.FLOAT16, "bf16": P.BFLOAT16, "i8": P.INT8, "i16": P.INT16, "i32": P.INT32,
    "i64": P.INT64, "u8": P.UINT8, "u16": P.UINT16, "u32": P.UINT32, "u64": P.UINT64, "bool": P.BOOL,
    "string": P.STRING, "c64": P.COMPLEX64, "c128": P.COMPLEX128, "f8e4m3fn": P.FLOAT8E4M3FN,
    "f8e4m3fnuz": P.FLOAT8E4M3FNUZ, "f8e5m2": P.FLOAT8E5M2, "f8e5m2fnuz": P.FLOAT8E5M2FNUZ, "f8e8m0": P.FLOAT8E8M0,
    "f4e2m1": P.FLOAT4E2M1, "i4": P.INT4, "u4": P.UINT4, "i2": P.INT2, "u2": P.UINT2,
    "f6e2m3": P.FLOAT6E2M3, "f6e3m2": P.FLOAT6E3M2,
}
NAMES = {number: name for name, number in TYPES.items()}
FLOATS = {"f32", "f64", "f16", "bf16"}
NARROW_FLOATS = {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1", "f6e2m3", "f6e3m2"}
FLOAT8S = {"f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz"}
RANGES = {f"{sign}{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign == "i" else (0, (1 << bits) - 1)
          for sign in "iu" for bits in (2, 4, 8, 16, 32, 64)}


def numpy_type(name: str):
    return np.dtype(object) if name == "string" else np.dtype(helper.tensor_dtype_to_np_dtype(TYPES[name]))


def name_of(array) -> str:
    array = np.asarray(array)
    if array.dtype.kind in "OUS":
        return "string"
    return NAMES[helper.np_dtype_to_tensor_dtype(array.dtype)]


def wrap(array, name: str):
    """Integers of 64 bits in a type, as two's complement wraps them."""
    low, high = RANGES[name]
    if high - low >= (1 << 64) - 1:
        return array.astype(numpy_type(name))
    span = high - low + 1
    return ((array.astype(np.int64) - low) % span + low).astype(numpy_type(name))


def convert(array, name: str):
    """The values of an input as another type: about the same numbers, where the type has them."""
    array = np.asarray(array)
    old = name_of(array)
    if old == name:
        return array
    if old == "string":
        raise ValueError("text is no number")
    if old in NARROW_FLOATS or old in ("bf16", "f16") or old in ("i4", "u4", "i2", "u2"):
        array = array.astype(np.float64)
    if old in ("c64", "c128"):
        array = array.real
    if name == "string":
        return np.array([f"{value:.3g}" for value in array.astype(np.float64).ravel()], object).reshape(array.shape)
    if name in ("c64", "c128"):
        return (array.astype(np.float64) * (1 - 0.5j)).astype(numpy_type(name))
    if name == "bool":
        return array > 0
    if name in RANGES:
        low, high = RANGES[name]
        numbers = np.nan_to_num(array.astype(np.float64), posinf=100, neginf=-100)
        if array.dtype.kind == "f":
            whole = np.array_equal(numbers, np.round(numbers))
            numbers = np.round(numbers if whole else numbers * 3)
        if low == 0:
            numbers = np.abs(numbers)
        return np.clip(numbers, max(low, -(2.0**62)), min(high, 2.0**62)).astype(numpy_type(name))
    if name == "f8e8m0":  # powers of two
        return np.exp2(np.round(np.log2(np.abs(array.astype(np.float64)) + 0.5))).astype(numpy_type(name))
    if name == "f64" and array.dtype.kind == "f" and not np.array_equal(array, np.round(array)):
        return array.astype(np.float64) * (1 + 2.0**-35)  # digits that f32 has not
    return array.astype(np.float64).astype(numpy_type(name))


def elem_type(type_proto) -> int:
    """The element type of a tensor, of a sequence's or an optional's tensors."""
    kind = type_proto.WhichOneof("value")
    if kind == "tensor_type":
        return type_proto.tensor_type.elem_type
    if kind in ("sequence_type", "optional_type"):
        return elem_type(getattr(type_proto, kind).elem_type)
    return 0


def set_elem_type(type_proto, number: int) -> None:
    kind = type_proto.WhichOneof("value")
    if kind in ("tensor_type", None):
        type_proto.tensor_type.elem_type = number
    else:
        set_elem_type(getattr(type_proto, kind).elem_type, number)


def map_values(value, function):
    """A function on a tensor, or on each of a sequence."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [map_values(item, function) for item in value]
    return function(value)


def by_reference(model, inputs):
    """The standard's evaluator."""
    session = reference.ReferenceEvaluator(model)
    with np.errstate(all="ignore"):
        return session.run(None, {info.name: value for info, value in zip(model.graph.input, inputs)})


def answer(pipe) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        text, inputs = pipe.recv()
        try:
            pipe.send(run_onnxruntime(onnx.load_from_string(text), inputs))
        except Exception:  # noqa: BLE001
            pipe.send(None)


class Worker:
    """onnxruntime in a process of its own, made anew when it is gone: some kernels abort on an empty tensor."""

    def __init__(self):
        self.process = self.pipe = None

    def ask(self, model, inputs):
        """None where it refuses or breaks."""
        if self.process is None:
            context = multiprocessing.get_context("fork")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=answer, args=(other,), daemon=True)
            self.process.start()
            other.close()
        try:
            self.pipe.send((model.SerializeToString(), inputs))
            if self.pipe.poll(PATIENCE_S):
                return self.pipe.recv()
            print(f"onnxruntime does not come back from {model.graph.name}")
        except (EOFError, OSError):
            pass
        self.process.kill()
        self.process.join()
        self.process = None
        return None


WORKER = Worker()


def by_onnxruntime(model, inputs):
    return WORKER.ask(model, inputs)


# Where onnxruntime's operators have signed weights and their zero points, and what they are in unsigned ones.
SIGNED_WEIGHTS = {"DynamicQuantizeMatMul": (1, 3), "MatMulIntegerToFloat": (1, 5), "QAttention": (1, 7), "QGemm": (3, 5)}


def with_unsigned_weights(model):
    """The same sums without products of unsigned by signed bytes: where the processor has no instruction for them (VNNI),
    onnxruntime adds up pairs of them in 16 bits, which saturates."""
    graph = model.graph
    types = {i.name: i.type.tensor_type.elem_type for i in graph.input} | {i.name: i.data_type for i in graph.initializer}
    nodes = []
    for node in graph.node:
        weights, zero = SIGNED_WEIGHTS.get(node.op_type, (len(node.input), 0))
        signed = [types.get(name) == TensorProto.INT8 for name in node.input]
        if weights < len(node.input) and signed[weights] and not signed[0]:
            offset = f"{node.input[weights]}_offset"
            nodes.append(helper.make_node("Constant", [], [offset], value_int=128))
            node.input.extend([""] * (zero + 1 - len(node.input)))
            for k in (weights, zero):
                name, to = node.input[k], f"{node.input[weights]}_unsigned_{k}"
                nodes.append(helper.make_node("Cast", [name], [f"{to}_wide"], to=TensorProto.INT64) if name else
                             helper.make_node("Constant", [], [f"{to}_wide"], value_int=0))
                nodes.append(helper.make_node("Add", [f"{to}_wide", offset], [f"{to}_moved"]))
                nodes.append(helper.make_node("Cast", [f"{to}_moved"], [to], to=TensorProto.UINT8))
                node.input[k] = to
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def with_weights_of_floats(model):
    """DynamicQuantizeLSTM as LSTM: onnxruntime's kernel also rounds the inputs of its products to 8 bits."""
    graph, nodes = model.graph, []

    def add(op, *names, **attributes):
        nodes.append(helper.make_node(op, list(names), [f"{op}_of_floats_{len(nodes)}"], **attributes))
        return nodes[-1].output[0]
    ranks = {i.name: len(i.type.tensor_type.shape.dim) for i in graph.input} | {i.name: len(i.dims) for i in graph.initializer}
    for node in graph.node:
        if node.op_type == "DynamicQuantizeLSTM":
            names = list(node.input)
            axes = [add("Constant", value_ints=axes) for axes in ([], [1, 2], [1])]
            for weights, scale, zero in ((1, 8, 9), (2, 10, 11)):
                wide = add("Cast", names[weights], to=TensorProto.FLOAT)
                for op, k in (("Sub", zero), ("Mul", scale)):
                    if names[k]:
                        factor = add("Cast", names[k], to=TensorProto.FLOAT)
                        wide = add(op, wide, add("Unsqueeze", factor, axes[ranks[names[k]]]))
                names[weights] = add("Transpose", wide, perm=[0, 2, 1])
            lstm = helper.make_node("LSTM", names[:8], list(node.output), name=node.name)
            lstm.attribute.extend(node.attribute)
            nodes.append(lstm)
        else:
            nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def run_onnxruntime(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    older = with_weights_of_floats(with_unsigned_weights(copy.deepcopy(model)))
    older.ir_version = min(older.ir_version, 11)
    session = onnxruntime.InferenceSession(older.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {info.name: value for info, value in zip(model.graph.input, inputs)})


def first_answer(attempts):
    """What the first evaluator that has an answer says, and its place in the list; (None, -1) when none has."""
    for k, attempt in enumerate(attempts):
        try:
            outputs = attempt()
        except Exception:  # noqa: BLE001  evaluators raise whatever they meet
            continue
        if outputs is not None and all(output is not None for output in outputs):
            return list(outputs), k
    return None, -1


def output_types(model) -> list[int]:
    """The element types of the outputs as the standard infers them; 0 where it cannot."""
    bare = copy.deepcopy(model)
    for info in bare.graph.output:
        info.ClearField("type")
    try:
        inferred = shape_inference.infer_shapes(bare)
    except Exception:  # noqa: BLE001
        return [0] * len(model.graph.output)
    return [elem_type(info.type) if info.HasField("type") else 0 for info in inferred.graph.output]


def wide(name: str) -> str:
    """The type in which the evaluator computes for a type."""
    if name in FLOATS or name in NARROW_FLOATS:
        return "f64"
    return "i64" if name in RANGES and name != "u64" else name


def to_type(array, name: str):
    """Results of a wide evaluation in the type of the output."""
    array = np.asarray(array)
    if name == "string" and not all(isinstance(text, (str, bytes)) for text in array.ravel()):
        raise ValueError("numbers are no text")
    if name == "string":
        return array.astype(object)
    if array.dtype == numpy_type(name):
        return array
    if name in RANGES and array.dtype.kind in "iu":
        return wrap(array, name)
    if name in RANGES and array.dtype.kind in "fV":
        return wrap(np.trunc(array.astype(np.float64)).astype(np.int64), name)
    if name == "f8e8m0":  # has no zero: what stands for it is the smallest number, whose bits are 0
        array = np.where(array.astype(np.float64) == 0, 2.0**-127, array.astype(np.float64))
    with np.errstate(all="ignore"):
        return array.astype(numpy_type(name))


def evaluate_as(model, inputs, types: list[str], direct: bool, node):
    """Outputs of a model of one node whose inputs have been converted to `types`: by the standard's evaluator on wide
    types, on the types as they are, or by onnxruntime. The second result is the place of the one that answered."""
    def widened():
        other = copy.deepcopy(model)
        values = []
        for info, value, name in zip(other.graph.input, inputs, types):
            set_elem_type(info.type, TYPES[wide(name)])
            values.append(map_values(value, lambda a, n=name: a if n == wide(n) else np.asarray(a).astype(
                numpy_type(wide(n)))))
        for info in other.graph.output:
            info.ClearField("type")
        return by_reference(other, values)

    def retyped(run, change, to):
        """By another evaluator or type: `change` says for the name of a type whether it becomes `to`."""
        other, values = copy.deepcopy(model), []
        for info, value, name in zip(other.graph.input, inputs, types):
            set_elem_type(info.type, TYPES[to if change(name) else name])
            values.append(map_values(value, lambda a, n=name: a.astype(numpy_type(to)) if change(n) else a))
        for info in other.graph.output:
            info.ClearField("type")
        return run(other, values)

    def first_retyped(to):
        """Integers in another type; axes and the like stay."""
        if types[0] not in RANGES:
            return None
        other = copy.deepcopy(model)
        set_elem_type(other.graph.input[0].type, TYPES[to])
        for info in other.graph.output:
            info.ClearField("type")
        return by_reference(other, [inputs[0].astype(numpy_type(to)), *inputs[1:]])

    def by_codes():
        """Moves of what the evaluators do not take: of its place in a list of the values there are, the first of which
        fills what nothing is moved to."""
        moved = ("bool", "string", "c64", "c128")
        values = [v for v, name in zip(inputs, types) if name in moved]
        kind = next(name for name in types if name in moved)
        nothing = "" if kind == "string" else numpy_type(kind).type(0).item()
        known = [nothing, *sorted({item for v in values for item in v.ravel().tolist()} - {nothing}, key=str)]
        other, codes = copy.deepcopy(model), []
        for info, value, name in zip(other.graph.input, inputs, types):
            if name in moved:
                set_elem_type(info.type, TYPES["f32"])
                value = np.array([known.index(item) for item in value.ravel().tolist()], np.float32).reshape(value.shape)
            codes.append(value)
        for info in other.graph.output:
            info.ClearField("type")
        out = first_answer([lambda: by_reference(other, codes), lambda: with_types_of_f32(other, codes)])[0][0]
        return [np.array([known[int(code)] for code in out.ravel()], numpy_type(kind)).reshape(out.shape)]

    if node.op_type == "Scatter":  # by its newer name, which the evaluator knows
        model = copy.deepcopy(model)
        model.graph.node[-1].op_type = "ScatterElements"
        model.opset_import[0].version = 18
    in_f32 = [lambda: retyped(by_onnxruntime, lambda name: name in RANGES, "f32")]
    if node.domain == "ai.onnx.ml":  # integers are computed in f32, by definition
        return first_answer([lambda: by_onnxruntime(model, inputs), *in_f32, lambda: by_reference(model, inputs)])
    if node.domain == "com.microsoft" and not direct:  # onnxruntime alone has it, most of it in f32 only
        outputs, _ = first_answer([lambda: retyped(by_onnxruntime, lambda name: name in FLOATS, "f32"),
                                   lambda: by_onnxruntime(model, inputs)])
        return outputs, 1
    if node.op_type in ("Resize", "GridSample") and any(name in ("c64", "c128") for name in types):
        return first_answer([by_codes])  # the evaluator drops imaginary parts
    if node.op_type == "QLinearMatMul" and any(name in FLOAT8S for name in types):
        return [quantised_product(inputs)], 0  # the evaluator has integers only
    if node.op_type in ("GRU", "RNN") and len(node.input) > 4 and node.input[4]:  # lengths, which the evaluator ignores
        return first_answer([lambda: by_onnxruntime(model, inputs),
                             lambda: retyped(with_types_of_f32, lambda name: name in FLOATS, "f32")])
    if direct:
        return first_answer([lambda: by_reference(model, inputs), lambda: by_onnxruntime(model, inputs)])
    return first_answer([
        widened, lambda: by_reference(model, inputs), lambda: by_onnxruntime(model, inputs),
        lambda: first_retyped("f64"),
        lambda: retyped(with_types_of_f32, lambda name: name in FLOATS, "f32"), by_codes])


def quantised_product(inputs):
    """QLinearMatMul of one scale per tensor in f64, by the formulas of its text."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (
        value if k in (0, 3) else np.asarray(value).reshape(()) for k, value in enumerate(inputs))
    wide = [np.asarray(value).astype(np.float64) for value in (a, a_scale, a_zero, b, b_scale, b_zero, scale)]
    exact = ((wide[0] - wide[2]) * wide[1]) @ ((wide[3] - wide[5]) * wide[4]) / wide[6]
    if zero.dtype.kind in "iu":
        limits = np.iinfo(zero.dtype)
        return np.clip(np.rint(exact) + zero.astype(np.float64), limits.min, limits.max).astype(zero.dtype)
    return onnx.numpy_helper.saturate_cast(exact + zero.astype(np.float64), zero.dtype)


def with_types_of_f32(model, inputs):
    """onnxruntime wants declared outputs: f32, the type of its inputs here."""
    for info in model.graph.output:
        info.type.tensor_type.elem_type = TYPES["f32"]
    return by_onnxruntime(model, inputs)
