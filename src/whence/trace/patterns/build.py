"""Patterns made in Python, from text or node by node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from whence.errors import PatternError
from whence.trace.patterns.tree import Comparison, Condition, Edge, Node, Pattern


class Ask:
    """A node of a pattern, being described.

    >>> str(pattern(node("tweets").has(node("text") == "Hello").times(2)))
    "tweets[text = 'Hello']{2}"
    """

    __slots__ = ("_above", "_node")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, found: Node, above: Ask | None = None) -> None:
        self._node = found
        self._above = above

    def __repr__(self) -> str:
        return f"<pattern {Pattern((self.top(),))}>"

    def top(self) -> Node:
        """The whole path of nodes that leads here, from its first one."""
        if self._above is None:
            return self._node
        above = self._above._node
        return Ask(replace(above, children=(*above.children, self._node)), self._above._above).top()

    def _with(self, **changes: Any) -> Ask:
        return Ask(replace(self._node, **changes), self._above)

    def _must(self, comparison: Comparison, value: Any = None) -> Ask:
        return self._with(conditions=(*self._node.conditions, Condition(comparison, value)))

    def child(self, name: str | None) -> Ask:
        """A field inside, or a field of the items inside."""
        return Ask(_named(name), self)

    def anywhere(self, name: str | None) -> Ask:
        """A field at any depth inside."""
        return Ask(_named(name, "descendant"), self)

    def item(self, position: int) -> Ask:
        """The item at a position, counted from zero."""
        if self._node.position is not None:
            return Ask(Node("", position=position), self)
        return self._with(position=position)

    def has(self, *parts: Ask) -> Ask:
        """What must be inside, all together."""
        return self._with(children=(*self._node.children, *(part.top() for part in parts)))

    def times(self, low: int, high: int | None = -1) -> Ask:
        """How many items must fulfil this: so many, or from `low` to `high` (None: any number)."""
        return self._with(times=(low, low if high == -1 else high))

    def isin(self, values: Iterable[Any]) -> Ask:
        """One of some values."""
        return self._must("in", tuple(values))

    def is_null(self) -> Ask:
        """No value there."""
        return self._must("is null")

    def is_not_null(self) -> Ask:
        """Some value there."""
        return self._must("is not null")

    def where(self, predicate: str) -> Ask:
        """A predicate in Spark's SQL, in which `_` is the value."""
        return self._must("where", predicate)

    def __eq__(self, value: object) -> Ask:  # type: ignore[override]
        return self._must("=", value)

    def __ne__(self, value: object) -> Ask:  # type: ignore[override]
        return self._must("<>", value)

    def __lt__(self, value: Any) -> Ask:
        return self._must("<", value)

    def __le__(self, value: Any) -> Ask:
        return self._must("<=", value)

    def __gt__(self, value: Any) -> Ask:
        return self._must(">", value)

    def __ge__(self, value: Any) -> Ask:
        return self._must(">=", value)


def _named(name: str | None, edge: Edge = "child") -> Node:
    if not (name is None or (isinstance(name, str) and name)):
        raise PatternError(f"a name is text, or None for any name, not {name!r}")
    return Node(name, edge)


def node(name: str | None) -> Ask:
    """A column of the result."""
    return Ask(_named(name))


def anywhere(name: str | None) -> Ask:
    """A column or a field at any depth."""
    return Ask(_named(name, "descendant"))


def pattern(first: str | Ask, *more: Ask) -> Pattern:
    """A tree pattern, from one line of text or from nodes; all of them must be found in a row."""
    if isinstance(first, str):
        if more:
            raise PatternError("a pattern is one line of text, or nodes")
        from whence.trace.patterns.parse import parse

        return parse(first)
    found = (first, *more)
    if not all(isinstance(part, Ask) for part in found):
        raise PatternError("a pattern is made of text or of nodes: whence.pattern('//id = 7')")
    return Pattern(tuple(part.top() for part in found))
