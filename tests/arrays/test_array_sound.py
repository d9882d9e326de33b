"""No cell that matters is overlooked: change each input cell, and what moves must be reported.

Programs that write in place, through views, with `out=`, and with tracked arrays in unusual
arguments. The result and the inputs afterwards must be those of the plain program too.
"""

import warnings
from typing import Any

import numpy as np
import pytest
from array_oracle import check_what_moves, function

import whence.arrays as wa
from whence.errors import ArrayError

X, Y = np.array([3.0, 1.0, 2.0, 9.0, -4.0, 0.5]), np.array([2.5, 1.0, 7.0, -1.0, 4.0, 0.25])
M, I = X.reshape(2, 3), np.array([3, 1, 2, 0, 4, 1])  # noqa: E741
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
STRIDED = [
    ("v = as_strided(x, (4, 3), x.strides * 2)", "v.mean(1), v", X),
    ("b = x[::-1, 1:]; v = as_strided(b, (2, 1, 1, 2), b.strides * 2)", "v * 2", M),
    ("v = as_strided(x, (3, 2), x.strides * 2); v[:, 1] = y[:3]; x[0] = y[5]", "v + 0, x", X),
    ("b = x[1:3]; v = as_strided(b, (4,), b.strides); x[4] = y[0]", "v * 1", X),
    ("v = as_strided(x, (2, 6), (0, x.strides[0]), writeable=False)", "v + y", X),
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
    ("pass", "np.insert(x, 2, [1.0, 2.0]), np.insert(x, [-1], [1.0, 2.0, 3.0])", X),
    ("pass", "np.insert(x, 1, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], axis=0)", M),
    ("pass", "np.unwrap(x, discont=y[0])", X),
    ("pass", "np.ediff1d(x, to_end=[y[0], 1.0])", X),
    ("pass", "np.interp(x, [0.0, 1.0, 2.0], y[:3], left=y[4], right=y[5])", X),
    *((f"o = np.ones(3); {call}", "o", M) for call in INTO),
    ("o = np.ones(3, int); np.argmax(x, axis=0, out=o)", "o", M),
    ("o = y[:3]; np.take(x, [0, 2, 1], out=o)", "o, y", M),
    ("pass", "np.linalg.matrix_rank(x) * np.ones(2)", np.array([0.0, 0.0, 3.0])),
    ("pass", "x[:1] if np.linalg.matrix_rank(x) else x[1:2]", np.array([0.0, 0.0, 3.0])),
    ("pass", "np.interp([0.0, 0.0], [0.0, 1.0, 0.0], x[:3])", X),  # not in order
    ("pass", "np.searchsorted([-1, -2, -3, -1, 1, -1, 3, -1], x)", np.array([0.0, 5.0, 2.0, -2.0])),
    ("o = y.reshape(2, 3); np.median(x, keepdims=True, out=o)", "o", M),
    ("pass", "np.fft.irfft2(x, out=np.zeros((2, 4)))", M),  # the `out=` is not used
    ("pass", "np.fft.hfft(x, out=np.zeros(10))", X),
    ("pass", "np.diff(x, n=0, append=9.0)", X),
    *((f"from numpy.lib.stride_tricks import as_strided; {do}", r, a) for do, r, a in STRIDED),
    ("o = np.ones(3, int); np.argmax(np.eye(3), axis=0, out=o)", "o * x[0]", X),
    ("o = np.ones(3); np.ptp(np.eye(3), axis=0, out=o)", "o * x[0]", X),
]


@pytest.mark.parametrize(("program", "result", "x"), PROGRAMS)
def test_what_moves_is_reported(program: str, result: str, x: Any) -> None:
    check_what_moves(function(program, result), [x, Y, I])


def test_ranges_of_times() -> None:
    days = np.array(["2020-01-01", "2020-02-01"], "M8[D]")
    follow = wa.track(lambda d: np.arange(d[0], d.max(), np.timedelta64(7, "D")))
    assert (follow(days) == np.arange(days[0], days[1], np.timedelta64(7, "D"))).all()
    answer = follow.last
    assert answer.grade == "exact"
    assert answer.backward((1,))["d"][0].tolist() == [0]
    assert answer.backward((1,), "influencing")["d"][0].tolist() == [1]


def test_errors_and_warnings_are_those_of_numpy() -> None:
    with pytest.raises(ValueError, match="mode must be one of"):
        wa.track(lambda x: np.convolve(x, x, "bad"))(X)
    with pytest.raises(ValueError, match="cannot delete"):
        wa.track(lambda x: x.__delitem__(0))(X)

    def told(function: Any) -> int:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            function(X)
        return len(found)

    def empty(x: Any) -> Any:
        return np.cov(x[:0])

    assert told(wa.track(empty)) == told(empty) > 0


def test_copyto_refuses_what_numpy_refuses() -> None:
    with pytest.raises(TypeError, match="same_kind"):
        wa.track(lambda x, y: np.copyto(x, y))(I.copy(), Y)
    wa.track(lambda x: np.copyto(x, 3))(I.astype(np.uint8))


@pytest.mark.parametrize("step", [1, 2, -1])
def test_memory_that_is_laid_out_anew(step: int) -> None:
    strided = np.lib.stride_tricks.as_strided
    x = np.arange(14.0)[::step][:7]

    def windows(x: Any) -> Any:
        return strided(x, (5, 3), x.strides * 2, writeable=False)

    follow = wa.track(windows)
    assert np.array_equal(follow(x), windows(x))
    assert follow.last.grade == "exact"
    assert follow.last.backward((3, 1))["x"][0].tolist() == [4]
    at_prompt = wa.tracked(np.arange(14.0), "x")[::step][:7]
    assert np.array_equal(windows(at_prompt), windows(x))
    with pytest.raises(AttributeError):
        wa.track(lambda x: x.__array_interface__)(x)
    with pytest.raises(AttributeError, match="dtype"):
        wa.track(lambda x: setattr(x, "dtype", np.int64))(x)


def test_nditer_does_not_write_unseen() -> None:
    def doubled(x: Any, target: Any) -> Any:
        with np.nditer([x, target], [], [["readonly"], ["readwrite"]]) as found:
            for one, other in found:
                other[...] = one * 2
            return found.operands[1]

    with pytest.raises(ArrayError, match="nditer"):
        wa.track(lambda x: doubled(x, np.zeros(6)))(X)
    with pytest.raises(ArrayError, match="nditer"):
        wa.track(lambda x: np.nditer(x, op_flags=["readwrite"]))(X)
    flags = [["readonly"], ["writeonly", "allocate"]]
    follow = wa.track(lambda x: np.nditer([x, None], op_flags=flags).operands[1] * x[0])
    assert follow(X).shape == (6,)
    total = wa.track(lambda x: sum(v for v in np.nditer(x)))
    assert total(X) == X.sum() and total.last.grade == "superset"
