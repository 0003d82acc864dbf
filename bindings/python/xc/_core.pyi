"""Types of the extension module; see xc/__init__.py."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

class Error(RuntimeError):
    """A failed call. The text is one line: status, place, message. Its __cause__ is the exception of an
    operator's function or an exporter of DLPack, where the failure comes from one."""

    status: str
    """"INVALID_ARGUMENT", "NOT_FOUND", ...; empty, as the others, in one that a program made itself."""
    where: str
    """The node, input or position; empty when there is none."""
    advice: str
    """What to do about it."""

class Port:
    """An input or output of a model. Equal to one of the same name and type."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str:
        """"f32[n, 784]"."""
    @property
    def dtype(self) -> np.dtype | None:
        """None for sequences and optionals, and for ml_dtypes types where that package is absent."""
    @property
    def shape(self) -> tuple[int | str, ...] | None:
        """Symbolic dims as text; None where the rank is not known."""

class Operators:
    """Operators of the host, for models to use: given to sessions, filled before that.

    A signature is one line, "acme::Scale(x: f32[..., n], bias?: f32[n]) {alpha: float = 1} -> y: f32[..., n]".
    The header xc/operator.h has the grammar."""

    def __init__(self) -> None: ...
    def add(self, signature: str, function: Callable[..., Any] | None = None) -> Callable[..., Any] | None:
        """Declares an operator. The function gets the inputs as NumPy arrays of its own (None where an
        optional one is absent), attributes and their defaults by keyword, and returns an array, or a tuple
        of them: of the dtypes and dims that the signature says. What it raises fails the run and is the
        __cause__ of the Error; what is no Exception (KeyboardInterrupt, SystemExit) comes out as it is. Runs
        in several threads call it in turn (it needs the GIL). None: rules alone give the operator a meaning.
        Sessions and their calls keep the function. Returns `function`."""
    def add_rules(self, rules: str) -> None:
        """Adds rewrite rules: "rule r: acme::Twice(?x) => Add(?x, ?x)"."""

class Engine:
    """What sessions may share: threads, settings, the compiler and its share of the CPU, the memory that
    `max_memory_bytes` counts. Sessions keep it."""

    def __init__(
        self,
        threads: int | None = 0,
        jit: str | None = None,
        operators: Operators | None = None,
        **options: str | int | bool | os.PathLike[str] | None,
    ) -> None:
        """`threads`, `jit`, `operators`, `options`: as of a Session that has an engine of its own. Raises Error."""

class Session:
    """A model made ready to run. Safe to use from any number of threads at once."""

    def __init__(
        self,
        model: str | os.PathLike[str] | bytes | bytearray | memoryview,
        threads: int | None = 0,
        jit: str | None = None,
        operators: Operators | None = None,
        engine: Engine | None = None,
        **options: str | int | bool | os.PathLike[str] | None,
    ) -> None:
        """`model` is a path (ONNX, .xcg or the text form, told apart by content; the file must not change
        while the session lives) or the bytes of one. `threads`: 0 = all cores. `jit`: "auto", "off", "sync" or
        "freeze". `options`: others by name, `xc.options()` lists them. What is not given, or None, is read from XC_*.
        A session has an engine of its own unless one is given, which has all these options then. Raises Error,
        and TypeError for arguments of wrong types."""
    def run(
        self,
        inputs: Sequence[Any] | Mapping[str, Any],
        timeout: float | None = None,
        outputs: Iterable[np.ndarray | None] | Mapping[str, np.ndarray | None] | None = None,
    ) -> list[Any]:
        """Runs once: inputs in the model's order or by name, outputs in the model's order.

        NumPy arrays and DLPack objects on the CPU are used in place; those that are not C-contiguous are copied
        into memory that the session keeps and `max_memory_bytes` counts. Texts are object or str arrays; None
        stands for an absent optional input. Series and other arrays that convert themselves are of the type they
        have, like NumPy's; numbers and nested lists of them become the input's type where it can hold them.
        Sequences are lists (tuples may go in), maps dicts, optionals a value or None. Bytes of bool arrays are 0 or
        1, which is not checked: a view of other bytes as bool gives what it gives. Of 4- and 2-bit integers the
        lower bits count; they are copied.

        `timeout` is in seconds. `outputs` are arrays to write results into, None for new ones, or a dict of some by
        name: C-contiguous, of the result's dtype and shape. One may be an input's array, for states kept in one place
        (a cache of keys and values): nothing is copied where `explain()` says that the input is updated in place.

        Raises Error: INVALID_ARGUMENT names the input or output that does not fit, DEADLINE is the timeout. Raises
        TypeError for `inputs` and `outputs` that are neither lists nor dicts."""
    def prepare(
        self,
        inputs: Sequence[Any] | Mapping[str, Any],
        outputs: Iterable[np.ndarray | None] | Mapping[str, np.ndarray | None] | None = None,
    ) -> Call:
        """Binds arrays for repeated runs that look nothing up; the arrays may be refilled. Outputs are
        C-contiguous; inputs that are not are copied in each run. No 4- or 2-bit integers, and no text."""
    def explain(self, shapes: Mapping[str, Sequence[int]] | None = None, json: bool = False) -> str:
        """The current plan: per step the kernel and those refused, fused regions with cost and state."""
    def profile(self) -> dict[str, Any]:
        """What the session has learnt so far: its counters, and under "regions", "sizes" and "events" what
        xc_profile_json() gives. Keys are the fields of xc/profile.h, times end in their unit; an event has the
        numbers of its kind, and "subject" and "detail" where there are any."""
    def trace(self) -> str:
        """The past as JSON in the Chrome trace event format; see xc_session_trace()."""
    def freeze(self) -> None:
        """Ends adaptation: current code stays."""
    def wait_idle(self, timeout: float | None = 10.0) -> bool:
        """Waits until nothing is queued or compiling; False on timeout (seconds; None: no end). A trial may
        still be open: trials advance only while the session runs."""
    def warm_up(self, shapes: Mapping[str, Sequence[int]], timeout: float | None = 60.0) -> bool:
        """Compiles for the given dims of every input before the session serves; False on timeout (seconds; None:
        no end)."""
    @property
    def inputs(self) -> list[Port]: ...
    @property
    def outputs(self) -> list[Port]: ...

class Call:
    """A run prepared for fixed arrays. One thread at a time: others, and an operator's function in the
    middle of it, fail with BUSY."""

    def run(self) -> list[np.ndarray]:
        """Reads the bound inputs, writes the bound outputs, returns them (the same arrays every time)."""
    def __call__(self) -> list[np.ndarray]: ...
    @property
    def outputs(self) -> list[np.ndarray]: ...

def options() -> list[dict[str, Any]]:
    """All settings: "name", "environment" (the variable), "doc", "default", "engine_only" (no session has its own).
    Legal values: "choices" ("on|off"); where that is empty, the numbers from "low" to "high" (None: no end), or any
    text where "low" is None."""

def runtime_version() -> str: ...
