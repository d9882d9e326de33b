"""Slow oracles that know nothing of the rules: annotate each cell, or change each and look."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import whence.arrays as wa
from whence.arrays.annotated import Cell, annotated_array, read
from whence.arrays.expand import expand

Matrix = np.ndarray[Any, Any]
CHOICE = {
    np.maximum: lambda a, b: a if a.value >= b.value else b,
    np.fmax: lambda a, b: a if a.value >= b.value else b,
    np.minimum: lambda a, b: a if a.value <= b.value else b,
    np.fmin: lambda a, b: a if a.value <= b.value else b,
}
DELTAS: dict[str, tuple[Any, ...]] = {
    "f": (0.4, -7.1, 1e3),
    "c": (0.3, -2 - 3j),
    "i": (1, -1),
}
ROLES: tuple[Any, Any] = ("contributing", "influencing")


def annotated(
    function: Any, call: Callable[..., Any], arrays: Sequence[Any]
) -> list[Matrix] | None:
    """Which input cells each output cell was computed from, or None if objects will not do."""
    log: list[bool] = []
    cells = [annotated_array(np.asarray(a), i, log) for i, a in enumerate(arrays)]
    try:
        if isinstance(function, np.ufunc) and function.signature is None:
            found = _cell_by_cell(function)(*cells)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = call(*cells)
    except Exception:
        return None
    listed = np.asarray(found, dtype=object)
    plain = np.asarray(call(*arrays))
    values = np.array([getattr(c, "value", c) for c in listed.reshape(-1)], dtype=plain.dtype)
    if listed.shape != plain.shape or not np.allclose(values, plain.reshape(-1), equal_nan=True):
        return None
    return [matrix(form) for form in read(listed, [np.shape(a) for a in arrays])]


def _cell_by_cell(ufunc: np.ufunc) -> Any:
    def one(*cells: Cell) -> Cell:
        if ufunc in CHOICE:
            return CHOICE[ufunc](*cells)
        sources = frozenset().union(*(c.sources for c in cells))
        return Cell(ufunc(*(c.value for c in cells)), sources, cells[0].log)

    return np.frompyfunc(one, ufunc.nin, 1)


def matrix(form: Any) -> Matrix:
    """A relation as a boolean matrix, output cells by input cells."""
    listed = expand(form)
    sizes = [int(np.prod(s, dtype=np.int64)) for s in (form.out_shape, form.in_shape)]
    out = np.zeros(sizes, dtype=bool)
    out[listed.out, listed.inp] = True
    return out


def perturbed(
    call: Callable[..., Any], arrays: Sequence[Any], deltas: Sequence[float]
) -> list[Matrix]:
    """Which output cells change when an input cell changes by any of the deltas.

    A change of the output's shape counts as a change of every cell.
    """
    base = np.asarray(call(*[a.copy() for a in arrays]))
    out = []
    for number, array in enumerate(arrays):
        seen = np.zeros((base.size, array.size), dtype=bool)
        for cell in range(array.size):
            for delta in deltas:
                changed = [a.copy() for a in arrays]
                changed[number].reshape(-1)[cell] += delta
                with np.errstate(all="ignore"):
                    result = np.asarray(call(*changed))
                if result.shape != base.shape:
                    seen[:, cell] = True
                else:
                    same = (result == base) | ((result != result) & (base != base))
                    seen[:, cell] |= ~np.atleast_1d(same).reshape(-1)
        out.append(seen)
    return out


def function(program: str, result: str) -> Any:
    """A function of x, y and i that does `program` and gives `result`."""
    space: dict[str, Any] = {"np": np, "__name__": __name__}
    exec(f"def f(x, y, i):\n    {program}\n    return {result}", space)
    return space["f"]


def leaves(result: Any) -> list[Any]:
    """Results one by one."""
    return list(result) if isinstance(result, tuple | list) else [result]


def _changed(call: Any, arrays: list[Any], number: int, cell: int) -> Iterator[list[Any]]:
    for delta in DELTAS[arrays[number].dtype.kind]:
        other = [a.copy() for a in arrays]
        other[number].reshape(-1)[cell] += delta
        try:
            yield leaves(call(*other))
        except (IndexError, ValueError):
            continue


def _moved(was: Any, now: Any) -> Any:
    """Which cells are not what they were; all, if there are more or fewer."""
    if np.shape(was) != np.shape(now):
        return np.ones(np.shape(was), dtype=bool)
    return ~((was == now) | ((was != was) & (now != now)))


def check_what_moves(call: Any, arrays: list[Any]) -> list[wa.Provenance]:
    """Run a function of x, y and i plain and tracked: both agree, and what a cell moves is told."""
    mine, theirs = ([a.copy() for a in arrays] for _ in range(2))
    plain = leaves(call(*mine))
    follow = wa.track(call)
    made = leaves(follow(*theirs))
    for one, two in zip([*plain, *mine], [*made, *theirs], strict=True):
        np.testing.assert_array_equal(one, two, strict=True)
    answers = leaves(follow.last)
    for part, answer in enumerate(answers):
        for number, name in enumerate("xyi"):
            for cell in range(arrays[number].size):
                at = tuple(int(k) for k in np.unravel_index(cell, arrays[number].shape))
                told = [answer.forward_cells(name, at, r).mask() for r in ROLES]
                for other in _changed(call, arrays, number, cell):
                    moved = _moved(plain[part], other[part]) if part < len(other) else True
                    assert not (moved & ~(told[0] | told[1])).any(), (name, at)
    return answers
