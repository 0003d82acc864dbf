"""The binding on tiny models, written with the onnx package or in the text format."""

from __future__ import annotations

import array
import fractions
import gc
import json
import pathlib
import subprocess
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import xc

AFFINE = b"""graph affine(%x: f32[n, 2]) -> (%y, %z) {
  const %b: f32[2] = [10, -2]
  %s: f32[n, 2] = Add(%x, %b)
  %y: f32[n, 2] = Relu(%s)
  %z: f32[n, 2] = Neg(%x)
}
"""
X = np.array([[1, 5], [-20, 0]], np.float32)
Y = np.array([[11, 3], [0, 0]], np.float32)


@pytest.fixture
def session():
    return xc.Session(AFFINE, threads=1, jit="off")


def one_op(op: str, dtype: str, inputs: int = 1, shape: str = "n, m") -> bytes:
    names = ", ".join(f"%x{i}: {dtype}[{shape}]" for i in range(inputs))
    uses = ", ".join(f"%x{i}" for i in range(inputs))
    return f"graph g({names}) -> (%y) {{\n  %y = {op}({uses})\n}}\n".encode()


def test_list_and_dict(session):
    for inputs in ([X], (X,), {"x": X}):
        y, z = session.run(inputs)
        np.testing.assert_array_equal(y, Y)
        np.testing.assert_array_equal(z, -X)
        assert y.dtype == np.float32 and y.flags.c_contiguous and y.flags.writeable


def test_any_mapping_by_name(session, tmp_path):
    np.savez(tmp_path / "x.npz", x=X)
    for inputs in (types.MappingProxyType({"x": X}), np.load(tmp_path / "x.npz")):
        np.testing.assert_array_equal(session.run(inputs)[0], Y)
    with pytest.raises(xc.Error, match="'?z'?"):
        session.run(types.MappingProxyType({"z": X}))


def test_ports(session):
    (x,) = session.inputs
    assert (x.name, x.type, x.shape, x.dtype) == ("x", "f32[n, 2]", ("n", 2), np.float32)
    assert [o.name for o in session.outputs] == ["y", "z"]
    assert "x" in repr(x)


def test_ports_are_values(session):
    (x,) = session.inputs
    y, z = session.outputs
    assert x == session.inputs[0] and y != z and x != "x" and not x == None  # noqa: E711
    assert len({x, session.inputs[0], y, z}) == 3


def test_weak_references(session):
    call = session.prepare([X])
    gone = [weakref.ref(session), weakref.ref(call)]
    assert [reference() for reference in gone] == [session, call]
    del session, call


@pytest.mark.parametrize("name", ["Session", "Engine", "Call", "Operators", "Port"])
def test_help_says_what_things_do(name):
    kind = getattr(xc, name)
    assert kind.__doc__
    for member in [member for member in vars(kind) if not member.startswith("_")]:
        if (name, member) != ("Port", "name"):
            doc = getattr(kind, member).__doc__
            assert doc.splitlines()[-1].rstrip().endswith("."), (name, member, doc)


def test_views_are_used_in_place(session):
    for x in (X.T.copy().T, X[::-1], np.repeat(X, 2, axis=1)[:, ::2], np.broadcast_to(X[:1], (3, 2))):
        np.testing.assert_array_equal(session.run([x])[1], -x)
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(2, 2)
    np.testing.assert_array_equal(session.run([unaligned])[0], Y)
    np.testing.assert_array_equal(session.run([X.astype(">f4")])[0], Y)


def test_scalars_and_nested_lists(session):
    np.testing.assert_array_equal(session.run([[[1, 5], [-20, 0]]])[0], Y)
    scalar = xc.Session(one_op("Neg", "f32", shape=""), jit="off")
    assert scalar.run([3.5])[0] == -3.5
    assert scalar.run([np.float32(2)])[0].shape == ()
    assert scalar.run([fractions.Fraction(1, 4)])[0] == -0.25


class Series:
    """What other libraries' arrays are: they convert themselves, to whatever type they are asked for."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


@pytest.mark.parametrize(
    "short, values",
    [
        ("i64", Series([1.5, np.nan])),
        ("i64", Series([1, None])),
        ("u8", Series([300, -1])),
        ("f32", Series([1e300, 1 / 3])),
        ("f32", Series(["1", "2"])),
        ("i64", [1.5, 2.9]),
        ("i64", [np.float32(1)]),
        ("i64", [2**63]),
        ("u64", [-1]),
        ("u8", [300, -1]),
        ("u8", [np.int64(300)]),
        ("bool", [2]),
        ("bool", [0.5]),
        ("f32", [1e300]),
        ("f16", [70000]),
        ("f32", [1 + 2j]),
        ("f32", ["1"]),
        ("f32", [1.0, None]),
        ("i64", array.array("d", [1.5])),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_values_that_the_type_cannot_hold_are_refused(short, values):
    session = xc.Session(one_op("Identity", short, shape="n"), jit="off")
    with pytest.raises(xc.Error, match="x") as raised:
        session.run([values])
    assert raised.value.status == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    "short, values, expected",
    [
        ("f32", [1, 2**24], [1, 2**24]),
        ("f32", [True, 0.5], [1, 0.5]),
        ("f32", [float("inf"), -1e-300], [float("inf"), 0]),
        ("f16", [np.float64(1.5)], [1.5]),
        ("u64", [2**64 - 1], [2**64 - 1]),
        ("u8", [255, True], [255, 1]),
        ("bool", [1, 0], [True, False]),
        ("i64", [], []),
        ("f32", Series(np.float32([1, 2])), [1, 2]),
        ("f32", array.array("d", [1, 2]), [1, 2]),
    ],
)
def test_values_that_the_type_can_hold(short, values, expected):
    session = xc.Session(one_op("Identity", short, shape="n"), jit="off")
    assert session.run([values])[0].tolist() == expected


def test_outputs_outlive_the_session_and_are_not_shared():
    session = xc.Session(AFFINE, threads=1, jit="off")
    first = session.run([X])[0]
    second = session.run([X + 1])[0]
    np.testing.assert_array_equal(first, Y)
    del session
    gc.collect()
    np.testing.assert_array_equal(first, Y)
    assert second[0, 0] == 12


def test_memory_goes_back_to_the_pool(session):
    pointers = {session.run([X])[0].ctypes.data for _ in range(50)}
    assert len(pointers) == 1
    kept = [session.run([X])[0] for _ in range(20)]
    assert len({a.ctypes.data for a in kept}) == 20


@pytest.mark.parametrize(
    "dtype, name",
    [("float32", "f32"), ("float64", "f64"), ("float16", "f16"), ("int8", "i8"), ("int32", "i32"), ("int64", "i64")],
)
def test_types(dtype, name):
    x = np.array([[1, -2, 3]], dtype)
    (y,) = xc.Session(one_op("Neg", name), jit="off").run([x])
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, -x)


def test_bool():
    (y,) = xc.Session(one_op("Not", "bool"), jit="off").run([np.array([[True, False]])])
    assert y.dtype == np.bool_ and y.tolist() == [[False, True]]


@pytest.mark.parametrize(
    "name, short",
    [("bfloat16", "bf16"), ("float8_e4m3fn", "f8e4m3fn"), ("int4", "i4"), ("float6_e2m3fn", "f6e2m3"),
     ("float6_e3m2fn", "f6e3m2")])
def test_ml_dtypes(name, short):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([[1, 2, -3]]).astype(getattr(ml_dtypes, name))
    session = xc.Session(one_op("Identity", short), jit="off")
    assert session.inputs[0].dtype == x.dtype
    (y,) = session.run([x])
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    "name, short, least, most",
    [("int4", "i4", -8, 7), ("int2", "i2", -2, 1), ("uint4", "u4", 0, 15), ("uint2", "u2", 0, 3)],
)
def test_narrow_integers_are_their_lower_bits(name, short, least, most):
    """ml_dtypes lets the upper bits of their bytes be anything."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numbers = np.arange(least, most + 1)
    dtype = getattr(ml_dtypes, name)
    x = numbers.astype(dtype)
    bits = np.uint8(most - least)
    others = (x.view(np.uint8) ^ ~bits).view(dtype)
    np.testing.assert_array_equal(others.astype(np.int64), numbers)
    session = xc.Session(f"graph g(%x: {short}[n]) -> (%y) {{\n  %y = Cast(%x) {{to = 1}}\n}}\n".encode(), jit="off")
    for given in (x, others, x.reshape(-1, 1)[:, 0], np.repeat(others, 2)[::2]):
        np.testing.assert_array_equal(session.run([given])[0], numbers)
    with pytest.raises(xc.Error, match=name):
        session.prepare([x])


def test_prepared_calls_give_no_text():
    session = xc.Session(b"graph g(%x: i64[n]) -> (%y) {\n  %y = Cast(%x) {to = 8}\n}\n", jit="off")
    assert session.run([np.array([2])])[0].tolist() == ["2"]
    with pytest.raises(xc.Error, match="text"):
        session.prepare([np.array([1])])


def test_strings_of_objects():
    session = xc.Session(one_op("Identity", "string", shape="n"), jit="off")
    items = ["a", "bé", b"c\xc3\xa9", 5, None, "\udc80", ""] * 50
    texts = ["a", "bé", "cé", "5", "None", "\udc80", ""] * 50
    assert session.run([np.array(items, object)])[0].tolist() == texts
    many = [f"label {k % 300}" for k in range(2000)]
    assert session.run([many])[0].tolist() == many


def test_strings():
    session = xc.Session(one_op("Identity", "string"), jit="off")
    for x in (np.array([["a", "bé"]], object), np.array([["a", "bé"]]), [["a", "bé"]]):
        (y,) = session.run([x])
        assert y.dtype == object and y.tolist() == [["a", "bé"]]
    if hasattr(getattr(np, "dtypes", None), "StringDType"):
        assert session.run([np.array([["a", "bé"]], np.dtypes.StringDType())])[0].tolist() == [["a", "bé"]]
    assert session.run([np.array([[b"raw", "x"]], object)])[0].tolist() == [["raw", "x"]]


def test_dlpack(session):
    class Exporter:
        """Nothing but DLPack."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **kwargs):
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    np.testing.assert_array_equal(session.run([Exporter(X)])[0], Y)
    np.testing.assert_array_equal(session.run([Exporter(X[::-1])])[0], Y[::-1])
    np.testing.assert_array_equal(np.from_dlpack(session.run([X])[0]), Y)

    class Temporary(Exporter):
        """Exports an array that nothing else keeps."""

        def __dlpack__(self, **kwargs):
            return (self.array * 2).__dlpack__(**kwargs)

    for shape in ((2, 2), (1 << 15, 2)):
        values = np.full(shape, 3, np.float32)
        want = session.run([values * 2])
        call = session.prepare([Temporary(values)])
        noise = [np.full(shape, k, np.float32) for k in range(8)]  # takes freed memory, were there some
        np.testing.assert_array_equal(call.run()[0], want[0])
        del noise


@pytest.mark.parametrize("kind", ["e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz", "e8m0fnu"])
def test_dlpack_of_float8(kind):
    torch = pytest.importorskip("torch")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    bits = np.arange(1, 100, dtype=np.uint8)
    x = torch.from_numpy(bits).view(getattr(torch, f"float8_{kind}"))
    run = xc.Session(one_op("Identity", "f8" + kind.replace("m0fnu", "m0"), shape="n"), jit="off")
    (y,) = run.run([x])
    assert y.dtype == getattr(ml_dtypes, f"float8_{kind}")
    np.testing.assert_array_equal(y.view(np.uint8), bits)


@pytest.mark.skipif(not pathlib.Path("/proc/self/task").exists(), reason="counts the threads of Linux")
def test_sessions_may_share_an_engine():
    def threads():
        return len(list(pathlib.Path("/proc/self/task").iterdir()))

    x = np.ones((300, 300), np.float32)
    model = b"graph g(%x: f32[n, n]) -> (%y) {\n  %y = MatMul(%x, %x)\n}\n"
    engine = xc.Engine(threads=4)
    sessions = [xc.Session(model, engine=engine)]
    sessions[0].run([x])
    before = threads()
    sessions += [xc.Session(model, engine=engine) for _ in range(5)]
    del engine
    for one in sessions:
        np.testing.assert_array_equal(one.run([x])[0], x * 300)
    assert threads() == before
    for options in ({"threads": 2}, {"jit": "off"}, {"fusion": "off"}, {"operators": xc.Operators()}):
        with pytest.raises(xc.Error, match="those of its engine"):
            xc.Session(AFFINE, engine=xc.Engine(threads=1), **options)
    with pytest.raises(xc.Error, match="no_such"):
        xc.Engine(no_such=1)


@pytest.mark.parametrize("what", ["session.run([x])", "call.run()", "xc.Session(model)", "called.run([x])"])
def test_daemon_threads_end_with_the_process(what):
    code = (
        "import threading, time, numpy as np, xc\n"
        "model = b'graph g(%x: f32[n]) -> (%y) { %y = Exp(%x) }'\n"
        "x = np.ones(64, np.float32)\n"
        "session = xc.Session(model, threads=2)\n"
        "call = session.prepare([x])\n"
        "ops = xc.Operators()\n"
        "ops.add('acme::Op(x: f32[n]) -> y: f32[n]', lambda x: x + sum(range(1000)))\n"
        "called = xc.Session(b'graph g(%x: f32[n]) -> (%y) { %y = acme::Op(%x) }', threads=1, operators=ops)\n"
        f"def work():\n    while True:\n        {what}\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.2)\n"
    )
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")


def test_failing_dlpack_exports_say_why(session):
    class Exporter:
        def __init__(self, error):
            self.error = error

        def __dlpack__(self, **kwargs):
            raise self.error

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(xc.Error, match="input 'x': .*KeyError: 'no such buffer'") as info:
        session.run([Exporter(KeyError("no such buffer"))])
    assert isinstance(info.value.__cause__, KeyError)
    with pytest.raises(KeyboardInterrupt):
        session.run([Exporter(KeyboardInterrupt())])
    with pytest.raises(xc.Error, match="no tensor"):
        session.run([types.SimpleNamespace(__dlpack__=lambda **kwargs: 3)])


def test_prepare(session):
    x = X.copy()
    call = session.prepare([x])
    y, z = call.run()
    np.testing.assert_array_equal(y, Y)
    x[:] = X + 1
    assert call()[0] is y
    np.testing.assert_array_equal(z, -(X + 1))
    out = np.empty((2, 2), np.float32), np.empty((2, 2), np.float32)
    bound = session.prepare({"x": x}, out)
    del session
    x[:] = X
    assert bound.run()[0] is out[0]
    np.testing.assert_array_equal(out[0], Y)
    assert bound.outputs[1] is out[1]


def test_results_go_into_arrays(session):
    out = np.empty((2, 2), np.float32)
    y, z = session.run([X], outputs=[None, out])
    np.testing.assert_array_equal(y, Y)
    assert z is out
    np.testing.assert_array_equal(out, -X)
    for bad, why in (([out], "2 outputs, 1 were given"), ([None, out.T], "C-contiguous"), ([None, [[1]]], "NumPy arrays"),
                     ([None, np.empty((3, 2), np.float32)],
                      r"output 'z': the tensor given for it is f32\[3, 2\], the result is f32\[2, 2\]"),
                     ([None, np.empty((2, 2))], r"output 'z': the tensor given for it is f64\[2, 2\]"),
                     ([out, out], "output 'z': its memory overlaps that of output 'y'")):
        with pytest.raises(xc.Error, match=why):
            session.run([X], outputs=bad)
    with pytest.raises(TypeError):
        session.run([X], outputs=3)


def test_results_go_into_arrays_by_name(session):
    out = np.empty((2, 2), np.float32)
    for outputs in ({"z": out}, {"y": None, "z": out}, types.MappingProxyType({"z": out})):
        out[:] = 0
        y, z = session.run([X], outputs=outputs)
        np.testing.assert_array_equal(y, Y)
        assert z is out
        np.testing.assert_array_equal(out, -X)
    y, z = session.prepare([X], {"y": out}).run()
    assert y is out
    np.testing.assert_array_equal(z, -X)
    with pytest.raises(xc.Error, match="no output 'q'") as raised:
        session.run([X], outputs={"q": out})
    assert raised.value.status == "NOT_FOUND"
    with pytest.raises(xc.Error) as raised:
        session.run([X], outputs={"z": np.empty((3, 2), np.float32)})
    assert raised.value.where == "output 'z'"


def test_a_state_stays_in_its_array():
    graph = b"""graph g(%c: f32[4, 3], %i: i64[1, 1], %u: f32[1, 3]) -> (%d, %y) {
  %d = ScatterND(%c, %i, %u)
  %y = ReduceSum(%d) {keepdims = 0}
}
"""
    session = xc.Session(graph, threads=1, jit="off")
    cache = np.zeros((4, 3), np.float32)
    want = cache.copy()
    for step in range(8):
        u = np.full((1, 3), step + 1, np.float32)
        d, y = session.run([cache, np.array([[step % 4]]), u], outputs=[cache, None])
        want[step % 4] = step + 1
        assert d is cache and y == want.sum()
        np.testing.assert_array_equal(cache, want)
    assert "updated in place where the output lies there: 'c' as 'd'" in session.explain()
    call = session.prepare([cache, np.array([[0]]), u], [cache, None])
    cache[:] = 0
    assert call.run()[1] == 3 * 8
    with pytest.raises(xc.Error, match="output 'd': its memory overlaps that of input 'c'"):
        wide = np.zeros((8, 3), np.float32)
        session.run([wide[:4], np.array([[0]]), u], outputs=[wide[2:6], None])


def test_prepared_calls_copy_inputs_of_other_strides(session):
    x = X.copy()
    for view in (x[:, ::-1], x.T, np.broadcast_to(x[:1], (3, 2))):
        call = session.prepare([view])
        for step in (0, 3):
            x[:] = X + step
            np.testing.assert_array_equal(call.run()[1], -view)


def test_strided_inputs_count_for_the_cap_of_memory():
    session = xc.Session(one_op("ReduceMax", "f32"), threads=1, jit="off", max_memory_bytes=1 << 20)
    assert session.run([np.broadcast_to(np.float32(3), (100, 100))])[0].item() == 3
    with pytest.raises(xc.Error, match="max_memory_bytes"):
        session.run([np.broadcast_to(np.float32(3), (8000, 8000))])


def test_prepare_refuses_what_it_cannot_bind(session):
    for bad in ([X.astype(">f4")], [[[1, 2]]], [X.astype(np.float64)]):
        with pytest.raises(xc.Error):
            session.prepare(bad)
    with pytest.raises(xc.Error):
        session.prepare([X], [np.empty((3, 2), np.float32), np.empty((2, 2), np.float32)])
    with pytest.raises(xc.Error):
        session.prepare([X], [np.empty((2, 2), np.float32)])
    with pytest.raises(xc.Error, match="C-contiguous"):
        session.prepare([X], [np.empty((2, 2), np.float32).T, np.empty((2, 2), np.float32)])
    read_only = np.frombuffer(bytes(16), np.float32).reshape(2, 2)
    with pytest.raises(xc.Error, match="read-only"):
        session.prepare([X], [read_only, np.empty((2, 2), np.float32)])
    assert not read_only.any()
    session.prepare([read_only]).run()


@pytest.mark.parametrize("given", [0, 1, 400])
def test_lists_that_do_not_give_what_their_len_says(session, given):
    class Outputs:
        def __len__(self):
            return 2

        def __iter__(self):
            return iter([np.empty((2, 2), np.float32)] * given)

    with pytest.raises(xc.Error, match=f"2 outputs, {given} were given"):
        session.prepare([X], Outputs())


def test_outputs_of_any_iterable(session):
    out = [np.empty((2, 2), np.float32), None]
    call = session.prepare([X], (array for array in out))
    y, z = call.run()
    assert y is out[0]
    np.testing.assert_array_equal(y, Y)
    np.testing.assert_array_equal(z, -X)


def test_a_call_runs_in_one_thread_at_a_time():
    """A loop keeps state in the call's memory: a second run there is refused."""
    session = xc.Session(
        b"""graph g(%n: i64[], %v: f32[64]) -> (%y) {
  const %more: bool[] = true
  %y = Loop(%n, %more, %v) {} captures 0 (
    graph body(%i: i64[], %c: bool[], %s: f32[64]) -> (%c, %t) {
      %t = Add(%s, %s)
    })
}
""",
        threads=1,
        jit="off",
    )
    call = session.prepare([np.array(6), np.ones(64, np.float32)])
    refused, start = [], threading.Barrier(4)

    def work() -> None:
        start.wait()
        for _ in range(3000):
            try:
                call.run()
            except xc.Error as error:
                refused.append(error.status)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(refused) <= {"BUSY"}
    np.testing.assert_array_equal(call.run()[0], np.full(64, 64, np.float32))


def test_lists_of_results_are_the_callers(session):
    call = session.prepare([X])
    call.run().clear()
    call.outputs.clear()
    assert len(call.run()) == 2 and len(call.outputs) == 2


def test_inputs_that_change_while_they_are_read(session):
    inputs = []

    class Shrinks:
        def __array__(self, dtype=None, copy=None):
            inputs.clear()
            return X

    inputs.append(Shrinks())
    np.testing.assert_array_equal(session.run(inputs)[0], Y)


def test_explain_and_profile():
    wide = AFFINE.replace(b"[10, -2]", b"splat 10").replace(b"2]", b"64]")  # rows worth a kernel
    session = xc.Session(wide, threads=1, jit="sync")
    x = np.tile(X, 32)
    for _ in range(3):
        session.run([x])
    assert "plan" in session.explain()
    plan = json.loads(session.explain({"x": (2, 64)}, json=True))
    assert plan["steps"]
    profile = session.profile()
    assert profile["runs"] == 3 and profile["signatures"] == 1
    compiled = [event for event in profile["events"] if event["kind"] == "compiled"]
    assert compiled and all(event["compile_ms"] > 0 and event["code_bytes"] > 0 for event in compiled)
    assert len(profile["regions"]) == len(compiled)
    for region in profile["regions"]:
        assert region["name"] == compiled[0]["subject"] and region["state"] == "live"
        assert region["code_bytes"] == compiled[0]["code_bytes"] and len(region["identity"]) == 32
    assert json.loads(session.trace())["traceEvents"]
    session.freeze()
    assert session.wait_idle()
    np.testing.assert_array_equal(session.run([x])[0], np.maximum(x + 10, 0))


def test_warm_up():
    session = xc.Session(AFFINE, threads=1, jit="auto")
    assert session.warm_up({"x": (2, 2)})
    before = session.profile()
    assert before["runs"] > 0 and before["signatures"] == 1
    np.testing.assert_array_equal(session.run([X])[0], Y)
    assert session.profile()["signatures"] == 1
    with pytest.raises(KeyError):
        session.warm_up({"other": (2, 2)})
    with pytest.raises(xc.Error):
        session.warm_up({"x": (2, 2, 2)})


def test_threads_share_a_session():
    session = xc.Session(AFFINE, threads=2, jit="auto")
    wrong = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(200):
            x = rng.integers(-20, 20, (int(rng.integers(1, 9)), 2)).astype(np.float32)
            y, z = session.run([x])
            if not (np.array_equal(y, np.maximum(x + [10, -2], 0)) and np.array_equal(z, -x)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_timeout(session):
    assert len(session.run([X], timeout=60)) == 2
    with pytest.raises(xc.Error) as raised:
        session.run([X], timeout=1e-9)
    assert raised.value.status == "DEADLINE"


def test_onnx_model(tmp_path):
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor("w", TensorProto.FLOAT, [3, 2], [1, 2, 3, 4, 5, 6])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    want = np.tanh(x.astype(np.float64) @ np.arange(1, 7).reshape(3, 2))
    for source in (path, str(path), path.read_bytes(), bytearray(path.read_bytes())):
        (y,) = xc.Session(source, jit="off").run([x])
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-6)


def test_exit_with_a_live_session():
    """The interpreter ends while a session with background threads, and its outputs, are still there."""
    code = (
        "import numpy as np, xc, sys\n"
        f"s = xc.Session({AFFINE!r}, threads=2, jit='auto')\n"
        "sys.kept = [s] + s.run([np.ones((3, 2), np.float32)])\n"
        "for _ in range(100): s.run([np.ones((3, 2), np.float32)])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=60, capture_output=True, text=True
    )
    assert done.stdout + done.stderr == ""


def test_other_interpreters_of_the_process_are_refused():
    """An import into a subinterpreter fails, and the sessions of the main one run on."""
    code = (
        "try: import _interpreters as interpreters\n"
        "except ImportError: import _xxsubinterpreters as interpreters\n"
        "import numpy as np, xc\n"
        f"s = xc.Session({AFFINE!r}, threads=1, jit='off')\n"
        "x = np.ones((3, 2), np.float32)\n"
        "want = s.run([x])[1].tolist()\n"
        "other = interpreters.create()\n"
        "try: print(interpreters.run_string(other, 'import xc._core'))\n"
        "except Exception as error: print(error)\n"
        "assert s.run([x])[1].tolist() == want\n"
        "interpreters.destroy(other)\n"
        "assert s.run([x])[1].tolist() == want\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ImportError" in done.stdout


def test_stub_names_what_the_module_has():
    stub = pathlib.Path(xc.__file__).with_name("_core.pyi").read_text()
    for name in xc.__all__:
        assert f"class {name}" in stub or f"def {name}" in stub
    for method in [m for m in dir(xc.Session) if not m.startswith("_")]:
        assert f"def {method}" in stub
