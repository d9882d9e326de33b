"""`as_strided`, which asks nobody: what it calls to lay memory out anew is answered instead.

It takes `np.array(x)`, whose `__array_interface__` it changes, and gives that to `np.asarray`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.forms import Form, Gather, everything
from whence.arrays.graph import Edge
from whence.arrays.memory import Array, Layout, layout
from whence.arrays.rules.base import finish
from whence.arrays.session import Reach, Session
from whence.arrays.tracked import TrackedArray

_STAND_IN = getattr(np.lib.stride_tricks.as_strided, "__globals__", {}).get("DummyArray")
_LOOKED_AT = 1 << 20  # cells whose places are looked up at once
_DOUBT = "as_strided beyond the cells of its array"


def is_interface(value: Any) -> bool:
    """Whether a value stands for the memory of a tracked array."""
    return type(value) is _STAND_IN and type(value.base) is TrackedArray


def laid_out_anew(original: Any, stand_in: Any) -> TrackedArray:
    """A view of an array's memory with other steps."""
    array: TrackedArray = stand_in.base
    view: Array = original(type(stand_in)(stand_in.__array_interface__, base=array.data_))
    view.dtype = array.data_.dtype  # type: ignore[misc]  # an interface does not tell records
    session = array.session_
    session.narrow(Reach.NOWHERE)
    here, there = layout(view), layout(array.data_)
    if _lies_within(here, there):
        edges = [Edge(array.node_, partial(_placed, here, there))]
    else:
        edges = _any_of(session, array, view)
    found: TrackedArray = finish(session, view, edges, "as_strided", (array,))
    return found


def _lies_within(here: Layout, there: Layout) -> bool:
    """Whether all cells of a view are cells of its array."""
    if not there.distinct or int(np.prod(here.shape, dtype=np.float64)) > _LOOKED_AT:
        return False
    return bool((there.cells_at(here.addresses()) >= 0).all())


def _placed(here: Layout, there: Layout) -> Form:
    return Gather(here.shape, there.shape, there.cells_at(here.addresses()))


def _any_of(session: Session, array: TrackedArray, view: Array) -> list[Edge]:
    """Any cell from any of the arrays that lie in this memory."""
    nodes = dict.fromkeys([array.node_, *(t.node_ for t in session.sharing(array.data_))])
    return [Edge(n, partial(everything, view.shape, n.shape), doubt=_DOUBT) for n in nodes]
