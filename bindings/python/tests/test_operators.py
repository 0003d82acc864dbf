"""Operators of the host as Python functions."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref

import numpy as np
import onnx
import pytest

import xc

SCALE = "acme::Scale(x: f32[..., n], bias?: f32[n]) {alpha: float = 2} -> y: f32[..., n]"
MODEL = b"""graph g(%x: f32[n, 2], %b: f32[2]) -> (%y, %z) {
  %h = acme::Scale(%x, %b) {alpha = 10.0} "first"
  %y = Relu(%h)
  %z = acme::Scale(%x) "second"
}
"""
X = np.array([[1, -1], [0.5, 2]], np.float32)
B = np.array([1, 2], np.float32)


def scale(x, bias=None, *, alpha):
    return np.float32(alpha) * x + (0 if bias is None else bias)


def operators(signature: str = SCALE, function=scale) -> xc.Operators:
    out = xc.Operators()
    assert out.add(signature, function) is function
    return out


def session(model: bytes, ops: xc.Operators | None, **options) -> xc.Session:
    return xc.Session(model, threads=1, jit="off", operators=ops, **options)


def one(signature: str, function, x, dtype: str = "f32") -> list:
    """Runs acme::Op on x alone."""
    outputs = ", ".join(f"%y{i}" for i in range(signature.split("->")[1].count(":")))
    dims = ", ".join("nmk"[: np.asarray(x).ndim])
    model = f'graph g(%x: {dtype}[{dims}]) -> ({outputs}) {{\n  {outputs} = acme::Op(%x) "node"\n}}\n'
    return session(model.encode(), operators(signature, function)).run([x])


@pytest.mark.parametrize("options", [{}, {"kernels": "reference"}])
def test_between_standard_operators(options):
    run = session(MODEL, operators(), **options)
    for _ in range(3):
        y, z = run.run([X, B])
        np.testing.assert_array_equal(y, np.maximum(10 * X + B, 0))
        np.testing.assert_array_equal(z, 2 * X)
    assert "host" in run.explain() or options


def test_optional_inputs_left_out_at_the_end():
    """They are None, as those in the middle are."""
    seen = []

    def function(*inputs):
        seen.append([given is None for given in inputs])
        return inputs[0]

    f32s = '"my(own)"::Op(x: f32[n], a?: f32[2*floordiv(n, 2)], b?: f32[n]{}) -> y: f32[n]'
    for more, absent in (("", [False, True, True]), (", rest*: f32[n]", [False, True, True])):
        model = b'graph g(%x: f32[n]) -> (%y) { %y = "my(own)"::Op(%x) }'
        session(model, operators(f32s.replace("{}", more), function)).run([B])
        assert seen.pop() == absent
    with pytest.raises(xc.Error):
        xc.Operators().add("no signature", function)


def test_attributes_of_any_text():
    """Bytes that are no UTF-8 come as results with them do."""
    seen = {}

    def function(x, **attributes):
        seen.update(attributes)
        return x

    ops = operators("acme::Op(x: f32[n]) {s: string, ss: strings, t: tensor} -> y: f32[n]", function)
    texts = onnx.helper.make_tensor("t", onnx.TensorProto.STRING, [2, 1], [b"a\xc3\xa9", b"\xff"])
    node = onnx.helper.make_node("Op", ["x"], ["y"], domain="acme", s=b"a\xff", ss=[b"b", b"\xfe"], t=texts)
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy")
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("acme", 1)]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y]), opset_imports=opsets)
    session(model.SerializeToString(), ops).run([B])
    assert seen["s"] == "a\udcff" and seen["ss"] == ["b", "\udcfe"]
    assert seen["t"].dtype == object and seen["t"].tolist() == [["aé"], ["\udcff"]]


def test_in_an_onnx_model():
    node = onnx.helper.make_node("Scale", ["x"], ["h"], domain="acme", alpha=3.0)
    neg = onnx.helper.make_node("Neg", ["h"], ["y"])
    f32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node, neg],
        "g",
        [onnx.helper.make_tensor_value_info("x", f32, ["n", 2])],
        [onnx.helper.make_tensor_value_info("y", f32, ["n", 2])],
    )
    opsets = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("acme", 7)]
    model = onnx.helper.make_model(graph, opset_imports=opsets)
    (y,) = session(model.SerializeToString(), operators()).run([X])
    np.testing.assert_array_equal(y, -3 * X)
    with pytest.raises(xc.Error, match=r"acme\.Scale is not known; if it is a custom operator") as info:
        session(model.SerializeToString(), None)
    assert info.value.status == "UNSUPPORTED"
    assert "Scale" in info.value.where
    model.opset_import.pop()
    with pytest.raises(xc.Error, match="domain 'acme' is used but not imported"):
        session(model.SerializeToString(), operators())


def test_inside_and_beside_functions_of_the_model():
    """A function of the model uses the operator; a function of the operator's name goes first."""
    imports = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("acme", 1)]
    wrap = onnx.helper.make_function(
        "local", "Wrap", ["a"], ["b"], [onnx.helper.make_node("Scale", ["a"], ["b"], domain="acme")], imports
    )
    own = onnx.helper.make_function(
        "acme", "Own", ["a"], ["b"], [onnx.helper.make_node("Abs", ["a"], ["b"])], imports[:1]
    )
    f32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Wrap", ["x"], ["h"], domain="local"),
            onnx.helper.make_node("Own", ["h"], ["y"], domain="acme"),
        ],
        "g",
        [onnx.helper.make_tensor_value_info("x", f32, ["n", 2])],
        [onnx.helper.make_tensor_value_info("y", f32, ["n", 2])],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[*imports, onnx.helper.make_opsetid("local", 1)], functions=[wrap, own]
    )
    ops = operators()
    ops.add("acme::Own(x: f32[...]) -> y: f32[...]", lambda x: x * 0)
    (y,) = session(model.SerializeToString(), ops).run([X])
    np.testing.assert_array_equal(y, np.abs(2 * X))


def test_sizes_that_the_function_finds():
    values, counts = one(
        "acme::Op(x: i64[n]) -> values: i64[?], counts: i64[?]",
        lambda x: np.unique(x, return_counts=True),
        np.array([3, 1, 3, 3, 2]),
        "i64",
    )
    np.testing.assert_array_equal(values, [1, 2, 3])
    np.testing.assert_array_equal(counts, [1, 1, 3])


@pytest.mark.parametrize(
    "result",
    [
        np.arange(6, dtype=np.float32).reshape(3, 2).T,
        [[0, 2, 4], [1, 3, 5]],
        np.array([[1, 3, 5], [0, 2, 4]], ">f4")[::-1],
    ],
)
def test_strided_arrays_and_lists_as_results(result):
    (y,) = one("acme::Op(x: f32[n]) -> y: f32[?, ?]", lambda x: result, B)
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y, [[0, 2, 4], [1, 3, 5]])


def test_scalars_strings_and_empty_arrays():
    (y,) = one("acme::Op(x: f32[n]) -> y: i32[]", lambda x: 7, B)
    assert y.shape == () and y.dtype == np.int32 and y == 7
    words = np.array(["ä", "b"], object)
    (y,) = one("acme::Op(x: string[n]) -> y: string[n]", lambda x: x + "!", words, "string")
    assert list(y) == ["ä!", "b!"]
    (y,) = one("acme::Op(x: f32[n]) -> y: f32[?]", lambda x: x[x > 9], B)
    assert y.shape == (0,)
    (y,) = one("acme::Op(x: f32[n]) -> y: f32[n]", lambda x: x, np.zeros(0, np.float32))
    assert y.shape == (0,)


def test_every_kind_of_attribute():
    seen = {}
    ops = operators(
        'acme::Op(x: f32[n]) {i: int, f: float = 0.5, s: string = "a", is: ints = [1, 2], '
        'fs: floats = [1.5], ss: strings = ["p", "q"], t: tensor, none?: int} -> y: f32[n]',
        lambda x, **attributes: seen.update(attributes) or x,
    )
    model = b"graph g(%x: f32[n]) -> (%y) { %y = acme::Op(%x) {i = 3, t = f32[2] [3, 4]} }"
    session(model, ops).run([B])
    np.testing.assert_array_equal(seen.pop("t"), [3, 4])
    assert seen == {"i": 3, "f": 0.5, "s": "a", "is": [1, 2], "fs": [1.5], "ss": ["p", "q"]}


@pytest.mark.parametrize(
    ("result", "part"),
    [
        (np.zeros(2), "output 0 is f64, the signature says f32"),
        (np.zeros(3, np.float32), "output 'y' of acme::Op has dims [3], expected [2]"),
        (None, "output 0: None is no array"),
        ("text", "has dims [], expected [2]"),
        ((), "0 values for 1 outputs"),
    ],
)
def test_results_that_do_not_fit(result, part):
    with pytest.raises(xc.Error) as info:
        one("acme::Op(x: f32[n]) -> y: f32[n]", lambda x: result, B)
    assert part in str(info.value)
    assert "node" in info.value.where


def test_one_value_for_two_outputs():
    with pytest.raises(xc.Error, match="one value for 2 outputs"):
        one("acme::Op(x: f32[n]) -> y: f32[n], z: f32[n]", lambda x: x, B)


def test_exceptions_are_errors_with_their_text():
    def raises(x):
        raise ValueError(f"no luck with {x.shape}")

    with pytest.raises(xc.Error, match=r"ValueError: no luck with \(2,\)") as info:
        one("acme::Op(x: f32[n]) -> y: f32[n]", raises, B)
    assert info.value.status == "INVALID_ARGUMENT"
    assert "node" in info.value.where
    assert isinstance(info.value.__cause__, ValueError)
    assert info.value.__cause__.__traceback__.tb_frame.f_code.co_name == "raises"


@pytest.mark.parametrize("way", ["run", "prepare", "call", "warm_up"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), ZeroDivisionError("none")])
def test_what_a_function_raises_comes_out(error, way):
    """Exceptions as the cause of an Error, others as they are; the session is as good as before."""
    fails = False

    def function(x):
        if fails:
            raise error
        return x

    run = session(b"graph g(%x: f32[n]) -> (%y) { %y = acme::Op(%x) }",
                  operators("acme::Op(x: f32[n]) -> y: f32[n]", function))
    call = run.prepare([B])
    ways = {
        "run": lambda: run.run([B]),
        "prepare": lambda: run.prepare([B]),
        "call": call.run,
        "warm_up": lambda: run.warm_up({"x": [2]}),
    }
    fails = True
    with pytest.raises(xc.Error if isinstance(error, Exception) else type(error)) as info:
        ways[way]()
    assert error in (info.value, info.value.__cause__)
    fails = False
    with pytest.raises(xc.Error) as later:
        run.run([1, 2])
    assert later.value.__cause__ is None
    np.testing.assert_array_equal(call.run()[0], B)


def test_runs_within_functions():
    """The cause of a failure within is the one of that run; a call that is being run is refused."""
    inner = session(b"graph g(%x: f32[n]) -> (%y) { %y = acme::Op(%x) }",
                    operators("acme::Op(x: f32[n]) -> y: f32[n]", lambda x: x / 0 if x.size == 2 else {}[0]))
    seen = []

    def outer(x):
        for size in (2, 3):
            try:
                inner.run([np.zeros(size, np.float32).tolist() if size == 3 else B])
            except xc.Error as error:
                seen.append(type(error.__cause__))
        try:
            call.run()
        except NameError:
            pass  # not there yet: this is its first run
        except xc.Error as error:
            seen.append(error.status)
        return x

    with np.errstate(divide="ignore"):
        call = session(b"graph g(%x: f32[n]) -> (%y) { %y = acme::Op(%x) }",
                       operators("acme::Op(x: f32[n]) -> y: f32[n]", outer)).prepare([B])
        seen.clear()
        np.testing.assert_array_equal(call.run()[0], B)
    assert seen == [KeyError, "BUSY"]


def test_inputs_may_be_kept_and_changed():
    kept = []

    def keep(x):
        kept.append(x)
        x += 1
        return x

    given = B.copy()
    for _ in range(3):
        (y,) = one("acme::Op(x: f32[n]) -> y: f32[n]", keep, given)
        np.testing.assert_array_equal(y, B + 1)
    np.testing.assert_array_equal(given, B)
    gc.collect()
    for x in kept:
        np.testing.assert_array_equal(x, B + 1)


def test_rules_alone():
    ops = xc.Operators()
    assert ops.add("acme::Twice(x: f32[...]) -> y: f32[...]") is None
    ops.add_rules("rule twice: acme::Twice(?x) => Add(?x, ?x)")
    (y,) = session(b"graph g(%x: f32[n]) -> (%y) { %y = acme::Twice(%x) }", ops).run([B])
    np.testing.assert_array_equal(y, 2 * B)


def test_wrong_declarations():
    ops = operators()
    unknown = "a::B(x: f33) -> y: f32[]"
    for signature, part in (("acme", "'::'"), (SCALE, "declared twice"), (unknown, "'f33'")):
        with pytest.raises(xc.Error) as info:
            ops.add(signature, scale)
        assert part in str(info.value)
    with pytest.raises(xc.Error, match="something to call"):
        ops.add("acme::Other(x: f32[n]) -> y: f32[n]", 3)
    with pytest.raises(xc.Error, match="line 1"):
        ops.add_rules("rule")
    session(MODEL, ops)
    with pytest.raises(xc.Error) as info:
        ops.add("acme::Late(x: f32[n]) -> y: f32[n]", scale)
    assert info.value.status == "BUSY"


def test_several_threads_and_runs_at_once():
    run = session(b"graph g(%x: f32[n]) -> (%y) { %y = acme::Scale(%x) }", operators())
    wrong = []

    def work(first: float):
        for i in range(20):
            x = np.array([first, i], np.float32)
            (y,) = run.run([x])
            if not np.array_equal(y, 2 * x):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(float(t),)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_functions_go_with_their_last_session():
    class Function:
        def __call__(self, x, bias, alpha):
            return x

    function = Function()
    gone = weakref.ref(function)
    ops = operators(SCALE, function)
    run = session(b"graph g(%x: f32[n]) -> (%y) { %y = acme::Scale(%x) }", ops)
    del ops, function
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(run.run([B])[0], B)
    del run
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("keeps", ["session", "call", "operators"])
def test_functions_that_keep_what_runs_them_go_too(keeps):
    class Function:
        def __call__(self, x, bias, alpha):
            return x

    function = Function()
    gone = weakref.ref(function)
    ops = operators(SCALE, function)
    run = session(b"graph g(%x: f32[n]) -> (%y) { %y = acme::Scale(%x) }", ops)
    call = run.prepare([B])
    function.kept = {"session": run, "call": call, "operators": ops}[keeps]
    del ops, run, function
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(call.run()[0], B)
    del call
    gc.collect()
    assert gone() is None


def test_a_script_with_operators_ends_in_silence():
    code = (
        "import numpy as np, xc\n"
        "ops = xc.Operators()\n"
        f"ops.add({SCALE!r}, lambda x, bias=None, *, alpha: np.float32(alpha) * x)\n"
        f"s = xc.Session({MODEL!r}, operators=ops)\n"
        "c = s.prepare([np.ones((2, 2), np.float32), np.ones(2, np.float32)])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
