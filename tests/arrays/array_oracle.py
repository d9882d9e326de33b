"""Slow oracles that know nothing of the rules: annotate each cell, or change each and look."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whence.arrays.annotated import Cell, annotated_array, read
from whence.arrays.expand import expand

Matrix = np.ndarray[Any, Any]
CHOICE = {
    np.maximum: lambda a, b: a if a.value >= b.value else b,
    np.fmax: lambda a, b: a if a.value >= b.value else b,
    np.minimum: lambda a, b: a if a.value <= b.value else b,
    np.fmin: lambda a, b: a if a.value <= b.value else b,
}


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
