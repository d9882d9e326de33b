"""What rules do with their arguments: lists that hold tracked values, plain arrays, options."""

import inspect
from typing import Any

import numpy as np
import pytest
from array_oracle import check_what_moves, function

import whence.arrays as wa
from whence.arrays import rules
from whence.arrays.rules.arguments import LISTS, OPTIONS, parameters
from whence.arrays.tracked import RULES

X, Y = np.array([3.0, 1.0, 2.0, 9.0, -4.0, 0.5]), np.array([2.5, 1.0, 7.0, -1.0, 4.0, 0.25])
I = np.array([3, 1, 2, 0, 4, 1])  # noqa: E741
A, B = "x.reshape(2, 3)", "y.reshape(2, 3)"
LISTED = [
    "np.concatenate([[y[0]], x])",
    f"np.concatenate([{A}, [[y[0], 1, 2]]])",
    "np.append(x, [y[0], 1.0])",
    "np.hstack([x, [y[0]]])",
    "np.vstack([x[:2], [y[0], 1.0]])",
    "np.stack([x[:2], [y[0], 1.0]])",
    "np.where(x > 1, [y[0]] * 6, 0)",
    "np.where([y[0] > 1, False], x[:2], 0)",
    "np.select([x > 1], [[y[0]] * 6], x)",
    "np.select([[y[0] > 1] * 6], [x], [y[1]] * 6)",
    "np.dot([y[0], y[1]], x[:2])",
    "np.inner(x[:2], [y[0], 1.0])",
    "np.vdot(x[:2], [y[0], 1.0])",
    "np.outer([y[0], y[1]], x)",
    "np.einsum('i,i->i', [y[0], y[1]], x[:2])",
    "np.kron([y[0], 1.0], x)",
    "np.cross([y[0], y[1], 1.0], x[:3])",
    f"np.linalg.multi_dot([{A}, [[y[0], 1], [2, 3], [4, y[1]]], [1, 2]])",
    "np.diff(x, prepend=[y[0]], append=y[1])",
    "np.ediff1d(x, to_begin=[y[0], 1.0])",
    "np.trapezoid(x, [y[0], 1, 2, 3, 4, y[5]])",
    "np.interp([x[0], 1], y[1:3], [x[2], x[3]])",
    "np.average(x[:2], weights=[y[0], 2.0])",
    "np.bincount(i, weights=[y[0], 1, 2, 3, 4, 5])",
    "np.convolve(x, [y[0], 1.0])",
    "np.meshgrid(x[:2], [y[0], 2])",
    "np.full((2, 2), [y[0], y[1]])",
    "x[:2] @ [y[0], 1.0]",
    "x + [y[0], 1, 2, 3, y[4], 5]",
    "np.maximum(x, [y[0], 1, 2, 3, y[4], 5])",
    "np.add(x, [y[0], 1, 2, 3, y[4], 5], dtype=float)",
    "np.add.outer(x, [y[0], 1])",
    "np.sum(x, where=[y[0] > 1, True, False, True, True, True])",
    f"np.nansum({A}, axis=1, where={B} > 1)",
    f"np.nanmax({A}, axis=0, where={B} > 1, initial=-9)",
    "np.choose([0, 1, 0, 1, 1, 0], [x, [y[0]] * 6])",
    "np.take(x, [i[0], i[1]])",
    "np.delete(x, [i[0], i[1]])",
    "np.insert(x, [i[0], 1], [y[0], 3])",
    "np.compress([i[0] > 1, True, i[1] > 0], x)",
    "np.histogram(x, bins=3, range=(y[3], y[2]))[0]",
]
OPTED = [
    "np.reshape(x, (i[2], 3))",
    "x.reshape(i[2], 3).sum(0)",
    "np.resize(x, i[0])",
    "np.split(x, [i[1], i[0]])",
    "np.split(x, np.array([1, 3]))",
    "np.array_split(x, i[4])",
    "np.broadcast_to(x[0], i[:2])",
    f"np.expand_dims({A}, i[1])",
    f"np.moveaxis({A}, i[3], i[1])",
    f"np.swapaxes({A}, i[3], i[1])",
    f"{A}.transpose(i[1], i[3])",
    f"np.flip({A}, axis=i[3])",
    f"np.rot90({A}, i[1])",
    f"np.diagonal({A}, i[1])",
    f"np.trace({A}, i[1])",
    f"np.triu({A}, i[1])",
    "np.pad(x, (i[1], i[2]))",
    "np.roll(x, i[1])",
    "np.tile(x[:2], i[2])",
    "np.delete(x, slice(i[1], i[0]))",
    f"np.take({A}, 0, axis=i[3])",
    f"np.take_along_axis({A}, i.reshape(2, 3) % 2, axis=i[3])",
    f"np.concatenate([{A}, {B}], axis=i[3])",
    f"np.sum({A}, axis=i[1])",
    f"np.max({A}, axis=(i[3],))",
    f"np.cumsum({A}, axis=i[3])",
    f"np.sort({A}, axis=i[3])",
    "np.partition(x, [i[1], i[2]])",
    f"np.add.reduce({A}, axis=i[3])",
    f"np.add.accumulate({A}, axis=i[1])",
    f"np.add.reduceat({A}, [0, 1], axis=i[1])",
    f"np.tensordot({A}, {B}, axes=i[2])",
    "np.linalg.norm(x, i[1])",
    "np.diff(x, n=i[1])",
    f"np.gradient({A}, axis=(i[1], i[3]))",
    f"np.apply_along_axis(np.cumsum, i[3], {A})",
    "np.bincount(i, minlength=i[4])",
    "np.ones(i[0]).sum()",
    "np.zeros((i[0], 2)).size",
    "np.ones_like(x, shape=i[0]).sum()",
    f"{A}[i[1]:, [0, 2]]",
]
WRITING = [
    ("x[:2] = [y[0], y[1]]", "x"),
    ("x[i[1]:] = [y[0]] * 5", "x"),
    ("np.put(x, [i[0], i[1]], [y[0], y[1]])", "x"),
    ("np.add.at(x, [i[0], i[1]], [y[0], y[1]])", "x"),
    ("x = x.reshape(2, 3); x.sort(axis=i[3])", "x"),
    ("x.partition(i[1])", "x"),
    ("x = x.reshape(2, 3); np.put_along_axis(x, i[:3].reshape(1, 3) % 2, 5, axis=i[3])", "x"),
]


@pytest.mark.parametrize(
    ("program", "result"), [*(("pass", text) for text in LISTED + OPTED), *WRITING]
)
def test_lists_and_options_are_followed(program: str, result: str) -> None:
    answers = check_what_moves(function(program, result), [X, Y, I])
    assert {answer.grade for answer in answers} == {"exact"}


CELLS: list[tuple[str, Any, dict[str, list[int]]]] = [
    ("np.concatenate([[y[0]], x])", 0, {"y": [0]}),
    ("np.dot([y[0], y[1]], x[:2])", (), {"x": [0, 1], "y": [0, 1]}),
    ("np.full((2, 2), [y[0], y[1]])", (1, 1), {"y": [1]}),
    ("x + [y[0], 1, 2, 3, y[4], 5]", 4, {"x": [4], "y": [4]}),
    ("x + [y[0], 1, 2, 3, y[4], 5]", 3, {"x": [3]}),
    ("np.choose(i % 2, [x, 5])", 0, {}),
    ("np.choose(i % 2, [x, 5])", 2, {"x": [2]}),
    ("np.insert(x, i[0], 6)", 3, {}),
    ("np.insert(x, i[0], 99)", 4, {"x": [3]}),
    ("np.block([x, 5])", 6, {}),
    ("np.block([[x, y[0]], [y, 99]])", (0, 6), {"y": [0]}),
    ("np.atleast_1d(x, 5)[1]", 0, {}),
    ("np.broadcast_arrays(x, 5)[1]", 0, {}),
    ("np.meshgrid(x, [1, 2])[1]", (0, 0), {}),
    ("np.split(x, np.array([1, 3]))[1]", 1, {"x": [2]}),
    (f"np.diagonal({A}, i[1])", 0, {"x": [1]}),
    (f"np.rot90({A}, i[1])", (0, 1), {"x": [5]}),
    (f"np.flip({A}, axis=i[3])", (0, 1), {"x": [4]}),
    ("np.reshape(x, (i[2], 3))", (1, 0), {"x": [3]}),
    ("np.nansum(x, where=y > 1)", (), {"x": [0, 2, 4]}),
    (f"np.gradient({A}, axis=(1, 0))[0]", (0, 1), {"x": [0, 2]}),
    (f"np.gradient({A}, axis=[-1, 0])[1]", (0, 1), {"x": [1, 4]}),
]


@pytest.mark.parametrize(("text", "cell", "wanted"), CELLS)
def test_only_what_is_there_contributes(text: str, cell: Any, wanted: dict[str, Any]) -> None:
    follow = wa.track(function("pass", text))
    follow(X, Y, I)
    found = {n: c.positions().tolist() for n, c in follow.last.cells(cell).items() if len(c)}
    assert found == wanted


def test_several_letters_summed_over_their_diagonals() -> None:
    follow = wa.track(lambda x: np.einsum("iijj->", x))
    follow(np.arange(16.0).reshape(2, 2, 2, 2))
    assert follow.last.cells(())["x"].positions().tolist() == [0, 3, 12, 15]


def test_fields_that_hold_arrays_add_axes_at_the_end() -> None:
    kind = np.dtype([("a", float), ("b", float, (3,))])
    follow = wa.track(lambda s: (s["b"], s["b"].sum(axis=1), s[["b"]]))
    follow(np.zeros(3, kind))
    for answer, cell in zip(follow.last, ((0, 1), 0, 0), strict=True):
        assert answer.cells(cell)["s"].positions().tolist() == [0]


def test_lists_given_to_a_declared_function_make_a_superset() -> None:
    rule = lambda result, a, more: {0: (np.arange(2), np.arange(2))}  # noqa: E731
    longer = wa.declare(lambda a, more: a * more[0], rule)
    follow = wa.track(lambda x, y: longer(x[:2], [y[0]]))
    follow(X, Y)
    assert follow.last.grade == "superset"
    assert follow.last.cells(0)["y"].positions().tolist() == [0]


# arrays and lists that are changed after a function has used them
CHANGED = [
    ("k = np.arange(3); r = x[k]; k[:] = 5", [0, 1, 2]),
    ("k = [0, 1]; r = x[k]; k[:] = [5, 5]", [0, 1]),
    ("m = np.arange(6) < 2; r = x[m]; m[:] = m[::-1]", [0, 1]),
    ("k = np.arange(3); r = np.take(x, k); k[:] = 5", [0, 1, 2]),
    ("k = [0, 1]; r = np.take(x, k); k[:] = [5, 5]", [0, 1]),
    ("k = np.array([1, 0, 0, 0, 0, 2]); r = np.repeat(x, k); k[:] = 1", [0, 5]),
    ("k = np.array([0, 1, 2]); r = np.delete(x, k); k[:] = 5", [3, 4, 5]),
    ("m = np.arange(6) < 2; r = np.compress(m, x); m[:] = m[::-1]", [0, 1]),
    ("m = np.arange(6) < 2; r = np.where(m, x, 0); m[:] = True", [0, 1]),
    ("m = np.arange(6) < 2; r = np.sum(x, where=m); m[:] = True", [0, 1]),
    ("m = np.arange(6) < 2; r = np.max(x, where=m, initial=-9); m[:] = False", [0]),
    ("m = np.arange(6) < 2; r = np.add(x, 1, where=m, out=np.zeros(6)); m[:] = True", [0, 1]),
    ("k = np.array([0, 1]); r = np.zeros(2); np.add.at(r, k, x[:2]); k[:] = 1; r = r[:1]", [0]),
    ("k = np.array([1, 3]); r = np.split(x, k)[1]; k[:] = 0", [1, 2]),
    ("k = np.array([2, 1]); r = np.pad(x[:2], k)[:3]; k[:] = 0", [0]),
    ("r = np.sort(x)[:1]; np.concatenate([y[:3], y[3:]], out=x)", [4]),
    ("q = np.array([0.0]); r = np.quantile(x, q); q[:] = 1", [4]),
    ("k = np.array([0, 1, 1, 1, 1, 1]); r = np.bincount(k, x)[:1]; k[:] = 0", [0]),
    ("p = np.arange(1.0) - 1; r = np.interp(p, [0.0, 1.0], x[:2]); p[:] = 2", [0]),
    (
        "a = np.arange(6.0); r = np.histogram(a, [0.0, 1.5, 9.0], weights=x)[0][:1]; a[:] = 9",
        [0, 1],
    ),
]


@pytest.mark.parametrize(("program", "wanted"), CHANGED)
def test_arrays_are_taken_as_they_were(program: str, wanted: list[int]) -> None:
    follow = wa.track(function(program, "r"))
    follow(X.copy(), Y, I)
    assert follow.last.grade == "exact"
    assert follow.last.cells()["x"].positions().tolist() == wanted


@pytest.mark.parametrize(
    "text",
    [
        "np.add.reduceat(x, i)",
        "np.take(x, [i[0], i[1]])",
        "np.delete(x, [i[0], i[1]])",
        "np.repeat(x[:2], [i[0], i[1]])[:1]",
        "np.compress([i[0] > 0, i[0] == 0], x)",
        "np.choose([i[0] % 2], [x[:1], y[:1]])",
        "np.pad(x, (i[0], 2 - i[0]))",
        "np.diagonal(x[:4].reshape(2, 2), i[2] - 1)",
    ],
)
def test_what_options_and_lists_decide_makes_no_view(text: str) -> None:
    call, numbers = function("pass", text), (I + 1) % 3
    follow, other = wa.track(call, views=wa.Views()), wa.track(call)
    for given in (I % 3, I % 3, numbers):
        follow(X, Y, given)
    other(X, Y, numbers)
    for cell in np.ndindex(*other.last.shape):
        mine, theirs = (f.last.cells(cell)["x"].positions().tolist() for f in (follow, other))
        assert mine == theirs


# what functions work on; all else says how
_WORKED_ON = (
    "A a a_max a_min ar arr array arrays ary atol aweights b begindates bins choicelist choices "
    "condition condlist correction count dates ddof decimals default deletechars discont dst dx "
    "enddates f fill_value fillchar filt fp fweights i ind indices initial left m mask max mean "
    "min nan neginf new obj offsets old out p period posinf prepend append prototype q rcond "
    "repeats right rtol sep sorter src step stop table tabsize to_begin to_end tol tup v val "
    "vals values weights where width x xp y z"
)


def test_every_parameter_is_known_to_be_worked_on_or_an_option() -> None:
    served = [f for f in RULES if rules.FAMILY.get(f) not in (None, "description", "python")]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    for func in served:
        listed = inspect.signature(func).parameters.values()
        names = {*parameters(func), *(p.name for p in listed if p.kind in named)}
        unknown = names - OPTIONS - LISTS - set(_WORKED_ON.split())
        assert not unknown, (func, unknown)
    assert not OPTIONS & set(_WORKED_ON.split())
