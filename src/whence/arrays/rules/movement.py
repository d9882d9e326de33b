"""Functions that only move cells: the same movement is applied to an index, when somebody asks.

A movement that gives a view is read off its strides, which costs nothing and stays symbolic. A
movement along one axis is applied to that axis alone. Anything else moves a whole index array.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.compose import compose
from whence.arrays.forms import (
    Form,
    Run,
    follow,
    from_index,
    identity,
    reshaped,
    runs,
    separable,
)
from whence.arrays.graph import EachCell, Edge
from whence.arrays.memory import Array
from whence.arrays.rules.arguments import given, named, own
from whence.arrays.rules.base import (
    all_cells,
    bind,
    finish,
    into_out,
    key_edge,
    lifted,
    name_of,
    plain_call,
    same_cells,
    shape_of,
    steer,
    store,
)
from whence.arrays.rules.linear import contract
from whence.arrays.rules.replay import arrays_slotted, index_of, laid_out, replay, template
from whence.arrays.session import Reach, Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in


def moved(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """A rule for functions all of whose arrays are moved."""
    slots: list[TrackedArray] = []
    shaped = [laid_out(name, value, slots) for name, value in named(func, args)]
    options = {name: laid_out(name, value, slots) for name, value in kwargs.items()}
    return _replayed(session, func, args, kwargs, (shaped, options, slots))


def moved_as_declared(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """As `moved`, for functions of which nobody knows what numbers are for."""
    slots: list[TrackedArray] = []
    shaped, options = arrays_slotted(list(args), slots), arrays_slotted(kwargs, slots)
    return _replayed(session, func, args, kwargs, (shaped, options, slots))


def block(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.block`: its lists say where arrays lie, and are none themselves."""
    return moved(session, func, args, kwargs)


def _replayed(session: Session, func: Any, args: Any, kwargs: Any, shown: Any) -> Any:
    """Run a movement; its arrays are replayed on an index, one by one."""
    result = plain_call(func, args, kwargs)
    shaped, options, slots = shown
    for operand in slots if func.__name__ == "unstack" else ():  # as many as there are
        session.look_at_shape(operand.node_)

    def wrap(made: Any, part: int | None = None) -> Any:
        edges = [
            Edge(t.node_, partial(replay, func, shaped, options, None, i, t.data_.shape, part))
            for i, t in enumerate(slots)
        ]
        return finish(session, made, edges, func.__name__, args)

    if isinstance(result, tuple | list):
        return type(result)([wrap(made, part) for part, made in enumerate(result)])
    return wrap(result)


def in_order(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.ravel` and `np.reshape`: the orders "K" and "A" go by memory, so they are spelled out.

    `np.reshape` refuses "K".
    """
    bound = bind(func, args, kwargs)
    array, order = bound.pop("a"), bound.get("order")
    spelled = ("A", "K") if func is np.ravel else ("A",)
    if type(array) is not TrackedArray or order not in spelled:
        return moved(session, func, args, kwargs)
    data = array.data_
    if order == "A":
        bound["order"] = "F" if data.flags.fnc else "C"
        return moved(session, func, (array,), bound)
    axes = np.argsort([-abs(step) for step in data.strides], kind="stable")
    return moved(session, func, (np.transpose(array, tuple(axes)),), {**bound, "order": "C"})


def shared_out(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """As `moved`, for functions that cut or repeat an array to a size: shares are rounded."""
    session.narrow(Reach.BETWEEN)
    made = moved(session, func, args, kwargs)
    if isinstance(made, list):  # Python's own list tells how many parts there are
        sections = bind(func, args, kwargs)["indices_or_sections"]
        look = session.branch_on if np.ndim(sections) == 0 else session.look_at_shape
        for node in session.deciding:
            look(node)
    return made


# movements whose selectors say how many cells there are
_COUNTING = frozenset({np.compress, np.delete, np.extract, np.insert, np.repeat})


def selecting(*selectors: str) -> Any:
    """A rule for movements in which the arguments named only say which cells go where."""

    @into_out
    def rule(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
        bound = bind(func, args, kwargs)
        result = plain_call(func, args, kwargs)
        slots: list[TrackedArray] = []
        arrays: list[Any] = []
        options = {
            k: template(v, arrays) if k in selectors else laid_out(k, v, slots)
            for k, v in bound.items()
            if k != "out"
        }
        by_values = bool(tracked_in([bound[k] for k in selectors]))
        held = session.hold(*map(given, arrays))
        edges = [
            Edge(
                t.node_,
                partial(replay, func, (), options, held, i, t.data_.shape, None),
                by_values=by_values,
            )
            for i, t in enumerate(slots)
        ]
        steering = [bound.get(s) for s in selectors]
        if func in _COUNTING:
            edges = steer(edges, steering, shape_of(result))
        else:
            edges += [_told_by(t, bound.get("axis"), result) for t in tracked_in(steering)]
        sized_by = [t.node_ for t in tracked_in(steering)] if func in _COUNTING else []
        return finish(session, result, edges, name_of(func), args, sized_by)

    return rule


def _told_by(index: TrackedArray, axis: Any, result: Any) -> Edge:
    """Influence of an index array whose axes are those of the result, or stand in place of one."""
    shape, count = shape_of(result), index.data_.ndim
    if axis is None or index.data_.shape == shape or not count:
        return key_edge(index, shape)
    at = int(axis) % (len(shape) - count + 1)
    return Edge(
        index.node_, partial(contract, shape, index.data_.shape, (*range(at, at + count),)), False
    )


def open_mesh(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.ix_`: masks are the positions where they are true."""
    masks = [np.asarray(raw(value)).dtype == bool for value in args]
    places = [
        np.nonzero(value)[0] if mask else value for value, mask in zip(args, masks, strict=True)
    ]
    return moved(session, func, tuple(places), kwargs)


def along_axis(*selectors: str) -> Any:
    """Movements along `axis` (roll, repeat, take, delete …): moved as one axis, so symbolic.

    Without an axis the array is flattened first.
    """
    general = selecting(*selectors)

    def rule(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
        bound = bind(func, args, kwargs)
        first = next(iter(bound))
        array, axis = bound[first], bound.get("axis")
        simple = type(array) is TrackedArray and not tracked_in(
            {k: v for k, v in bound.items() if k != first}
        )
        if (
            not simple
            or isinstance(axis, tuple)
            or array.data_.ndim == 0
            or bound.get("out") is not None
        ):
            return general(session, func, args, kwargs)
        result = plain_call(func, args, kwargs)
        if result.ndim != (1 if axis is None else array.data_.ndim):
            return general(session, func, args, kwargs)
        if bound.get("mode", "raise") != "raise":  # positions are bent into the array
            session.narrow(Reach.HERE)
        left_out = (first, "axis", "out", "values")
        options = {k: own(v) for k, v in bound.items() if k not in left_out}
        move = partial(axis_moved, func, options, result.shape, array.data_.shape, axis)
        return finish(session, result, [Edge(array.node_, move)], name_of(func), args)

    return rule


def axis_moved(
    func: Any, options: dict[str, Any], shape: Shape, in_shape: Shape, axis: int | None
) -> Form:
    """Apply a movement to the positions of one axis; the other axes stay."""
    if axis is None:
        size = int(np.prod(in_shape, dtype=np.int64))
        flat = axis_moved(func, options, (int(np.prod(shape)),), (size,), 0)
        inner = compose(flat, reshaped((size,), in_shape)) if in_shape != (size,) else flat
        return compose(reshaped(shape, flat.out_shape), inner) if len(shape) != 1 else inner
    axis = axis % len(in_shape)
    new = shape[axis] - in_shape[axis]  # a single position takes any number of values
    extra = {"values": np.zeros(new, np.int64)} if func is np.insert else {}
    one = func(index_of((in_shape[axis],)), **options, **extra, axis=0)
    maps = [
        from_index(axis, np.asarray(one, dtype=np.int64)) if i == axis else follow(i, n)
        for i, n in enumerate(in_shape)
    ]
    return separable(shape, in_shape, maps)


def insert(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.insert`: the array moves along its axis; values land where a whole replay puts them."""
    bound = bind(func, args, kwargs)
    if not tracked_in([bound["obj"], bound["values"]]):
        return along_axis("obj")(session, func, args, kwargs)
    return selecting("obj")(session, func, args, kwargs)


def roll(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.roll`, one or several axes."""
    bound = bind(func, args, kwargs)
    array, shift, axis = lifted(session, bound["a"]), bound["shift"], bound["axis"]
    result = plain_call(func, args, kwargs)
    shape = array.data_.shape
    if not shape:
        return finish(session, result, [same_cells(array, shape)], "roll", args)
    shifts, axes = np.broadcast_arrays(shift, 0 if axis is None else axis)
    total: dict[int, int] = {}
    for amount, where in zip(shifts.reshape(-1).tolist(), axes.reshape(-1).tolist(), strict=True):
        total[where % len(shape)] = total.get(where % len(shape), 0) + int(amount)
    if any(abs(amount) >= shape[where] for where, amount in total.items()):
        session.narrow(Reach.HERE)  # more than once around
    rule = partial(_rolled, shape, total, axis is None)
    return finish(session, result, [Edge(array.node_, rule)], name_of(func), args)


def _rolled(shape: Shape, total: dict[int, int], flat: bool) -> Form:
    if flat and len(shape) > 1:
        size = int(np.prod(shape, dtype=np.int64))
        inner = compose(_rolled((size,), total, False), reshaped((size,), shape))
        return compose(reshaped(shape, (size,)), inner)
    maps = []
    for i, n in enumerate(shape):
        shift = total.get(i, 0) % n if n else 0
        parts = [Run(shift, n - 1, -shift, 1, -shift, 1)]
        if shift:
            parts.insert(0, Run(0, shift - 1, n - shift, 1, n - shift, 1))
        maps.append(runs(i, parts if n else []))
    return separable(shape, shape, maps)


def tile(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.tile`: every axis repeats as a whole, so positions go around with its size."""
    session.narrow(Reach.BETWEEN)
    bound = bind(func, args, kwargs)
    array = bound["A"]
    result = plain_call(func, args, kwargs)
    edges = []
    if type(array) is TrackedArray:
        edges.append(Edge(array.node_, partial(_tiled, result.shape, array.data_.shape)))
    return finish(session, result, edges, "tile", args)


def _tiled(shape: Shape, in_shape: Shape) -> Form:
    skip = len(shape) - len(in_shape)
    maps = []
    for i, n in enumerate(in_shape):
        times = shape[i + skip] // n if n else 0
        listed = [Run(t * n, (t + 1) * n - 1, -t * n, 1, -t * n, 1) for t in range(times)]
        maps.append(runs(i + skip, listed))
    return separable(shape, in_shape, maps)


def cast(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """Functions that give the same cells in another type or memory order."""
    result = plain_call(func, args, kwargs)
    operands = tracked_in([args, kwargs])
    if len(operands) == 1 and result.shape == operands[0].data_.shape:
        edge = Edge(operands[0].node_, partial(identity, result.shape))
        return finish(session, result, [edge], func.__name__, args)
    if len(operands) == 1 and result.size == operands[0].data_.size:
        edge = Edge(operands[0].node_, partial(reshaped, result.shape, operands[0].data_.shape))
        return finish(session, result, [edge], func.__name__, args)
    edges = [all_cells(t, result.shape, doubt=name_of(func)) for t in operands]
    return finish(session, result, edges, func.__name__, args)


def real_if_close(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.real_if_close`: each cell from itself; all say whether it loses its imaginary part."""
    array = lifted(session, bind(func, args, kwargs)["a"])
    if array.data_.dtype.kind != "c":
        return elementwise(session, func, args, kwargs)
    result = plain_call(func, args, kwargs)
    edges = [same_cells(array, result.shape), all_cells(array, result.shape, False)]
    return finish(session, result, edges, func.__name__, args)


_OF_COMPLEX = frozenset({np.imag, np.iscomplex, np.isreal})


def elementwise(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """Functions of each cell alone (np.round, np.angle, np.nan_to_num …)."""
    if kwargs and func in _OF_COMPLEX:
        args, kwargs = (*args, *kwargs.values()), {}
    if len(args) == 1 and not kwargs and type(array := args[0]) is TrackedArray:
        result, node = func(raw(array) if array.scalar_ else array.data_), array.node_
        # real numbers all have the same imaginary part, whatever their values
        of_none = func in _OF_COMPLEX and array.data_.dtype.kind not in "cO"
        if type(result) is not np.ndarray:
            edges = [] if of_none else [same_cells(array, shape_of(result))]
            return finish(session, result, edges, func.__name__, args)
        if result is array.data_:
            return array
        each = EachCell(result.shape, () if of_none else (node,), func.__name__, node.loose)
        made = TrackedArray(result, each, session)
        if result.base is not None and not of_none:
            session.link(array, made)
        return made
    bound = bind(func, args, kwargs)
    out = bound.pop("out", None)
    if not bound.get("copy", True):  # np.nan_to_num in place
        out = next(iter(bound.values()))
    frozen = [TrackedArray(t.data_, t.node_, session) for t in tracked_in(bound)]
    if out is not None:
        session.before_write(raw(out))
    result = plain_call(func, args, kwargs)
    shape = shape_of(result)
    edges = [same_cells(t, shape) for t in frozen]
    if out is not None:
        return store(session, out, result, edges, func.__name__, args)
    return finish(session, result, edges, func.__name__, args)


def pad(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.pad`: copying modes move cells; computing modes are left to the fallback."""
    bound = bind(func, args, kwargs)
    mode = bound["mode"]
    array = lifted(session, bound["array"])
    if mode not in ("constant", "edge", "reflect", "symmetric", "wrap", "empty"):
        from whence.arrays.rules.fallback import unknown

        return unknown(session, func, args, kwargs)
    result = plain_call(func, args, kwargs)
    if bound.get("reflect_type", "even") == "odd":
        edge = all_cells(array, result.shape, doubt="numpy.pad with reflect_type='odd'")
        return finish(session, result, [edge], "pad", args)
    asked, ndim = bound["pad_width"], array.data_.ndim
    if isinstance(asked, dict):
        asked = [asked.get(i, asked.get(i - ndim, 0)) for i in range(ndim)]
        asked = [(w, w) if np.ndim(w) == 0 else tuple(w) for w in asked]
    width = np.broadcast_to(np.asarray(asked), (ndim, 2))
    if (
        mode in ("reflect", "symmetric", "wrap")
        and (np.array(array.data_.shape)[:, None] <= width).any()
    ):
        session.narrow(Reach.HERE)  # as far as the array goes, and over again
    edges = [Edge(array.node_, partial(_padded, result.shape, array.data_.shape, width, mode))]
    edges += [
        all_cells(t, result.shape, doubt="numpy.pad with constant_values")
        for t in tracked_in(bound.get("constant_values"))
    ]
    return finish(session, result, edges, "pad", args)


def _padded(shape: Shape, in_shape: Shape, width: Array, mode: str) -> Form:
    maps = []
    for i, n in enumerate(in_shape):
        options = {} if mode not in ("constant", "empty") else {"constant_values": 0}
        kind = "constant" if mode == "empty" else mode
        index = np.pad(index_of((n,)), tuple(int(w) for w in width[i]), kind, **options)  # type: ignore[call-overload]
        maps.append(from_index(i, index))
    return separable(shape, in_shape, maps)
