"""A movement of cells is run again, on an index that shows where they went, when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Ints, Shape, strides_of
from whence.arrays.forms import AxisMap, Form, Run, fixed, gathered, reshaped, runs, separable
from whence.arrays.graph import Held
from whence.arrays.memory import Array
from whence.arrays.rules.arguments import LISTS, OPTIONS, own
from whence.arrays.tracked import TrackedArray


class Slot:
    """Where an array that is moved stands in the arguments; −1 is one that is not tracked."""

    __slots__ = ("number", "shape")

    def __init__(self, number: int, shape: Shape) -> None:
        self.number, self.shape = number, shape


def template(value: Any, held: list[Any]) -> Any:
    """What says which cells go where, with places for its arrays, which go to `held`."""
    if type(value) is TrackedArray or isinstance(value, np.ndarray):
        held.append(value)
        return _Kept(len(held) - 1)
    if type(value) in (tuple, list):
        return type(value)([template(item, held) for item in value])
    return own(value) if type(value) is slice else value


def laid_out(name: str, value: Any, slots: list[TrackedArray]) -> Any:
    """An argument: an option as it is, a slot for an array, or lists with slots in them."""
    if name in OPTIONS:
        return value
    if name in LISTS and type(value) in (tuple, list):
        return type(value)([laid_out(name, item, slots) for item in value])
    return _slot(value, slots)


def arrays_slotted(value: Any, slots: list[TrackedArray]) -> Any:
    """Arguments with slots for arrays; numbers stay."""
    if type(value) in (tuple, list):
        return type(value)([arrays_slotted(item, slots) for item in value])
    if type(value) is dict:
        return {name: arrays_slotted(item, slots) for name, item in value.items()}
    array = type(value) is TrackedArray or isinstance(value, np.ndarray)
    return _slot(value, slots) if array else value


def _slot(value: Any, slots: list[TrackedArray]) -> Slot:
    if type(value) is not TrackedArray:
        return Slot(-1, np.shape(value))
    slots.append(value)
    return Slot(len(slots) - 1, value.data_.shape)


class _Kept:
    """Where a selecting array stands in the arguments."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def fill(value: Any, make: Callable[[Slot], Any], held: Sequence[Any]) -> Any:
    """A template with arrays in its slots."""
    if type(value) is Slot:
        return make(value)
    if type(value) is _Kept:
        return held[value.number]
    if type(value) in (tuple, list):
        return type(value)([fill(item, make, held) for item in value])
    if type(value) is dict:
        return {k: fill(v, make, held) for k, v in value.items()}
    return value


def index_of(shape: Shape) -> Ints:
    """1-based flat positions; 0 is left for cells that come from nowhere."""
    return np.arange(1, int(np.prod(shape, dtype=np.int64)) + 1, dtype=np.int64).reshape(shape)


def replay(
    func: Callable[..., Any], args: Any, kwargs: Any, held: Held | None, number: int,
    shape: Shape, part: int | None,
) -> Form:  # fmt: skip
    """The relation of a movement, by running it on an array that shows where cells went."""
    values = held.arrays if held is not None else ()

    def run(make: Callable[[Slot], Any]) -> Any:
        result = func(*fill(args, make, values), **fill(kwargs, make, values))
        return result if part is None else result[part]

    in_shape = shape
    ghost = np.empty(in_shape, dtype=np.int8)
    others = partial(np.zeros, dtype=np.int64)
    result = run(lambda slot: ghost if slot.number == number else np.zeros(slot.shape, np.int8))
    if isinstance(result, np.ndarray) and np.may_share_memory(result, ghost):
        form = from_strides(result, ghost)
        if form is not None:
            return form
    moved = np.asarray(
        run(lambda slot: index_of(in_shape) if slot.number == number else others(slot.shape))
    )
    return gathered(moved.shape, in_shape, moved)


def from_strides(result: Array, base: Array) -> Form | None:
    """The relation of a view to the C-ordered array of bytes it looks into, if it is regular."""
    if result.dtype.itemsize != 1 or 0 in result.shape:
        return None
    offset = _address(result) - _address(base)
    steps = [s for s, n in zip(result.strides, result.shape, strict=True) if n > 1]
    plain = [
        s for s, n in zip(strides_of(result.shape).tolist(), result.shape, strict=True) if n > 1
    ]
    if offset == 0 and result.size == base.size and steps == plain:
        return reshaped(result.shape, base.shape)
    start = [int(i) for i in np.unravel_index(offset, base.shape)]
    maps: dict[int, AxisMap] = {}
    for j, (size, step) in enumerate(zip(result.shape, result.strides, strict=True)):
        if size == 1 or step == 0:
            continue
        axis = _axis_of(step, size, start, base.shape, maps)
        if axis is None:
            return None
        k = step // int(strides_of(base.shape)[axis])
        maps[axis] = runs(j, [Run(0, size - 1, start[axis], k, start[axis], k)])
    listed = [maps.get(i, fixed(start[i])) for i in range(base.ndim)]
    return separable(result.shape, base.shape, listed)


def _address(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def _axis_of(
    step: int, size: int, start: list[int], shape: Shape, taken: dict[int, AxisMap]
) -> int | None:
    for axis, stride in enumerate(strides_of(shape).tolist()):
        if shape[axis] == 1 or step % stride or axis in taken:
            continue
        last = start[axis] + (step // stride) * (size - 1)
        if 0 <= last < shape[axis]:
            return axis
    return None
