"""Products, convolutions, differences and whole-matrix functions: products of ranges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.compose import compose, union
from whence.arrays.forms import (
    AxisMap,
    Form,
    Run,
    fixed,
    follow,
    reshaped,
    runs,
    separable,
    whole,
)
from whence.arrays.graph import Edge
from whence.arrays.rules.base import (
    all_cells,
    axes_of,
    bind,
    finish,
    finish_out,
    into_out,
    keeps_axes,
    lifted,
    name_of,
    plain_call,
    python,
    shape_of,
    writing_out,
)
from whence.arrays.rules.reduce import reduced
from whence.arrays.session import Reach, Session
from whence.arrays.tracked import TrackedArray, raw, tracked_in

Axes = Sequence[int | None]
_HALVED = (np.fft.irfft, np.fft.hfft, np.fft.irfft2, np.fft.irfftn)  # of the last axis


def contract(out_shape: Shape, in_shape: Shape, axes: Axes) -> Form:
    """Input axis i follows output axis `axes[i]`, or is summed over if that is None."""
    maps = [_along(out_shape, size, axis) for size, axis in zip(in_shape, axes, strict=True)]
    return separable(out_shape, in_shape, maps)


def _along(out_shape: Shape, size: int, axis: int | None) -> AxisMap:
    if axis is None:
        return whole(size)
    return fixed(0) if size == 1 and out_shape[axis] != 1 else follow(axis, size)


def edge(operand: TrackedArray, shape: Shape, axes: Axes) -> Edge:
    """An edge for an operand of a product."""
    return Edge(operand.node_, partial(contract, shape, operand.data_.shape, tuple(axes)))


def product(session: Session, func: Any, args: Any, kwargs: Any, axes: list[Axes]) -> Any:
    """Run a product of the first arguments, whose axes follow the output as told."""
    result = writing_out(session, func, args, kwargs, kwargs.get("out"))
    shape = shape_of(result)
    edges = [
        edge(operand, shape, follows)
        for operand, follows in zip(args, axes, strict=False)
        if type(operand) is TrackedArray
    ]
    return finish_out(session, result, edges, name_of(func), args, kwargs.get("out"))


def gufunc(session: Session, ufunc: np.ufunc, inputs: Any, kwargs: dict[str, Any]) -> Any:
    """matmul, vecdot and kin; core dimensions by name from the signature."""
    if any(k in kwargs for k in ("axes", "axis", "keepdims")):
        result = writing_out(session, ufunc, inputs, kwargs, kwargs.get("out"))
        operands = tracked_in(list(inputs))
        edges = [
            all_cells(t, shape_of(result), doubt=f"{ufunc.__name__} with axes") for t in operands
        ]
        return finish_out(session, result, edges, ufunc.__name__, inputs, kwargs.get("out"))
    left, right = str(ufunc.signature).replace(" ", "").split("->")
    names = [part.strip("()").split(",") for part in left.split("),(")]
    out_names = [n for n in right.strip("()").split(",") if n]
    names = [[n for n in part if n] for part in names]
    cores, out_core = _optional(names, out_names, [np.ndim(raw(x)) for x in inputs])
    loop = np.broadcast_shapes(
        *(np.shape(raw(x))[: np.ndim(raw(x)) - len(c)] for x, c in zip(inputs, cores, strict=True))
    )
    axes: list[Axes] = []
    for x, core in zip(inputs, cores, strict=True):
        lead = np.ndim(raw(x)) - len(core)
        follows: list[int | None] = [len(loop) - lead + i for i in range(lead)]
        follows += [len(loop) + out_core.index(n) if n in out_core else None for n in core]
        axes.append(follows)
    return product(session, ufunc, inputs, kwargs, axes)


def _optional(
    names: list[list[str]], out: list[str], ndims: list[int]
) -> tuple[list[list[str]], list[str]]:
    """Leave out dimensions marked `?` that an operand lacks (a vector in matmul)."""
    missing: set[str] = set()
    for part, ndim in zip(names, ndims, strict=True):
        if ndim < len(part):
            missing.update(n for n in part if n.endswith("?"))
    kept = [[n for n in part if n not in missing] for part in (*names, out)]
    return kept[:-1], kept[-1]


def dot(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.dot`: the last axis of the first with the last but one of the second."""
    bound = bind(func, args, kwargs, ("a", "b", "out"))
    one, two = bound["a"], bound["b"]
    n, m = np.ndim(raw(one)), np.ndim(raw(two))
    options = {"out": bound["out"]} if bound.get("out") is not None else {}
    if n == 0 or m == 0:
        return product(session, func, (one, two), options, [range(n), range(m)])
    first: Axes = [*range(n - 1), None]
    at = n - 1
    second: list[int | None] = [at + i for i in range(m)]
    if m == 1:
        second = [None]
    else:
        second = [*(at + i for i in range(m - 2)), None, at + m - 2]
    return product(session, func, (one, two), options, [first, second])


def inner(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.inner`: the last axes."""
    n, m = np.ndim(raw(args[0])), np.ndim(raw(args[1]))
    if n == 0 or m == 0:
        return product(session, func, args, kwargs, [range(n), range(m)])
    second: Axes = [*(n - 1 + i for i in range(m - 1)), None]
    return product(session, func, args, kwargs, [[*range(n - 1), None], second])


def vdot(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.vdot`: everything with everything of the same position."""
    axes: list[Axes] = [[None] * np.ndim(raw(x)) for x in args]
    return product(session, func, args, kwargs, axes)


def outer(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.outer`: both flattened, one per output axis."""
    bound = bind(func, args, kwargs)
    result = writing_out(session, func, args, kwargs, bound.get("out"))
    edges = []
    for axis, operand in enumerate((bound["a"], bound["b"])):
        if type(operand) is TrackedArray:
            shape = operand.data_.shape
            rule = partial(_one_axis, result.shape, shape, axis)
            edges.append(Edge(operand.node_, rule))
    return finish_out(session, result, edges, name_of(func), args, bound.get("out"))


def _one_axis(out_shape: Shape, in_shape: Shape, axis: int) -> Form:
    flat = separable(out_shape, (out_shape[axis],), [follow(axis, out_shape[axis])])
    return flat if len(in_shape) == 1 else compose(flat, reshaped((out_shape[axis],), in_shape))


def tensordot(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.tensordot`: the named axes are summed over."""
    bound = bind(func, args, kwargs)
    one, two, axes = bound["a"], bound["b"], bound["axes"]
    n, m = np.ndim(raw(one)), np.ndim(raw(two))
    if isinstance(axes, int | np.integer):
        left, right = list(range(n - int(axes), n)), list(range(int(axes)))
    else:
        left, right = ([int(i) for i in np.atleast_1d(side)] for side in axes)
    sums_one, sums_two = {i % n for i in left}, {i % m for i in right}
    free = iter(range(n + m))
    first = [None if i in sums_one else next(free) for i in range(n)]
    second = [None if i in sums_two else next(free) for i in range(m)]
    return product(session, func, (one, two), {"axes": axes}, [first, second])


@into_out
def einsum(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.einsum` with a subscripts string."""
    operands = args[1:]
    if not isinstance(args[0], str):
        from whence.arrays.rules.fallback import unknown

        return unknown(session, func, args, kwargs)
    result = plain_call(func, args, kwargs)
    shape = shape_of(result)
    terms, output = _subscripts(args[0], [np.ndim(raw(x)) for x in operands])
    edges = []
    for term, operand in zip(terms, operands, strict=True):
        if type(operand) is TrackedArray:
            rule = partial(_einsum_form, shape, operand.data_.shape, term, output)
            edges.append(Edge(operand.node_, rule))
    return finish(session, result, edges, name_of(func), args)


def _subscripts(text: str, ndims: list[int]) -> tuple[list[list[str]], list[str]]:
    left, _, right = text.replace(" ", "").partition("->")
    terms: list[list[str]] = []
    widest = 0
    for term, ndim in zip(left.split(","), ndims, strict=True):
        before, dots, after = term.partition("...")
        extra = ndim - len(before) - len(after) if dots else 0
        widest = max(widest, extra)
        terms.append([*before, *(f".{i}" for i in range(extra, 0, -1)), *after])
    shared = [f".{i}" for i in range(widest, 0, -1)]
    if "->" in text:
        before, dots, after = right.partition("...")
        return terms, [*before, *(shared if dots else []), *after]
    letters = [n for term in terms for n in term if not n.startswith(".")]
    return terms, [*shared, *sorted({n for n in letters if letters.count(n) == 1})]


def _einsum_form(shape: Shape, in_shape: Shape, term: list[str], output: list[str]) -> Form:
    summed_twice = {n for n in term if term.count(n) > 1 and n not in output}
    axes: Axes = [output.index(n) if n in output else None for n in term]
    if not summed_twice:
        return contract(shape, in_shape, axes)
    names = sorted(summed_twice)
    parts = []
    for place in np.ndindex(*(in_shape[term.index(name)] for name in names)):
        at = dict(zip(names, place, strict=True))
        maps = [
            fixed(at[n]) if n in at else _along(shape, s, a)
            for n, s, a in zip(term, in_shape, axes, strict=True)
        ]
        parts.append(separable(shape, in_shape, maps))
    return union(parts, shape, in_shape)


def kron(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.kron`: blocks of the second, one per cell of the first."""
    bound = bind(func, args, kwargs)
    one, two = bound["a"], bound["b"]
    result = plain_call(func, args, kwargs)
    ndim = result.ndim
    sizes = [(1,) * (ndim - np.ndim(raw(x))) + np.shape(raw(x)) for x in (one, two)]
    edges = []
    for which, operand in enumerate((one, two)):
        if type(operand) is TrackedArray:
            rule = partial(_kron_form, result.shape, operand.data_.shape, sizes, which)
            edges.append(Edge(operand.node_, rule))
    return finish(session, result, edges, name_of(func), args)


def _kron_form(shape: Shape, in_shape: Shape, sizes: list[Shape], which: int) -> Form:
    one, two = sizes
    maps = []
    skip = len(shape) - len(in_shape)
    for i in range(skip, len(shape)):
        n, m = one[i], two[i]
        listed = [
            Run(k * m, (k + 1) * m - 1, *((k, 0, k, 0) if which == 0 else (-k * m, 1, -k * m, 1)))
            for k in range(n if m else 0)
        ]
        maps.append(runs(i, listed))
    return separable(shape, in_shape, maps)


def multi_dot(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.linalg.multi_dot`: outer operands keep one axis, inner ones give all their cells."""
    bound = bind(func, args, kwargs)
    arrays = list(bound["arrays"])
    result = writing_out(session, func, args, kwargs, bound.get("out"))
    shape = shape_of(result)
    edges = []
    last_axis = len(shape) - 1
    for i, operand in enumerate(arrays):
        if type(operand) is not TrackedArray:
            continue
        axes: list[int | None] = [None] * operand.data_.ndim
        if i == 0 and operand.data_.ndim == 2:
            axes[0] = 0
        if i == len(arrays) - 1 and operand.data_.ndim == 2:
            axes[1] = last_axis
        edges.append(edge(operand, shape, axes))
    return finish_out(session, result, edges, name_of(func), arrays, bound["out"])


_TERMS = {0: ((1, 2), (2, 1)), 1: ((2, 0), (0, 2)), 2: ((0, 1), (1, 0))}


def cross(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.cross`: a component comes from the two others; two components make only the third."""
    bound = bind(func, args, kwargs)
    one, two = bound["a"], bound["b"]
    result = plain_call(func, args, kwargs)
    shape = shape_of(result)
    axis = bound.get("axis")
    ends = [bound.get("axisa", -1), bound.get("axisb", -1), bound.get("axisc", -1)]
    if axis is not None:
        ends = [axis] * 3
    places = [
        e % max(np.ndim(x), 1) for e, x in zip(ends, (raw(one), raw(two), result), strict=True)
    ]
    parts = [np.shape(raw(x))[p] for x, p in zip((one, two), places[:2], strict=True)]
    edges = []
    for which, operand in enumerate((one, two)):
        if type(operand) is TrackedArray:
            rule = partial(
                _cross_form,
                shape,
                operand.data_.shape,
                places[which],
                places[2],
                tuple(parts),
                which,
            )
            edges.append(Edge(operand.node_, rule))
    return finish(session, result, edges, name_of(func), args)


def _cross_form(
    shape: Shape, in_shape: Shape, place: int, out_place: int, parts: tuple[int, ...], which: int
) -> Form:
    vector = parts != (2, 2)
    lead = [i for i in range(len(shape)) if not (vector and i == out_place)]
    others = [i for i in range(len(in_shape)) if i != place]
    follows = dict(zip(others, lead[len(lead) - len(others) :], strict=True))

    def maps(component: int) -> list[AxisMap]:
        return [
            fixed(component)
            if i == place
            else fixed(0)
            if n == 1 and shape[follows[i]] != 1
            else follow(follows[i], n)
            for i, n in enumerate(in_shape)
        ]

    forms = []
    for c, terms in _TERMS.items():
        if not vector and c != 2:
            continue
        used = {t[which] for t in terms if t[0] < parts[0] and t[1] < parts[1]}
        within = {out_place: (c, c)} if vector else None
        forms += [separable(shape, in_shape, maps(k), within) for k in sorted(used)]
    return union(forms, shape, in_shape)


def transform(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """Discrete Fourier transforms: each result cell from its whole lane (one or more axes)."""
    bound = bind(func, args, kwargs)
    array, op = lifted(session, bound["a"]), name_of(func)
    result = writing_out(session, func, args, kwargs, bound.get("out"))
    lanes = bound.get("axes", bound.get("axis", -1))
    length = bound.get("n", bound.get("s"))
    axes = axes_of(lanes, array.data_.ndim)
    follows: Axes = [None if i in axes else i for i in range(array.data_.ndim)]
    edges = [edge(array, result.shape, follows)]
    if length is not None:
        session.narrow(Reach.BETWEEN)
        cut = _lengths(func, lanes, np.atleast_1d(length).tolist(), array.data_.ndim)
        edges = [Edge(array.node_, partial(_cut, result.shape, array.data_.shape, cut))]
    return finish_out(session, result, edges, op, args, bound.get("out"))


def _lengths(func: Any, lanes: Any, lengths: list[int], ndim: int) -> dict[int, int]:
    """How many cells of each axis a transform takes at most; −1 is all."""
    listed = range(-len(lengths), 0) if lanes is None else np.atleast_1d(lanes).tolist()
    taken: dict[int, int] = {}
    for place, (axis, length) in enumerate(zip(listed, lengths, strict=True)):
        halved = func in _HALVED and place == len(lengths) - 1
        count = length // 2 + 1 if halved and length >= 0 else length
        taken[axis % ndim] = count
    return taken


def _cut(out_shape: Shape, in_shape: Shape, taken: dict[int, int]) -> Form:
    """Each cell from its lanes, of which only so many cells are taken."""
    maps = []
    for axis, size in enumerate(in_shape):
        count = taken.get(axis, -1)
        if axis not in taken:
            maps.append(follow(axis, size))
        else:
            maps.append(whole(size if count < 0 else min(size, count)))
    return separable(out_shape, in_shape, maps)


def matrices(exact: bool = True, core: int | None = 2) -> Any:
    """Functions of whole matrices (inv, det …): all cells of a matrix, matrix by matrix.

    `core` is how many axes a matrix has; the axes before them number the matrices (None: no such).
    """

    def rule(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
        result = plain_call(func, args, kwargs)
        operands = tracked_in([args, kwargs])
        doubt = "" if exact else name_of(func)
        sized_by = [t.node_ for t in operands if func is np.linalg.lstsq]  # residuals, or none

        def wrap(part: Any) -> Any:
            edges = [_matrix_edge(t, shape_of(part), core, doubt) for t in operands]
            if not hasattr(part, "shape"):  # the rank of a vector is a number of Python
                return python(session, part, edges, name_of(func), args)
            return finish(session, part, edges, name_of(func), args, sized_by)

        if isinstance(result, tuple):
            parts = [wrap(part) for part in result]
            return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
        return wrap(result)

    return rule


def _matrix_edge(operand: TrackedArray, shape: Shape, core: int | None, doubt: str) -> Edge:
    ndim = operand.data_.ndim
    lead = 0 if core is None else max(ndim - core, 0)
    axes: Axes = [*range(lead), *([None] * (ndim - lead))]
    rule = partial(contract, shape, operand.data_.shape, tuple(axes))
    return Edge(operand.node_, rule, doubt=doubt)


def solve(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.linalg.solve`: all of a matrix, and the column of the right side that is solved for."""
    bound = bind(func, args, kwargs)
    result = plain_call(func, args, kwargs)
    lines = 1 if np.ndim(raw(bound["b"])) == 1 else 2
    stack = result.ndim - lines  # axes that number the matrices
    cores: dict[str, Axes] = {"a": [None, None], "b": [None, stack + 1][:lines]}
    edges = []
    for name, core in cores.items():
        for operand in tracked_in(bound[name]):
            lead = operand.data_.ndim - len(core)
            edges.append(edge(operand, result.shape, [*range(stack - lead, stack), *core]))
    return finish(session, result, edges, name_of(func), args)


def norm(session: Session, func: Any, args: Any, kwargs: Any) -> Any:
    """`np.linalg.norm`: the whole lane; a norm that picks a largest or smallest is a superset."""
    bound = bind(func, args, kwargs)
    array, order = bound["x"], bound["ord"]
    result = plain_call(func, args, kwargs)
    axes = axes_of(bound["axis"], array.data_.ndim)
    picks = order not in (None, "fro", "nuc") and (np.isinf(order) or len(axes) > 1)
    rule = partial(reduced, np.shape(result), array.data_.shape, axes, keeps_axes(bound))
    doubt = f"{name_of(func)} with ord={order}" if picks else ""
    return finish(session, result, [Edge(array.node_, rule, doubt=doubt)], name_of(func), args)
