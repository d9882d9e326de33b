"""Functions of each cell alone that are no ufuncs: texts, days, and positions in several axes."""

from __future__ import annotations

from typing import Any

from whence.arrays.graph import Edge
from whence.arrays.rules.base import (
    all_cells,
    bind,
    finish,
    into_out,
    name_of,
    plain_call,
    same_cells,
    shape_of,
)
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, tracked_in


@into_out
def each(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """Each cell of the result, or of its parts, from the cells that line up with it."""
    return _wrapped(session, func, args, kwargs, widest=False)


def sized_texts(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """As `each`, where the longest text that is made says how wide the type is."""
    return _wrapped(session, func, args, kwargs, widest=True)


def dated(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.datetime_as_string`, which may look for a unit that tells all times apart."""
    automatic = bind(func, args, kwargs)["unit"] == "auto"
    return _wrapped(session, func, args, kwargs, widest=automatic)


def position(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.ravel_multi_index`: an array is as good as a tuple of its rows."""
    bound = bind(func, args, kwargs, ("multi_index", "dims", "mode", "order"))
    if type(bound["multi_index"]) is TrackedArray:
        bound["multi_index"] = tuple(bound["multi_index"])
    index = bound.pop("multi_index")
    return _wrapped(session, func, (index,), bound, widest=False)


def _wrapped(session: Session, func: Any, args: Any, kwargs: Any, widest: bool) -> Any:
    result, op = plain_call(func, args, kwargs), name_of(func)
    operands = tracked_in([args, kwargs])

    def wrap(part: Any) -> Any:
        shape = shape_of(part)
        edges: list[Edge] = [same_cells(operand, shape) for operand in operands]
        if widest:
            edges += [all_cells(operand, shape, False, by_values=True) for operand in operands]
        return finish(session, part, edges, op, args)

    return tuple(map(wrap, result)) if isinstance(result, tuple) else wrap(result)
