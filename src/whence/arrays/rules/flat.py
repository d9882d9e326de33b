"""`a.flat`: the cells of an array one after the other, to read and to write."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from whence.arrays.rules.assignment import put_flat, write
from whence.arrays.rules.base import detached
from whence.arrays.tracked import TrackedArray


class Flat:
    """An iterator as NumPy's: what is taken out are copies, what is put in goes to the array."""

    __slots__ = ("base", "index")

    def __init__(self, base: TrackedArray) -> None:
        self.base, self.index = detached(base) if base.scalar_ else base, 0

    def __getitem__(self, key: Any) -> Any:
        self.index = 0  # as NumPy's does
        found = np.reshape(self.base, -1)[_taken_out(key)]
        shares = type(found) is TrackedArray and np.may_share_memory(found.data_, self.base.data_)
        return found.copy() if shares else found

    def __setitem__(self, key: Any, value: Any) -> None:
        self.index = 0
        session, value = self.base.session_, _taken_out(value)
        write(session, self.base, key, value, put_flat, "assignment to flat")

    def __iter__(self) -> Flat:
        return self

    def __next__(self) -> Any:
        if self.index >= self.base.data_.size:
            raise StopIteration
        self.index += 1
        return np.reshape(self.base, -1)[self.index - 1]

    def __len__(self) -> int:
        return int(self.base.size)

    @property
    def coords(self) -> tuple[int, ...]:
        """The position of the cell that comes next."""
        return tuple(int(i) for i in np.unravel_index(self.index, self.base.data_.shape))

    def copy(self) -> Any:
        """All cells, as an array."""
        return self.base.flatten()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.copy().__array__(dtype, copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*_taken_out(inputs), **_taken_out(kwargs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*_taken_out(args), **_taken_out(kwargs))


def _comparing(compare: Any) -> Any:
    return lambda self, other: compare(self.copy(), _taken_out(other))


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Flat, f"__{_name}__", _comparing(getattr(operator, _name)))


def _taken_out(value: Any) -> Any:
    """Arrays in place of their iterators."""
    kind = type(value)
    if kind is Flat:
        return value.copy()
    if kind is tuple or kind is list:
        return kind([_taken_out(item) for item in value])
    return {k: _taken_out(v) for k, v in value.items()} if kind is dict else value


def set_flat(array: TrackedArray, value: Any) -> None:
    """`a.flat = value`, which goes round."""
    write(array.session_, array, slice(None), _taken_out(value), _put_all, "assignment to flat")


def _put_all(target: Any, key: Any, value: Any) -> None:
    target.flat = value
