"""Functions whose result depends on the order or the bins of values."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import Form, Gather, empty, everything, follow, pairs, separable, whole
from whence.arrays.graph import Edge, Held, Node, lined_up
from whence.arrays.memory import Array, layout
from whence.arrays.rules.arguments import own
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
from whence.arrays.rules.reduce import group_pairs, reduced
from whence.arrays.rules.ufuncs import choice_edges, prefers_first, took_first
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in


def lane_form(shape: Shape, axis: int) -> Form:
    """Each cell from its whole lane along an axis of the same array."""
    maps = [whole(n) if i == axis else follow(i, n) for i, n in enumerate(shape)]
    return separable(shape, shape, maps)


def sort(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """sort and partition: cells move within their lane; all cells of the lane steer."""
    bound = bind(func, args, kwargs, ("a", "kth", "axis", "kind", "order"))
    array = bound["a"]
    result = plain_call(func, args, kwargs)
    axis, order = bound.get("axis", -1), bound.get("order")
    again = partial(np.partition, kth=bound["kth"]) if func is np.partition else None
    edges = sort_edges(session, array.node_, array.data_, result.shape, axis, order, again)
    return finish(session, result, edges, name_of(func), args)


def sort_edges(
    session: Session, node: Node, data: Array, shape: Shape, axis: int | None, order: Any,
    again: Any = None,
) -> list[Edge]:  # fmt: skip
    """Edges of a rearrangement of values along an axis (None: of the flattened array).

    `again` repeats one that does not sort fully, so that its result need not be kept.
    """
    held = session.hold(data)
    rule = partial(_rearranged, held, shape, axis, order, again)
    if axis is None or data.ndim == 0:
        lane = partial(everything, shape, data.shape)
    else:
        lane = partial(lane_form, data.shape, axis % data.ndim)
    return [Edge(node, rule, by_values=True), Edge(node, lane, False)]


def _rearranged(held: Held, shape: Shape, axis: int | None, order: Any, again: Any) -> Form:
    """Equal ranks in input and output meet; among equal values the first comes first."""
    array = held.arrays[0]
    in_shape = array.shape
    if axis is None or array.ndim == 0:
        array, axis = array.reshape(-1), 0
    if array.size == 0:
        return Gather(shape, in_shape, np.full(shape, -1, dtype=np.int64))
    options = {"order": order} if order is not None else {}
    before = np.argsort(array, axis=axis, kind="stable", **options)
    source = np.take_along_axis(positions(array.shape), before, axis)
    if again is None:
        return Gather(shape, in_shape, source.reshape(shape))
    after = np.argsort(again(array, axis=axis, **options), axis=axis, kind="stable", **options)
    index = np.empty(array.shape, dtype=np.int64)
    np.put_along_axis(index, after, source, axis)
    return Gather(shape, in_shape, index.reshape(shape))


def argsort(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """argsort and argpartition: each position comes from the cell it names."""
    bound = bind(func, args, kwargs, ("a", "kth", "axis", "kind", "order"))
    array, axis = bound["a"], bound.get("axis", -1)
    result = plain_call(func, args, kwargs)
    held = session.hold(result)
    rule = partial(_named, held, array.data_.shape, axis)
    flat = axis is None or array.data_.ndim == 0
    steer = all_cells(array, result.shape, False) if flat else Edge(
        array.node_, partial(lane_form, array.data_.shape, axis % array.data_.ndim), False
    )  # fmt: skip
    edges = [Edge(array.node_, rule, by_values=True), steer]
    return finish(session, result, edges, name_of(func), args)


def _named(held: Held, in_shape: Shape, axis: int | None) -> Form:
    at = np.asarray(held.arrays[0])
    if axis is None or not in_shape:
        return Gather(at.shape, in_shape, at.astype(np.int64).reshape(at.shape))
    index = np.take_along_axis(positions(in_shape), at, axis)
    return Gather(at.shape, in_shape, index)


@into_out
def argextreme(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """argmax and argmin: the position comes from the winning cell; the lane steers."""
    bound = bind(func, args, kwargs)
    array, axis = lifted(session, bound["a"]), bound["axis"]
    result = plain_call(func, args, kwargs)
    shape, in_shape = np.shape(result), array.data_.shape
    axes = axes_of(axis, len(in_shape))
    held = session.hold(np.asarray(result))
    rule = partial(_argument, held, in_shape, axes, shape)
    lane = partial(reduced, shape, in_shape, axes, keeps_axes(bound))
    edges = [Edge(array.node_, rule, by_values=True), Edge(array.node_, lane, False)]
    return finish(session, result, edges, name_of(func), args)


def _argument(held: Held, in_shape: Shape, axes: tuple[int, ...], shape: Shape) -> Form:
    lane = lanes(positions(in_shape), axes)
    at = held.arrays[0].reshape(lane.shape[:-1])[..., None]
    index = np.take_along_axis(lane, at, -1)[..., 0]
    return Gather(shape, in_shape, index.reshape(shape))


@into_out
def quantile(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """median, percentile, quantile: the order statistics that carry weight contribute."""
    bound = bind(func, args, kwargs)
    array = bound["a"]
    if bound.get("overwrite_input"):  # what is left there is nobody's business
        args, kwargs = (), {k: v for k, v in bound.items() if k not in ("out", "overwrite_input")}
    result = plain_call(func, args, kwargs)
    share = own(bound.get("q", 0.5))
    if func is np.percentile or func is np.nanpercentile:
        share = np.asarray(share) / 100
    op = name_of(func)
    if type(array) is not TrackedArray or bound.get("weights") is not None:
        operands = tracked_in([args, kwargs])
        edges = [all_cells(t, np.shape(result), doubt=f"{op} with weights") for t in operands]
        return finish(session, result, edges, op, args)
    axes = axes_of(bound["axis"], array.data_.ndim)
    method = bound.get("method", "linear") if "q" in bound else "median"
    skip = func in (np.nanmedian, np.nanpercentile, np.nanquantile)
    held = session.hold(array.data_, np.asarray(share))
    shape = np.shape(result)
    rule = partial(_order_statistics, held, axes, method, skip, shape)
    lane = partial(_quantile_lane, shape, array.data_.shape, axes, keeps_axes(bound))
    edges = [Edge(array.node_, rule, by_values=True), Edge(array.node_, lane, False)]
    if type(q := bound.get("q")) is TrackedArray:  # its axes come first
        maps = [follow(axis, size) for axis, size in enumerate(q.data_.shape)]
        edges.append(Edge(q.node_, partial(separable, shape, q.data_.shape, maps)))
    return finish(session, result, edges, op, args)


def _quantile_lane(shape: Shape, in_shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Form:
    return reduced(shape, in_shape, axes, keepdims)


def _order_statistics(
    held: Held, axes: tuple[int, ...], method: str, skip: bool, shape: Shape
) -> Form:
    array, share = held.arrays
    lane = lanes(array, axes)
    where = lanes(positions(array.shape), axes)
    count = lane.shape[-1]
    if not lane.size:
        return empty(shape, array.shape)
    lane, where = lane.reshape(-1, count), where.reshape(-1, count)
    order = np.argsort(lane, axis=-1, kind="stable")
    bad = np.isnan(lane) if lane.dtype.kind in "fc" else np.zeros(lane.shape, dtype=bool)
    shares = share.reshape(-1)
    outs, inps = [], []
    for q, value in enumerate(shares):
        for lengths in _by_length(bad, skip):
            rows, length = lengths
            if length == 0:
                continue
            ranks = _ranks(length, value, method)
            poisoned = bad[rows].any(axis=1) & (not skip)
            for rank in ranks:
                cell = np.where(poisoned, count - 1, rank)
                at = order[rows, cell]
                outs.append(q * len(lane) + rows)
                inps.append(where[rows, at])
    out = np.concatenate(outs) if outs else np.empty(0, dtype=np.int64)
    inp = np.concatenate(inps) if inps else np.empty(0, dtype=np.int64)
    return pairs(shape, array.shape, out.astype(np.int64), inp)


def _by_length(bad: Array, skip: bool) -> list[tuple[Array, int]]:
    """Lanes grouped by how many cells count in them."""
    if not skip:
        return [(np.arange(len(bad)), bad.shape[1])]
    lengths = (~bad).sum(axis=1)
    return [(np.flatnonzero(lengths == n), int(n)) for n in np.unique(lengths)]


def _ranks(length: int, share: Any, method: str) -> list[int]:
    """Which order statistics of a sorted lane carry weight: asked of NumPy itself, on 0, 1, 2 …"""
    ladder = np.arange(length, dtype=np.float64)
    if method == "median":
        at = float(np.median(ladder))
    else:
        at = float(np.quantile(ladder, float(share), method=method))  # type: ignore[call-overload]
    return sorted({int(np.floor(at)), int(np.ceil(at))})


def unique(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """unique: a value comes from its first occurrence, a count from every occurrence."""
    bound = bind(func, args, kwargs)
    array = bound["ar"]
    result = plain_call(func, args, kwargs)
    if bound["axis"] is not None:
        return _unique_rows(session, func, args, array, result)
    held = session.hold(
        array.data_, bound["equal_nan"], (result if isinstance(result, np.ndarray) else result[0])
    )
    kinds = ["first"]
    kinds += ["first"] * bool(bound["return_index"])
    kinds += ["own"] * bool(bound["return_inverse"])
    kinds += ["members"] * bool(bound["return_counts"])
    parts = result if isinstance(result, tuple) else (result,)
    made = []
    for part, kind in zip(parts, kinds, strict=True):
        rule = partial(_occurrences, held, kind, part.shape)
        edges = [Edge(array.node_, rule, by_values=True), all_cells(array, part.shape, False)]
        sized_by = [] if kind == "own" else [array.node_]
        made.append(finish(session, part, edges, name_of(func), args, sized_by))
    return tuple(made) if isinstance(result, tuple) else made[0]


def _unique_rows(session: Session, func: Any, args: Any, array: TrackedArray, result: Any) -> Any:
    parts = result if isinstance(result, tuple) else (result,)
    made = []
    for part in parts:
        edge = all_cells(array, part.shape, doubt="numpy.unique with axis")
        made.append(finish(session, part, [edge], name_of(func), args, [array.node_]))
    return tuple(made) if isinstance(result, tuple) else made[0]


def _occurrences(held: Held, kind: str, shape: Shape) -> Form:
    array, equal_nan, values = held.arrays
    if kind == "own":
        return Gather(shape, array.shape, positions(array.shape).reshape(shape))
    found, first, inverse = np.unique(
        array, return_index=True, return_inverse=True, equal_nan=equal_nan
    )
    # np.unique alone need not sort; match by value
    order = np.argsort(values, kind="stable")
    slot = np.empty(len(found), dtype=np.int64)
    slot[np.arange(len(found))] = order
    if kind == "first":
        index = np.empty(len(found), dtype=np.int64)
        index[slot] = first
        return Gather(shape, array.shape, index)
    return group_pairs(shape, array.shape, slot[inverse.reshape(-1)])


def clip(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """clip as two choices: first the larger of cell and lower bound, then the smaller."""
    bound = bind(func, args, kwargs)
    array, out, op = bound["a"], bound.get("out"), name_of(func)
    low, high = _bound(bound, "a_min", "min"), _bound(bound, "a_max", "max")
    array, low, high = (frozen(session, x, [out]) for x in (array, low, high))
    result = writing_out(session, func, args, kwargs, out)
    edges = _clipped(array, low, high, result)
    if bound.get("where", True) is not True:
        every = tracked_in(list(bound.values()))
        edges = [all_cells(t, np.shape(result), doubt=f"{op} with where=") for t in every]
    return finish_out(session, result, edges, op, args, out)


def _bound(bound: dict[str, Any], *names: str) -> Any:
    """A bound under either of its names; None if there is none."""
    found = [bound.get(name) for name in names]
    return next((value for value in found if value is not None and value is not np._NoValue), None)


def _clipped(array: Any, low: Any, high: Any, result: Any) -> list[Edge]:
    """The edges of the choices that are made; with no bounds each cell stays."""
    node, value = _node(array), raw(array)
    if low is None and high is None:
        return [] if node is None else [Edge(node, lined_up(np.shape(result), node.shape))]
    if low is not None:
        nodes = [node, _node(low)]
        if high is None:
            first = took_first(np.maximum, value, raw(low), result)
            return choice_edges("maximum", nodes, np.shape(result), first)
        first = prefers_first(np.maximum, value, raw(low))
        value = np.where(first, value, raw(low))
        node = Node(value.shape, choice_edges("maximum", nodes, value.shape, first), "maximum")
    first = took_first(np.minimum, value, raw(high), result)
    return choice_edges("minimum", [node, _node(high)], np.shape(result), first)


def _node(value: Any) -> Node | None:
    return value.node_ if type(value) is TrackedArray else None


def trim_zeros(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """trim_zeros: a slice that the values choose."""
    bound = bind(func, args, kwargs)
    array = bound["filt"]
    result = plain_call(func, args, kwargs)
    data = array.data_
    start = _offset(result, data)
    rule = partial(_window, start, data.shape, result.shape)
    edges = [Edge(array.node_, rule, by_values=True), all_cells(array, result.shape, False)]
    return finish(session, result, edges, name_of(func), args, [array.node_])


def _offset(part: Array, data: Array) -> tuple[int, ...]:
    """Where a slice of an array starts; read off its address."""
    if not part.size or not data.ndim:
        return (0,) * data.ndim
    sizes = [n if step else 1 for n, step in zip(data.shape, data.strides, strict=True)]
    place = layout(data)._replace(shape=tuple(sizes))  # repeated cells are trimmed all or none
    first = place.cells_at(np.array([layout(part).start]))[0]
    return tuple(int(i) for i in np.unravel_index(first, place.shape))


def _window(start: tuple[int, ...], in_shape: Shape, shape: Shape) -> Form:
    maps = [follow(i, n, at) for i, (n, at) in enumerate(zip(shape, start, strict=True))]
    return separable(shape, in_shape, maps)


def running_choice(held: Held, axis: int) -> Form:
    """maximum.accumulate: each cell from the latest cell up to it that equals the result."""
    array, result = held.arrays
    axis = axis % array.ndim
    fresh = np.ones(array.shape, dtype=bool)
    later = [slice(None)] * array.ndim
    earlier = list(later)
    later[axis], earlier[axis] = slice(1, None), slice(None, -1)
    changed = result[tuple(later)] != result[tuple(earlier)]
    if result.dtype.kind in "fc":
        both_nan = np.isnan(result[tuple(later)]) & np.isnan(result[tuple(earlier)])
        changed &= ~both_nan
    fresh[tuple(later)] = changed
    steps = np.arange(array.shape[axis]).reshape(
        [-1 if i == axis else 1 for i in range(array.ndim)]
    )
    at = np.maximum.accumulate(np.where(fresh, steps, 0), axis=axis)
    index = np.take_along_axis(positions(array.shape), at, axis)
    return Gather(array.shape, array.shape, index)
