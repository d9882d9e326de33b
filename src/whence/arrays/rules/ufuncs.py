"""Universal functions: element-wise calls, and their reduce, accumulate, outer, reduceat and at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import Form, Gather, identity
from whence.arrays.graph import EachCell, Edge, Held, Node, joint, lined_up
from whence.arrays.memory import Array
from whence.arrays.rules.arguments import as_array, own, settled
from whence.arrays.rules.base import (
    finish,
    finish_out,
    frozen,
    has_untracked,
    one_out,
    positions,
    python,
    same_cells,
    shape_of,
    shapes_differ,
    store,
    with_shapes,
    writing_out,
)
from whence.arrays.rules.reduce import (
    Pick,
    beside,
    reduce_edges,
    scanned,
    segments,
)
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, bare, new, raw, tracked_in

_PICKS: dict[np.ufunc, Pick] = {
    np.maximum: "max",
    np.fmax: "max",
    np.minimum: "min",
    np.fmin: "min",
}
_BLOCK = 1 << 15  # cells that the inner caches hold of both operands and the result
_IN_BLOCKS = 1 << 19  # fewer cells stay in the outer caches, and take less time as a whole
_BITS = {np.dtype(f"f{size}"): np.dtype(f"i{size}") for size in (2, 4, 8)}
_NUMPY = (np.ndarray, np.generic)
CHOICES = frozenset({np.maximum, np.minimum, np.fmax, np.fmin})
_NUMPYS = frozenset(ufunc for ufunc in vars(np).values() if isinstance(ufunc, np.ufunc))
_EACH_CELL = frozenset(ufunc for ufunc in _NUMPYS if not ufunc.signature) - CHOICES


def call(self: TrackedArray, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """`__array_ufunc__`: run a ufunc (or one of its methods) and record where its cells are from.

    An element-wise call that makes a new array, the common case, takes as few steps as can be.
    """
    session = self.session_
    if session.frames and _others_turn(inputs):
        return NotImplemented
    try:
        special = kwargs or session.left or session.numbers
        if special or method != "__call__" or ufunc not in _EACH_CELL:
            return (
                NotImplemented
                if _others_turn(inputs)
                else _other(session, ufunc, method, inputs, kwargs)
            )
        plain, operands, loose = [], [], None
        for operand in inputs:
            kind = type(operand)
            if kind is TrackedArray:
                node = operand.node_
                operands.append(node)
                if node.loose is not None:
                    loose = joint(loose, node.loose)
                plain.append(operand.data_)
            elif kind is list or kind is tuple:
                return _other(session, ufunc, method, inputs, kwargs)
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
    node = new(EachCell)
    node.shape, node.op, node.label = result.shape, ufunc.__name__, None
    node.operands, node.loose = operands, loose
    made = new(TrackedArray)
    made.data_, made.node_, made.session_, made.scalar_ = result, node, session, False
    return made


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
    if ufunc not in _NUMPYS and set("".join(ufunc.types)) == {*"O->"}:
        for operand in tracked_in([inputs, kwargs]):  # a function of Python, made a ufunc
            session.escape(operand.node_, ufunc.__name__)
    rule = _METHODS.get(method)
    return NotImplemented if rule is None else rule(session, ufunc, inputs, kwargs)


def _called(
    session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    if ufunc.signature is not None:
        from whence.arrays.rules.linear import gufunc

        return gufunc(session, ufunc, inputs, kwargs)
    if "out" in kwargs or "where" in kwargs:
        return _call_out(session, ufunc, inputs, kwargs)
    if ufunc in CHOICES:
        return _choice(session, ufunc, inputs, kwargs)
    return _wrap(session, ufunc, inputs, ufunc(*[raw(x) for x in inputs], **kwargs))


def _wrap(session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], result: Any) -> Any:
    if type(result) is tuple:
        return tuple(_wrap(session, ufunc, inputs, part) for part in result)
    if type(result) is TrackedArray:
        return result
    if type(result) is np.ndarray and result.dtype == object and ufunc not in _NUMPYS:
        return _told(session, ufunc, inputs, result)
    edges = [same_cells(x, shape_of(result)) for x in inputs if type(x) is TrackedArray]
    made = finish if hasattr(result, "shape") else python  # object arrays give Python objects
    return made(session, result, edges, ufunc.__name__, inputs)


def _told(session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], result: Array) -> Any:
    """What a function of Python gave, cell by cell: it may have given tracked values."""
    for place, item in enumerate(result.flat):
        if type(item) is TrackedArray:
            session.escape(item.node_, ufunc.__name__)
            result.flat[place] = bare(item)
    edges = [same_cells(x, result.shape) for x in inputs if type(x) is TrackedArray]
    edges += session.tainted(result.shape)
    return finish(session, result, edges, ufunc.__name__)


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
    made = finish if hasattr(result, "shape") else python  # object arrays give Python objects
    edges = choice_edges(op, operands, shape_of(result), first)
    return made(session, result, edges, op, inputs)


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
    mask = Held(own(where))
    before = [o.node_ if type(o) is TrackedArray else None for o in outs]
    for target in outs:
        if target is not None:
            session.before_write(raw(target))
    old_inputs = tuple(frozen(session, x, outs) for x in inputs)
    plain = [raw(x) for x in inputs]
    result = ufunc(*plain, **{k: raw(v) for k, v in kwargs.items()})
    edges = _edges(ufunc, old_inputs, _broadcast_shape((*inputs, where), outs))
    results = result if isinstance(result, tuple) else (result,)
    made = []
    for i, part in enumerate(results):
        target = outs[i] if i < len(outs) else None
        mine = edges if where is True else _masked(edges, where, mask, part.shape)
        if target is None:
            made.append(finish(session, part, mine, ufunc.__name__, inputs))
            continue
        node = before[i]
        if where is not True and node is not None:
            mine = [*mine, _kept(node, mask, part.shape)]
        made.append(store(session, target, part, mine, ufunc.__name__, inputs))
    return made[0] if len(made) == 1 else tuple(made)


def in_place(function: Callable[..., Any], ufunc: np.ufunc, target: Any, other: Any) -> Any:
    """`target = function(target, other)`, written into it, for what is more than a ufunc."""
    session, inputs = target.session_, (target, other)
    session.before_write(target.data_)
    edges = _edges(ufunc, inputs, target.data_.shape)
    try:
        function(target.data_, raw(other))
    except Exception as error:
        session.raised(error, tracked_in(inputs))
        raise
    return store(session, target, target.data_, edges, ufunc.__name__, inputs)


def _broadcast_shape(inputs: tuple[Any, ...], outs: tuple[Any, ...]) -> Shape:
    shapes = [np.shape(raw(x)) for x in inputs]
    shapes += [raw(o).shape for o in outs if o is not None]
    return np.broadcast_shapes(*shapes)


def _edges(ufunc: np.ufunc, inputs: tuple[Any, ...], shape: Shape) -> list[Edge]:
    if ufunc in CHOICES:
        first = prefers_first(ufunc, raw(inputs[0]), raw(inputs[1]))
        return choice_edges(ufunc.__name__, _nodes(inputs), shape, first)
    return [same_cells(x, shape) for x in inputs if type(x) is TrackedArray]


def _masked(edges: list[Edge], where: Any, held: Held, shape: Shape) -> list[Edge]:
    cut = [
        Edge(e.parent, partial(_where_form, e, held, shape, True), e.contributing, True, e.doubt)
        for e in edges
    ]
    return cut + [same_cells(w, shape, contributing=False) for w in tracked_in(where)]


def _kept(node: Node, held: Held, shape: Shape) -> Edge:
    whole = Edge(node, partial(identity, shape))
    return Edge(node, partial(_where_form, whole, held, shape, False), True, True)


def _where_form(edge: Edge, held: Held, shape: Shape, wanted: bool) -> Form:
    from whence.arrays.compose import compose

    mask = np.broadcast_to(np.asarray(held.arrays[0], dtype=bool), shape) == wanted
    return compose(Gather(shape, shape, np.where(mask, positions(shape), -1)), edge.form())


def _reduce(
    session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    array, op = inputs[0], f"{ufunc.__name__}.reduce"
    names = ("axis", "dtype", "out", "keepdims", "initial", "where")
    given = {**dict(zip(names, inputs[1:], strict=False)), **kwargs}
    out, options = given.get("out"), {"axis": 0, **given}
    before = frozen(session, array, [one_out(out)])
    plain = writing_out(session, ufunc.reduce, (array,), given, out)
    edges = []
    if type(array) is TrackedArray:
        edges = reduce_edges(session, before, plain, options, _PICKS.get(ufunc))
    edges += beside(array, options, plain)
    return finish_out(session, plain, edges, op, inputs, out)


def _accumulate(
    session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    axis = kwargs.get("axis", inputs[1] if len(inputs) > 1 else 0)
    out = kwargs.get("out")
    array = frozen(session, inputs[0], [one_out(out)])
    result = writing_out(session, ufunc.accumulate, inputs, kwargs, out)
    edges = []
    if type(array) is TrackedArray:
        edges = [Edge(array.node_, partial(scanned, result.shape, axis))]
    if edges and ufunc in CHOICES:
        from whence.arrays.rules.order import running_choice

        held = session.hold(array.data_, result)
        rule = partial(running_choice, held, axis)
        edges = [Edge(array.node_, rule, by_values=True), Edge(array.node_, edges[0].rule, False)]
    return finish_out(session, result, edges, f"{ufunc.__name__}.accumulate", inputs, out)


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
    out, op = kwargs.get("out"), f"{ufunc.__name__}.reduceat"
    held = Held(own(indices))
    result = writing_out(session, ufunc.reduceat, inputs, kwargs, out)
    edges = []
    if type(array) is TrackedArray:
        rule = partial(segments, held, result.shape, array.data_.shape, axis)
        doubt = f"{op}, which picks one of a segment" if ufunc in CHOICES else ""
        by_values = bool(tracked_in(indices))
        edges.append(Edge(array.node_, rule, by_values=by_values, doubt=doubt))
    edges += [same_for(t, result.shape) for t in tracked_in(indices)]
    return finish_out(session, result, edges, op, inputs, out)


def same_for(operand: TrackedArray, shape: Shape) -> Edge:
    """Influence of every cell of an operand that steers where things go."""
    from whence.arrays.rules.base import all_cells

    return all_cells(operand, shape, False)


def _at(session: Session, ufunc: np.ufunc, inputs: tuple[Any, ...], _: dict[str, Any]) -> None:
    """`ufunc.at(target, key, value)`: the target keeps its cells and gains those of the value."""
    target, key, *values = inputs
    session.before_write(raw(target))
    held = Held(*map(own, key if isinstance(key, tuple) else (key,)))
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
    for value in map(as_array, values):
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


_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": settled(_called, ("x1", "x2")),
    "reduce": settled(_reduce, ("array", "axis", "dtype", "out", "keepdims", "initial", "where")),
    "accumulate": settled(_accumulate, ("array", "axis", "dtype", "out")),
    "outer": settled(_outer, ("a", "b")),
    "reduceat": settled(_reduceat, ("array", "indices", "axis", "dtype", "out")),
    "at": _at,
}
