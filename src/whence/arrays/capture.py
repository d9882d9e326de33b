"""`track`, `tracked` and `provenance`: how functions and arrays are followed."""

from __future__ import annotations

import inspect
import weakref
from collections import OrderedDict
from collections.abc import Callable
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.forms import everything, identity
from whence.arrays.graph import Edge, Node, leaves
from whence.arrays.memory import Array
from whence.arrays.provenance import Provenance
from whence.arrays.rules import creation
from whence.arrays.session import Session
from whence.arrays.tracked import TrackedArray, tracked_in
from whence.errors import ArrayError

_arrays: dict[int, tuple[weakref.ref[Array], Provenance]] = {}
_scalars: OrderedDict[int, tuple[Any, Provenance]] = OrderedDict()
_SCALARS_KEPT = 4096
_prompt: list[weakref.ref[Session]] = []
_named: weakref.WeakValueDictionary[str, Node] = weakref.WeakValueDictionary()
_PLAIN = (np.ndarray, np.memmap)
_HARMLESS = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, type, slice)


def tracked(array: Any, name: str = "a") -> TrackedArray:
    """Follow an array interactively; `provenance` of anything computed from it refers to `name`.

    If an array of that name is still followed, the new one is called `name-2`, and so on.
    """
    if type(array) is TrackedArray:
        return array
    session = creation.current.get()
    if session is not None and session.frames:
        from whence.arrays.column import unwrapped

        array = unwrapped(array)
        if type(array) is TrackedArray:
            return array
    data = np.array(array)
    if session is not None:  # inside a tracked call: an array without provenance of its own
        return TrackedArray(data, Node(data.shape, session.tainted(data.shape), "tracked"), session)
    node = Node(data.shape, (), "input", _own_name(name))
    _named[str(node.label)] = node
    return TrackedArray(data, node, _prompt_session())


def _own_name(name: str) -> str:
    number, found = 2, name
    while found in _named:
        found, number = f"{name}-{number}", number + 1
    return found


def _prompt_session() -> Session:
    """One session for all interactive use, as a value that leaves one array may enter another.

    It goes when no tracked array is left.
    """
    session = _prompt[0]() if _prompt else None
    if session is None:
        session = Session(lasting=True)
        _prompt[:] = [weakref.ref(session)]
    return session


def provenance(result: Any) -> Provenance:
    """The provenance of an array that a tracked function returned, or of a tracked array."""
    if type(result) is TrackedArray:
        node = with_steering(result.node_, result.session_)
        found = {n: leaf.shape for n, leaf in leaves(node).items()}
        return Provenance(node, found, "array")
    if isinstance(result, np.ndarray):
        known = _arrays.get(id(result))
        if known is not None and known[0]() is result:
            return known[1]
    else:
        kept = _scalars.get(id(result))
        if kept is not None and kept[0] is result:
            return kept[1]
    raise ArrayError(
        f"no provenance is known for this {type(result).__name__}; expected an array (or NumPy "
        "number) as returned by a function under @whence.arrays.track, or a tracked array; the "
        "`.last` of a tracked function has the provenance of its last call"
    )


def remember(result: Any, found: Provenance) -> None:
    """Let `provenance(result)` find its answer as long as the array lives."""
    if isinstance(result, np.ndarray):
        key = id(result)
        _arrays[key] = (weakref.ref(result, partial(_forget, _arrays, key)), found)
    elif isinstance(result, np.generic) and not isinstance(result, np.bool_):
        _scalars[id(result)] = (result, found)
        if len(_scalars) > _SCALARS_KEPT:
            _scalars.popitem(last=False)


def _forget(known: dict[int, Any], key: int, _: Any) -> None:
    known.pop(key, None)


class TrackedFunction:
    """A function whose array results have provenance. Calling it gives what the function gives."""

    def __init__(self, function: Callable[..., Any], follow: tuple[str, ...], views: Any) -> None:
        update_wrapper(self, function)
        self.function = function
        self.views = views
        self.last: Any = None
        package = (getattr(function, "__module__", None) or "").partition(".")[0]
        self._packages = frozenset({package, *follow}) - {"numpy", ""}
        self._names, self._rest = _parameters(function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives; `provenance` of it tells where its cells come from."""
        session = creation.current.get()
        if session is not None and session.frames:  # the columns of a frame are followed already
            from whence.arrays.column import unwrapped

            session.packages |= self._packages
            return self.function(*unwrapped(args), **unwrapped(kwargs))
        for value in args:
            kind = type(value)
            if kind is TrackedArray or (kind in (list, tuple, dict) and tracked_in(value)):
                return self.function(*args, **kwargs)  # part of a larger tracked call
        if kwargs and tracked_in(kwargs):
            return self.function(*args, **kwargs)
        if self.views is not None:
            return self.views.call(self, args, kwargs)
        return self.run(args, kwargs)[0]

    def run(self, args: Any, kwargs: Any) -> tuple[Any, Call]:
        """Call with tracking; gives the result and what was recorded."""
        call = Call(self)
        own_args, own_kwargs = call.admit(args, kwargs)
        session = call.session
        creation.enter()
        token = creation.current.set(session)
        try:
            result = self.function(*own_args, **own_kwargs)
        finally:
            creation.current.reset(token)
            creation.leave()
        plain = call.hand_out(result)
        session.release(call.shared)
        self.last = call.answers[0] if len(call.answers) == 1 else tuple(call.answers)
        return plain, call

    def name_arguments(self, args: Any) -> list[str]:
        """A name for every positional argument."""
        names = self._names
        if len(args) <= len(names):
            return names[: len(args)]
        return names + [f"{self._rest}[{i}]" for i in range(len(args) - len(names))]

    def __repr__(self) -> str:
        return f"track({self.function!r})"


class Call:
    """One call under way: its session, its inputs, and the answers for its outputs."""

    __slots__ = (
        "answers",
        "foreign",
        "function",
        "inputs",
        "paths",
        "session",
        "shared",
        "untracked",
    )

    def __init__(self, function: TrackedFunction) -> None:
        self.function = function
        self.session = Session(packages=function._packages)
        self.inputs: dict[str, TrackedArray] = {}
        self.foreign: list[tuple[Node, str]] = []
        self.untracked: list[str] = []
        self.shared: list[Any] = []
        self.answers: list[Provenance] = []
        self.paths: list[str] = []

    def admit(self, args: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        """Arguments with tracked arrays in place of arrays."""
        names = self.function.name_arguments(args)
        own = [self._admit(a, n) for a, n in zip(args, names, strict=True)]
        own_kwargs = {k: self._admit(v, k) for k, v in kwargs.items()} if kwargs else {}
        if len(self.inputs) > 1:
            self._link_inputs()
        return own, own_kwargs

    def _admit(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            self.shared.append(value)
            made = TrackedArray(value, Node(value.shape, (), "input", name), self.session)
            self.inputs[name] = made
            return made
        if isinstance(value, _HARMLESS):
            return value
        if isinstance(value, np.ndarray):
            node = Node(value.shape, (), "input", name)
            self.inputs[name] = TrackedArray(np.asarray(value), node, self.session)
            label = f"{kind.__module__}.{kind.__name__}"
            self.foreign.append((node, f"{name} is a {label}, which is not followed"))
            return value
        if kind is list or kind is tuple:
            return kind([self._admit(v, f"{name}[{i}]") for i, v in enumerate(value)])
        if kind is dict:
            return {k: self._admit(v, f"{name}[{k!r}]") for k, v in value.items()}
        self.untracked.append(name)
        return value

    def _link_inputs(self) -> None:
        listed = list(self.inputs.values())
        for i, one in enumerate(listed):
            for two in listed[i + 1 :]:
                if np.may_share_memory(one.data_, two.data_):
                    self.session.link(one, two)

    def changed_inputs(self) -> bool:
        """Whether an input was written to."""
        return any(array.node_.label is None for array in self.inputs.values())

    def hand_out(self, result: Any, path: str = "") -> Any:
        """Plain results in place of tracked ones; each gets its provenance."""
        kind = type(result)
        if kind is TrackedArray:
            if result.session_ is not self.session:  # of a call around this one
                return result
            data = result.data_[()] if result.scalar_ else result.data_
            self._answer(data, result.node_, path)
            return data
        if kind is list or (isinstance(result, tuple) and not hasattr(result, "_fields")):
            return kind(self.hand_out(r, f"{path}[{i}]") for i, r in enumerate(result))
        if isinstance(result, tuple):
            fields = zip(result._fields, result, strict=True)  # type: ignore[attr-defined]
            return kind(*(self.hand_out(r, f"{path}.{f}") for f, r in fields))
        if kind is dict:
            return {k: self.hand_out(v, f"{path}[{k!r}]") for k, v in result.items()}
        return self._plain_result(result, path)

    def _plain_result(self, result: Any, path: str) -> Any:
        """Something that is not tracked: a constant, unless values left before."""
        if isinstance(result, np.ndarray | np.generic | int | float | complex):
            shape: Shape = np.shape(result)
            self._answer(result, Node(shape, self.session.tainted(shape), "constant"), path)
        elif result is not None:
            what = f"the result{path} is a {type(result).__name__}, no array"
            self._answer(result, Node((), (), "unknown"), path, what)
        return result

    def _answer(self, result: Any, node: Node, path: str, unknown: str = "") -> None:
        shape = node.shape
        node = with_steering(node, self.session)
        if self.foreign:
            extra = [
                Edge(leaf, partial(everything, shape, leaf.shape), doubt=why)
                for leaf, why in self.foreign
            ]
            node = Node(shape, [Edge(node, partial(identity, shape)), *extra], "result")
        inputs = {name: array.data_.shape for name, array in self.inputs.items()}
        name = f"{self.function.__name__}{path}"  # type: ignore[attr-defined]
        found = Provenance(node, inputs, name, tuple(self.untracked), unknown)
        self.answers.append(found)
        self.paths.append(path)
        self.shared.append(result)
        remember(result, found)


def with_steering(node: Node, session: Session) -> Node:
    """Branches on values influence every cell of what is returned; so may values that left."""
    if not session.steering and not session.left:
        return node
    shape = node.shape
    looked = list({id(n): n for n in session.steering}.values())
    edges = [Edge(n, partial(everything, shape, n.shape), False) for n in looked]
    gone = {(id(n), op): n for n, op in session.left}
    edges += [
        Edge(n, partial(everything, shape, n.shape), False, doubt=f"a value left through {op}")
        for (_, op), n in gone.items()
    ]
    return Node(shape, [Edge(node, partial(identity, shape)), *edges], node.op)


def _parameters(function: Callable[..., Any]) -> tuple[list[str], str]:
    """Names of positional parameters, and of the one that takes the rest."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], "args"
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in listed if p.kind in positional]
    rest = [p.name for p in listed if p.kind is inspect.Parameter.VAR_POSITIONAL]
    return names, rest[0] if rest else "args"


def track(
    function: Callable[..., Any] | None = None,
    *,
    follow: tuple[str, ...] = (),
    views: Any = None,
) -> Any:
    """Follow a function of arrays; `follow` names other packages whose NumPy code takes part.

    The function's results are ordinary; `provenance(result)` tells where their cells come from.
    """
    if function is None:
        return partial(track, follow=follow, views=views)
    if not callable(function):
        raise ArrayError(f"track expects a function, not {type(function).__name__}")
    return TrackedFunction(function, tuple(follow), views)
