"""One call of a tracked function: its arrays as they are taken in, and as they are handed out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.arrays.cells import Shape
from whence.arrays.containers import (
    Lent,
    is_filled,
    is_of_atoms,
    is_record,
    items_of,
    mapped,
    plain,
    take_back,
)
from whence.arrays.forms import everything, identity
from whence.arrays.graph import KEPT, Edge, Input, Node
from whence.arrays.known import only, remember
from whence.arrays.memory import Array
from whence.arrays.provenance import Provenance
from whence.arrays.rules import creation
from whence.arrays.session import NO_KEYS, NONE, Session
from whence.arrays.tracked import TrackedArray, bare, new, tracked_in

if TYPE_CHECKING:
    from whence.arrays.capture import TrackedFunction

_PLAIN = frozenset({np.ndarray, np.memmap})
_HARMLESS = (int, float, complex, str, bytes, type(None), np.generic, np.dtype, type, slice)


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
    opened: dict[int, Any] = NO_KEYS

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
        if is_of_atoms(value):
            made = value
        else:
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
            if own is given and is_of_atoms(own):
                continue
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
        if made is not NotImplemented:
            return made
        if not is_record(result):
            return self._plain_result(result, path)
        with suppress(RecursionError):  # what lies too deep stays as it is
            self._hand_out_fields(result, path)
        return result

    def _hand_out_fields(self, record: Any, path: str) -> None:
        """An object of a dataclass is handed out itself, with plain values in its fields."""
        if id(record) in self.opened:
            return
        self.opened = self.opened or {}
        self.opened[id(record)] = record
        for name, value in items_of(record).items():
            made = self.hand_out(value, f"{path}.{name}")
            if made is not value:
                with suppress(AttributeError):  # a property, say, that cannot be set
                    object.__setattr__(record, name, made)

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


def _one_file(one: Array, two: Array) -> bool:
    names = [getattr(array, "filename", None) for array in (one, two)]
    writable = one.flags.writeable or two.flags.writeable
    return bool(names[0] is not None and names[0] == names[1] and writable)
