"""What a function's arguments are: arrays that it works on, or options that say how.

Rules get both settled. A list that holds tracked values is one tracked array, as NumPy would see
it. Options are plain values that nobody else can change; the tracked ones among them influence all
that is made while the rule runs.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from typing import Any

import numpy as np
from numpy import array as _array  # itself, also while a tracked call runs

from whence.arrays.cells import Shape
from whence.arrays.forms import Form, follow, reshaped, separable, whole
from whence.arrays.graph import Edge, Node
from whence.arrays.rules.base import all_cells, finish
from whence.arrays.session import Session
from whence.arrays.tracked import FunctionRule, TrackedArray, raw, tracked_in

_OPTIONS = (
    "M N axes axis axis1 axis2 axisa axisb axisc bias busdaycal casting compute_uv copy deg "
    "density destination device dims dtype edge_order encoding equal_nan errors full_matrices "
    "hermitian holidays include_initial indexing indices_or_sections k keepdims kind kth method "
    "minlength mode n new_shape newshape norm offset optimize ord order overwrite_input "
    "pad_width reflect_type reps return_counts return_index return_inverse returned roll rowvar "
    "s shape shift side sorted source sparse stable start stat_length subok timezone trim UPLO "
    "unit upper weekmask window_shape wrap writeable"
)
OPTIONS = frozenset(_OPTIONS.split())
LISTS = frozenset(
    {"arrays", "choicelist", "choices", "condlist", "multi_index", "range", "tup"}
)  # one by one
_SEQUENCES = frozenset({list, tuple})
_UNSETTLED = frozenset({TrackedArray, np.ndarray, list, tuple, dict, slice})
_UNTOLD = {
    "bincount": "x weights minlength",
    "concatenate": "arrays axis out dtype casting",
    "concat": "arrays axis out dtype casting",
    "copyto": "dst src casting where",
    "dot": "a b out",
    "empty": "shape dtype order",
    "empty_like": "prototype dtype order subok shape",
    "inner": "a b",
    "putmask": "a mask values",
    "vdot": "a b",
    "where": "condition x y",
    "zeros": "shape dtype order",
}  # of older versions of NumPy, which do not say


@cache
def parameters(func: Callable[..., Any]) -> tuple[str, ...]:
    """The names of positional parameters; what is given beyond them are arrays."""
    try:
        listed = inspect.signature(func).parameters.values()
    except (TypeError, ValueError):
        return tuple(_UNTOLD.get(getattr(func, "__name__", ""), "").split())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return tuple(p.name for p in listed if p.kind in positional)


def named(func: Callable[..., Any], args: Sequence[Any]) -> list[tuple[str, Any]]:
    """Positional arguments with their names."""
    return _named(parameters(func), args)


def _named(names: Sequence[str], args: Sequence[Any]) -> list[tuple[str, Any]]:
    return [(names[i] if i < len(names) else "", value) for i, value in enumerate(args)]


def settled(rule: FunctionRule, names: tuple[str, ...]) -> FunctionRule:
    """A rule that gets its arguments settled; `names` are those of positional parameters."""
    watched = tuple(_UNSETTLED if name in OPTIONS else _SEQUENCES for name in names)
    of_array = bool(names) and names[0] not in OPTIONS

    @wraps(rule)
    def call(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
        if of_array and not kwargs and len(args) == 1 and type(args[0]) is TrackedArray:
            return rule(session, func, args, kwargs)  # the common case
        for value, kinds in zip(args, watched):  # noqa: B905 what is beyond is looked at below
            if type(value) in kinds:
                break
        else:
            if len(args) <= len(watched) and not (kwargs and _any_unsettled(kwargs)):
                return rule(session, func, args, kwargs)
        deciding: list[Node] = []
        args = tuple(_settle(name, value, deciding) for name, value in _named(names, args))
        kwargs = {name: _settle(name, value, deciding) for name, value in kwargs.items()}
        if not deciding:
            return rule(session, func, args, kwargs)
        with decided_by(session, deciding):
            return rule(session, func, args, kwargs)

    return call


def _any_unsettled(kwargs: dict[str, Any]) -> bool:
    for name, value in kwargs.items():
        kind = type(value)
        if kind in _SEQUENCES or (kind in _UNSETTLED and name in OPTIONS):
            return True
    return False


def _settle(name: str, value: Any, deciding: list[Node]) -> Any:
    kind = type(value)
    if name in OPTIONS:
        if kind in _UNSETTLED:
            deciding += [t.node_ for t in tracked_in(value)]
            return own(value)
    elif kind in _SEQUENCES and name != "out":
        return kind([as_array(item) for item in value]) if name in LISTS else as_array(value)
    return value


@contextmanager
def decided_by(session: Session, nodes: Sequence[Node]) -> Iterator[None]:
    """Let arrays influence whatever is made meanwhile: their values said how."""
    before, session.deciding = session.deciding, (*session.deciding, *nodes)
    try:
        yield
    finally:
        session.deciding = before


def as_array(value: Any) -> Any:
    """A list that holds tracked values as one tracked array; anything else as it is."""
    return stacked(value) if type(value) in _SEQUENCES and tracked_in(value) else value


def stacked(items: Any) -> Any:
    """A list of arrays and numbers, as np.array sees it: one array with a new first axis."""
    return of_list(tracked_in(items)[0].session_, _array(raw(items)), items, "array")


def of_list(session: Session, made: Any, items: Any, op: str) -> Any:
    """What NumPy made of a list that holds tracked values, as a tracked array."""
    return finish(session, made, _item_edges(items, made.shape), op, (items,))


def _item_edges(items: Any, shape: Shape) -> list[Edge]:
    """Edges from the tracked values in a list to the cells that were made of its items."""
    try:
        shadow = _shadow(items)
    except ValueError:  # lists of different lengths: they are cells themselves
        shadow = None
    if shadow is not None:
        told = shadow.data_.shape
        if told == shape:
            return list(shadow.node_.edges)
        if told[: len(shape)] == shape:  # the last items are fields of one cell
            return [Edge(shadow.node_, partial(_of_lines, shape, told))]
        if math.prod(told) == math.prod(shape):  # ndmin
            return [Edge(shadow.node_, partial(reshaped, shape, told))]
    doubt = "a list whose items are not all cells of one array"
    return [all_cells(value, shape, doubt=doubt) for value in tracked_in(items)]


def _shadow(value: Any) -> Any:
    """An array without values, but with the shape and the nodes of what is in a list."""
    if type(value) is TrackedArray:
        return TrackedArray(np.broadcast_to(False, value.data_.shape), value.node_, value.session_)
    if type(value) in _SEQUENCES and tracked_in(value):
        return np.stack([_shadow(item) for item in value])
    return np.broadcast_to(False, np.shape(value))


def _of_lines(out_shape: Shape, in_shape: Shape) -> Form:
    """Each cell from all cells along the last axes."""
    along = len(out_shape)
    maps = [follow(axis, size) for axis, size in enumerate(out_shape)]
    return separable(out_shape, in_shape, maps + [whole(size) for size in in_shape[along:]])


def own(value: Any) -> Any:
    """A plain value as NumPy itself would get it, that nobody else can change."""
    kind = type(value)
    if kind is TrackedArray:
        return value.data_[()] if value.scalar_ else value.data_.copy()
    if kind in _SEQUENCES:
        return kind([own(item) for item in value])
    if kind is slice:
        return slice(own(value.start), own(value.stop), own(value.step))
    if kind is dict:
        return {key: own(item) for key, item in value.items()}
    return value.copy() if isinstance(value, np.ndarray) else value


def given(value: Any) -> Any:
    """An argument's values, to be held: a tracked array's are watched, others are copied."""
    return value.data_ if type(value) is TrackedArray else own(value)
