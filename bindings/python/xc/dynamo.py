"""torch.compile(model, backend="xc"): graphs that PyTorch's compiler front end finds, run by xc.

    model = torch.compile(model.eval(), backend="xc", options={"threads": 2})
    with torch.no_grad():
        y = model(x)
    for graph in xc.dynamo.graphs():
        print(graph.explain())

`options` are those of `xc.Session`; `threads` is `torch.get_num_threads()` if not given. Needs torch 2.6 or later
and the package onnxscript, with which torch writes ONNX (`pip install xcrt[torch]`).

Parameters and buffers become constants of the model. They are looked at in every call: ones that were replaced or
changed in place are read again, and ones that keep changing become inputs. Numbers written through `tensor.data` or
a NumPy array are changes that PyTorch does not count: tell it by `torch.autograd.graph.increment_version(tensor)`.
Sizes that torch takes for dynamic are symbols of the model and other ints its inputs, so another one makes no new
model; where that cannot be, eight sizes or numbers have one each. What xc cannot run (see `Graph.eager`) runs as without a
compiler: graphs whose gradients are wanted, tensors that are not on the CPU, operators that have no form in ONNX, and
random numbers, which stay those of `torch.manual_seed()`.
"""

import contextlib
import copy
import itertools
import logging
import operator
import os
import pathlib
import re
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.fx import GraphModule
from torch.multiprocessing.reductions import StorageWeakRef

from xc._core import Engine, Error, Port, Session

__all__ = ["Graph", "backend", "graphs"]

_log = logging.getLogger(__name__)
_graphs: "weakref.WeakSet[Graph]" = weakref.WeakSet()
_serials = itertools.count()
_exporting = threading.Lock()
_engines: "weakref.WeakValueDictionary[tuple[int, str], Engine]" = weakref.WeakValueDictionary()


def graphs() -> "list[Graph]":
    """The graphs compiled so far that still live, in the order in which torch found them."""
    return sorted(_graphs, key=lambda graph: graph.serial)


def backend(
    module: GraphModule, example_inputs: Sequence[Any], options: dict[str, Any] | None = None, **_: Any
) -> Callable[..., Any]:
    """What torch.compile calls per graph. The graph is converted at its first call, which has its tensors."""
    options = {"threads": torch.get_num_threads(), **(options or {})}
    engine = _engine_of(options)  # options that are wrong are an error, not a reason to do without xc
    if _changes_or_returns_inputs(module):
        return _compile_pure_core(module, example_inputs, engine)
    return Graph(module, [k for k, value in enumerate(example_inputs) if _is_weight(value)], engine)


def _engine_of(options: dict[str, Any]) -> Engine:
    """One for all graphs with these options, whose threads they share. A forked process has none of them."""
    key = os.getpid(), repr(sorted(options.items()))
    if (engine := _engines.get(key)) is None:
        engine = _engines[key] = Engine(**options)
    return engine


class Graph:
    """A function of tensors without side effects, as torch found it. Safe to call from any number of threads."""

    _CHANGES = 3  # of weights, until they are inputs
    _SIZES = 8  # that have a model, where a model has no symbols

    def __init__(self, module: GraphModule, weights: Sequence[int], engine: Engine) -> None:
        """`weights`: positions of the arguments that rarely change."""
        self.serial = next(_serials)
        self.eager: str | None = None
        """Why PyTorch runs it; None while xc does."""
        self._module = module
        self._engine = engine
        self._weights = list(weights)
        self._arguments = [_example_of(node) for node in _placeholders(module)]
        self._results = _Results(module)
        self._models: list[_Model] = []  # the one that ran last is the first
        self._static = False  # a model per signature
        self._changes = 0
        self._lock = threading.Lock()
        if any(_wants_gradient(value) for value in self._arguments) and torch.is_grad_enabled():
            self._give_up("gradients are wanted (torch.no_grad() or inference_mode() says that they are not)")
        _graphs.add(self)

    def __call__(self, *arguments: Any) -> Any:
        model = self._model_for(arguments) if self.eager is None else None
        if model is None:
            return self._module(*arguments)
        return self._results.tuple_of(arguments, model.run(arguments))

    @property
    def sessions(self) -> list[Session]:
        """One per set of weights (a layer's code may serve many layers)."""
        with self._lock:
            return [model.session for model in self._models]

    def explain(self) -> str:
        """The plans of its sessions, or why it has none."""
        if self.eager is not None:
            return f"run by PyTorch: {self.eager}"
        return "\n".join(session.explain() for session in self.sessions) or "not run yet"

    def _model_for(self, arguments: Sequence[Any]) -> "_Model | None":
        models = self._models
        if models and models[0].fits(arguments):
            return models[0]
        with self._lock:
            for model in self._models:
                if model.fits(arguments):
                    self._models = [model] + [other for other in self._models if other is not model]
                    return model
            return self._add_model(arguments)

    def _add_model(self, arguments: Sequence[Any]) -> "_Model | None":
        stale = [model for model in self._models if model.is_stale()]
        if stale:
            self._models = [model for model in self._models if model not in stale]
            self._changes += 1
        # Changes of tensors made in inference mode are not counted.
        self._weights = [
            k for k in self._weights if self._changes < self._CHANGES and not arguments[k].is_inference()
        ]
        if any(isinstance(value, torch.Tensor) and value.device.type != "cpu" for value in arguments):
            return self._give_up("tensors that are not on the CPU")
        if self._static and sum(model.has_weights(arguments) for model in self._models) >= self._SIZES:
            return None
        try:
            try:
                model = _Model(self, arguments)
            except _LeftToTorch:
                raise
            except Exception as error:
                if self._static or not any(_is_dynamic(value) for value in self._arguments):
                    raise
                _log.warning(
                    "graph %d: a model for each of %d sizes or numbers, others are run by PyTorch, since with symbols: %s",
                    self.serial, self._SIZES, _line(error),
                )  # fmt: skip
                self._static = True
                model = _Model(self, arguments)
        except Exception as error:  # whatever a converter may raise
            return self._give_up(_line(error))
        self._models.insert(0, model)
        return model

    def _give_up(self, why: str) -> None:
        self.eager = why
        self._models = []
        _log.warning("graph %d is run by PyTorch: %s", self.serial, why)


class _LeftToTorch(Exception):
    """Of a graph that xc would run otherwise than PyTorch does, whatever its sizes."""


class _Results:
    """What a graph returns: tensors that a model computes, arguments and numbers."""

    def __init__(self, module: GraphModule) -> None:
        [output] = module.graph.find_nodes(op="output")
        position = {node: k for k, node in enumerate(_placeholders(module))}
        self._results: list[Callable[[Sequence[Any], Sequence[torch.Tensor]], Any]] = []
        self.computed: list[int] = []  # which of the graph's results the model has
        self.examples: list[Any] = []  # of those
        for k, value in enumerate(output.args[0]):
            if not isinstance(value, torch.fx.Node):
                self._results.append(lambda arguments, tensors, value=value: value)
            elif value in position:
                self._results.append(lambda arguments, tensors, at=position[value]: arguments[at])
            else:
                at = len(self.computed)
                self.computed.append(k)
                self.examples.append(_example_of(value))
                if isinstance(self.examples[-1], _NUMBERS):
                    self._results.append(lambda arguments, tensors, at=at: tensors[at].item())
                else:
                    self._results.append(lambda arguments, tensors, at=at: tensors[at])
        tensors_alone = not any(isinstance(value, _NUMBERS) for value in self.examples)
        self._computed_alone = tensors_alone and len(self.computed) == len(self._results)
        orders = [_order_of(value) for value in self.examples]
        self._turned = [(at, order, np.argsort(order).tolist()) for at, order in enumerate(orders) if order]

    def tuple_of(self, arguments: Sequence[Any], tensors: list[torch.Tensor]) -> tuple[Any, ...]:
        for at, order, back in self._turned:
            tensors[at] = tensors[at].permute(order).contiguous().permute(back)
        if self._computed_alone:
            return tuple(tensors)
        return tuple(result(arguments, tensors) for result in self._results)


def _order_of(example: Any) -> list[int] | None:
    """The axes of a result from the one whose elements lie farthest apart on; None for a row-major one. What the
    program does next may rest on that order: it has seen the example's strides, as after transposing or in
    channels_last. Axes that are expanded lie at the front, and gaps are not kept."""
    if not isinstance(example, torch.Tensor) or example.dim() < 2 or example.layout != torch.strided:
        return None
    sizes = [_hint_of(size) for size in example.shape]
    strides = [_hint_of(stride) for stride in example.stride()]
    if None in strides or 0 in sizes:
        return None
    order = sorted(range(len(sizes)), key=lambda axis: -strides[axis] if strides[axis] else -float("inf"))
    moved = [axis for axis in order if sizes[axis] != 1]  # the stride of one element says nothing
    return order if moved != sorted(moved) else None


def _hint_of(size: int | torch.SymInt) -> int | None:
    """The number that a symbol stood for when it was found; None for one that only a run tells."""
    return size if isinstance(size, int) else size.node.hint


class _Model:
    """A session for one set of weights of a graph."""

    def __init__(self, graph: Graph, arguments: Sequence[Any]) -> None:
        self._weights = [(k, weakref.ref(arguments[k]), _state_of(arguments[k])) for k in graph._weights]
        # Of their memory, whose identity is not given to another while these live.
        self._storages = [StorageWeakRef(arguments[k].untyped_storage()) for k in graph._weights]
        tensors = [k for k, value in enumerate(arguments) if isinstance(value, torch.Tensor)]
        self._sizes = [(k, arguments[k].shape) for k in tensors] if graph._static else []
        self._numbers = [(k, v) for k, v in enumerate(arguments) if k not in tensors] if graph._static else []
        fixed = _Fixed(graph, [k for k in tensors if k not in graph._weights], arguments)
        self._inputs = fixed.inputs
        self._counts = [k for k in self._inputs if k not in tensors]
        if not self._has_counts(arguments):
            raise RuntimeError("a number is no count")
        inputs = [arguments[k] for k in self._inputs]
        # A thread has none of the modes that a graph may run in. torch.export keeps state of the process.
        with _exporting, ThreadPoolExecutor(1) as pool:
            self.session = pool.submit(_session_of, fixed, inputs, graph._engine).result()
        _require_types("argument", self.session.inputs, inputs)
        _require_types("result", self.session.outputs, graph._results.examples)

    def has_weights(self, arguments: Sequence[Any]) -> bool:
        for k, weight, state in self._weights:
            value = arguments[k]
            if weight() is not value or _state_of(value) != state:
                return False
        return True

    def fits(self, arguments: Sequence[Any]) -> bool:
        if not self.has_weights(arguments):
            return False
        for k, size in self._sizes:
            if arguments[k].shape != size:
                return False
        return self._has_counts(arguments) and all(arguments[k] == number for k, number in self._numbers)

    def _has_counts(self, arguments: Sequence[Any]) -> bool:
        """torch.export takes a number that is a symbol for one of at least 0."""
        return all(0 <= arguments[k] < 2**63 for k in self._counts)

    def is_stale(self) -> bool:
        """Whether weights it was made for are gone or have changed."""
        return any((value := weight()) is None or _state_of(value) != state for _, weight, state in self._weights)

    def run(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        return [_tensor_of(array) for array in self.session.run([_array_of(arguments[k]) for k in self._inputs])]


class _Fixed(torch.nn.Module):
    """The graph with its weights inside: from other tensors and numbers to the results that are not arguments."""

    def __init__(self, graph: Graph, tensors: Sequence[int], arguments: Sequence[Any]) -> None:
        """`tensors`: positions of the arguments that are inputs; numbers that are no sizes of them become more."""
        super().__init__()
        symbolic, static = graph._arguments, graph._static
        self.graph_module = _without_metadata(graph._module)
        self._computed = list(graph._results.computed)
        # Of the modes around a call, the one that says what is computed; torch makes a graph for each.
        self._autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        self._sources: list[Callable[[Sequence[Any]], Any]] = []
        self.inputs = list(tensors)
        self.dynamic_shapes: list[Any] = [{} for _ in tensors]
        dims: dict[str, tuple[int, int]] = {}  # of inputs, by the symbol of torch
        place = {k: at for at, k in enumerate(tensors)}
        for k, at in place.items():
            for axis, size in enumerate(symbolic[k].shape if not static else ()):
                if not isinstance(size, int):
                    dims.setdefault(str(size.node.expr), (at, axis))
                    self.dynamic_shapes[at][axis] = torch.export.Dim.DYNAMIC
        for k, value in enumerate(arguments):
            if k in place:
                self._sources.append(lambda inputs, at=place[k]: inputs[at])
            elif isinstance(value, torch.Tensor):
                name = f"weight_{k}"
                self.register_buffer(name, value.detach())
                self._sources.append(lambda inputs, name=name: getattr(self, name))
            elif static or isinstance(symbolic[k], int):
                self._sources.append(lambda inputs, value=value: value)
            elif (found := dims.get(str(symbolic[k].node.expr))) is not None:
                self._sources.append(lambda inputs, found=found: inputs[found[0]].shape[found[1]])
            elif not isinstance(symbolic[k], torch.SymInt):
                raise RuntimeError(f"argument {k} is a number that is no integer")
            else:
                self._sources.append(lambda inputs, at=len(self.inputs): inputs[at])
                self.inputs.append(k)
                self.dynamic_shapes.append(torch.export.Dim.DYNAMIC)

    def forward(self, *inputs: Any) -> tuple[torch.Tensor, ...]:
        enabled, dtype = self._autocast
        with torch.autocast("cpu", dtype, enabled=enabled) if enabled else contextlib.nullcontext():
            results = self.graph_module(*[source(inputs) for source in self._sources])
        return tuple(results[k] for k in self._computed)


def _session_of(module: _Fixed, inputs: Sequence[Any], engine: Engine) -> Session:
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        examples = tuple(_leaf_of(value) if isinstance(value, torch.Tensor) else value for value in inputs)
        program = torch.export.export(
            module, examples, dynamic_shapes=(tuple(module.dynamic_shapes),), strict=False
        )
        _require_no_random(program)
        if program.graph_signature.user_inputs_to_mutate or program.graph_signature.buffers_to_mutate:
            raise RuntimeError("an argument is changed in place")
        # xc maps the weights' file, which may be removed then: they are never in memory twice.
        path = pathlib.Path(folder, "model.onnx")
        torch.onnx.export(program, dynamo=True, verbose=False).save(path, external_data=True)
        return Session(path, engine=engine)


def _require_no_random(program: torch.export.ExportedProgram) -> None:
    """A model would draw other numbers than PyTorch, whose generator others seed and share."""
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            if node.op == "call_function" and _is_random(node):
                raise _LeftToTorch(f"random numbers are PyTorch's: {node.target}")


def _is_random(node: torch.fx.Node) -> bool:
    if torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ()):
        return False
    schema = node.target._schema.arguments
    given = {port.name: port.default_value for port in schema if port.has_default_value()}
    given |= dict(zip((port.name for port in schema), node.args, strict=False)) | node.kwargs
    trains = given.get("train", given.get("training", True))
    share = given.get("dropout", given.get("dropout_p", given.get("p", 1) if "train" in given else 1))
    return trains is not False and share != 0


def _require_types(what: str, ports: Sequence[Port], values: Sequence[Any]) -> None:
    """Of a model's inputs or outputs: those of the graph. A converter makes pairs of floats of complex numbers."""
    if len(ports) != len(values):
        raise RuntimeError(f"the converted model has {len(ports)} {what}s in place of {len(values)}")
    for port, value in zip(ports, values, strict=True):
        given = _DTYPES.get(port.type.split("[")[0])
        if isinstance(value, torch.Tensor):
            wanted, rank = value.dtype, value.dim()
        else:
            wanted, rank = (torch.int64 if isinstance(value, int | torch.SymInt) else given), 0
        if given != wanted or port.shape is not None and len(port.shape) != rank:
            raise RuntimeError(f"{what} {port.name} is {wanted} of rank {rank} in PyTorch, {port.type} in the converted model")


def _leaf_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone() if tensor.is_inference() else tensor.detach()


def _compile_pure_core(
    module: GraphModule, example_inputs: Sequence[Any], engine: Engine
) -> Callable[..., Any]:
    """Of a graph that is no function of its arguments: AOTAutograd makes one of it, and does the rest itself."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    def compile_core(core: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        context = torch._guards.TracingContext.try_get()
        metadata = context.fw_metadata if context else None
        return make_boxed_func(Graph(core, metadata.static_input_indices if metadata else [], engine))

    by_torch = lambda core, _: make_boxed_func(core.forward)  # noqa: E731
    of_module = aot_autograd(
        fw_compiler=by_torch, inference_compiler=compile_core, decompositions=_batch_norms_that_train()
    )
    return of_module(module, example_inputs)


def _batch_norms_that_train() -> dict[Any, Callable[..., Any]]:
    """torch's exporter takes them for ones that use the running statistics. Those that do stay whole."""
    aten = torch.ops.aten
    return torch._decomp.get_decompositions(
        [aten._native_batch_norm_legit_functional, aten._native_batch_norm_legit, aten.native_batch_norm]
    )


def _changes_or_returns_inputs(module: GraphModule) -> bool:
    """Whether an argument is written to, or a result lies in the memory of an argument or another result."""
    taken = set()
    for node in _placeholders(module):
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            if value._version != 0:  # torch has run the graph on it, without numbers
                return True
            taken.add(value.untyped_storage()._cdata)
    for node in module.graph.nodes:
        writes = node.target.endswith("_") if node.op == "call_method" else node.target in _WRITERS
        if writes or node.kwargs.get("inplace") or "out" in node.kwargs:
            return True
    [output] = module.graph.find_nodes(op="output")
    for node in output.args[0]:
        if not isinstance(node, torch.fx.Node) or node.op == "placeholder":
            continue
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            memory = value.untyped_storage()._cdata
            if memory in taken:
                return True
            taken.add(memory)
    return False


_WRITERS = (
    operator.setitem, operator.iadd, operator.isub, operator.imul, operator.imatmul, operator.itruediv,
    operator.ifloordiv, operator.imod, operator.ipow, operator.iand, operator.ior, operator.ixor,
    operator.ilshift, operator.irshift,
)  # fmt: skip


def _without_metadata(module: GraphModule) -> GraphModule:
    """A copy to trace anew: what AOTAutograd leaves in nodes belongs to modes that are over."""
    graph = copy.deepcopy(module.graph)
    for node in graph.nodes:
        node.meta = {}
        if node.op == "call_function":
            node.target = _PLAIN.get(node.target, node.target)
    return GraphModule(module, graph)


def _encoder_layer(
    x: torch.Tensor, width: int, heads: int, in_weight: Any, in_bias: Any, out_weight: Any, out_bias: Any,
    gelu: bool, norm_first: bool, eps: float, scale_1: Any, shift_1: Any, scale_2: Any, shift_2: Any,
    weight_1: Any, bias_1: Any, weight_2: Any, bias_2: Any, mask: Any = None, mask_type: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """What torch._transformer_encoder_layer_fwd computes: nn.TransformerEncoderLayer when it does not train."""
    linear, norm = torch.nn.functional.linear, torch.nn.functional.layer_norm
    takes_part = None if mask is None else mask == 0
    if mask_type == 1:  # of keys
        takes_part = takes_part[:, None, None, :]

    def attend(x: torch.Tensor) -> torch.Tensor:
        parts = linear(x, in_weight, in_bias).unflatten(-1, (3, heads, width // heads))
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind()
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=takes_part)
        return linear(y.transpose(1, 2).flatten(-2), out_weight, out_bias)

    def feed(x: torch.Tensor) -> torch.Tensor:
        y = linear(x, weight_1, bias_1)
        y = torch.nn.functional.gelu(y) if gelu else torch.relu(y)
        return linear(y, weight_2, bias_2)

    if norm_first:
        x = x + attend(norm(x, (width,), scale_1, shift_1, eps))
        return x + feed(norm(x, (width,), scale_2, shift_2, eps))
    x = norm(x + attend(x), (width,), scale_1, shift_1, eps)
    return norm(x + feed(x), (width,), scale_2, shift_2, eps)


# Functions that have no form in ONNX, by others.
_PLAIN = {
    torch._transformer_encoder_layer_fwd: _encoder_layer,
    torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,
}


def _placeholders(module: GraphModule) -> list[torch.fx.Node]:
    return module.graph.find_nodes(op="placeholder")


def _example_of(node: torch.fx.Node) -> Any:
    """A tensor without numbers, or a number, as the graph has in place of the node."""
    return node.meta.get("example_value", node.meta.get("val"))


def _is_weight(value: Any) -> bool:
    """Of an example: parameters, and the buffers of modules, which torch marks."""
    return isinstance(value, torch.nn.Parameter) or getattr(value, "_dynamo_static_input_type", None) is not None


def _state_of(weight: torch.Tensor) -> tuple[int, int, int]:
    """What differs once PyTorch has changed a tensor or `tensor.data = ...` has given it other memory."""
    return weight._version, weight.data_ptr(), weight.untyped_storage()._cdata


def _wants_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _is_dynamic(value: Any) -> bool:
    sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
    return any(isinstance(size, torch.SymInt) for size in sizes)


def _array_of(tensor: torch.Tensor | int) -> Any:
    """NumPy's arrays take a third of DLPack's time."""
    if isinstance(tensor, int):
        return np.array(tensor, np.int64)
    if (dtype := _ML_DTYPES.get(tensor.dtype)) is not None:
        return tensor.detach().view(_BYTES[dtype.itemsize]).numpy().view(dtype)
    return tensor.numpy(force=True)


def _tensor_of(array: np.ndarray) -> torch.Tensor:
    if (dtype := _OF_ML_DTYPES.get(array.dtype)) is not None:
        return torch.from_numpy(array.view(f"u{array.dtype.itemsize}")).view(dtype)
    return torch.from_numpy(array)


_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)

_DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8e4m3fn": torch.float8_e4m3fn,
    "f8e4m3fnuz": torch.float8_e4m3fnuz,
    "f8e5m2": torch.float8_e5m2,
    "f8e5m2fnuz": torch.float8_e5m2fnuz,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u64": torch.uint64,
    "u32": torch.uint32,
    "u16": torch.uint16,
    "u8": torch.uint8,
    "bool": torch.bool,
}  # of ports

# Types that NumPy has from ml_dtypes, which onnxscript needs too. Not all of PyTorch export them by DLPack.
_ML_DTYPES = {
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
    torch.float8_e4m3fn: np.dtype(ml_dtypes.float8_e4m3fn),
    torch.float8_e4m3fnuz: np.dtype(ml_dtypes.float8_e4m3fnuz),
    torch.float8_e5m2: np.dtype(ml_dtypes.float8_e5m2),
    torch.float8_e5m2fnuz: np.dtype(ml_dtypes.float8_e5m2fnuz),
}
_OF_ML_DTYPES = {dtype: of for of, dtype in _ML_DTYPES.items()}
_BYTES = {1: torch.uint8, 2: torch.int16}


def _line(error: BaseException) -> str:
    """The first line that says something of what it comes from: exporters' texts are pages, in colours."""
    while not isinstance(error, Error) and error.__cause__ is not None:
        error = error.__cause__
    text = str(error if isinstance(error, Error | _LeftToTorch) else f"{type(error).__name__}: {error}")
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__)
