"""The tracked array: behaves as an ndarray, and records where its cells come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from whence.arrays.graph import Node
from whence.arrays.session import Array, Session
from whence.errors import ArrayError

FunctionRule = Callable[[Session, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


class TrackedArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A stand-in for `data_`; every way out of NumPy goes through a method here, so it is seen."""

    __slots__ = ("__weakref__", "data_", "node_", "scalar_", "session_")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 1000.0

    def __init__(self, data: Array, node: Node, session: Session, scalar: bool = False) -> None:
        self.data_, self.node_, self.session_, self.scalar_ = data, node, session, scalar

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from whence.arrays.rules.ufuncs import call

        return call(self.session_, ufunc, method, inputs, kwargs)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        from whence.arrays.rules import apply

        return apply(self.session_, func, args, kwargs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self.session_.escape(self.node_, "conversion to a plain array (__array__)")
        data = np.ndarray.astype(self.data_, dtype or self.data_.dtype, copy=True)
        return data

    # values that leave, and branches on them

    def __bool__(self) -> bool:
        self.session_.steering.append(self.node_)
        return bool(self.data_)

    def __len__(self) -> int:
        return len(self.data_)

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())

    def __float__(self) -> float:
        return float(self._leave("float()"))

    def __int__(self) -> int:
        return int(self._leave("int()"))

    def __complex__(self) -> complex:
        return complex(self._leave("complex()"))

    def __index__(self) -> int:
        return int(self._leave("use as an index").__index__())

    def __str__(self) -> str:
        return str(self._leave("str()"))

    def __repr__(self) -> str:
        return f"tracked({np.array_repr(self.data_)})"

    def __format__(self, spec: str) -> str:
        return format(self._leave("format()"), spec)

    def __reduce__(self) -> Any:
        return self._leave("pickle").__reduce__()

    def _leave(self, operation: str) -> Any:
        self.session_.escape(self.node_, operation)
        return self.data_[()] if self.scalar_ else self.data_

    def __getattr__(self, name: str) -> Any:
        """Methods of ndarray: known ones run as functions, others let the values leave."""
        from whence.arrays.rules.methods import method_of

        if name.startswith("__"):
            raise AttributeError(f"a tracked array has no attribute {name!r}")
        return method_of(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in TrackedArray.__slots__:
            object.__setattr__(self, name, value)
        elif name == "shape":
            from whence.arrays.rules.methods import set_shape

            set_shape(self, value)
        else:
            raise ArrayError(
                f"setting .{name} of a tracked array is not followed; use a function that gives a "
                "new array instead"
            )

    # indexing

    def __getitem__(self, key: Any) -> Any:
        from whence.arrays.rules.indexing import get

        return get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from whence.arrays.rules.indexing import put

        put(self, key, value)

    def __iter__(self) -> Iterator[Any]:
        if not self.data_.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self.data_)))

    # description: says nothing about values

    @property
    def shape(self) -> tuple[int, ...]:
        """As of ndarray."""
        return self.data_.shape

    @property
    def ndim(self) -> int:
        """As of ndarray."""
        return self.data_.ndim

    @property
    def size(self) -> int:
        """As of ndarray."""
        return self.data_.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """As of ndarray."""
        return self.data_.dtype

    @property
    def T(self) -> Any:  # noqa: N802
        """As of ndarray."""
        return np.transpose(self)  # type: ignore[call-overload]


def is_tracked(value: Any) -> bool:
    """Whether a value is a tracked array."""
    return type(value) is TrackedArray


def raw(value: Any) -> Any:
    """Plain arrays in place of tracked ones, also inside tuples, lists, dicts and slices."""
    kind = type(value)
    if kind is TrackedArray:
        return value.data_
    if kind is tuple or kind is list:
        return kind([raw(item) for item in value])
    if kind is dict:
        return {key: raw(item) for key, item in value.items()}
    if kind is slice:
        return slice(raw(value.start), raw(value.stop), raw(value.step))
    return value


def tracked_in(value: Any) -> list[TrackedArray]:
    """The tracked arrays in a value, in order."""
    kind = type(value)
    if kind is TrackedArray:
        return [value]
    if kind is tuple or kind is list:
        return [found for item in value for found in tracked_in(item)]
    if kind is dict:
        return [found for item in value.values() for found in tracked_in(item)]
    if kind is slice:
        return tracked_in((value.start, value.stop, value.step))
    return []
