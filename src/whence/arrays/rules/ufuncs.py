"""Universal functions: element-wise calls, and their reduce, accumulate, outer, reduceat and at."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import Form, Gather, identity
from whence.arrays.graph import EachCell, Edge, Held, Node, joint, lined_up
from whence.arrays.memory import Array
from whence.arrays.rules.base import (
    finish,
    has_untracked,
    positions,
    same_cells,
    shapes_differ,
    store,
    with_shapes,
)
from whence.arrays.rules.reduce import (
    Pick,
    beside,
    reduce_edges,
    scanned,
    segments,
)
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in

_PICKS: dict[np.ufunc, Pick] = {
    np.maximum: "max",
    np.fmax: "max",
    np.minimum: "min",
    np.fmin: "min",
}
_BLOCK = 1 << 14  # cells that the inner caches hold of both operands and the result
_IN_BLOCKS = 1 << 19  # fewer cells stay in the outer caches, and take less time as a whole
_BITS = {np.dtype(f"f{size}"): np.dtype(f"i{size}") for size in (2, 4, 8)}
_NUMPY = (np.ndarray, np.generic)
CHOICES = frozenset({np.maximum, np.minimum, np.fmax, np.fmin})


def call(self: TrackedArray, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """`__array_ufunc__`: run a ufunc (or one of its methods) and record where its cells are from.

    An element-wise call that makes a new array, the common case, takes as few steps as can be.
    """
    session = self.session_
    if session.frames and _others_turn(inputs):
        return NotImplemented
    try:
        if method != "__call__" or kwargs or session.left or ufunc.signature or ufunc in CHOICES:
            return (
                NotImplemented
                if _others_turn(inputs)
                else _other(session, ufunc, method, inputs, kwargs)
            )
        plain, operands, loose = [], [], None
        for operand in inputs:
            if type(operand) is TrackedArray:
                node = operand.node_
                operands.append(node)
                if node.loose is not None:
                    loose = joint(loose, node.loose)
                plain.append(operand.data_)
            else:
                plain.append(operand)
        result = ufunc(*plain)
    except Exception as error:
        given = tracked_in([*inputs, kwargs])
        each_cell = method == "__call__" and ufunc.signature is None
        looked_at = [] if each_cell and shapes_differ(inputs) else given
        session.raised(error, looked_at, *[operand.node_ for operand in given])
        raise
    if type(result) is not np.ndarray:
        return NotImplemented if _others_turn(inputs) else _wrap(session, ufunc, inputs, result)
    node = EachCell(result.shape, operands, ufunc.__name__, loose)
    return TrackedArray(result, node, session)


def _others_turn(inputs: tuple[Any, ...]) -> bool:
    """Whether an operand holds arrays itself, as a pandas column does: it knows what to do."""
    return any(
        hasattr(kind, "__array_ufunc__")
        for kind in map(type, inputs)
        if kind is not TrackedArray and not issubclass(kind, _NUMPY)
    )


def _other(
    session: Session, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    match method:
        case "__call__" if ufunc.signature is not None:
            from whence.arrays.rules.linear import gufunc

            return gufunc(session, ufunc, inputs, kwargs)
        case "__call__" if "out" in kwargs or "where" in kwargs:
            return _call_out(session, ufunc, inputs, kwargs)
        case "__call__" if ufunc in CHOICES:
            return _choice(session, ufunc, inputs, kwargs)
        case "__call__":
            return _wrap(session, ufunc, inputs, ufunc(*[raw(x) for x in inputs], **kwargs))
        case "reduce":
            return _reduce(session, ufunc, inputs, kwargs)
        case "accumulate":
            return _accumulate(session, ufunc, inputs, kwargs)
        case "outer":
            return _outer(session, ufunc, inputs, kwargs)
        case "reduceat":
            return _reduceat(session, ufunc, inputs, kwargs)
        case "at":
            return _at(session, ufunc, inputs)
        case _:
            return NotImplemented


def _wrap(session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], result: Any) -> Any:
    if type(result) is tuple:
        return tuple(_wrap(session, ufunc, inputs, part) for part in result)
    if not hasattr(result, "shape"):  # object arrays give Python objects
        result = np.asarray(result, dtype=object)
    edges = [same_cells(x, result.shape) for x in inputs if type(x) is TrackedArray]
    return finish(session, result, edges, ufunc.__name__, inputs)


class Choice(Node):
    """An array each of whose cells is that of one of two operands (None: one that is not tracked).

    As with `EachCell`, its edges are made when asked for; `first` says where the first was taken.
    """

    __slots__ = ("first", "operands")

    def __init__(
        self,
        shape: Shape,
        operands: Sequence[Node | None],
        op: str,
        loose: Node | None,
        first: Array,
    ) -> None:
        self.shape, self.op, self.label, self.loose = shape, op, None, loose
        self.operands, self.first = operands, first

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Two for each operand that is tracked."""
        try:
            return self._edges
        except AttributeError:
            self._edges = tuple(choice_edges(self.op, self.operands, self.shape, self.first))
            return self._edges


def _choice(session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: Any) -> Any:
    """The larger or smaller of two operands, and which of them it is, cell by cell."""
    plain = [raw(x) for x in inputs]
    found = None if kwargs else _chosen_in_blocks(ufunc, *plain)
    if found is None:
        result = ufunc(*plain, **kwargs)
        found = result, took_first(ufunc, plain[0], plain[1], result)
    result, first = found
    operands, op = _nodes(inputs), ufunc.__name__
    if type(result) is np.ndarray and not session.left:
        loose = reduce(joint, [node.loose for node in operands if node is not None], None)
        return TrackedArray(result, Choice(result.shape, operands, op, loose, first), session)
    if not hasattr(result, "shape"):  # object arrays give Python objects
        result = np.asarray(result, dtype=object)
    return finish(session, result, choice_edges(op, operands, result.shape, first), op, inputs)


def _nodes(inputs: tuple[Any, ...]) -> list[Node | None]:
    """The nodes of the two operands, where they are tracked."""
    return [x.node_ if type(x) is TrackedArray else None for x in inputs[:2]]


def _chosen_in_blocks(ufunc: np.ufunc, one: Any, two: Any) -> tuple[Array, Array] | None:
    """A large result and where it is the first operand's, found while both are in the caches."""
    if type(one) is not np.ndarray or type(two) is not np.ndarray or one.size < _IN_BLOCKS:
        return None
    alike = one.shape == two.shape and one.dtype == two.dtype and one.dtype in _BITS
    if not alike or not one.flags.c_contiguous or not two.flags.c_contiguous:
        return None
    result, first = np.empty(one.shape, one.dtype), np.empty(one.shape, bool)
    bits = _BITS[one.dtype]
    arrays = [a.reshape(-1) for a in (one, two, result, first)]
    whole = one.size - one.size % _BLOCK
    columns = [a[:whole].reshape(-1, _BLOCK) for a in arrays]
    for a, b, c, a_bits, c_bits, same in zip(
        *columns[:3], columns[0].view(bits), columns[2].view(bits), columns[3], strict=True
    ):
        ufunc(a, b, out=c)
        np.equal(a_bits, c_bits, out=same)
    a, b, c, same = (a[whole:] for a in arrays)
    ufunc(a, b, out=c)
    np.equal(a.view(bits), c.view(bits), out=same)
    return result, first


def choice_edges(
    op: str, operands: Sequence[Node | None], shape: Shape, first: Array
) -> list[Edge]:
    """Of two operands the chosen one contributes, cell by cell; both were looked at."""
    held = Held(first)
    edges = []
    for which, node in enumerate(operands):
        if node is not None:
            rule = partial(chosen, held, which, shape, node.shape)
            edges.append(Edge(node, rule, by_values=True, recipe=("pair", op, which)))
            edges.append(Edge(node, lined_up(shape, node.shape), False))
    return edges


def chosen(held: Held, which: int, shape: Shape, in_shape: Shape) -> Form:
    """The cells of one operand where it was chosen; what is held says where the first was."""
    first = np.broadcast_to(held.arrays[0], shape)
    index = np.broadcast_to(positions(in_shape), shape)
    return Gather(shape, in_shape, np.where(first == (which == 0), index, -1))


def took_first(ufunc: np.ufunc, one: Any, two: Any, result: Any) -> Array:
    """Where a choosing ufunc took its first operand: there the result has the same bits."""
    same = isinstance(one, np.ndarray) and isinstance(result, np.ndarray)
    if same and one.dtype == result.dtype and one.dtype in _BITS:
        bits = _BITS[one.dtype]
        found: Array = result.view(bits) == one.view(bits)
        return found
    return prefers_first(ufunc, one, two)


def prefers_first(ufunc: np.ufunc, one: Any, two: Any) -> Array:
    """Where a choosing ufunc takes its first operand; ties go to the first."""
    one, two = np.asarray(one), np.asarray(two)
    larger = ufunc in (np.maximum, np.fmax)
    missing = two if ufunc in (np.fmax, np.fmin) else one
    with np.errstate(all="ignore"):
        wins = np.asarray(one >= two if larger else one <= two, dtype=bool)
        if missing.dtype.kind == "f":
            total = np.add.reduce(missing, axis=None)
            if total == total:  # a sum that is a number has no NaN in it, and costs less to ask
                return wins
    if missing.dtype.kind in "fcmM":
        wins |= np.isnat(missing) if missing.dtype.kind in "mM" else np.isnan(missing)
    return wins


def _call_out(
    session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """With `out=` or `where=`: cells that are not computed keep what the output held."""
    outs = kwargs.get("out") or ()
    outs = outs if isinstance(outs, tuple) else (outs,)
    where = kwargs.get("where", True)
    before = [o.node_ if type(o) is TrackedArray else None for o in outs]
    for target in outs:
        if target is not None:
            session.before_write(raw(target))
    old_inputs = tuple(_frozen(session, x, outs) for x in inputs)
    edges = _edges(ufunc, old_inputs, _broadcast_shape((*inputs, where), outs))
    plain = [raw(x) for x in inputs]
    result = ufunc(*plain, **{k: raw(v) for k, v in kwargs.items()})
    results = result if isinstance(result, tuple) else (result,)
    made = []
    for i, part in enumerate(results):
        target = outs[i] if i < len(outs) else None
        mine = edges if where is True else _masked(session, edges, where, part.shape)
        if target is None:
            made.append(finish(session, part, mine, ufunc.__name__, inputs))
            continue
        node = before[i]
        if where is not True and node is not None:
            mine = [*mine, _kept(session, node, where, part.shape)]
        made.append(store(session, target, part, mine, ufunc.__name__, inputs))
    return made[0] if len(made) == 1 else tuple(made)


def _frozen(session: Session, operand: Any, outs: tuple[Any, ...]) -> Any:
    """An operand that is written over keeps its node for the edges, and its values for a choice."""
    if type(operand) is TrackedArray and any(
        o is not None and np.may_share_memory(raw(o), operand.data_) for o in outs
    ):
        return TrackedArray(operand.data_.copy(), operand.node_, session)
    return operand


def _broadcast_shape(inputs: tuple[Any, ...], outs: tuple[Any, ...]) -> Shape:
    shapes = [np.shape(raw(x)) for x in inputs]
    shapes += [raw(o).shape for o in outs if o is not None]
    return np.broadcast_shapes(*shapes)


def _edges(ufunc: np.ufunc, inputs: tuple[Any, ...], shape: Shape) -> list[Edge]:
    if ufunc in CHOICES:
        first = prefers_first(ufunc, raw(inputs[0]), raw(inputs[1]))
        return choice_edges(ufunc.__name__, _nodes(inputs), shape, first)
    return [same_cells(x, shape) for x in inputs if type(x) is TrackedArray]


def _masked(session: Session, edges: list[Edge], where: Any, shape: Shape) -> list[Edge]:
    held = session.hold(raw(where))
    cut = [
        Edge(e.parent, partial(_where_form, e, held, shape, True), e.contributing, True, e.doubt)
        for e in edges
    ]
    return cut + [same_cells(w, shape, contributing=False) for w in tracked_in(where)]


def _kept(session: Session, node: Node, where: Any, shape: Shape) -> Edge:
    whole = Edge(node, partial(identity, shape))
    return Edge(
        node, partial(_where_form, whole, session.hold(raw(where)), shape, False), True, True
    )


def _where_form(edge: Edge, held: Held, shape: Shape, wanted: bool) -> Form:
    from whence.arrays.compose import compose

    mask = np.broadcast_to(np.asarray(held.arrays[0], dtype=bool), shape) == wanted
    return compose(Gather(shape, shape, np.where(mask, positions(shape), -1)), edge.form())


def _reduce(
    session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    out = _only(kwargs.get("out"))
    if out is not None:
        session.before_write(raw(out))
    array = inputs[0]
    options = {k: v for k, v in kwargs.items() if k != "out"}
    names = ("axis", "dtype", "out", "keepdims", "initial", "where")
    options.update(zip(names, inputs[1:], strict=False))
    options.setdefault("axis", 0)
    edges = []
    plain = ufunc.reduce(raw(array), **{k: raw(v) for k, v in kwargs.items() if k != "out"})
    if type(array) is TrackedArray:
        pick = _PICKS.get(ufunc)
        edges = reduce_edges(session, array, plain, options, pick)
    edges += beside(array, options, plain)
    if out is not None:
        raw(out)[...] = plain
        return store(session, out, plain, edges, f"{ufunc.__name__}.reduce", inputs)
    return finish(session, plain, edges, f"{ufunc.__name__}.reduce", inputs)


def _only(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) else out


def _accumulate(
    session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    array = inputs[0]
    axis = kwargs.get("axis", inputs[1] if len(inputs) > 1 else 0)
    out = _only(kwargs.get("out"))
    node = array.node_ if type(array) is TrackedArray else None
    if out is not None:
        session.before_write(raw(out))
    result = ufunc.accumulate(*raw(inputs), **raw(kwargs))
    edges = [] if node is None else [Edge(node, partial(scanned, result.shape, axis))]
    if node is not None and ufunc in CHOICES:
        from whence.arrays.rules.order import running_choice

        held = session.hold(array.data_, result)
        rule = partial(running_choice, held, axis)
        edges = [Edge(node, rule, by_values=True), Edge(node, edges[0].rule, False)]
    op = f"{ufunc.__name__}.accumulate"
    if out is not None:
        return store(session, out, result, edges, op, inputs)
    return finish(session, result, edges, op, inputs)


def _outer(
    session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    one, two = inputs
    left, right = np.ndim(raw(one)), np.ndim(raw(two))
    first = one[(...,) + (None,) * right] if type(one) is TrackedArray else (
        np.reshape(one, np.shape(one) + (1,) * right)
    )  # fmt: skip
    second = two[(None,) * left + (...,)] if type(two) is TrackedArray else two
    return ufunc(first, second, **kwargs)


def _reduceat(
    session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    array, indices = inputs[0], inputs[1]
    axis = kwargs.get("axis", inputs[2] if len(inputs) > 2 else 0)
    out = _only(kwargs.get("out"))
    node = array.node_ if type(array) is TrackedArray else None
    if out is not None:
        session.before_write(raw(out))
    result = ufunc.reduceat(*raw(inputs), **raw(kwargs))
    op = f"{ufunc.__name__}.reduceat"
    edges = []
    if node is not None:
        held = session.hold(np.array(raw(indices)))
        rule = partial(segments, held, result.shape, node.shape, axis)
        doubt = f"{op}, which picks one of a segment" if ufunc in CHOICES else ""
        edges.append(Edge(node, rule, doubt=doubt))
    edges += [same_for(t, result.shape) for t in tracked_in(indices)]
    if out is not None:
        return store(session, out, result, edges, op, inputs)
    return finish(session, result, edges, op, inputs)


def same_for(operand: TrackedArray, shape: Shape) -> Edge:
    """Influence of every cell of an operand that steers where things go."""
    from whence.arrays.rules.base import all_cells

    return all_cells(operand, shape, False)


def _at(session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...]) -> None:
    """`ufunc.at(target, key, value)`: the target keeps its cells and gains those of the value."""
    target, key = inputs[0], inputs[1]
    session.before_write(raw(target))
    ufunc.at(*raw(inputs))
    if type(target) is not TrackedArray:
        for operand in tracked_in(list(inputs)):
            session.escape(operand.node_, f"{ufunc.__name__}.at on a plain array")
        return
    shape = target.data_.shape
    doubt = f"{ufunc.__name__}.at, which picks one of two" if ufunc in CHOICES else ""
    edges = [Edge(target.node_, partial(identity, shape), doubt=doubt)]
    if session.left and has_untracked(inputs[1:]):
        edges += session.tainted(shape)
    held = session.hold(*(raw(key) if isinstance(key, tuple) else (raw(key),)))
    for value in inputs[2:]:
        if type(value) is TrackedArray:
            rule = partial(_added, held, isinstance(key, tuple), shape, value.data_.shape)
            edges.append(Edge(value.node_, rule, by_values=True, doubt=doubt))
    edges += [same_for(t, shape) for t in tracked_in(key)]
    node = Node(shape, with_shapes(edges, shape), f"{ufunc.__name__}.at")
    session.overwrite(target, node, None)


def _added(held: Held, is_tuple: bool, shape: Shape, in_shape: Shape) -> Form:
    from whence.arrays.forms import pairs

    key = tuple(held.arrays) if is_tuple else held.arrays[0]
    target = positions(shape)[key]
    source = np.broadcast_to(positions(in_shape), target.shape)
    return pairs(shape, in_shape, target.reshape(-1), source.reshape(-1))
