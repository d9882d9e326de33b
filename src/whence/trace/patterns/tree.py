"""A tree pattern: names on the way into a value, and what the values there must fulfil."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Edge = Literal["child", "descendant"]
Comparison = Literal["=", "<>", "<", "<=", ">", ">=", "in", "is null", "is not null", "where"]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a value must fulfil: compared with a value, or a predicate in SQL where it is `_`."""

    comparison: Comparison
    value: Any = None

    @property
    def compares(self) -> bool:
        """Whether the value is compared with another one."""
        return self.comparison not in ("is null", "is not null", "where")


@dataclass(frozen=True, slots=True)
class Node:
    """A value in a row: its name, and what must hold for it and for what is inside it.

    `name` is None for any name, and empty for the items of a list in a list. A list stands for its
    items: `position` (zero-based) asks for one of them, `times` says how many must fulfil the rest.
    """

    name: str | None
    edge: Edge = "child"
    position: int | None = None
    conditions: tuple[Condition, ...] = ()
    times: tuple[int, int | None] | None = None
    children: tuple[Node, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the value is meant as a whole, be it a list."""
        asked = self.position is not None or self.times is not None or self.children
        return not asked and all(_of_a_list(c) for c in self.conditions)


@dataclass(frozen=True, slots=True)
class Pattern:
    """Nodes below a row, all of which must be found in it."""

    nodes: tuple[Node, ...]
    text: str = ""

    def __str__(self) -> str:
        return self.text or ", ".join(node_text(node) for node in self.nodes)


def _of_a_list(condition: Condition) -> bool:
    return condition.comparison in ("is null", "is not null")


def node_text(node: Node) -> str:
    """A node as it is written in a pattern.

    >>> node_text(Node("tweets", times=(2, 2), children=(Node("text"),)))
    'tweets[text]{2}'
    """
    name = "*" if node.name is None else _name(node.name)
    text = ("//" if node.edge == "descendant" else "") + name
    if node.position is not None:
        text += f"[{node.position}]"
    if node.children:
        text += "[" + ", ".join(node_text(child) for child in node.children) + "]"
    if node.times is not None:
        low, high = node.times
        text += f"{{{low}}}" if low == high else f"{{{low},{'' if high is None else high}}}"
    for condition in node.conditions:
        text += " " + _condition(condition)
    return text


def _name(name: str) -> str:
    return name if name.isidentifier() or not name else "`" + name.replace("`", "``") + "`"


def _condition(condition: Condition) -> str:
    match condition.comparison:
        case "is null" | "is not null":
            return condition.comparison
        case "in":
            return "in (" + ", ".join(map(_literal, condition.value)) + ")"
        case _:
            return f"{condition.comparison} {_literal(condition.value)}"


def _literal(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, int):
        return str(int(value))
    return "'" + str(value).replace("'", "''") + "'"
