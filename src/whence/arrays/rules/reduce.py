"""Reductions, scans and order statistics along axes."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.expand import expand
from whence.arrays.forms import (
    AxisMap,
    Form,
    Gather,
    Pairs,
    Run,
    follow,
    pairs,
    runs,
    separable,
    whole,
)
from whence.arrays.graph import Edge, Held
from whence.arrays.memory import Array
from whence.arrays.rules.arguments import given
from whence.arrays.rules.base import (
    all_cells,
    axes_of,
    bind,
    finish,
    finish_out,
    frozen,
    into_out,
    keeps_axes,
    lanes,
    lifted,
    name_of,
    plain_call,
    positions,
    writing_out,
)
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in

Pick = Literal["max", "min"]


def reduced(out_shape: Shape, in_shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Form:
    """Each result cell from its whole lane."""
    maps: list[AxisMap] = []
    at = len(out_shape) - (len(in_shape) if keepdims else len(in_shape) - len(axes))
    for i, size in enumerate(in_shape):
        if i in axes:
            maps.append(whole(size))
            at += keepdims
        else:
            maps.append(follow(at, size))
            at += 1
    return separable(out_shape, in_shape, maps)


def scanned(shape: Shape, axis: int) -> Form:
    """Each result cell from the cells up to it."""
    axis = axis % len(shape)
    maps = [
        runs(i, [Run(0, n - 1, 0, 0, 0, 1)] if n else []) if i == axis else follow(i, n)
        for i, n in enumerate(shape)
    ]
    return separable(shape, shape, maps)


def reduce_edges(
    session: Session, array: TrackedArray, result: Any, options: dict[str, Any], pick: Pick | None
) -> list[Edge]:
    """Edges of a reduction with the usual `axis`, `keepdims`, `where` and `initial`."""
    shape, in_shape = np.shape(result), array.data_.shape
    axes = axes_of(options.get("axis"), len(in_shape))
    rule = partial(reduced, shape, in_shape, axes, keeps_axes(options))
    where = options.get("where", True)
    masked = where is not True and where is not np._NoValue
    steering = [same_cells_in(w, rule, in_shape) for w in tracked_in(where)] if masked else []
    if pick is not None and not masked and _no_start(options):
        index = arg_lane(array.data_, pick, axes)
        if index is not None:
            found = partial(at_index, index, axes, in_shape, shape)
            recipe = ("winner", pick, axes)
            chosen = Edge(array.node_, found, by_values=True, recipe=recipe)
            return [chosen, Edge(array.node_, rule, False)]
    if pick is not None:
        held = session.hold(array.data_, np.asarray(result), given(where) if masked else True)
        chosen = Edge(array.node_, partial(winner, held, axes, shape), by_values=True)
        return [chosen, Edge(array.node_, rule, False), *steering]
    if masked:
        held = session.hold(given(where))
        filtered = partial(_only_where, rule, held, in_shape)
        return [Edge(array.node_, filtered, by_values=True), *steering]
    return [Edge(array.node_, rule)]


def _no_start(options: dict[str, Any]) -> bool:
    start = options.get("initial")
    return start is None or start is np._NoValue


def arg_lane(array: Array, pick: Pick, axes: tuple[int, ...]) -> Array | None:
    """Where the winner of each lane stands, at once: cheaper than keeping the values."""
    if array.dtype.kind not in "biuf" or not array.size or not axes:
        return None
    find = np.argmax if pick == "max" else np.argmin
    if len(axes) == array.ndim:
        return np.asarray(find(array))
    return np.asarray(find(array, axis=axes[0])) if len(axes) == 1 else None


def at_index(index: Array, axes: tuple[int, ...], in_shape: Shape, shape: Shape) -> Form:
    """The cell of each lane at a position found before."""
    lane = lanes(positions(in_shape), axes)
    found = np.take_along_axis(lane, index.reshape(lane.shape[:-1])[..., None], -1)
    return Gather(shape, in_shape, found.reshape(shape))


def same_cells_in(mask: TrackedArray, rule: Any, in_shape: Shape) -> Edge:
    """Influence of a mask that is laid over the reduced array."""
    from whence.arrays.compose import compose
    from whence.arrays.forms import broadcast

    spread = partial(broadcast, in_shape, mask.data_.shape)
    return Edge(mask.node_, lambda: compose(rule(), spread()), False)


def _only_where(rule: Any, held: Held, in_shape: Shape) -> Form:
    listed = expand(rule())
    keep = np.broadcast_to(np.asarray(held.arrays[0], dtype=bool), in_shape).reshape(-1)
    keep = keep[listed.inp]
    return Pairs(listed.out_shape, listed.in_shape, listed.out[keep], listed.inp[keep])


def winner(held: Held, axes: tuple[int, ...], shape: Shape) -> Form:
    """The first cell of each lane that equals the result (NaN equals NaN)."""
    array, result, where = held.arrays
    lane = lanes(array, axes)
    equal = lane == result.reshape(lane.shape[:-1])[..., None]
    if array.dtype.kind in "fcmM":
        equal |= (lane != lane) & (result != result).reshape(lane.shape[:-1])[..., None]
    if where is not True:
        equal = equal & lanes(np.broadcast_to(where, array.shape), axes)
    if not lane.shape[-1]:
        return Gather(shape, array.shape, np.full(shape, -1, dtype=np.int64))
    at = equal.argmax(axis=-1)[..., None]
    index = np.take_along_axis(lanes(positions(array.shape), axes), at, -1)[..., 0]
    found = np.take_along_axis(equal, at, -1)[..., 0]
    return Gather(shape, array.shape, np.where(found, index, -1).reshape(shape))


def segments(held: Held, shape: Shape, in_shape: Shape, axis: int) -> Form:
    """`reduceat`: cell i from `indices[i] … indices[i+1]-1`, or one cell if that is empty."""
    axis = axis % len(in_shape)
    start = np.asarray(held.arrays[0], dtype=np.int64)
    start = np.where(start < 0, start + in_shape[axis], start)
    stop = np.append(start[1:], in_shape[axis])
    stop = np.where(stop > start, stop, start + 1)
    listed = [
        Run(i, i, int(a), 0, int(b) - 1, 0)
        for i, (a, b) in enumerate(zip(start, stop, strict=True))
    ]
    maps = [runs(i, listed) if i == axis else follow(i, n) for i, n in enumerate(in_shape)]
    return separable(shape, in_shape, maps)


def reduction(pick: Pick | None = None, nan: bool = False) -> Any:
    """A rule for functions such as np.sum(a, axis=…); `nan` ones leave NaN cells out."""

    def rule(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
        bound = bind(func, args, kwargs)
        first = next(iter(bound))
        array, out = bound[first], bound.get("out")
        out = None if out is np._NoValue else out
        before = frozen(session, array, [out])
        result = writing_out(session, func, args, kwargs, out)
        edges: list[Edge] = []
        if type(array) is TrackedArray:
            options = {k: v for k, v in bound.items() if k != first}
            lane = _lane(before, result, bound)
            if nan and before.data_.dtype.kind in "fc":
                where = options.get("where", np._NoValue)
                options["where"] = _not_nan(before.data_, raw(where))
                edges = [same_cells_in(w, lane, before.data_.shape) for w in tracked_in(where)]
            edges += reduce_edges(session, before, result, options, pick)
            if nan:
                edges.append(Edge(before.node_, lane, False))
        edges += beside(array, bound, result)
        return finish_out(session, result, edges, name_of(func), args, out)

    return rule


def _not_nan(array: Array, where: Any) -> Array:
    """Which cells count, of those that a mask leaves in."""
    found: Array = ~np.isnan(array)
    return found if where is np._NoValue else found & where


def _lane(array: TrackedArray, result: Any, bound: dict[str, Any]) -> Any:
    axes = axes_of(bound.get("axis"), array.data_.ndim)
    shape = np.shape(result)
    return partial(reduced, shape, array.data_.shape, axes, keeps_axes(bound))


def beside(array: Any, bound: dict[str, Any], result: Any) -> list[Edge]:
    """Weights, starting values and the like: tracked arguments that take part in every cell."""
    edges = []
    shape = np.shape(result)
    for name, value in bound.items():
        if name in ("out", "axis") or value is array:
            continue
        if name == "where" and type(array) is TrackedArray:  # cell by cell
            continue
        for operand in tracked_in(value):
            doubt = f"{name} given as an array" if operand.data_.size > 1 else ""
            edges.append(all_cells(operand, shape, name != "where", doubt=doubt))
    return edges


@into_out
def ptp(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """Largest minus smallest: both winners contribute."""
    bound = bind(func, args, kwargs)
    array = lifted(session, bound["a"])
    result = plain_call(func, args, kwargs)
    axes = axes_of(bound["axis"], array.data_.ndim)
    shape = np.shape(result)
    edges = [Edge(array.node_, _lane(array, result, bound), False)]
    picks: tuple[Pick, Pick] = ("max", "min")
    for pick in picks:
        index = arg_lane(array.data_, pick, axes)
        if index is not None:
            rule = partial(at_index, index, axes, array.data_.shape, shape)
            recipe = ("winner", pick, axes)
            edges.append(Edge(array.node_, rule, by_values=True, recipe=recipe))
            continue
        extreme = np.max if pick == "max" else np.min
        value = np.asarray(extreme(array.data_, axis=axes) if axes else array.data_)
        held = session.hold(array.data_, value, True)
        edges.append(Edge(array.node_, partial(winner, held, axes, shape), by_values=True))
    return finish(session, result, edges, name_of(func), args)


def scan(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """cumsum and its kin: each cell from the cells up to it; no axis means flattened."""
    from whence.arrays.compose import compose
    from whence.arrays.forms import reshaped

    bound = bind(func, args, kwargs)
    array, axis = lifted(session, bound[next(iter(bound))]), bound.get("axis")
    out = bound.get("out")
    node, in_shape = array.node_, array.data_.shape
    result = writing_out(session, func, args, kwargs, out)
    shape = result.shape

    def rule() -> Form:
        if axis is not None and shape == in_shape:
            return scanned(shape, axis)
        flat = scanned(shape, 0)
        return flat if shape == in_shape else compose(flat, reshaped(shape, in_shape))

    if bound.get("include_initial"):
        edges = [all_cells(array, shape, doubt="include_initial")]
    else:
        edges = [Edge(node, rule)]
    return finish_out(session, result, edges, name_of(func), args, out)


@into_out
def trace(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.trace`: the sum of a diagonal."""
    bound = bind(func, args, kwargs)
    line = np.diagonal(bound["a"], bound["offset"], bound["axis1"], bound["axis2"])
    return np.sum(line, axis=-1, dtype=bound["dtype"])


def average(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """A weighted mean: cells of a lane, and the weights that belong to them."""
    bound = bind(func, args, kwargs)
    array, weights = bound["a"], bound["weights"]
    result = plain_call(func, args, kwargs)
    parts = result if isinstance(result, tuple) else (result,)
    shape = np.shape(parts[0])
    edges: list[Edge] = []
    if type(array) is TrackedArray:
        edges.append(Edge(array.node_, _lane(array, parts[0], bound)))
    for w in tracked_in(weights):
        data = raw(array)
        same = np.shape(data) == w.data_.shape
        axes = axes_of(bound["axis"], np.ndim(data))
        lane = partial(reduced, shape, w.data_.shape, axes, keeps_axes(bound))
        edges.append(Edge(w.node_, lane) if same else all_cells(w, shape))
    weight_edges = [e for e in edges if any(e.parent is w.node_ for w in tracked_in(weights))]
    made = [finish(session, parts[0], edges, name_of(func), args)]
    made += [finish(session, p, weight_edges, name_of(func), args) for p in parts[1:]]
    return tuple(made) if isinstance(result, tuple) else made[0]


def group_pairs(shape: Shape, in_shape: Shape, labels: Array) -> Form:
    """Pairs (label of a cell, cell); negative labels belong nowhere."""
    flat = labels.reshape(-1)
    keep = np.flatnonzero(flat >= 0)
    return pairs(shape, in_shape, flat[keep], keep)
