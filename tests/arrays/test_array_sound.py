"""No cell that matters is overlooked: change each input cell, and what moves must be reported.

Programs that write in place, through views, with `out=`, and with tracked arrays in unusual
arguments. The result and the inputs afterwards must be those of the plain program too.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import whence.arrays as wa

X, Y = np.array([3.0, 1.0, 2.0, 9.0, -4.0, 0.5]), np.array([2.5, 1.0, 7.0, -1.0, 4.0, 0.25])
M, I = X.reshape(2, 3), np.array([3, 1, 2, 0, 4, 1])  # noqa: E741
DELTAS = {"f": (0.4, -7.1, 1e3), "c": (0.3, -2 - 3j), "i": (1, -1)}
INTO = [
    "np.take(x, [0, 2, 1], out=o)",
    "np.take(x, [0, 2, 1], None, o)",
    "np.compress([True, False, True, False, True], x, out=o)",
    "np.choose([0, 1, 0], x, out=o)",
    "np.einsum('ij->j', x, out=o)",
    "np.add.reduceat(x[0], [0, 1, 2], out=o)",
    "np.median(x, axis=0, out=o)",
    "np.ptp(x, axis=0, out=o)",
    "np.round(x[0], 1, out=o)",
    "np.cumsum(np.arange(3.0), out=o)",
]
PROGRAMS: list[tuple[str, str, Any]] = [
    ("x[i] = y", "x", X),
    ("x[i] += y", "x", X),
    ("x[i > 1] = y[:3]", "x", X),
    ("x[x > 1] = y[0]", "x", X),
    ("np.place(x, x > 1, y[:2])", "x", X),
    ("np.put(x, i, y)", "x", X),
    ("np.maximum.at(x, i, y)", "x", X),
    ("x.T.flat[1] = 5; x.T.flat[2:4] = y[:2]", "x, np.array(list(x.T.flat))", M),
    ("x.flat = y", "x", M),
    ("x.real = y", "x", X),
    ("x.imag = y; x.real[1] = 3", "x", X.astype(complex)),
    ("s = np.sort(x); x.shape = (3, 2); x[0, 0] = y[0]", "s, x", X),
    ("v = np.lib.stride_tricks.sliding_window_view(x, 3); x[2] = y[0]", "v + 0, x", X),
    ("s = np.sort(x); np.nan_to_num(x, copy=False, nan=4)", "s, x", np.where(X > 2, np.nan, X)),
    ("np.round(x, 1, out=x)", "x", X),
    ("r = np.add(x[:3], 1, out=np.zeros((2, 3)), where=y.reshape(2, 3) > 1)", "r", X),
    ("pass", "np.add.reduce(x, initial=y[0])", X),
    ("pass", "np.maximum.reduce(x, initial=y[2] * 3)", X),
    ("pass", "np.sum(np.arange(6.0), where=x > 1)", X),
    ("pass", "np.add.reduce(np.arange(6.0), where=x > 1)", X),
    ("pass", "np.maximum.reduceat(x, [0, 2, 4])", X),
    ("pass", "np.pad(x, 1, constant_values=y[0])", X),
    ("pass", "np.pad(np.ones(3), 1, constant_values=x[0])", X),
    ("pass", "np.roll(np.arange(4.0), i[0])", X),
    ("pass", "np.unwrap(x, discont=y[0])", X),
    ("pass", "np.ediff1d(x, to_end=[y[0], 1.0])", X),
    ("pass", "np.interp(x, [0.0, 1.0, 2.0], y[:3], left=y[4], right=y[5])", X),
    *((f"o = np.ones(3); {call}", "o", M) for call in INTO),
    ("o = np.ones(3, int); np.argmax(x, axis=0, out=o)", "o", M),
    ("o = y[:3]; np.take(x, [0, 2, 1], out=o)", "o, y", M),
]


def _function(program: str, result: str) -> Any:
    space: dict[str, Any] = {"np": np, "__name__": __name__}
    exec(f"def f(x, y, i):\n    {program}\n    return {result}", space)
    return space["f"]


def _leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def _changed(call: Any, arrays: list[Any], number: int, cell: int) -> Iterator[list[Any]]:
    for delta in DELTAS[arrays[number].dtype.kind]:
        other = [a.copy() for a in arrays]
        other[number].reshape(-1)[cell] += delta
        try:
            yield _leaves(call(*other))
        except (IndexError, ValueError):
            continue


@pytest.mark.parametrize(("program", "result", "x"), PROGRAMS)
def test_what_moves_is_reported(program: str, result: str, x: Any) -> None:
    call = _function(program, result)
    arrays = [x, Y, I]
    mine, theirs = ([a.copy() for a in arrays] for _ in range(2))
    plain = _leaves(call(*mine))
    follow = wa.track(call)
    made = _leaves(follow(*theirs))
    for one, two in zip([*plain, *mine], [*made, *theirs], strict=True):
        np.testing.assert_array_equal(one, two)
    for part, answer in enumerate(_leaves(follow.last)):
        for number, name in enumerate("xyi"):
            for cell in range(arrays[number].size):
                at = tuple(int(k) for k in np.unravel_index(cell, arrays[number].shape))
                told = [answer.forward_cells(name, at, r).mask() for r in ROLES]
                for other in _changed(call, arrays, number, cell):
                    was, now = plain[part], other[part]
                    moved = ~((was == now) | ((was != was) & (now != now)))
                    assert not (moved & ~(told[0] | told[1])).any(), (name, at)


ROLES: tuple[Any, Any] = ("contributing", "influencing")


def test_copyto_refuses_what_numpy_refuses() -> None:
    with pytest.raises(TypeError, match="same_kind"):
        wa.track(lambda x, y: np.copyto(x, y))(I.copy(), Y)
    wa.track(lambda x: np.copyto(x, 3))(I.astype(np.uint8))
