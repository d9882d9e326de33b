"""Functions that only move cells: the same movement is applied to an index, when somebody asks.

A movement that gives a view is read off its strides, which costs nothing and stays symbolic. A
movement along one axis is applied to that axis alone. Anything else moves a whole index array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Ints, Shape, strides_of
from whence.arrays.compose import compose
from whence.arrays.forms import (
    AxisMap,
    Form,
    Run,
    fixed,
    follow,
    from_index,
    gathered,
    identity,
    reshaped,
    runs,
    separable,
)
from whence.arrays.graph import EachCell, Edge, Held
from whence.arrays.memory import Array
from whence.arrays.rules.base import (
    all_cells,
    bind,
    finish,
    into_out,
    lifted,
    name_of,
    plain_call,
    same_cells,
    shape_of,
    steer,
    store,
)
from whence.arrays.session import Reach, Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in


class Slot:
    """Where a moved operand stands in the arguments."""

    __slots__ = ("number", "shape")

    def __init__(self, number: int, shape: Shape) -> None:
        self.number, self.shape = number, shape


def template(value: Any, slots: list[TrackedArray], held: list[Any], selectors: bool) -> Any:
    """Arguments with slots for the arrays that are moved; other arrays go to `held`."""
    if type(value) is TrackedArray:
        if selectors:
            held.append(value.data_)
            return _Kept(len(held) - 1)
        slots.append(value)
        return Slot(len(slots) - 1, value.data_.shape)
    if isinstance(value, np.ndarray):
        if selectors:
            held.append(value)
            return _Kept(len(held) - 1)
        return Slot(-1, value.shape)
    if type(value) in (tuple, list):
        return type(value)([template(item, slots, held, selectors) for item in value])
    if type(value) is dict:
        return {k: template(v, slots, held, selectors) for k, v in value.items()}
    return value


class _Kept:
    """Where a selecting array stands in the arguments."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def fill(value: Any, make: Callable[[Slot], Any], held: Sequence[Any]) -> Any:
    """A template with arrays in its slots."""
    if type(value) is Slot:
        return make(value)
    if type(value) is _Kept:
        return held[value.number]
    if type(value) in (tuple, list):
        return type(value)([fill(item, make, held) for item in value])
    if type(value) is dict:
        return {k: fill(v, make, held) for k, v in value.items()}
    return value


def index_of(shape: Shape) -> Ints:
    """1-based flat positions; 0 is left for cells that come from nowhere."""
    return np.arange(1, int(np.prod(shape, dtype=np.int64)) + 1, dtype=np.int64).reshape(shape)


def replay(
    func: Callable[..., Any], args: Any, kwargs: Any, held: Held | None, number: int,
    shape: Shape, part: int | None,
) -> Form:  # fmt: skip
    """The relation of a movement, by running it on an array that shows where cells went."""
    values = held.arrays if held is not None else ()

    def run(make: Callable[[Slot], Any]) -> Any:
        result = func(*fill(args, make, values), **fill(kwargs, make, values))
        return result if part is None else result[part]

    in_shape = shape
    ghost = np.empty(in_shape, dtype=np.int8)
    others = partial(np.zeros, dtype=np.int64)
    result = run(lambda slot: ghost if slot.number == number else np.zeros(slot.shape, np.int8))
    if isinstance(result, np.ndarray) and np.may_share_memory(result, ghost):
        form = from_strides(result, ghost)
        if form is not None:
            return form
    moved = np.asarray(
        run(lambda slot: index_of(in_shape) if slot.number == number else others(slot.shape))
    )
    return gathered(moved.shape, in_shape, moved)


def from_strides(result: Array, base: Array) -> Form | None:
    """The relation of a view to the C-ordered array of bytes it looks into, if it is regular."""
    if result.dtype.itemsize != 1 or 0 in result.shape:
        return None
    offset = _address(result) - _address(base)
    steps = [s for s, n in zip(result.strides, result.shape, strict=True) if n > 1]
    plain = [
        s for s, n in zip(strides_of(result.shape).tolist(), result.shape, strict=True) if n > 1
    ]
    if offset == 0 and result.size == base.size and steps == plain:
        return reshaped(result.shape, base.shape)
    start = [int(i) for i in np.unravel_index(offset, base.shape)]
    maps: dict[int, AxisMap] = {}
    for j, (size, step) in enumerate(zip(result.shape, result.strides, strict=True)):
        if size == 1 or step == 0:
            continue
        axis = _axis_of(step, size, start, base.shape, maps)
        if axis is None:
            return None
        k = step // int(strides_of(base.shape)[axis])
        maps[axis] = runs(j, [Run(0, size - 1, start[axis], k, start[axis], k)])
    listed = [maps.get(i, fixed(start[i])) for i in range(base.ndim)]
    return separable(result.shape, base.shape, listed)


def _address(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def _axis_of(
    step: int, size: int, start: list[int], shape: Shape, taken: dict[int, AxisMap]
) -> int | None:
    for axis, stride in enumerate(strides_of(shape).tolist()):
        if shape[axis] == 1 or step % stride or axis in taken:
            continue
        last = start[axis] + (step // stride) * (size - 1)
        if 0 <= last < shape[axis]:
            return axis
    return None


def move_edges(
    session: Session, func: Any, args: Any, kwargs: Any, result: Any, part: int | None = None
) -> list[Edge]:
    """One edge per tracked operand, to be replayed on an index."""
    slots: list[TrackedArray] = []
    shaped = template(args, slots, [], False)
    options = template({k: v for k, v in kwargs.items() if k != "dtype"}, slots, [], False)
    return [
        Edge(t.node_, partial(replay, func, shaped, options, None, i, t.data_.shape, part))
        for i, t in enumerate(slots)
    ]


def moved(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """A rule for functions all of whose arrays are moved."""
    result = plain_call(func, args, kwargs)
    op = func.__name__
    if isinstance(result, tuple | list):
        for operand in tracked_in(args) if op == "unstack" else ():  # as many as there are
            session.look_at_shape(operand.node_)
        made = [
            finish(session, part, move_edges(session, func, args, kwargs, part, i), op, args)
            for i, part in enumerate(result)
        ]
        return type(result)(made)
    return finish(session, result, move_edges(session, func, args, kwargs, result), op, args)


def in_order(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.ravel` and `np.reshape`: the orders "K" and "A" go by memory, so they are spelled out."""
    bound = bind(func, args, kwargs)
    array, order = bound.pop("a"), bound.get("order")
    if type(array) is not TrackedArray or order not in ("A", "K"):
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
    return moved(session, func, args, kwargs)


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
            k: template(v, slots, arrays, k in selectors)
            for k, v in bound.items()
            if k not in ("out", "dtype")
        }
        by_values = any(type(v) is TrackedArray for k in selectors for v in [bound.get(k)])
        held = session.hold(*arrays)
        edges = [
            Edge(
                t.node_,
                partial(replay, func, (), options, held, i, t.data_.shape, None),
                by_values=by_values,
            )
            for i, t in enumerate(slots)
        ]
        steering = [bound.get(s) for s in selectors]
        edges = steer(edges, steering, shape_of(result))
        sized_by = [t.node_ for t in tracked_in(steering)] if func in _COUNTING else []
        return finish(session, result, edges, name_of(func), args, sized_by)

    return rule


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
        options = {k: v for k, v in bound.items() if k not in (first, "axis", "out", "values")}
        held = session.hold(*(v for v in options.values() if isinstance(v, np.ndarray)))
        move = partial(axis_moved, func, options, held, result.shape, array.data_.shape, axis)
        return finish(session, result, [Edge(array.node_, move)], name_of(func), args)

    return rule


def axis_moved(
    func: Any, options: dict[str, Any], held: Held, shape: Shape, in_shape: Shape, axis: int | None
) -> Form:
    """Apply a movement to the positions of one axis; the other axes stay."""
    if axis is None:
        size = int(np.prod(in_shape, dtype=np.int64))
        flat = axis_moved(func, options, held, (int(np.prod(shape)),), (size,), 0)
        inner = compose(flat, reshaped((size,), in_shape)) if in_shape != (size,) else flat
        return compose(reshaped(shape, flat.out_shape), inner) if len(shape) != 1 else inner
    axis = axis % len(in_shape)
    safe = iter(held.arrays)
    options = {k: next(safe) if isinstance(v, np.ndarray) else v for k, v in options.items()}
    extra = {"values": 0} if func is np.insert else {}
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
    if tracked_in([shift, axis]) or not shape:
        edges = [all_cells(array, shape, doubt=name_of(func))]
        return finish(session, result, steer(edges, [shift, axis], shape), "roll", args)
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
    edges = steer(edges, [bound["reps"]], result.shape)
    sized_by = [t.node_ for t in tracked_in(bound["reps"])]
    return finish(session, result, edges, "tile", args, sized_by)


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


def elementwise(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """Functions of each cell alone (np.round, np.angle, np.nan_to_num …)."""
    if len(args) == 1 and not kwargs and type(array := args[0]) is TrackedArray:
        result, node = func(array.data_), array.node_
        if type(result) is not np.ndarray:
            edges = [same_cells(array, shape_of(result))]
            return finish(session, result, edges, func.__name__, args)
        if result is array.data_:
            return array
        each = EachCell(result.shape, (node,), func.__name__, node.loose)
        made = TrackedArray(result, each, session)
        if result.base is not None:
            session.link(array, made)
        return made
    bound = bind(func, args, kwargs)
    out = bound.pop("out", None)
    if bound.get("copy") is False:  # np.nan_to_num in place
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
    given, ndim = raw(bound["pad_width"]), array.data_.ndim
    if isinstance(given, dict):
        given = [given.get(i, given.get(i - ndim, 0)) for i in range(ndim)]
        given = [(w, w) if np.ndim(w) == 0 else tuple(w) for w in given]
    width = np.broadcast_to(np.asarray(given), (ndim, 2))
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
