"""Where the cells of arrays lie in memory: who owns it, and which cells share it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from whence.arrays.cells import Ints, Shape

Array = np.ndarray[Any, Any]
FOREIGN = 0


def owner(array: Array) -> Any:
    """The object that owns an array's memory."""
    found: Any = array
    while isinstance(base := getattr(found, "base", None), np.ndarray) or (
        base is not None and isinstance(found, np.ndarray)
    ):
        found = base  # stride tricks put an object of their own in between
    return found


def block_of(array: Array) -> int:
    """A number for the memory an array lies in; memory that is not NumPy's has `FOREIGN`."""
    found = owner(array)
    return id(found) if isinstance(found, np.ndarray) else FOREIGN


class Layout(NamedTuple):
    """Address, shape and steps of an array; it does not hold the array."""

    start: int
    shape: Shape
    strides: tuple[int, ...]

    @property
    def distinct(self) -> bool:
        """Whether every cell has an address of its own, and inner axes lie between outer steps."""
        steps = sorted((abs(k), n) for k, n in zip(self.strides, self.shape, strict=True) if n > 1)
        reach = 1
        for step, count in steps:
            if step < reach:
                return False
            reach = step * count
        return True

    def every(self) -> Ints:
        """The flat positions of all cells."""
        return np.arange(int(np.prod(self.shape, dtype=np.int64)), dtype=np.int64)

    def addresses(self) -> Ints:
        """The address of every cell."""
        out = np.full(self.shape, self.start, dtype=np.int64)
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            along = [-1 if i == axis else 1 for i in range(len(self.shape))]
            out += (np.arange(size, dtype=np.int64) * stride).reshape(along)
        return out

    def address(self, cells: Ints) -> Ints:
        """The addresses of some cells, given by flat position."""
        out = np.full(cells.shape, self.start, dtype=np.int64)
        if self.shape:  # NumPy does not take the position in no axes apart
            indices = np.unravel_index(cells, self.shape)
            for index, stride in zip(indices, self.strides, strict=True):
                out += index * stride
        return out

    def cells_at(self, addresses: Ints) -> Ints:
        """The flat position of the cell at each address, −1 for none; cells must be distinct."""
        if 0 in self.shape:
            return np.full(addresses.shape, -1, dtype=np.int64)
        rest = addresses - self.start
        for size, stride in zip(self.shape, self.strides, strict=True):
            if stride < 0:
                rest = rest - (size - 1) * stride
        out = np.zeros(addresses.shape, dtype=np.int64)
        inside = rest >= 0
        axes = sorted(range(len(self.shape)), key=lambda i: -abs(self.strides[i]))
        for axis in axes:
            size, stride = self.shape[axis], self.strides[axis]
            if size == 1:
                continue
            index, rest = np.divmod(rest, abs(stride))
            inside &= index < size
            index = size - 1 - index if stride < 0 else index
            out += index * int(np.prod(self.shape[axis + 1 :], dtype=np.int64))
        return np.where(inside & (rest == 0), out, -1)


class Shared(NamedTuple):
    """The cells of one array that lie where another has cells, all of them distinct."""

    here: Layout
    there: Layout

    def holds(self, cells: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which of some cells do, given by flat position."""
        return self.there.cells_at(self.here.address(cells)) >= 0


def layout(array: Array) -> Layout:
    """The layout of an array."""
    return Layout(array.__array_interface__["data"][0], array.shape, array.strides)


def copy_as_laid(array: Array) -> Array:
    """A copy with the same steps, whatever lies between the cells."""
    if array.flags.forc or not array.size:
        return array.copy("K")
    low, high = byte_bounds(array)
    memory = np.zeros(high - low, np.uint8)
    first = np.ndarray((), array.dtype, memory, layout(array).start - low)
    made = as_strided(first, array.shape, array.strides)
    made[...] = array
    return made


def reads_back(setter: Callable[..., None], key: Any, target: Array, value: Array) -> bool:
    """Whether `setter(target, key, value)` takes cells of a value that it has written before.

    Found out on numbers that lie as the two arrays do, which share memory.
    """
    size, bounds = target.itemsize, [byte_bounds(array) for array in (target, value)]
    start = min(low for low, _ in bounds)
    steps = [*target.strides, *value.strides, *(layout(a).start - start for a in (target, value))]
    if target.dtype != value.dtype or any(step % size for step in steps):
        return True
    numbers = np.arange((max(high for _, high in bounds) - start) // size)

    def laid(array: Array) -> Array:
        first = numbers[(layout(array).start - start) // size :]
        return as_strided(first, array.shape, [8 * (step // size) for step in array.strides])

    mine, source = laid(target), laid(value)
    expected, copied = mine.copy(), source.copy()
    setter(expected, key, copied)
    setter(mine, key, source)
    return not np.array_equal(expected, mine)
