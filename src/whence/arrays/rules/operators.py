"""Operators on tracked arrays and numbers: as NumPy does them, and as Python with its numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from whence.arrays.graph import EachCell, joint
from whence.arrays.rules.base import finish, python, same_cells
from whence.arrays.rules.ufuncs import in_place
from whence.arrays.tracked import PYTHON, TrackedArray, bare

_BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "matmul": np.matmul,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "and": np.bitwise_and,
    "xor": np.bitwise_xor,
    "or": np.bitwise_or,
}
_ORDER = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_EQUALITY = {"eq": np.equal, "ne": np.not_equal}
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}
_ROUNDING: dict[str, Any] = {
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
}
_NUMPY = (np.ndarray, np.generic)
_POWERS = (TrackedArray, *_NUMPY, bool, int, float, complex)
_REPEATED = frozenset({list, tuple, str, bytes})


def computed(function: Callable[..., Any], op: str, *operands: Any) -> Any:
    """What a function gives of the plain operands, whose cells line up with those of the result."""
    mine = [x for x in operands if type(x) is TrackedArray]
    session = mine[0].session_
    try:
        result = function(*[bare(x) if type(x) is TrackedArray else x for x in operands])
    except Exception as error:
        session.raised(error, mine)
        raise
    if type(result) is np.ndarray and not session.left:
        nodes = [x.node_ for x in mine]
        loose = reduce(joint, [node.loose for node in nodes], None)
        return TrackedArray(result, EachCell(result.shape, nodes, op, loose), session)

    def wrap(part: Any) -> Any:
        numpys = isinstance(part, _NUMPY)
        edges = [same_cells(x, part.shape if numpys else ()) for x in mine]
        return (finish if numpys else python)(session, part, edges, op, operands)

    return tuple(map(wrap, result)) if function is divmod else wrap(result)


def _stands_back(other: Any) -> bool:
    """Whether an operand wants to be asked first."""
    return getattr(type(other), "__array_ufunc__", NotImplemented) is None


def _is_one(array: TrackedArray, other: Any) -> bool:
    """Whether an operation is one of numbers, or of Python alone: no ufunc takes part."""
    if type(other) is TrackedArray:
        return bool(other.scalar_)
    if isinstance(other, list | tuple):
        return array.scalar_ == PYTHON
    return isinstance(other, np.generic) or not hasattr(type(other), "__array_ufunc__")


def _function_of(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = divmod if name == "divmod" else getattr(operator, f"__{name}__")
    return found


def _binary(name: str, ufunc: np.ufunc, flipped: bool = False) -> Callable[..., Any]:
    function, op, repeats = _function_of(name), ufunc.__name__, name == "mul"

    def apply(self: TrackedArray, other: Any) -> Any:
        if type(other) is not TrackedArray and _stands_back(other):
            return NotImplemented
        if self.scalar_:
            if repeats and type(other) in _REPEATED:  # which ask for an index
                return NotImplemented
            if _is_one(self, other):
                return computed(function, op, *((other, self) if flipped else (self, other)))
        return ufunc(other, self) if flipped else ufunc(self, other)

    return apply


def _changing(ufunc: np.ufunc) -> Callable[..., Any]:
    """`a += b` changes an array; a number becomes another one."""

    def apply(self: TrackedArray, other: Any) -> Any:
        if not self.scalar_:
            return ufunc(self, other, out=(self,))
        repeats = ufunc is np.multiply and type(other) in _REPEATED
        return other * self if repeats else NotImplemented

    return apply


def _unary(name: str, ufunc: np.ufunc) -> Callable[..., Any]:
    function = _function_of(name)

    def apply(self: TrackedArray) -> Any:
        return computed(function, ufunc.__name__, self) if self.scalar_ == PYTHON else ufunc(self)

    return apply


def _equality(name: str, ufunc: np.ufunc) -> Callable[..., Any]:
    """Where NumPy has no loop (numbers and text, records), arrays compare all the same."""
    ask, function = _binary(name, ufunc), _function_of(name)

    def apply(self: TrackedArray, other: Any) -> Any:
        try:
            return ask(self, other)
        except TypeError:
            return computed(function, ufunc.__name__, self, other)

    return apply


def _rounding(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(self: TrackedArray, *digits: Any) -> Any:
        return computed(function, function.__name__, self, *digits)

    return apply


def _power(flipped: bool = False) -> Callable[..., Any]:
    """Squares, roots and reciprocals have ufuncs of their own, which give other types and bits."""
    ufunc = _binary("pow", np.power, flipped)

    def apply(self: TrackedArray, other: Any, *modulus: Any) -> Any:
        if modulus:
            return computed(pow, "power", self, other, *modulus)
        if not isinstance(other, _POWERS):
            return ufunc(self, other)
        return computed(operator.pow, "power", *((other, self) if flipped else (self, other)))

    return apply


def _power_in_place(self: TrackedArray, other: Any) -> Any:
    return NotImplemented if self.scalar_ else in_place(operator.ipow, np.power, self, other)


def install() -> None:
    """Give tracked arrays their operators."""
    made: dict[str, Callable[..., Any]] = {}
    for name, ufunc in _BINARY.items():
        made[name], made[f"r{name}"] = _binary(name, ufunc), _binary(name, ufunc, True)
        if name != "divmod":
            made[f"i{name}"] = _changing(ufunc)
    made.update({name: _binary(name, ufunc) for name, ufunc in _ORDER.items()})
    made.update({name: _equality(name, ufunc) for name, ufunc in _EQUALITY.items()})
    made.update({name: _unary(name, ufunc) for name, ufunc in _UNARY.items()})
    made.update({name: _rounding(function) for name, function in _ROUNDING.items()})
    made.update(pow=_power(), rpow=_power(flipped=True), ipow=_power_in_place)
    for name, method in made.items():
        method.__name__ = f"__{name}__"
        setattr(TrackedArray, method.__name__, method)
