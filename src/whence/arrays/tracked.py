"""The tracked array: behaves as an ndarray, and records where its cells come from."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from whence.arrays.graph import Node
from whence.arrays.memory import Array, copy_as_laid
from whence.arrays.session import Reach, Session

FunctionRule = Callable[[Session, Any, tuple[Any, ...], dict[str, Any]], Any]
STRIDES = getattr(np.lib.stride_tricks.as_strided, "__code__", None)  # it dispatches on nothing
PYTHON = 2  # a `scalar_` that is an object of Python, not a scalar of NumPy
new = object.__new__  # what every call needs is made without the frame of an `__init__`


class Hooks:
    """What tracked arrays call; the rules fill it in when they are imported."""

    __slots__ = ("flat", "get", "method", "put", "set_part", "set_shape", "unknown")
    flat: type
    get: Callable[..., Any]
    method: Callable[..., Any]
    put: Callable[..., Any]
    set_part: Callable[..., Any]
    set_shape: Callable[..., Any]
    unknown: FunctionRule


hooks = Hooks()
RULES: dict[Callable[..., Any], FunctionRule] = {}


class TrackedArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A stand-in for `data_`; every way out of NumPy goes through a method here, so it is seen.

    `scalar_` says that it stands for the one item of `data_`: as a scalar of NumPy, or `PYTHON`.
    """

    __slots__ = ("__weakref__", "data_", "node_", "scalar_", "session_")
    __array_priority__ = 1000.0
    _typ = "npy_extension"  # pandas then asks `to_numpy` what to put into a frame

    def __init__(self, data: Array, node: Node, session: Session, scalar: int = False) -> None:
        self.data_, self.node_, self.session_, self.scalar_ = data, node, session, scalar

    # NumPy's protocols

    __array_ufunc__: Callable[..., Any]  # set by the rules

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        if len(types) > 1 and hooks.flat in types:
            return NotImplemented  # it gives its array instead
        try:
            return RULES.get(func, hooks.unknown)(self.session_, func, args, kwargs)
        except Exception as error:
            self.session_.raised(error, tracked_in([args, kwargs]))
            raise

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        self.session_.escape(self.node_, "conversion to a plain array (__array__)")
        if sys._getframe(1).f_code is STRIDES:  # at a prompt, or in another thread
            return copy_as_laid(self.data_)
        return np.ndarray.astype(self.data_, dtype or self.data_.dtype, copy=True)

    def __array_namespace__(self, *, api_version: Any = None) -> Any:
        """NumPy, for code that is written for any library of arrays."""
        return self.data_.__array_namespace__(api_version=api_version)

    # values that leave, and branches on them

    def __bool__(self) -> bool:
        self.session_.branch_on(self.node_)
        return bool(self.data_)

    def __len__(self) -> int:
        if self.scalar_:
            return int(self._tell(len, "len()"))
        self._look_at_shape()
        return len(self.data_)

    def __hash__(self) -> int:
        if not self.scalar_:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self._leave("hash()"))

    def _look_at_shape(self) -> None:
        self.session_.narrow(Reach.BETWEEN)
        self.session_.look_at_shape(self.node_)

    def __contains__(self, item: Any) -> bool:
        if self.scalar_:
            return bool(self._tell(lambda value: raw(item) in value, "in"))
        return bool((self == item).any())

    def __float__(self) -> float:
        return float(self._leave("float()"))

    def __int__(self) -> int:
        return int(self._leave("int()"))

    def __complex__(self) -> complex:
        return complex(self._leave("complex()"))

    def __index__(self) -> int:
        return int(self._tell(operator.index, "use as an index"))

    def __str__(self) -> str:
        if self.session_.lasting:  # printing at a prompt
            return str(self.data_)
        return str(self._leave("str()"))

    def __copy__(self) -> Any:
        return self if self.scalar_ and self.data_.dtype.names is None else self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    def __repr__(self) -> str:
        if self.session_.lasting or self.session_.over:  # at a prompt, or kept from a call
            return f"tracked({np.array_repr(self.data_)})"
        return repr(self._leave("repr()"))

    def __format__(self, spec: str) -> str:
        return format(self._leave("format()"), spec)

    def __reduce__(self) -> Any:
        return self._leave("pickle").__reduce__()

    def _leave(self, operation: str) -> Any:
        return self._tell(lambda value: value, operation)

    def _tell(self, question: Callable[[Any], Any], operation: str) -> Any:
        """What a question to the plain value gives; one that raises lets nothing but that out."""
        try:
            found = question(bare(self))
        except Exception as error:
            self.session_.raised(error, [self])
            raise
        self.session_.escape(self.node_, operation)
        return found

    def __getattr__(self, name: str) -> Any:
        """Methods of ndarray: known ones run as functions, others let the values leave."""
        if name.startswith("__"):
            if name == "__array_interface__" and sys._getframe(1).f_code is STRIDES:
                return self.data_.__array_interface__
            raise AttributeError(f"a tracked array has no attribute {name!r}")
        return hooks.method(self, name)

    # indexing

    def __getitem__(self, key: Any) -> Any:
        if self.scalar_ == PYTHON:
            return self._tell(lambda value: value[raw(key)], "[]")
        try:
            return hooks.get(self, key)
        except Exception as error:
            self.session_.raised(error, tracked_in(key), self.node_)
            raise

    def __setitem__(self, key: Any, value: Any) -> None:
        try:
            hooks.put(self, key, value)
        except Exception as error:
            self.session_.raised(error, tracked_in([key, value]), self.node_)
            raise

    def __delitem__(self, key: Any) -> None:
        del self.data_[raw(key)]  # type: ignore[attr-defined]  # NumPy says why not

    def __iter__(self) -> Iterator[Any]:
        if self.scalar_:
            return iter(self._tell(list, "iter()"))
        if not self.data_.ndim:
            raise TypeError("iteration over a 0-d array")
        self._look_at_shape()
        return (self[i] for i in range(len(self.data_)))

    # description: says nothing about values

    @property
    def shape(self) -> tuple[int, ...]:
        """As of ndarray; setting it changes the array in place."""
        self._look_at_shape()
        found: tuple[int, ...] = self.data_.shape
        return found

    @shape.setter
    def shape(self, value: Any) -> None:
        try:
            hooks.set_shape(self, value)
        except Exception as error:
            self.session_.raised(error, tracked_in(value), self.node_)
            raise

    @property
    def ndim(self) -> int:
        """As of ndarray."""
        return self.data_.ndim

    @property
    def size(self) -> int:
        """As of ndarray."""
        self._look_at_shape()
        return self.data_.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """As of ndarray."""
        found: np.dtype[Any] = self.data_.dtype
        return found

    @dtype.setter
    def dtype(self, value: Any) -> None:
        if np.dtype(value) != self.data_.dtype:
            raise AttributeError("the dtype of a tracked array is not changed; use .view")

    @property
    def T(self) -> Any:  # noqa: N802
        """As of ndarray."""
        return np.transpose(self)


def _part(name: str) -> property:
    def get(self: TrackedArray) -> Any:
        return hooks.method(self, name)

    def put(self: TrackedArray, value: Any) -> None:
        hooks.set_part(self, name, value)

    return property(get, put, doc="As of ndarray; setting it writes into the array.")


for _name in ("flat", "imag", "real"):
    setattr(TrackedArray, _name, _part(_name))

_NESTING = frozenset({tuple, list, dict, slice})


def is_tracked(value: Any) -> bool:
    """Whether a value is a tracked array."""
    return type(value) is TrackedArray


def bare(array: TrackedArray) -> Any:
    """What a tracked array stands for: an array, a scalar of NumPy or an object of Python."""
    if not array.scalar_:
        return array.data_
    return array.data_.item() if array.scalar_ == PYTHON else array.data_[()]


def raw(value: Any) -> Any:
    """Plain values in place of tracked ones, also inside tuples, lists, dicts and slices."""
    kind = type(value)
    if kind is TrackedArray:
        return value.data_ if not value.scalar_ else bare(value)
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
    if kind is dict:
        value, kind = list(value.values()), list
    if kind is tuple or kind is list:
        out: list[TrackedArray] = []
        for item in value:
            inner = type(item)
            if inner is TrackedArray:
                out.append(item)
            elif inner in _NESTING:
                out += tracked_in(item)
        return out
    if kind is slice:
        return tracked_in((value.start, value.stop, value.step))
    return []
