"""Annotated execution as in the seed: each cell a Python object that remembers where it is from.

Slow and exact for functions made of arithmetic, comparisons and movement; used for functions
without a rule, on small arrays, and as an oracle in the tests. A comparison gives a plain truth
value, so a cell that only steers leaves no trace in the result.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.arrays.forms import Form, pairs
from whence.arrays.tracked import TrackedArray

Source = tuple[int, int]


class Cell:
    """A value and the cells (operand number, flat position) it was computed from."""

    __slots__ = ("log", "sources", "value")

    def __init__(self, value: Any, sources: frozenset[Source], log: list[bool]) -> None:
        self.value, self.sources, self.log = value, sources, log

    def _apply(self, function: Callable[..., Any], *others: Any) -> Cell:
        values = [o.value if isinstance(o, Cell) else o for o in others]
        sources = self.sources.union(*(o.sources for o in others if isinstance(o, Cell)))
        return Cell(function(self.value, *values), sources, self.log)

    def _compare(self, function: Callable[..., Any], other: Any) -> bool:
        self.log.append(True)
        return bool(function(self.value, other.value if isinstance(other, Cell) else other))

    def __bool__(self) -> bool:
        self.log.append(True)
        return bool(self.value)

    def __hash__(self) -> int:
        self.log.append(True)
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return self._compare(operator.eq, other)

    def __ne__(self, other: object) -> bool:
        return self._compare(operator.ne, other)

    def __getattr__(self, name: str) -> Any:
        """np.sin on objects calls their method `sin`; so with every unary ufunc."""
        ufunc = getattr(np, name, None)
        if not isinstance(ufunc, np.ufunc) or ufunc.nin != 1:
            raise AttributeError(name)
        return lambda: self._apply(ufunc)


def _install() -> None:
    binary = [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and_",
        "or_",
        "xor",
        "lshift",
        "rshift",
    ]
    for name in binary:
        function = getattr(operator, name)
        plain = name.rstrip("_")
        setattr(Cell, f"__{plain}__", lambda s, o, f=function: s._apply(f, o))
        setattr(Cell, f"__r{plain}__", lambda s, o, f=function: s._apply(lambda a, b: f(b, a), o))
    for name in ["neg", "pos", "abs", "invert"]:
        function = getattr(operator, name)
        setattr(Cell, f"__{name}__", lambda s, f=function: s._apply(f))
    for name in ["lt", "le", "gt", "ge"]:
        function = getattr(operator, name)
        setattr(Cell, f"__{name}__", lambda s, o, f=function: s._compare(f, o))


_install()


@dataclass(frozen=True, slots=True)
class Annotated:
    """A relation per operand, and whether any cell was compared."""

    forms: tuple[Form, ...]
    looked: bool


def annotate(func: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> Annotated | None:
    """Run `func` on annotated cells; None if it will not run on them, or gives other values."""
    log: list[bool] = []
    operands: list[np.ndarray[Any, Any]] = []

    def swap(value: Any) -> Any:
        if type(value) is TrackedArray:
            operands.append(value.data_)
            return annotated_array(value.data_, len(operands) - 1, log)
        if type(value) in (tuple, list):
            return type(value)([swap(item) for item in value])
        return value

    try:
        with warnings.catch_warnings():  # the function has given its own already
            warnings.simplefilter("ignore")
            found = func(*swap(args), **{k: swap(v) for k, v in kwargs.items()})
    except Exception:  # the function does not take objects; any error means only that
        return None
    listed = np.asarray(found, dtype=object)
    expected = np.asarray(result)
    if listed.shape != expected.shape or not _same_values(listed, expected):
        return None
    return Annotated(read(listed, [o.shape for o in operands]), bool(log))


def annotated_array(data: np.ndarray[Any, Any], number: int, log: list[bool]) -> Any:
    """An object array with one `Cell` per cell of `data`."""
    out = np.empty(data.shape, dtype=object)
    for position, value in enumerate(data.reshape(-1)):
        out.reshape(-1)[position] = Cell(value, frozenset({(number, position)}), log)
    return out


def read(found: Any, shapes: list[tuple[int, ...]]) -> tuple[Form, ...]:
    """The relations that the cells of an annotated result tell, one per operand."""
    listed = np.asarray(found, dtype=object)
    out: list[list[int]] = [[] for _ in shapes]
    inp: list[list[int]] = [[] for _ in shapes]
    for position, cell in enumerate(listed.reshape(-1)):
        if isinstance(cell, Cell):
            for number, source in cell.sources:
                out[number].append(position)
                inp[number].append(source)
    return tuple(
        pairs(listed.shape, shape, np.array(o, dtype=np.int64), np.array(i, dtype=np.int64))
        for shape, o, i in zip(shapes, out, inp, strict=True)
    )


def _same_values(found: Any, expected: np.ndarray[Any, Any]) -> bool:
    values = [c.value if isinstance(c, Cell) else c for c in found.reshape(-1)]
    try:
        plain = np.asarray(values).reshape(expected.shape).astype(expected.dtype)
    except (TypeError, ValueError):
        return False
    if expected.dtype.kind in "fc":
        return bool(np.allclose(plain, expected, equal_nan=True))
    return bool((plain == expected).all())
