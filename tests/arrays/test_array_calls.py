"""Calls as NumPy takes them: any true value, names or places, shapes that are broadcast, overlaps.

Each is run plain and tracked, which must agree, and each input cell is changed to see what moves.
"""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_oracle import check_what_moves, function

import whence.arrays as wa

X, Y = np.array([3.0, 1.0, 2.0, 9.0, -4.0, 0.5]), np.array([2.5, 1.0, 7.0, -1.0, 4.0, 0.25])
I = np.array([3, 1, 2, 0, 4, 1])  # noqa: E741
A, B = "x.reshape(2, 3)", "y.reshape(2, 3)"
STACK = "(np.eye(2) * 9 + x[:4].reshape(2, 1, 2))"
WINDOWS = "np.lib.stride_tricks.sliding_window_view"
EXACT = [
    ("pass", f"np.sum({A}, axis=1, keepdims=1)"),
    ("pass", f"np.max({A}, axis=1, keepdims=1)"),
    ("pass", f"np.nanmean({A}, axis=1, keepdims=1)"),
    ("pass", f"np.ptp({A}, axis=1, keepdims=1)"),
    ("pass", f"np.argmax({A}, axis=1, keepdims=1)"),
    ("pass", f"np.quantile({A}, [0.2, 0.7], axis=1, keepdims=1)"),
    ("pass", f"np.average({A}, axis=1, keepdims=1, weights={B} + 9)"),
    ("pass", f"np.linalg.norm({A}, axis=1, keepdims=1)"),
    ("pass", f"np.add.reduce({A}, 1, None, None, 1)"),
    ("o = np.zeros(())", f"np.trace({A}, 0, 0, 1, None, o)"),
    ("pass", f"np.kron(a={A}, b=y[:2])"),
    ("pass", f"np.gradient(f={A})[1]"),
    ("pass", f"np.trapezoid({A}, x=y[:3].reshape(1, 3), axis=1)"),
    ("pass", f"np.trapezoid({A}[:1], x={B}, axis=1)"),
    ("pass", f"np.linalg.solve({STACK}, y[:4].reshape(2, 1, 2, 1))"),
    ("pass", f"np.linalg.solve({STACK}.reshape(2, 1, 2, 2), y[:4].reshape(2, 2, 1))"),
    ("pass", f"np.linalg.solve({STACK}, y[:2])"),
    ("pass", "np.einsum('iij,kj->j', x[:4].reshape(2, 2, 1), y.reshape(2, 3))"),
    ("pass", f"np.apply_along_axis(lambda v: 1 if v[0] > 2 else v.sum(), 0, {A})"),
    ("pass", f"np.apply_along_axis(lambda v: v if v[0] > 2 else 7, 1, {A})"),
    ("pass", f"np.trim_zeros(np.where({A} > 1, {A}, 0)[::-1, ::-1])"),
    ("pass", f"np.trim_zeros(np.where({A} > 8, {A}, 0).T[::-1])"),
    ("pass", "np.trim_zeros(np.broadcast_to(np.where(x > 2, x, 0), (2, 6)))"),
    ("pass", f"{WINDOWS}(x, i[1] + 2).max(axis=1)"),
    ("pass", f"{WINDOWS}({A}, (2, 2), axis=(-1, 0)).sum(axis=(2, 3))"),
    ("pass", f"{WINDOWS}(x, (2, 3), axis=(0, 0))"),
    (f"v = {WINDOWS}(x, 3, writeable=True); v[1] = y[:3]", "x, v + 0"),
    ("pass", "np.interp(x, [0.0, 1.0, np.nan], y[:3])"),
    ("pass", "np.histogram(x, [-5.0, 0.0, 1.0, 5.0])"),
    ("pass", "np.histogram(x, 4, (-5, 10))"),
    ("np.nan_to_num(x, copy=None); x += y", "x"),
    ("n = x.sum(); n.fill(y[0]); n.flat[::2] = y[1]; n.put(0, y[2])", "n"),
    ("o = np.zeros(()); o.flat[::2] = y[0]", "o"),
    ("z = x.conj(); z[0] = y[0]", "x, z"),
    ("x.flat = x[::-1]; np.place(y, y > 2, y[:1])", "x, y"),
    ("pass", "np.median(np.zeros((2, 0)), axis=1) + x[:2]"),
]
# what is read while it is written
OVERLAPPING = [
    ("x.flat[1:] = x[:-1]", "x"),
    ("np.place(x, x > -9, x[1:3])", "x"),
    ("x = x[:4].reshape(2, 2); np.fill_diagonal(x, np.diagonal(x)[::-1])", "x"),
    ("np.concatenate([x[3:], x[:3]], out=x)", "x"),
    (f"m = {A}; np.ptp(m, axis=0, out=m[1])", "m"),
    ("np.take(x, [5, 4, 3, 2, 1, 0], out=x, mode='clip')", "x"),
    ("m = x[:4].reshape(2, 2, 1, 1) / 9", "np.linalg.tensorinv(np.eye(4).reshape(2, 2, 2, 2) + m)"),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("program", "result"), EXACT)
def test_calls_are_followed(program: str, result: str) -> None:
    answers = check_what_moves(function(program, result), [X, Y, I])
    assert {answer.grade for answer in answers} == {"exact"}


@pytest.mark.parametrize(("program", "result"), OVERLAPPING)
def test_what_cannot_be_told_apart_is_a_superset(program: str, result: str) -> None:
    answers = check_what_moves(function(program, result), [X, Y, I])
    assert {answer.grade for answer in answers} == {"superset"}


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_a_view_as_another_class_computes_as_that_class() -> None:
    def squared(x: Any) -> Any:
        one = x[:4].reshape(2, 2).view(np.matrix)
        return one * x[:4].reshape(2, 2).view(type=np.matrix)

    follow = wa.track(squared)
    np.testing.assert_array_equal(follow(X), squared(X), strict=True)
    assert follow.last.grade == "superset"
    assert follow.last.cells((0, 0))["x"].positions().tolist() == [0, 1, 2, 3]


def error_of(call: Callable[[Any], Any], value: Any) -> tuple[type, str]:
    with pytest.raises(Exception) as caught:
        call(value)
    return type(caught.value), str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: operator.setitem(x, (slice(None), slice(1)), 5),
        lambda x: operator.setitem(x.sum(), ..., 5),
        lambda x: np.copyto(x.sum(), 5),
        lambda x: np.multiply(x, x[:, None].repeat(2, 1), out=x),
        lambda x: np.apply_along_axis(np.sum, -1, x[0:1].reshape(())),
        lambda x: np.apply_along_axis(np.sum, 0, x.reshape(6, 1)[:, :0]),
    ],
)
def test_errors_are_those_of_numpy(call: Callable[[Any], Any]) -> None:
    assert error_of(wa.track(call), X.copy()) == error_of(call, X.copy())


def test_a_value_on_a_knot_comes_from_that_knot_alone() -> None:
    follow = wa.track(lambda f: np.interp([0.0, 1.0, 1.5, 2.0], [0.0, 1.0, 2.0], f))
    follow(X[:3])
    found = [follow.last.cells(k)["f"].positions().tolist() for k in range(4)]
    assert found == [[0], [1], [1, 2], [2]]


def test_windows_of_a_large_array_are_not_listed() -> None:
    follow = wa.track(lambda x: np.lib.stride_tricks.sliding_window_view(x, (3, 3)).mean((2, 3)))
    follow(np.zeros((300, 400)))
    assert follow.last.grade == "exact"
    assert len(follow.last.relation("x").rows()) < 20
    found = follow.last.backward((7, 5))["x"]
    assert {tuple(map(int, cell)) for cell in zip(*found, strict=True)} == {
        (row, column) for row in (7, 8, 9) for column in (5, 6, 7)
    }


def test_arrays_in_brackets() -> None:
    def joined(x: Any, y: Any) -> Any:
        edges = np.r_[0, np.flatnonzero(x > 1), len(x)]
        pairs, table = np.c_[x, y[::-1]], np.r_["0,2", x[:2], [1, y[0]]]
        return edges, pairs, table, np.r_[0:2, x[4], True], np.c_[x]

    x, y = np.array([3.0, 1.0, 2.0, 9.0, -4.0, 0.5]), np.arange(6.0)
    follow = wa.track(joined)
    for found, plain in zip(follow(x, y), joined(x, y), strict=True):
        assert found.dtype == plain.dtype and np.array_equal(found, plain)
    assert {answer.grade for answer in follow.last} == {"exact"}
    edges, pairs, table, mixed, column = follow.last
    assert edges.backward((1,))["x"][0].tolist() == [0]
    assert edges.backward((1,), "influencing")["x"][0].tolist() == [1, 2, 3, 4, 5]
    assert pairs.backward((1, 0))["x"][0].tolist() == [1]
    assert pairs.backward((1, 1))["y"][0].tolist() == [4]
    assert [table.backward((1, k))["y"][0].tolist() for k in (0, 1)] == [[], [0]]
    assert [mixed.backward((k,))["x"][0].tolist() for k in (1, 2, 3)] == [[], [4], []]
    assert column.backward((2, 0))["x"][0].tolist() == [2]
    with pytest.raises(ValueError, match="dimensions"):
        wa.track(lambda x: np.r_[x, x[None]])(x)
