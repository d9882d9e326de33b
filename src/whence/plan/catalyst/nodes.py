"""Spark's JSON form of a tree: a list of nodes in pre-order, each with its number of children."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a Spark plan or expression: class name, constructor fields, children."""

    name: str
    fields: dict[str, Any]
    children: "tuple[Node, ...]"

    def walk(self) -> "Iterator[Node]":
        """This node and all below it, each before its children."""
        pending = [self]
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children))

    def expression(self, field: str) -> "Node | None":
        """A field that holds one expression, if it does."""
        value = self.fields.get(field)
        return parse(value) if value is not None and is_tree(value) else None

    def expressions(self, field: str) -> "tuple[Node, ...]":
        """A field that holds a list of expressions."""
        return tuple(parse(value) for value in self.fields.get(field) or () if is_tree(value))

    @property
    def id(self) -> int:
        """The expression id of an attribute, alias or lambda variable."""
        return int(self.fields["exprId"]["id"])


def is_tree(value: Any) -> bool:
    """Whether a field's value is a tree of nodes."""
    return (
        isinstance(value, list)
        and bool(value)
        and isinstance(value[0], dict)
        and "num-children" in value[0]
    )


def parse(items: list[dict[str, Any]]) -> Node:
    """A list in pre-order as a tree, without recursion: plans can be deep."""
    stack: list[Node] = []
    for item in reversed(items):
        count = item["num-children"]
        children = tuple(stack.pop() for _ in range(count))
        stack.append(Node(_short(item["class"]), item, children))
    (root,) = stack
    return root


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1].rstrip("$").rsplit("$", 1)[-1]


def classes(names: str) -> frozenset[str]:
    """A set of class names, written as one text."""
    return frozenset(names.split())


def object_name(value: Any) -> str:
    """The class name of a case object or product in a field: `LeftSemi`, `Ascending`."""
    if isinstance(value, dict):
        return _short(str(value.get("object") or value.get("product-class") or "?"))
    return "?"


def trees_in(value: Any) -> Iterator[Node]:
    """All expression trees in a plan node's fields, in constructor order."""
    if is_tree(value):
        yield parse(value)
    elif isinstance(value, list):
        for item in value:
            yield from trees_in(item)
    elif isinstance(value, dict) and "product-class" not in value:
        for item in value.values():
            yield from trees_in(item)


def plan_expressions(node: Node) -> Iterator[Node]:
    """All expressions of a plan node, in the order of Spark's `node.expressions`."""
    for name, value in node.fields.items():
        if name not in ("class", "num-children", "cacheBuilder"):
            yield from trees_in(value)


def subqueries(node: Node) -> Iterator[Node]:
    """The subquery expressions in a plan node, in the order of Spark's `node.subqueries`."""
    for expression in plan_expressions(node):
        for part in expression.walk():
            if is_tree(part.fields.get("plan")):
                yield part
