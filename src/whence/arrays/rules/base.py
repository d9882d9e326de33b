"""What every rule uses: making results, binding arguments, edges of the common kinds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, wraps
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import Form, everything, identity
from whence.arrays.graph import Edge, Node, influence, joint, lined_up, shape_from
from whence.arrays.memory import Array, owner
from whence.arrays.session import Reach, Session
from whence.arrays.tracked import (
    PYTHON,
    FunctionRule,
    TrackedArray,
    is_tracked,
    raw,
    tracked_in,
)

Function = Callable[..., Any]
_NUMBERS = (bool, int, float, complex)
_HOLDERS = (list, tuple, dict, set, type(None))


def finish(
    session: Session,
    result: Any,
    edges: list[Edge],
    op: str,
    args: Sequence[Any] = (),
    sized_by: Sequence[Node] = (),
) -> Any:
    """Wrap a plain result whose edges are known; `args` are what it was made from.

    The values of `sized_by`, arrays or shapes, decided its shape.
    """
    if isinstance(result, np.ndarray):
        data, scalar = result, False
    elif isinstance(result, np.generic):
        data, scalar = np.asarray(result), True
    else:
        return _plain(session, result, [*edges, *session.decided(())], op)
    if session.left and has_untracked(args):
        edges = [*edges, *session.tainted(data.shape)]
    if session.deciding:
        edges = [*edges, *session.decided(data.shape)]
    loose = _shape_behind(edges, (*sized_by, *session.deciding))
    if loose is not None:
        edges = [*edges, influence(loose, data.shape)]
    node = Node(data.shape, edges, op, None, None if scalar else loose)
    made = TrackedArray(data, node, session, scalar)
    if not scalar and (data.base is not None or _is_operand(data, args)):
        link_views(session, made, args)
    return made


def python(
    session: Session, value: Any, edges: list[Edge], op: str, args: Sequence[Any] = ()
) -> Any:
    """Wrap an object of Python: NumPy and Python take it for one, so it does not make types wider.

    What holds others, such as a list, is handed out as it is; so is None, which code asks for.
    """
    if isinstance(value, _HOLDERS):
        session.escape(Node((), edges, op), op)
        return value
    if session.left and has_untracked(args):
        edges = [*edges, *session.tainted(())]
    session.numbers = True
    data = np.asarray(value, dtype=None if isinstance(value, _NUMBERS) else object)
    return TrackedArray(data, Node((), edges, op), session, PYTHON)


def _is_operand(data: Array, args: Sequence[Any]) -> bool:
    """Whether a function gave back the very array it got."""
    return any(type(operand) is TrackedArray and operand.data_ is data for operand in args)


def _shape_behind(edges: Iterable[Edge], sized_by: Sequence[Node] = ()) -> Node | None:
    """What decided the shapes of operands, and of the result: it has a say in all its cells."""
    found = shape_from(sized_by) if sized_by else None
    for edge in edges:
        if edge.parent.loose is not None:
            found = joint(found, edge.parent.loose)
    return found


def with_shapes(edges: list[Edge], shape: Shape) -> list[Edge]:
    """Edges, and influence of what decided the shapes of the operands."""
    loose = _shape_behind(edges)
    return edges if loose is None else [*edges, influence(loose, shape)]


def _plain(session: Session, result: Any, edges: list[Edge], op: str) -> Any:
    """A result that is no array (a Python number, a string): its values have left."""
    if result is not None:
        for edge in edges:
            session.escape(edge.parent, op)
    return result


def link_views(session: Session, made: TrackedArray, args: Sequence[Any]) -> None:
    """Note which operands a result shares memory with."""
    whose = owner(made.data_)
    for operand in tracked_in(list(args)):
        if operand is not made and owner(operand.data_) is whose:
            session.link(operand, made)


def has_untracked(value: Any) -> bool:
    """Whether there are plain numbers or arrays in a value, which may hold what left before."""
    kind = type(value)
    if kind is tuple or kind is list:
        return any(has_untracked(item) for item in value)
    if kind is dict:
        return any(has_untracked(item) for item in value.values())
    if kind is slice:
        return has_untracked((value.start, value.stop, value.step))
    return isinstance(value, np.ndarray | np.generic | int | float | complex) and kind is not bool


def describe(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """np.shape, np.ndim and the like: no values, unless values decided the shape."""
    session.narrow(Reach.BETWEEN)
    for operand in tracked_in([args, kwargs]):
        session.look_at_shape(operand.node_)
    return plain_call(func, args, kwargs)


def sharing(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """np.shares_memory and kin."""
    session.narrow(Reach.NOWHERE)
    return describe(session, func, args, kwargs)


def verdict(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """np.allclose and the like give a plain truth value: a branch on all cells of the operands."""
    for operand in tracked_in([args, kwargs]):
        session.branch_on(operand.node_)
    return plain_call(func, args, kwargs)


def shapes_differ(operands: Iterable[Any]) -> bool:
    """Whether operands have shapes that do not go together, whatever their values."""
    try:
        np.broadcast_shapes(*(np.shape(raw(operand)) for operand in operands))
    except ValueError:
        return True
    return False


def shape_of(result: Any) -> Shape:
    """Shape of a plain result; a number has none."""
    return getattr(result, "shape", ())


@cache
def _signature(func: Function) -> inspect.Signature | None:
    try:
        return inspect.signature(func)
    except (TypeError, ValueError):
        return None


def bind(
    func: Function, args: tuple[Any, ...], kwargs: dict[str, Any], names: Sequence[str] = ()
) -> dict[str, Any]:
    """Arguments by name, with defaults; `names` serves functions that tell no signature."""
    signature = _signature(func)
    if signature is None:
        return {**dict(zip(names, args, strict=False)), **kwargs}
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    out: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            out.update(value)
        else:
            out[name] = value
    return out


def same_cells(operand: TrackedArray, shape: Shape, contributing: bool = True) -> Edge:
    """An edge for an operand that is broadcast to the result."""
    return Edge(operand.node_, lined_up(shape, operand.data_.shape), contributing)


def all_cells(operand: TrackedArray, shape: Shape, contributing: bool = True, **more: Any) -> Edge:
    """An edge from every cell of an operand to every cell of the result."""
    rule = partial(everything, shape, operand.data_.shape)
    return Edge(operand.node_, rule, contributing, **more)


def key_edge(key: TrackedArray, shape: Shape) -> Edge:
    """Influence of an index array: its own cell if laid over the result, else all its cells."""
    if key.data_.dtype != bool and key.data_.shape == shape:
        return same_cells(key, shape, contributing=False)
    return all_cells(key, shape, contributing=False)


def through(operand: TrackedArray, rule: Callable[[], Form], **more: Any) -> Edge:
    """An edge with a rule of its own."""
    return Edge(operand.node_, rule, **more)


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Axis arguments as a tuple of non-negative numbers; None is all."""
    if axis is None:
        return tuple(range(ndim))
    listed = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(sorted(int(a) % ndim if ndim else 0 for a in listed)) if ndim else ()


def keeps_axes(options: dict[str, Any]) -> bool:
    """Whether reduced axes stay, with size 1: any true value of `keepdims` says so."""
    value = options.get("keepdims")
    return value is not np._NoValue and bool(value)


def steer(edges: list[Edge], operands: Iterable[Any], shape: Shape) -> list[Edge]:
    """Add influence of every cell of the tracked operands."""
    return edges + [all_cells(t, shape, False) for t in tracked_in(list(operands))]


def plain_call(func: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The function itself, on plain arrays."""
    return func(*raw(args), **raw(kwargs)) if kwargs else func(*raw(args))


def name_of(func: Any) -> str:
    """`numpy.sum` for np.sum: how an operation is called in notes."""
    module = getattr(func, "__module__", None) or "numpy"
    return f"{module}.{getattr(func, '__name__', repr(func))}"


def store(
    session: Session, out: Any, result: Any, edges: list[Edge], op: str, args: Sequence[Any]
) -> Any:
    """Put a result into an `out=` array that has been written already."""
    edges = [*edges, *session.decided(np.shape(raw(out)))]
    if type(out) is TrackedArray:
        if session.left and has_untracked(args):
            edges = [*edges, *session.tainted(out.data_.shape)]
        session.overwrite(out, Node(out.data_.shape, with_shapes(edges, out.data_.shape), op), None)
        return out
    for edge in edges:
        session.escape(edge.parent, f"{op} with out= a plain array")
    return out


def writing_out(session: Session, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> Any:
    """The function itself, after what its `out=` overwrites has been kept for those who need it."""
    if (target := one_out(out)) is not None:
        session.before_write(raw(target))
    return plain_call(func, args, kwargs)


def detached(array: TrackedArray) -> TrackedArray:
    """The same cells in memory of their own: what is written there or here is not seen beyond."""
    return TrackedArray(array.data_.copy(), array.node_, array.session_)


def frozen(session: Session, operand: Any, outs: Sequence[Any]) -> Any:
    """An operand that is written over keeps its node for the edges, and its values for a choice."""
    if type(operand) is TrackedArray and any(
        o is not None and np.may_share_memory(raw(o), operand.data_) for o in outs
    ):
        return detached(operand)
    return operand


def finish_out(
    session: Session, result: Any, edges: list[Edge], op: str, args: Sequence[Any], out: Any
) -> Any:
    """`finish`, or `store` where an `out=` was given."""
    if (target := one_out(out)) is None or _is_apart(result, raw(target)):
        return finish(session, result, edges, op, args)
    return store(session, target, result, edges, op, args)


def _is_apart(result: Any, target: Array) -> bool:
    """Whether a function gave something else than the `out=` that it took."""
    if result is target or not isinstance(result, np.ndarray) or not result.size:
        return False
    return not np.may_share_memory(result, target)


def one_out(out: Any) -> Any:
    """The array that `out=` names; a ufunc has it in a tuple."""
    return out[0] if isinstance(out, tuple) else out


def is_among(out: Any, operands: Iterable[TrackedArray]) -> bool:
    """Whether `out=` lies in the memory of an operand."""
    return out is not None and any(np.may_share_memory(raw(out), t.data_) for t in operands)


def out_among(session: Session, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> Any:
    """A function that may read what it has written: any cell may have come from any."""
    target, op = raw(out), name_of(func)
    doubt = f"{op} with out= in the memory of an operand"
    operands = tracked_in([args, kwargs])
    edges = [all_cells(operand, target.shape, doubt=doubt) for operand in operands]
    session.before_write(target)
    plain_call(func, args, kwargs)
    return store(session, out, target, edges, op, args)


def into_out(rule: FunctionRule) -> FunctionRule:
    """`out=` for a rule that knows nothing of it: what is made is put there."""

    @wraps(rule)
    def call(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
        out = None
        if "out" in kwargs:
            out, kwargs = kwargs["out"], {k: v for k, v in kwargs.items() if k != "out"}
        elif len(args) > 2 and "out" in getattr(_signature(func), "parameters", ()):
            bound = bind(func, args, kwargs)
            if bound["out"] is not None:
                out, args, kwargs = bound.pop("out"), (), bound
        if is_among(out, tracked_in([args, kwargs])):
            return out_among(session, func, args, {**kwargs, "out": out}, out)
        made = rule(session, func, args, kwargs)
        if out is None:
            return made
        target, value = raw(out), raw(made)
        session.before_write(target)
        alike = target.shape == np.shape(value)
        if alike and target.dtype == np.asarray(value).dtype:
            target[...] = value
        else:  # each function has its own rules for what fits
            plain_call(func, args, {**kwargs, "out": target})
        if alike:
            edges = [Edge(made.node_, partial(identity, target.shape))] if is_tracked(made) else []
        else:  # and for which of its cells are written
            doubt = f"{name_of(func)} with out= of another shape"
            operands = tracked_in([made, out])
            edges = [all_cells(operand, target.shape, doubt=doubt) for operand in operands]
        return store(session, out, target, edges, name_of(func), (made,))

    return call


def lifted(session: Session, value: Any) -> TrackedArray:
    """A value as a tracked array; one that is not tracked comes from nowhere, or from what left."""
    if type(value) is TrackedArray:
        return value
    data = np.asarray(value)
    return TrackedArray(data, Node(data.shape, session.tainted(data.shape), "constant"), session)


def lanes(array: Array, axes: tuple[int, ...]) -> Array:
    """The array with the reduced axes flattened into one last axis."""
    kept = [i for i in range(array.ndim) if i not in axes]
    moved = np.transpose(array, [*kept, *axes])
    length = int(np.prod([array.shape[i] for i in axes], dtype=np.int64))
    return moved.reshape([array.shape[i] for i in kept] + [length])


def positions(shape: Shape) -> Array:
    """Flat positions laid out in an array's shape."""
    return np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(shape)
