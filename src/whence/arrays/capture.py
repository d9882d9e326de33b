"""`track`, `tracked` and `provenance`: how functions and arrays are followed."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial, update_wrapper
from types import GeneratorType
from typing import Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.containers import Lent, is_filled, mapped, plain, take_back
from whence.arrays.forms import everything, identity
from whence.arrays.graph import KEPT, Edge, Input, Node, leaves
from whence.arrays.memory import Array
from whence.arrays.provenance import Provenance
from whence.arrays.rules import creation
from whence.arrays.session import NO_KEYS, NONE, Session
from whence.arrays.tracked import TrackedArray, bare, new, tracked_in
from whence.errors import ArrayError

_arrays: dict[int, Kept] = {}
_scalars: OrderedDict[int, tuple[Any, Provenance]] = OrderedDict()
_SCALARS_KEPT = 4096
_prompt: list[weakref.ref[Session]] = []
_named: weakref.WeakValueDictionary[str, Node] = weakref.WeakValueDictionary()
_PLAIN = frozenset({np.ndarray, np.memmap})
_NESTING = frozenset({list, tuple, dict})
_HARMLESS = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, type, slice)


def tracked(array: Any, name: str = "a") -> TrackedArray:
    """Follow an array interactively; `provenance` of anything computed from it refers to `name`.

    If an array of that name is still followed, the new one is called `name-2`, and so on.
    """
    if type(array) is TrackedArray:
        return array
    session = creation.current.get()
    if session is not None and session.frames:
        from whence.arrays.frames.column import unwrapped

        array = unwrapped(array)
        if type(array) is TrackedArray:
            return array
    data = np.array(array)
    if session is not None:  # inside a tracked call: an array without provenance of its own
        return TrackedArray(data, Node(data.shape, session.tainted(data.shape), "tracked"), session)
    node = Input(data.shape, _own_name(name))
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
        if known is not None and known() is result:
            return known.found
    else:
        kept = _scalars.get(id(result))
        if kept is not None and kept[0] is result:
            return kept[1]
    raise ArrayError(
        f"no provenance is known for this {type(result).__name__}; expected an array (or NumPy "
        "number) as returned by a function under @whence.arrays.track, or a tracked array; the "
        "`.last` of a tracked function has the provenance of its last call"
    )


def only(answers: Iterable[Provenance]) -> Provenance | tuple[Provenance, ...]:
    """The answer, if there is one; else all of them."""
    listed = tuple(answers)
    return listed[0] if len(listed) == 1 else listed


class Kept(weakref.ref[Array]):
    """An array that was handed out, and its answer."""

    __slots__ = ("found", "key")
    found: Provenance
    key: int


def _forget(kept: Kept, arrays: dict[int, Kept] = _arrays) -> None:
    arrays.pop(kept.key, None)  # the default is there also when Python ends


def remember(result: Any, found: Provenance) -> None:
    """Let `provenance(result)` find its answer as long as the array lives."""
    if isinstance(result, np.ndarray):
        kept = Kept(result, _forget)
        kept.found, kept.key = found, id(result)
        _arrays[kept.key] = kept
    elif isinstance(result, np.generic) and not isinstance(result, np.bool_):
        _scalars[id(result)] = (result, found)
        if len(_scalars) > _SCALARS_KEPT:
            _scalars.popitem(last=False)


def _one_file(one: Array, two: Array) -> bool:
    names = [getattr(array, "filename", None) for array in (one, two)]
    writable = one.flags.writeable or two.flags.writeable
    return bool(names[0] is not None and names[0] == names[1] and writable)


class TrackedFunction:
    """A function whose array results have provenance. Calling it gives what the function gives."""

    def __init__(self, function: Callable[..., Any], follow: tuple[str, ...], views: Any) -> None:
        update_wrapper(self, function)
        self.__name__ = str(getattr(function, "__name__", type(function).__name__))
        with contextlib.suppress(TypeError, ValueError):  # what PySpark asks before it takes it
            self.__signature__ = inspect.signature(function)
        self.function = function
        self.views = views
        self.last: Any = None
        package = (getattr(function, "__module__", None) or "").partition(".")[0]
        self._packages = frozenset({package, *follow}) - {"numpy", ""}
        self.names, self._rest = _parameters(function)
        self._named = len(self.names)

    def __getstate__(self) -> dict[str, Any]:
        """All but what the last call recorded: that can be large, and belongs to this process."""
        return {**self.__dict__, "last": None}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives; `provenance` of it tells where its cells come from."""
        session = creation.current.get()
        if session is not None:
            return self._within(session, args, kwargs)
        for value in args:
            kind = type(value)
            if kind is TrackedArray or (kind in _NESTING and tracked_in(value)):
                return self.function(*args, **kwargs)
        if kwargs and tracked_in(kwargs):
            return self.function(*args, **kwargs)
        if self.views is not None:
            return self.views.call(self, args, kwargs)
        return self.run(args, kwargs)[0]

    def _within(self, session: Session, args: Any, kwargs: Any) -> Any:
        """Part of a larger tracked call, whose arrays it may reach."""
        session.packages |= self._packages
        if session.frames:  # the columns of a frame are followed already
            from whence.arrays.frames.column import unwrapped

            return self.function(*unwrapped(args), **unwrapped(kwargs))
        return self.function(*args, **kwargs)

    def run(self, args: Any, kwargs: Any) -> tuple[Any, Call]:
        """Call with tracking; gives the result and what was recorded."""
        call = new(Call)
        call.function, call.packages, call.args = self, self._packages, args
        own_args = call.admit(args)
        own_kwargs = call.admit_named(kwargs) if kwargs else kwargs
        if len(call.shapes) > 1:
            call.link_inputs(own_args, own_kwargs)
        token = creation.enter(call)
        try:
            result = self.function(*own_args, **own_kwargs)
        finally:
            call.over = True
            creation.leave(token)
            if call.lent:
                call.give_back()
        given = call.hand_out(result)
        if call.held:
            call.release([*call.inputs.values(), *call.results])
        answers = call.answers
        self.last = answers[""] if "" in answers else only(answers.values())
        return given, call

    def name_arguments(self, args: Any) -> list[str]:
        """A name for every positional argument; there may be more names."""
        names = self.names
        while len(names) < len(args):
            names.append(f"{self._rest}[{len(names) - self._named}]")
        return names

    def __repr__(self) -> str:
        return f"track({self.function!r})"


class Call(Session):
    """One call under way: what its arrays share, its inputs, and the answers for its outputs.

    It knows its inputs as they were given, not the tracked arrays, which know the call.
    """

    function: TrackedFunction
    args: tuple[Any, ...]
    shapes: dict[str, Shape]
    answers: dict[str, Provenance]
    inner: dict[str, Array] = NO_KEYS
    results: list[Any] = NONE
    foreign: tuple[tuple[Node, str], ...] = ()
    untracked: tuple[str, ...] = ()
    lent: dict[int, Lent] = NO_KEYS
    own: dict[int, Lent] = NO_KEYS
    placed: dict[int, tuple[Any, Node]] = NO_KEYS
    lost: list[Node] = NONE

    @property
    def inputs(self) -> dict[str, Array]:
        """The arrays that were given, by name."""
        named = zip(self.function.names, self.args)  # noqa: B905 more names
        return {**{name: a for name, a in named if type(a) in _PLAIN}, **self.inner}

    def admit(self, args: tuple[Any, ...]) -> list[Any]:
        """Arguments with tracked arrays in place of arrays."""
        own: list[Any] = []
        shapes: dict[str, Shape] = {}
        self.shapes, self.answers = shapes, {}
        names = self.function.names
        if len(names) < len(args):
            names = self.function.name_arguments(args)
        for value, name in zip(args, names):  # noqa: B905 more names
            if type(value) in _PLAIN:
                node = new(Input)
                node.label = name
                node.shape = shapes[name] = value.shape
                array = new(TrackedArray)
                array.data_, array.node_, array.session_, array.scalar_ = value, node, self, False
                own.append(array)
            else:
                own.append(self._admit(value, name))
        return own

    def admit_named(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """As `admit`, for arguments given by name."""
        return {name: self._admit(value, name) for name, value in kwargs.items()}

    def link_inputs(self, own: list[Any], named: dict[str, Any]) -> None:
        """Note which inputs share memory; arrays that own theirs share it with views alone."""
        met: set[int] = set()
        for array in self.inputs.values() if self.inner else self.args:
            if type(array) in _PLAIN:
                if array.base is not None or id(array) in met:
                    break
                met.add(id(array))
        else:
            return
        listed = tracked_in([own, named])
        for i, one in enumerate(listed):
            for two in listed[i + 1 :]:
                if np.may_share_memory(one.data_, two.data_):
                    self.link(one, two)
                elif _one_file(one.data_, two.data_):
                    why = "two maps of one file: a write to one is not seen in the other"
                    self.foreign += ((one.node_, why), (two.node_, why))

    def _take(self, value: Array, name: str) -> TrackedArray:
        self.inner = self.inner or {}
        self.inner[name] = value
        shape = self.shapes[name] = value.shape
        return TrackedArray(value, Input(shape, name), self)

    def _admit(self, value: Any, name: str) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return self._take(value, name)
        if isinstance(value, _HARMLESS):
            return value
        if isinstance(value, np.ndarray):
            node = self._take(np.asarray(value), name).node_
            label = f"{kind.__module__}.{kind.__name__}"
            self.foreign += ((node, f"{name} is a {label}, which is not followed"),)
            return value
        if id(value) in self.lent:
            return self.lent[id(value)].own
        made = mapped(value, lambda item, where: self._admit(item, name + where))
        if made is NotImplemented:
            self.untracked += (name,)
            return value
        if is_filled(value):
            self._lend(Lent(value, made, name))
        return made

    def _lend(self, lent: Lent) -> None:
        """Note what the function gets in place of a container, by both."""
        self.lent, self.own = self.lent or {}, self.own or {}
        self.lent[id(lent.given)] = self.own[id(lent.own)] = lent

    def give_back(self) -> None:
        """Let the caller's containers hold what the function has put there."""
        for given, own, name in self.lent.values():
            items = mapped(own, partial(self._put, own is given, name))
            self.changed |= take_back(given, items)

    def _put(self, lost: bool, name: str, value: Any, where: str) -> Any:
        """What the caller finds in a container in place of what the function has put there.

        `lost` says that the function, should it go on, finds the same.
        """
        if id(value) in self.own:
            return self.own[id(value)].given
        if type(value) is not TrackedArray:
            made = mapped(value, partial(self._put, lost, name + where))
            return value if made is NotImplemented else made
        if value.session_ is not self:
            return bare(value) if value.session_.over else value
        data = bare(value)
        if isinstance(data, np.ndarray | np.generic):
            self._note_place(data, value.node_, name + where)
        if lost:
            self.lost = [*self.lost, value.node_]
        return data

    def _note_place(self, data: Any, node: Node, name: str) -> None:
        """Let an array in a container be known, whether asked for there or returned as well."""
        self.placed = self.placed or {}
        self.placed[id(data)] = data, node
        if node.label is None:
            remember(data, Provenance(self._with_others(node), self.shapes, name, self.untracked))
            self.results = self.results or []
            self.results.append(data)

    def hand_out(self, result: Any, path: str = "") -> Any:
        """Plain results in place of tracked ones; each gets its provenance."""
        kind = type(result)
        if kind is TrackedArray:
            node = result.node_
            if result.session_ is not self:
                if not result.session_.over:  # of a call around this one, or of the prompt
                    return result
                kept = Edge(node, partial(identity, node.shape), doubt=KEPT)
                node = Node(node.shape, [kept], "kept")
            data = bare(result) if result.scalar_ else result.data_
            self._answer(data, node, path)
            return data
        if kind is GeneratorType:
            return self._generated(result, path)
        if id(result) in self.own:
            result = self.own[id(result)].given
        made = mapped(result, lambda item, where: self.hand_out(item, path + where))
        return self._plain_result(result, path) if made is NotImplemented else made

    def _generated(self, values: Any, path: str) -> Any:
        """What a generator gives, one by one; between two the caller may change its arrays."""
        resume: Callable[[], Any] = partial(next, values)
        for number in itertools.count():
            token = creation.enter(self)
            self.over = False
            try:
                value = resume()
            except StopIteration as end:
                return end.value
            finally:
                self.over = True
                creation.leave(token)
                self.give_back()
            given = self.hand_out(value, f"{path}[{number}]")
            for node in self.lost:
                self.escape(node, "a container of the caller")
            self.lost = NONE
            self.release([*self.inputs.values(), *self.results])
            self.function.last = only(self.answers.values())
            try:
                resume = partial(values.send, (yield given))
            except GeneratorExit:
                values.close()
                raise
            except BaseException as error:
                resume = partial(values.throw, error)

    def _plain_result(self, result: Any, path: str) -> Any:
        """Something that is not tracked: a constant, unless values left before."""
        if id(result) in self.placed:
            self._answer(result, self.placed[id(result)][1], path)
        elif isinstance(result, np.ndarray | np.generic | int | float | complex):
            shape: Shape = np.shape(result)
            self._answer(result, Node(shape, self.tainted(shape), "constant"), path)
        elif result is not None:
            what = f"the result{path} is a {type(result).__name__}, no array"
            self._answer(result, Node((), (), "unknown"), path, what)
            return plain(result)
        return result

    def _answer(self, result: Any, node: Node, path: str, unknown: str = "") -> None:
        if self.steering or self.left or self.foreign or node.loose is not None:
            node = self._with_others(node)
        name = self.function.__name__ + path if path else self.function.__name__
        found = Provenance(node, self.shapes, name, self.untracked, unknown)
        self.answers[path] = found
        if self.held or path:  # of what a generator gives, more may be held later on
            self.results = self.results or []
            self.results.append(result)
        remember(result, found)

    def _with_others(self, node: Node) -> Node:
        """What is returned, with what has a say in everything."""
        shape = node.shape
        node = with_steering(node, self)
        extra = [
            Edge(leaf, partial(everything, shape, leaf.shape), doubt=why)
            for leaf, why in self.foreign
        ]
        if not extra:
            return node
        return Node(shape, [Edge(node, partial(identity, shape)), *extra], "result")


def with_steering(node: Node, session: Session) -> Node:
    """Branches on values influence every cell of what is returned; so may values that left.

    So does what decided its shape: cells that were written since may not know of it.
    """
    steering = session.steering if node.loose is None else [*session.steering, node.loose]
    if not steering and not session.left:
        return node
    shape = node.shape
    looked = list({id(n): n for n in steering}.values())
    edges = [Edge(n, partial(everything, shape, n.shape), False) for n in looked]
    edges += session.tainted(shape, contributing=False)
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
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise ArrayError("async functions are not followed; track the functions that they call")
    return TrackedFunction(function, tuple(follow), views)
