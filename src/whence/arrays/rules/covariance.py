"""`np.cov` and `np.corrcoef`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import Form, Run, runs, separable, whole
from whence.arrays.graph import Edge
from whence.arrays.rules.base import all_cells, bind, finish, name_of, plain_call, shape_of
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in


def covariance(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.cov` and `np.corrcoef`: for two variables, all that was observed of both."""
    bound = bind(func, args, kwargs)
    result, op = plain_call(func, args, kwargs), name_of(func)
    shape = shape_of(result)
    edges = [
        all_cells(t, shape) for t in tracked_in([bound.get("fweights"), bound.get("aweights")])
    ]
    first = 0
    for operand in (bound["m" if func is np.cov else "x"], bound["y"]):
        observed = np.shape(raw(operand)) if operand is not None else (0, 0)
        along = None if len(observed) < 2 else int(not bound["rowvar"])
        count = 1 if along is None else observed[along]
        if type(operand) is TrackedArray:
            for axis in range(len(shape)) or [0]:
                rule = partial(_observed, shape, observed, along, axis, first, count)
                edges.append(Edge(operand.node_, rule))
        first += count
    if len(shape) == 2 and first != shape[0]:  # NumPy takes them otherwise
        edges = [all_cells(t, shape, doubt=op) for t in tracked_in([args, kwargs])]
    return finish(session, result, edges, op, args)


def _observed(
    out_shape: Shape, in_shape: Shape, along: int | None, axis: int, first: int, count: int
) -> Form:
    """What was observed of the variables `first …`, where `axis` of the result is about them."""
    if not out_shape or not count:
        return separable(out_shape, in_shape, [whole(size) for size in in_shape])
    run = [Run(first, first + count - 1, -first, 1, -first, 1)]
    maps = [runs(axis, run) if i == along else whole(size) for i, size in enumerate(in_shape)]
    within = {axis: (first, first + count - 1)}
    return separable(out_shape, in_shape, maps, within)
