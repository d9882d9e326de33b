"""What the arrays of a call share: memory, shapes that values decided, errors that are caught.

Each program runs plain and tracked; whatever moves when one input cell is changed must be told.
"""

from typing import Any

import numpy as np
import pytest
from array_oracle import check_what_moves, function

X, Y = np.array([3.0, 1.0, 2.0, 9.0, -4.0, 0.5]), np.array([2.5, 1.0, 7.0, -1.0, 4.0, 0.25])
I = np.array([3, 1, 2, 0, 4, 1])  # noqa: E741
WINDOWS = "w = np.lib.stride_tricks.sliding_window_view(x, 3, writeable=True)"
NEAR = np.array([1 + 1e-17j, 2.0])
THROUGH_VIEWS: list[tuple[str, str, Any]] = [
    ("x.reshape(2, 3)[:, i[:2] % 3] = 0", "x", X),
    ("a = x[1:]; a[i[0]] = 7", "x", X),
    ("a = x[1:]; a[y[1:] > 1] = 0", "x", X),
    ("np.put(x[::2], i[:2] % 3, y[0])", "x", X),
    ("np.put_along_axis(x.reshape(2, 3), i[:2, None] % 3, y[0], 1)", "x", X),
    ("np.copyto(x[:3], 5, where=y[:3] > 1)", "x", X),
    ("v = np.lib.stride_tricks.sliding_window_view(x, 3); x[i[0]] = y[0]", "v + 0", X),
    ("x[::2][np.flatnonzero(y > 100)[:1]] = 5", "x", X),
    ("a = x[: i[3]]; a += y[3]", "x", X),
    ("a = x.reshape(2, 3)[i[1] :, i[3] : i[2]]; a[:] = y[:2]", "x, x[::-1] * 1", X),
    ("v = np.lib.stride_tricks.sliding_window_view(x, 3); x[i[1] :].sort()", "v + 0", X),
    ("np.trim_zeros(x)[-1:] = y[0]", "x", np.where(X > 1, X, 0)),
    ("x[::2].base[0] = y[0]", "x", X),
    ("pass", "x[::2].base * 2", X),
    ("pass", "np.zeros(6)[::2].base + x.T.base", X),
    (f"{WINDOWS}; w[1, 1] = y[0]", "w + 0, x", X),
    (f"{WINDOWS}; w[i[0] % 2, i[1]] = y[0]", "w + 0, x", X),
    (f"{WINDOWS}; w[:, 1:] = y[:2]", "w + 0, x", X),
    (f"{WINDOWS}; w += y[0]", "w + 0, x", X),
]
SHAPES: list[tuple[str, str, Any]] = [
    ("pass", "x[x > 100].sum()", X),
    ("pass", "np.max(x[x > 100], initial=0)", X),
    ("pass", "(x[x > 100] * y[y > 100]).sum()", X),
    ("pass", "x[: i[3]].sum()", X),
    ("pass", "x[: i[3]][::-1][i[3] :].sum()", X),
    ("pass", "np.bincount(i[x > 100], minlength=5)", X),
    ("pass", "np.concatenate([x[x > 1], y])[:6]", X),
    ("pass", "np.pad(x[x > 1], 3)[:6]", X),
    ("pass", "x[x > 1]", X),
    ("pass", "np.zeros_like(x[y > 1])", X),
    ("pass", "np.unique(i), np.trim_zeros(x), np.repeat(y, i)", np.where(X > 1, X, 0)),
    ("pass", "np.ones_like(x[x > 1]).sum()", X),
    ("pass", "np.repeat(x, i).sum() + np.tile(y, i[3]).sum()", X),
    ("pass", "np.ones(i[3]).sum() + np.zeros((2, i[0])).size", X),
    ("pass", "np.array(np.setdiff1d(x, y).size)", X),
    ("pass", "np.array(np.unique(x.reshape(3, 2), axis=0).nbytes)", np.round(X / 9)),
    ("pass", "np.array(sum(1 for _ in x[x > 1]))", X),
    ("pass", "np.array(np.array_equal(x[x > 5], y[y > 5] + 2))", X),
    ("pass", "np.array(len(x[x > 100].tolist()))", X),
    ("a = np.zeros(6); a[np.flatnonzero(x > 100)] = 1", "a", X),
    ("a = np.zeros(6); np.add.at(a, np.flatnonzero(x > 100), 1)", "a", X),
    ("a = np.zeros(1); np.sum(x[x > 100], keepdims=True, out=a)", "a", X),
    ("a = x[x > 1]; a[1] = 7; a += 1; b = np.zeros(6); b[: len(a)] = a", "b", X),
    ("a = x[x > 1]; a[-1] = 7", "np.append(a, y)[:6]", X),
    ("np.put(x, [0, 1], x[:0])", "x", X),
    ("np.put(x, [0, 1], y[y > 100])", "x", X),
]
CAUGHT: list[tuple[str, str, Any]] = [
    (f"try: r = {call}\n    except {error}: r = {other}", "r", x)
    for call, error, other, x in [
        ("np.linalg.inv(x)", "np.linalg.LinAlgError", "np.zeros((2, 2))", [[1.0, 2], [2, 4]]),
        ("x[i[4] + 2]", "IndexError", "y[0]", X),
        ("np.take(x, i + 2)[0]", "IndexError", "y[0]", X),
        ("sum(np.split(x[x > 1], 2))[0]", "ValueError", "y[0]", X),
        ("(x[x > 2] + y[y > 1])[0]", "ValueError", "y[0]", X),
        ("x[x > 100][0]", "IndexError", "y[0]", X),
        ("x[x > 100].max()", "ValueError", "y[0]", X),
        ("x[x > 2].item() * 0", "ValueError", "y[0]", X),
        ("(2 ** i[:3] ** (i[:3] - 2))[0]", "ValueError", "y[0]", X),
        ("np.zeros(i[3] - 1).size + y[0] - y[0]", "ValueError", "y[0]", X),
    ]
]
CAUGHT += [
    ("try: a, b = x[x > 2]; r = y[0]\n    except ValueError: r = y[1]", "r", X),
    ("try: x[i + 2] = 0\n    except IndexError: pass", "x", X),
    ("a = x[x > 2]\n    try: a.shape = (3, 1)\n    except ValueError: x[0] = 1", "x", X),
]
PROGRAMS = [*THROUGH_VIEWS, *SHAPES, *CAUGHT, ("pass", "np.real_if_close(x)", NEAR)]


@pytest.mark.parametrize(("program", "result", "x"), PROGRAMS)
def test_what_moves_is_reported(program: str, result: str, x: Any) -> None:
    check_what_moves(function(program, result), [np.array(x), Y, I])
