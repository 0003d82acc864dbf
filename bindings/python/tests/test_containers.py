"""Sequences, maps and optionals as inputs and outputs."""

from __future__ import annotations

import numpy as np
import pytest

import xc

A = np.array([1, 2], np.float32)
B = np.array([[3, 4, 5]], np.float32)


def run(model: str, *inputs):
    return xc.Session(model.encode(), threads=1, jit="off").run(list(inputs))


def test_sequences_in_and_out():
    model = """graph g(%s: seq(f32[*]), %x: f32[n]) -> (%out, %count) {
  %out = SequenceInsert(%s, %x)
  %count = SequenceLength(%out)
}"""
    for given in ([A, B], (A, B), [[1, 2], [[3, 4, 5]]]):
        out, count = run(model, given, 2 * A)
        assert isinstance(out, list) and count == 3
        for got, want in zip(out, [A, B, 2 * A], strict=True):
            assert got.dtype == np.float32
            np.testing.assert_array_equal(got, want)
    out, count = run(model, [], A)
    np.testing.assert_array_equal(out[0], A)
    assert count == 1


def test_returned_sequences_are_on_their_own():
    session = xc.Session(
        b"graph g(%s: seq(f32[*]), %x: f32[n]) -> (%out) { %out = SequenceInsert(%s, %x) }",
        threads=1,
        jit="off",
    )
    (first,) = session.run([[A], 2 * A])
    for _ in range(3):
        (again,) = session.run({"s": first, "x": A})
        assert len(again) == 3
    del session, again
    np.testing.assert_array_equal(first[1], 2 * A)


def test_sequences_of_texts():
    model = "graph g(%s: seq(string[*])) -> (%y) { %y = ConcatFromSequence(%s) {axis = 0} }"
    (y,) = run(model, [np.array(["a", "ä"], object), ["c"]])
    assert list(y) == ["a", "ä", "c"]


def test_maps():
    floats = '{cast_to = "TO_FLOAT"}'
    model = f"graph g(%m: map(i64, f32[])) -> (%y) {{ %y = ai.onnx.ml::CastMap(%m) {floats} }}"
    (y,) = run(model, {5: 1.5, 1: 2.75, 9: -3.5})
    np.testing.assert_array_equal(y, [[2.75, 1.5, -3.5]])
    words = '{string_vocabulary = ["a", "b", "c"]}'
    model = f"graph g(%m: map(string, i64[])) -> (%y) {{ %y = ai.onnx.ml::DictVectorizer(%m) {words} }}"
    (y,) = run(model, {"c": 3, "a": 1})
    np.testing.assert_array_equal(y, [[1, 0, 3]])


def test_sequences_of_texts_that_come_again():
    words = [f"word {k % 11} {'x' * (k % 3 * 20)}" for k in range(100)] + ["", "ä", "\0"]
    (y,) = run("graph g(%x: string[n]) -> (%y) { %y = Identity(%x) }", np.array(words, object))
    assert list(y) == words


def test_sequences_of_maps_with_keys_of_their_own():
    maps = [{1: 0.5, 2: 1.5}, {1: 2.5, 3: 3.5}, {}, {4: 4.5}]
    (y,) = run("graph g(%s: seq(map(i64, f32[]))) -> (%y) { %y = Identity(%s) }", maps)
    assert y == maps
    maps = [{"a": 1, "b": 2}, {"a": 3, "c": 4}]
    (y,) = run("graph g(%s: seq(map(string, i64[]))) -> (%y) { %y = Identity(%s) }", maps)
    assert y == maps


def test_sequences_of_maps():
    model = "graph g(%x: f32[n, 2]) -> (%y) {{ %y = ai.onnx.ml::ZipMap(%x) {{{}}} }}"
    (y,) = run(
        model.format('classlabels_strings = ["no", "yes"]'),
        np.array([[0.25, 0.75], [1, 0]], np.float32),
    )
    assert y == [{"no": 0.25, "yes": 0.75}, {"no": 1.0, "yes": 0.0}]
    (y,) = run(model.format("classlabels_int64s = [7, 3]"), np.array([[0.5, 2]], np.float32))
    assert y == [{7: 0.5, 3: 2.0}]


def test_optionals():
    model = "graph g(%o: opt(f32[*])) -> (%has, %o) { %has = OptionalHasElement(%o) }"
    has, value = run(model, A)
    assert has
    np.testing.assert_array_equal(value, A)
    has, value = run(model, None)
    assert not has and value is None
    model = """graph g(%o: opt(seq(f32[*]))) -> (%n) {
  %s = OptionalGetElement(%o)
  %n = SequenceLength(%s)
}"""
    (n,) = run(model, [A, B])
    assert n == 2


@pytest.mark.parametrize(
    ("type_", "value", "part"),
    [
        ("seq(f32[*])", A, "a seq(f32[*]) wants a list or tuple"),
        ("seq(f32[*])", {"a": 1}, "a seq(f32[*]) wants a list or tuple"),
        ("map(i64, f32[])", [1, 2], "a map(i64, f32[]) wants a dict"),
        ("seq(f32[*])", [A, None], "None is no array"),
        ("seq(f32[*])", [A.astype("f8")], "input 'v': expected seq(f32[*])"),
        ("seq(i64[*])", [[1.5, 2]], "input 'v': expected i64, got values of dtype float64"),
        ("seq(f32[*])", [A.astype(object)], 'convert it with astype("float32")'),
        ("map(i64, f32[])", {1.5: 2}, "input 'v': expected i64, got values of dtype float64"),
        ("map(i64, f32[])", {1: 1e300}, "input 'v': expected f32, which does not hold every value given"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_what_does_not_fit(type_, value, part):
    with pytest.raises(xc.Error) as info:
        run(f"graph g(%v: {type_}) -> (%y) {{ %y = Identity(%v) }}", value)
    assert info.value.status == "INVALID_ARGUMENT"
    assert part in str(info.value)


def test_prepared_calls_bind_arrays_alone():
    session = xc.Session(b"graph g(%s: seq(f32[*])) -> (%n) { %n = SequenceLength(%s) }", jit="off")
    with pytest.raises(xc.Error, match="binds arrays alone"):
        session.prepare([[A]])
