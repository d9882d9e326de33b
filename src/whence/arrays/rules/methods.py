"""Methods and attributes of ndarray on tracked arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import identity, reshaped
from whence.arrays.graph import Edge, Node
from whence.arrays.rules.arguments import own
from whence.arrays.rules.base import detached, finish, python, same_cells, steer
from whence.arrays.rules.flat import Flat, set_flat
from whence.arrays.session import Reach
from whence.arrays.tracked import PYTHON, TrackedArray, bare, raw, tracked_in

# methods that take the array as first argument of the function of the same meaning
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in [
        "all",
        "any",
        "argmax",
        "argmin",
        "argpartition",
        "argsort",
        "cumprod",
        "cumsum",
        "diagonal",
        "dot",
        "max",
        "mean",
        "min",
        "nonzero",
        "prod",
        "ravel",
        "repeat",
        "round",
        "searchsorted",
        "squeeze",
        "std",
        "sum",
        "swapaxes",
        "take",
        "trace",
        "var",
    ]
}
_DESCRIPTIVE = {
    "itemsize": Reach.FAR,
    "nbytes": Reach.BETWEEN,
    "strides": Reach.NOWHERE,
    "flags": Reach.NOWHERE,
    "device": Reach.FAR,
    **dict.fromkeys(("filename", "mode", "offset"), Reach.NOWHERE),  # of a memory map
}
_CHANGING = frozenset({"byteswap", "fill", "partition", "put", "setfield", "setflags", "sort"})
_LEAVING = frozenset(
    {
        "tolist",
        "tobytes",
        "tofile",
        "dump",
        "dumps",
        "data",
        "ctypes",
        "getfield",
        "to_device",
        "flush",
    }
)


def method_of(array: TrackedArray, name: str) -> Any:
    """The method or attribute of that name."""
    if array.scalar_ != PYTHON or name == "to_numpy":
        if name in _FUNCTIONS:
            return partial(_FUNCTIONS[name], array)
        own = _OWN.get(name)
        if own is not None:
            changes = array.scalar_ and name in _CHANGING  # a number stays what it is
            return partial(_called, own, detached(array) if changes else array)
        computed = _ATTRIBUTES.get(name)
        if computed is not None:
            return computed(array)
        if name in _DESCRIPTIVE:
            array.session_.narrow(_DESCRIPTIVE[name])
            array.session_.look_at_shape(array.node_)
            return getattr(array.data_, name)
        if name in _LEAVING:
            array.session_.escape(array.node_, f".{name}")
            return getattr(array.data_, name)
    found = getattr(bare(array) if array.scalar_ else array.data_.copy(), name)
    array.session_.escape(array.node_, f".{name}")
    return found


def _called(own: Callable[..., Any], array: TrackedArray, *args: Any, **kwargs: Any) -> Any:
    try:
        return own(array, *args, **kwargs)
    except Exception as error:
        array.session_.raised(error, tracked_in([array, args, kwargs]))
        raise


def set_shape(array: TrackedArray, shape: Any) -> None:
    """`a.shape = …` changes the array in place, not its cells."""
    session, data = array.session_, array.data_
    session.before_write(data)  # what is held keeps its shape
    before = data.shape
    data.shape = shape
    after: Shape = data.shape  # type: ignore[assignment]
    session.changed = True
    for same in {id(a): a for a in (array, *session.standing_for(data))}.values():
        edge = Edge(same.node_, partial(reshaped, after, before))
        same.node_ = Node(after, [edge], "reshape", None, same.node_.loose)


def _same(array: TrackedArray, result: Any, op: str) -> Any:
    edge = Edge(array.node_, partial(identity, array.data_.shape))
    return finish(array.session_, result, [edge], op, (array,))


def _copy(array: TrackedArray, order: Any = "C") -> Any:
    return _same(array, bare(array).copy(order), "copy")


def _astype(array: TrackedArray, *args: Any, **kwargs: Any) -> Any:
    return _same(array, bare(array).astype(*args, **kwargs), "astype")


def _flatten(array: TrackedArray, order: Any = "C") -> Any:
    return np.ravel(array, order).copy()


def _reshape(array: TrackedArray, *shape: Any, **kwargs: Any) -> Any:
    return np.reshape(array, shape[0] if len(shape) == 1 else shape, **kwargs)


def _transpose(array: TrackedArray, *axes: Any) -> Any:
    order: Any = axes
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], tuple | list)):
        order = axes[0]
    return np.transpose(array, order or None)


def _view(array: TrackedArray, *args: Any, **kwargs: Any) -> Any:
    """The same memory; as another class of array, which is not followed, a copy."""
    value = bare(array)
    result = value.view(*args, **kwargs)
    if isinstance(result, np.ndarray) and type(result) not in (np.ndarray, type(value)):
        array.session_.escape(array.node_, f".view as {type(result).__name__}")
        return result.copy()
    if result.shape == array.data_.shape:
        return _same(array, result, "view")
    from whence.arrays.rules.base import all_cells

    edge = all_cells(array, result.shape, doubt=".view of another item size")
    return finish(array.session_, result, [edge], "view", (array,))


def _item(array: TrackedArray, *index: Any) -> Any:
    """A number of Python that stays tracked, so that arithmetic with it is followed."""
    found: Any
    if not index:
        if array.data_.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        found = np.reshape(array, ())[()]
    else:
        key = index[0] if len(index) == 1 else index
        found = array[key] if isinstance(key, tuple) else np.reshape(array, -1)[key]
    if found.scalar_ == PYTHON:
        return found
    edge = Edge(found.node_, partial(identity, ()))
    return python(array.session_, bare(found).item(), [edge], "item")


def _clip(array: TrackedArray, min: Any = None, max: Any = None, *args: Any, **kwargs: Any) -> Any:
    return np.clip(array, min, max, *args, **kwargs)


def _conj(array: TrackedArray, *args: Any, **kwargs: Any) -> Any:
    """The method gives an array of real numbers back as it is; the function gives a copy."""
    itself = array.data_.dtype.kind not in "cO" and not args and not kwargs
    return array if itself else np.conjugate(array, *args, **kwargs)


def _compress(array: TrackedArray, condition: Any, axis: Any = None, out: Any = None) -> Any:
    return np.compress(condition, array, axis, out)


def _choose(array: TrackedArray, *args: Any, **kwargs: Any) -> Any:
    return np.choose(array, *args, **kwargs)


def _fill(array: TrackedArray, value: Any) -> None:
    array[...] = value


def _put(array: TrackedArray, indices: Any, values: Any, mode: str = "raise") -> None:
    np.put(array, indices, values, mode=mode)  # type: ignore[arg-type]


def _sort(
    array: TrackedArray, axis: int = -1, kind: Any = None, order: Any = None, **more: Any
) -> None:
    change = partial(array.data_.sort, own(axis), kind, order, **more)
    _rearrange(array, axis, order, change)


def _partition(array: TrackedArray, kth: Any, axis: int = -1, kind: Any = "introselect") -> None:
    change = partial(array.data_.partition, own(kth), own(axis), kind)
    _rearrange(array, axis, None, change, kth)


def _rearrange(
    array: TrackedArray, axis: Any, order: Any, change: Callable[[], Any], kth: Any = None
) -> None:
    from whence.arrays.rules.order import sort_edges

    session = array.session_
    session.before_write(array.data_)
    before = array.data_.copy()
    change()
    shape = array.data_.shape
    again = None if kth is None else partial(np.partition, kth=own(kth))
    edges = sort_edges(session, array.node_, before, shape, own(axis), order, again)
    edges = steer(edges, [axis, kth], shape)
    session.overwrite(array, Node(shape, edges, "sort"), None)


def _byteswap(array: TrackedArray, inplace: bool = False) -> Any:
    if inplace:
        session = array.session_
        session.before_write(array.data_)
        array.data_.byteswap(True)
        edge = Edge(array.node_, partial(identity, array.data_.shape))
        session.overwrite(array, Node(array.data_.shape, [edge], "byteswap"), None)
        return array
    return _same(array, bare(array).byteswap(), "byteswap")


def _setflags(array: TrackedArray, *args: Any, **kwargs: Any) -> None:
    array.data_.setflags(*raw(args), **raw(kwargs))


def _setfield(array: TrackedArray, value: Any, dtype: Any, offset: int = 0) -> None:
    """Writes a part of each cell."""
    session, shape = array.session_, array.data_.shape
    session.before_write(array.data_)
    edges = [Edge(array.node_, partial(identity, shape), doubt=".setfield")]
    edges += [same_cells(t, shape) for t in tracked_in(value)] or session.tainted(shape)
    array.data_.setfield(raw(value), dtype, offset)
    session.overwrite(array, Node(shape, edges, "setfield"), None)


def _resize(array: TrackedArray, *shape: Any, refcheck: bool = True) -> None:
    from whence.errors import ArrayError

    raise ArrayError("resizing a tracked array in place is not followed; use np.resize instead")


def _to_numpy(array: TrackedArray, *_: Any, **__: Any) -> Any:
    """What pandas puts into a frame: a tracked column in a followed call, else plain values."""
    if not array.session_.frames:
        return array.__array__()
    from whence.arrays.frames.column import in_column

    return in_column(array)


def set_part(array: TrackedArray, name: str, value: Any) -> None:
    """`a.flat = …`, `a.real = …` and `a.imag = …` write into the array."""
    if name == "flat":
        set_flat(array, value)
    elif name == "imag" and array.data_.dtype.kind != "c":
        raise TypeError("array does not have imaginary part to set")
    else:
        _ATTRIBUTES[name](array)[...] = value


def _base(array: TrackedArray) -> Any:
    """The array that this one is a view of: tracked, or plain, so that values leave."""
    base = array.data_.base
    array.session_.narrow(Reach.NOWHERE)
    if base is None:
        return None
    for found in array.session_.standing_for(base):
        return found
    array.session_.escape(array.node_, ".base")
    return base


def _mt(array: TrackedArray) -> Any:
    return np.swapaxes(array, -1, -2)


_OWN: dict[str, Callable[..., Any]] = {
    "copy": _copy,
    "astype": _astype,
    "flatten": _flatten,
    "reshape": _reshape,
    "transpose": _transpose,
    "view": _view,
    "item": _item,
    "clip": _clip,
    "compress": _compress,
    "conj": _conj,
    "conjugate": _conj,
    "choose": _choose,
    "fill": _fill,
    "put": _put,
    "sort": _sort,
    "partition": _partition,
    "byteswap": _byteswap,
    "resize": _resize,
    "setfield": _setfield,
    "setflags": _setflags,
    "to_numpy": _to_numpy,
}
_ATTRIBUTES: dict[str, Callable[[TrackedArray], Any]] = {
    "base": _base,
    "flat": Flat,
    "real": np.real,
    "imag": np.imag,
    "mT": _mt,
}
