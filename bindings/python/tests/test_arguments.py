"""What the binding refuses, and how it says so; options."""

from __future__ import annotations

import gc
import os
import pathlib

import numpy as np
import pytest
from test_session import AFFINE, X, Y, session  # noqa: F401  (a fixture)

import xc


def test_errors_that_a_program_makes_itself():
    error = xc.Error("x")
    assert (str(error), error.status, error.where, error.advice) == ("x", "", "", "")


@pytest.mark.parametrize(
    "inputs, status, part",
    [
        ([], "INVALID_ARGUMENT", "1 inputs"),
        ([X, X], "INVALID_ARGUMENT", "1 inputs"),
        ({"y": X}, "NOT_FOUND", "x"),
        ({"x": X, "w": X}, "NOT_FOUND", "w"),
        ([X.astype(np.float64)], "INVALID_ARGUMENT",
         'input \'x\': expected f32[n, 2], got f64[2, 2]: convert it with astype("float32")'),
        ([X.astype(np.int32)], "INVALID_ARGUMENT", 'got i32[2, 2]: convert it with astype("float32")'),
        ([X[:, :1].repeat(3, 1)], "INVALID_ARGUMENT", "input 'x': expected f32[n, 2], got f32[2, 3]"),
        ([None], "INVALID_ARGUMENT", "input 'x': was not given; it wants f32[n, 2]"),
        ({}, "INVALID_ARGUMENT", "input 'x': was not given; it wants f32[n, 2]"),
        ([[[1.0], [1.0, 2.0]]], "INVALID_ARGUMENT", "input 'x': NumPy makes no array of it: ValueError"),
        ([np.zeros((1,) * 20, np.float32)], "LIMIT", "input 'x': rank 20 is over the limit of 16"),
        ([np.zeros(2, "M8[s]")], "INVALID_ARGUMENT", "x"),
        ([X.astype(np.longdouble)], "INVALID_ARGUMENT", 'astype("float32")'),
        ([X.astype(object)], "INVALID_ARGUMENT", 'astype("float32")'),
    ],
)
def test_wrong_inputs(session, inputs, status, part):
    with pytest.raises(xc.Error) as raised:
        session.run(inputs)
    assert raised.value.status == status
    assert part in str(raised.value)
    assert raised.value.advice
    if status == "INVALID_ARGUMENT" and part != "1 inputs":
        assert raised.value.where == "input 'x'"
    np.testing.assert_array_equal(session.run([X])[0], Y)


def test_conversions_are_advised_for_prepared_calls_and_dlpack_too(session):
    with pytest.raises(xc.Error, match='got f64.*: convert it with astype."float32"'):
        session.prepare([X.astype(np.float64)])

    class Exporter:
        def __dlpack__(self, **kwargs):
            return X.astype(np.float64).__dlpack__(**kwargs)

        def __dlpack_device__(self):
            return X.__dlpack_device__()

    with pytest.raises(xc.Error, match="got f64.*: convert it to float32"):
        session.run([Exporter()])


def test_ragged_lists_have_numpys_error_as_the_cause(session):
    with pytest.raises(xc.Error) as raised:
        session.run([[[1.0], [1.0, 2.0]]])
    assert isinstance(raised.value.__cause__, ValueError)


def test_wrong_models(tmp_path):
    with pytest.raises(xc.Error) as raised:
        xc.Session(tmp_path / "missing.onnx")
    assert raised.value.status == "NOT_FOUND"
    with pytest.raises(xc.Error) as raised:
        xc.Session(b"not a model")
    assert raised.value.status == "FORMAT"
    with pytest.raises(xc.Error) as raised:
        xc.Session(AFFINE[:-9])
    assert "line" in raised.value.where
    for given in (3, None):
        with pytest.raises(TypeError, match="^model is the path of a file or the bytes of one, not"):
            xc.Session(given)


def test_options(monkeypatch):
    names = [row["name"] for row in xc.options()]
    assert {"threads", "jit", "fusion", "cache_dir"} <= set(names)
    xc.Session(AFFINE, jit="off", fusion=False, verify_passes=True, max_memory_bytes=1 << 20)
    with pytest.raises(xc.Error) as raised:
        xc.Session(AFFINE, jit="sometimes")
    assert "auto|off|sync" in str(raised.value)
    with pytest.raises(xc.Error) as raised:
        xc.Session(AFFINE, no_such_option=1)
    assert raised.value.status == "NOT_FOUND" and "threads, jit, " in str(raised.value)
    monkeypatch.setenv("XC_JIT", "sometimes")
    with pytest.raises(xc.Error) as raised:
        xc.Session(AFFINE)
    assert "XC_JIT" in str(raised.value)


def test_options_say_what_they_may_be():
    rows = {row["name"]: row for row in xc.options()}
    threads = rows["threads"]
    assert (threads["low"], threads["high"], threads["default"]) == (0, 1024, 0) and threads["engine_only"] is True
    jit = rows["jit"]
    assert (jit["low"], jit["high"], jit["default"], jit["engine_only"]) == (None, None, "auto", False)
    assert rows["cache_dir"]["default"] == "" and rows["cache_dir"]["low"] is None
    assert rows["max_memory_bytes"]["high"] is None
    assert rows["numerics"]["default"] in rows["numerics"]["choices"].split("|")


@pytest.mark.parametrize("kind", [str, os.fsencode, pathlib.Path])
def test_options_that_are_paths(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    x = np.ones(1000, np.float32)
    model = b"graph g(%x: f32[n]) -> (%y) {\n  %a = Exp(%x)\n  %b = Mul(%a, %x)\n  %y = Tanh(%b)\n}\n"
    for given in (None, kind(tmp_path / "kept")):
        session = xc.Session(model, threads=1, jit="sync", cache_dir=given)
        session.run([x])
        session.wait_idle()
        del session
        gc.collect()
        assert os.listdir(".") == ([] if given is None else ["kept"])


def test_options_that_are_not_given_or_numpys(session):
    xc.Session(AFFINE, threads=None, jit=None, numerics=None, fusion=None, max_memory_bytes=None)
    xc.Session(AFFINE, threads=np.int64(1), copy_weights=np.True_, fusion=np.bool_(False))
    with pytest.raises(xc.Error, match="no_such"):
        xc.Session(AFFINE, no_such=None)
    assert session.wait_idle(None) and session.warm_up({"x": (2, 2)}, timeout=None)


@pytest.mark.parametrize(
    "use, error, part",
    [
        (lambda s: s.run([X], timeout="5"), TypeError, "timeout is a number of seconds or None, not str"),
        (lambda s: s.explain({"x": ["a", 2]}), TypeError, "input x: a dim is an int, not str"),
        (lambda s: s.explain({"x": [2.5, 2]}), TypeError, "input x: a dim is an int, not float"),
        (lambda s: s.warm_up({"x": [1 << 70, 2]}), ValueError, "input x: a dim does not fit into 64 bits"),
        (lambda s: s.warm_up({}), KeyError, "shapes: no dims of input x"),
        (lambda s: s.explain([(2, 2)]), TypeError, "shapes is a dict of the dims of each input, not list"),
        (lambda s: s.explain({"x": 2}), TypeError, "input x: dims are a list of ints, not int"),
        (lambda s: s.run({"\ud800": X}), ValueError, "the name of an input holds a surrogate"),
        (lambda s: s.run({"x\0y": X}), ValueError, "the name of an input holds a null character"),
        (lambda s: xc.Session(AFFINE, jit="off\ud800"), ValueError, "option jit holds a surrogate"),
        (lambda s: xc.Session(AFFINE, cache_dir="\0"), ValueError, "option cache_dir holds a null character"),
        (lambda s: s.prepare([X], 3), TypeError, "outputs is a list in the model's order or a dict by name, not int"),
        (lambda s: s.run([X], outputs=np.empty((2, 2, 2), np.float32)), TypeError, "outputs is a list in the model's"),
        (lambda s: s.run(X), TypeError, "inputs is a list in the model's order or a dict by name, not numpy.ndarray"),
        (lambda s: s.run(5), TypeError, "inputs is a list in the model's order or a dict by name, not int"),
        (lambda s: s.run(None), TypeError, "inputs is a list in the model's order or a dict by name, not NoneType"),
        (lambda s: s.run(None, {"x": X}), TypeError, "run() takes the inputs first and gives every output"),
        (lambda s: s.run(["y"], {"x": X}), TypeError, "run() takes the inputs first and gives every output"),
        (lambda s: xc.Session(AFFINE, threads="2"), TypeError, "threads is an int or None, not str"),
        (lambda s: xc.Engine(threads=2.0), TypeError, "threads is an int or None, not float"),
        (lambda s: xc.Session(AFFINE, threads=1 << 70), xc.Error, "is not a number from 0 to 1024"),
        (lambda s: xc.Session(AFFINE, cache_dir=5), TypeError, "option cache_dir is a text or a path, not int"),
        (lambda s: xc.Session(AFFINE, cache_dir=b"a\0"), ValueError, "option cache_dir holds a null character"),
        (lambda s: s.warm_up({"x": (2, 2)}, timeout="5"), TypeError, "timeout is a number of seconds or None, not str"),
        (lambda s: s.warm_up(None), TypeError, "shapes is a dict of the dims of each input, not NoneType"),
        (lambda s: s.explain({"x": (2, 2), "q": (1,)}), xc.Error, "the model has no input 'q'; it has: x"),
    ],
)
def test_arguments_of_another_type_are_named(session, use, error, part):
    with pytest.raises(error) as raised:
        use(session)
    assert part in str(raised.value) and "\n" not in str(raised.value)
    assert len(session.run([X], timeout=np.float32(60))) == 2
    assert session.explain({"x": np.array([2, 2])})


def test_errors_quote_names_that_are_not_utf8():
    with pytest.raises(xc.Error, match="xff"):
        xc.Session("/no/such/\udcff.onnx")
