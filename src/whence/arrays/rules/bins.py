"""Functions that look values up: bins, ladders and interpolation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import Form, Gather, pairs
from whence.arrays.graph import Edge, Held
from whence.arrays.memory import Array
from whence.arrays.rules.arguments import given
from whence.arrays.rules.base import (
    all_cells,
    bind,
    finish,
    name_of,
    plain_call,
    same_cells,
)
from whence.arrays.rules.reduce import group_pairs
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in


def searchsorted(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """searchsorted and digitize: each position from the value looked up; the ladder steers."""
    names = ("x", "bins") if func is np.digitize else ("v", "a")
    bound = bind(func, args, kwargs)
    result = plain_call(func, args, kwargs)
    shape = np.shape(result)
    if func is np.searchsorted and not _ascends(raw(bound["a"]), raw(bound["sorter"])):
        doubt = f"{name_of(func)} in values that do not ascend"  # it goes on from where it was
        edges = [all_cells(t, shape, doubt=doubt) for t in tracked_in([args, kwargs])]
        return finish(session, result, edges, name_of(func), args)
    edges = [same_cells(t, shape) for t in tracked_in(bound[names[0]])]
    edges += [all_cells(t, shape, False) for t in tracked_in(bound[names[1]])]
    others = [bound.get("sorter"), bound.get("right")]
    edges += [all_cells(t, shape, False) for t in tracked_in(others)]
    return finish(session, result, edges, name_of(func), args)


def bincount(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """bincount: a count from the cells that have its number, and from their weights."""
    bound = bind(func, args, kwargs, ("x", "weights", "minlength"))
    array, weights = bound["x"], bound.get("weights")
    result = plain_call(func, args, kwargs)
    held = session.hold(given(array))
    edges = []
    for operand in tracked_in([array, weights]):
        rule = partial(_counted, held, result.shape)
        edges.append(Edge(operand.node_, rule, by_values=True))
    edges += [all_cells(t, result.shape, False) for t in tracked_in(array)]
    sized_by = [t.node_ for t in tracked_in(array)]
    return finish(session, result, edges, name_of(func), args, sized_by)


def _counted(held: Held, shape: Shape) -> Form:
    labels = np.asarray(held.arrays[0]).astype(np.int64)
    return group_pairs(shape, labels.shape, labels)


def histogram(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """histogram: a bin from the cells that fall into it; edges from the extremes, or as given."""
    bound = bind(func, args, kwargs)
    array, bins = bound["a"], bound["bins"]
    counts, edges_out = plain_call(func, args, kwargs)
    op = name_of(func)
    operands = tracked_in([array, bound["weights"]])
    held = session.hold(given(array), edges_out)
    counted = []
    for operand in operands:
        rule = partial(_binned, held, counts.shape)
        counted.append(Edge(operand.node_, rule, by_values=True))
        if bound["density"]:
            counted.append(all_cells(operand, counts.shape))
    counted += [all_cells(t, counts.shape, False) for t in tracked_in(array)]
    if np.ndim(raw(bins)):  # differences of a running sum, in which a NaN stays
        counted += [all_cells(t, counts.shape, False) for t in tracked_in(bound["weights"])]
    counted += [all_cells(t, counts.shape, False) for t in tracked_in([bins, bound["range"]])]
    ladder = _ladder_edges(session, array, bins, bound["range"], edges_out)
    counting = tracked_in(array if isinstance(bins, str) else bins)
    sized_by = [t.node_ for t in counting if isinstance(bins, str) or not t.data_.ndim]
    first = finish(session, counts, counted, op, args, sized_by)
    return first, finish(session, edges_out, ladder, op, args, sized_by)


def _ladder_edges(session: Session, array: Any, bins: Any, span: Any, ladder: Array) -> list[Edge]:
    if np.ndim(raw(bins)) == 1:
        return [same_cells(t, ladder.shape) for t in tracked_in(bins)]
    by_number = isinstance(bins, int | np.integer)
    if not by_number or span is not None or type(array) is not TrackedArray:
        looked_at = [bins, span] if by_number else [array, bins, span]
        return [
            all_cells(t, ladder.shape, doubt="numpy.histogram choosing its bins")
            for t in tracked_in(looked_at)
        ]
    held = session.hold(array.data_)
    edges = [all_cells(array, ladder.shape, False)]
    for pick in (np.argmin, np.argmax):
        rule = partial(_extreme, held, pick, ladder.shape)
        edges.append(Edge(array.node_, rule, by_values=True))
    return edges


def _ascends(ladder: Any, order: Any = None) -> bool:
    """Whether values are in order, NaN last; what NumPy finds among others, rules do not tell."""
    found = np.asarray(ladder) if order is None else np.asarray(ladder)[np.asarray(order)]
    if found.dtype.kind in "fcmM":
        missing = np.isnat(found) if found.dtype.kind in "mM" else np.isnan(found)
        if missing.any():
            first = int(np.argmax(missing))
            if not missing[first:].all():
                return False
            found = found[:first]
    try:
        return bool((found[:-1] <= found[1:]).all())
    except TypeError:  # records
        return False


def _extreme(held: Held, pick: Any, shape: Shape) -> Form:
    array = held.arrays[0]
    if not array.size:
        return Gather(shape, array.shape, np.full(shape, -1, dtype=np.int64))
    return Gather(shape, array.shape, np.full(shape, int(pick(array)), dtype=np.int64))


def _binned(held: Held, shape: Shape) -> Form:
    array, ladder = np.asarray(held.arrays[0]), held.arrays[1]
    flat = array.reshape(-1)
    labels = np.searchsorted(ladder, flat, side="right") - 1
    labels = np.where(flat == ladder[-1], len(ladder) - 2, labels)
    inside = (flat >= ladder[0]) & (flat <= ladder[-1])
    return group_pairs(shape, array.shape, np.where(inside, labels, -1))


def interp(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """interp: a point between two knots comes from both; outside, from the nearest alone."""
    bound = bind(func, args, kwargs)
    x, xp, fp = bound["x"], bound["xp"], bound["fp"]
    result = plain_call(func, args, kwargs)
    shape = np.shape(result)
    held = session.hold(given(x), given(xp))
    left, right = bound["left"], bound["right"]
    ends = (left is not None, right is not None)
    op = name_of(func)
    ascends = _ascends(raw(xp))
    if bound["period"] is not None or not ascends:
        doubt = f"{op} with {'period' if ascends else 'points that do not ascend'}"
        edges = [all_cells(t, shape, doubt=doubt) for t in tracked_in([x, xp, fp])]
        return finish(session, result, edges, op, args)
    edges = []
    for operand, which in ((x, "x"), (xp, "xp"), (fp, "fp")):
        if type(operand) is TrackedArray:
            rule = partial(_knots, held, which, ends, shape)
            edges.append(Edge(operand.node_, rule, by_values=True))
    edges += [all_cells(t, shape, doubt=f"{op} with ends") for t in tracked_in([left, right])]
    edges += [same_cells(t, shape, False) for t in tracked_in(x) if t.data_.shape == shape]
    edges += [all_cells(t, shape, False) for t in tracked_in(xp)]
    return finish(session, result, edges, op, args)


def _knots(held: Held, which: str, ends: tuple[bool, bool], shape: Shape) -> Form:
    x, xp = (np.asarray(a) for a in held.arrays)
    flat = x.reshape(-1)
    last = len(xp) - 1
    below, above = flat < xp[0], flat > xp[-1]
    at = np.clip(np.searchsorted(xp, flat, side="right") - 1, 0, last)
    on_end = at == last
    inside = ~(below | above)
    every = np.arange(len(flat))
    if which == "x":
        keep = inside & ~on_end | np.isnan(flat)
        return pairs(shape, x.shape, every[keep], every[keep])
    alone = inside & (flat == xp[at])  # on a knot, whose value it has
    between = inside & ~on_end & ~alone
    out = [every[between], every[between]]
    inp = [at[between], at[between] + 1]
    if which == "fp":
        out += [every[alone], every[below & (not ends[0])], every[above & (not ends[1])]]
        inp += [at[alone], np.zeros(len(out[-2]), dtype=np.int64)]
        inp += [np.full(len(out[-1]), last, dtype=np.int64)]
    return pairs(shape, xp.shape, np.concatenate(out), np.concatenate(inp))
