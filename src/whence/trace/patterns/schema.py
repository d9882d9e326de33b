"""The types of a result, as Spark's JSON has them, and the ways to reach a name in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from whence.errors import PatternError, UnknownNameError
from whence.plan.paths import Field, Item, Step, Value, quote, step_text
from whence.trace.patterns.tree import Node, node_text

Type = str | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Route:
    """Steps into a value, and the type of what is there."""

    steps: tuple[Step, ...]
    type: Type


def kind(found: Type) -> str:
    """struct, array, map, or the name of a plain type."""
    return found if isinstance(found, str) else str(found["type"])


def fields(found: Type) -> list[tuple[str, Type]]:
    """The fields of a struct."""
    assert not isinstance(found, str)
    return [(field["name"], _own(field["type"])) for field in found["fields"]]


def element(found: Type) -> Type:
    """The type of an array's items."""
    assert not isinstance(found, str)
    return _own(found["elementType"])


def under(found: Type) -> Type:
    """The type of a map's values."""
    assert not isinstance(found, str)
    return _own(found["valueType"])


def _own(found: Any) -> Type:
    """A user-defined type is what it is stored as."""
    if isinstance(found, Mapping) and found["type"] == "udt":
        return _own(found["sqlType"])
    return found if isinstance(found, str) else dict(found)


class Misfit(PatternError):
    """What a node asks for cannot be in values of a type."""


def fitting(start: Type, node: Node) -> list[Route]:
    """The ways to what a node names, or to its items, where all that is asked can be found."""
    found: list[Route] = []
    errors: list[UnknownNameError | Misfit] = []
    for route in routes(start, node):
        try:
            found.append(_fitted(route, node))
        except (UnknownNameError, Misfit) as error:
            errors.append(error)
    if not found:
        raise next((e for e in errors if getattr(e, "available", ())), errors[0])
    return found


def _fitted(route: Route, node: Node) -> Route:
    """A route that ends in a list goes on to its items, unless the list itself is meant."""
    if not node.is_plain and kind(route.type) == "array":
        route = Route((*route.steps, Item(node.position)), element(route.type))
    elif node.position is not None:
        raise Misfit(
            f"{node_text(node)}: there is no list to take an item of; this is "
            f"{described(route.type)}"
        )
    if kind(route.type) in ("struct", "array", "map") and any(c.compares for c in node.conditions):
        raise Misfit(
            f"{node_text(node)}: this is {described(route.type)}, which cannot be compared; "
            "name a part of it"
        )
    for child in node.children:
        fitting(route.type, child)
    return route


def routes(start: Type, node: Node) -> list[Route]:
    """All ways from a value to what a node names; a list on the way stands for its items."""
    if node.name == "":
        if kind(start) != "array":
            raise Misfit(f"there is no list to take an item of: this is {described(start)}")
        return [Route((), start)]
    below = list(_below(start, (), deep=node.edge == "descendant"))
    found = below if node.name is None else _named(below, node.name)
    if len({route.steps for route in found}) < len(found):
        raise PatternError(
            f"{node.name or '*'} is ambiguous, several columns have the same name; give them names "
            "of their own in the pipeline"
        )
    if not found:
        names = [path_text(r.steps) for r in _below(start, (), deep=True)]
        raise UnknownNameError("path", str(node.name), _nearest(str(node.name), names))
    return found


def _named(below: list[Route], name: str) -> list[Route]:
    """Values of a name, beside which no other has it as it is written; and those in maps."""
    near = [route for route in below if _matches(route.steps[-1], name)]
    exact = {route.steps for route in near if route.steps[-1] == Field(name)}
    return [r for r in near if r.steps in exact or (*r.steps[:-1], Field(name)) not in exact]


def _matches(step: Step, name: str) -> bool:
    match step:
        case Field(found):
            return found.casefold() == name.casefold()
        case Value():
            return True
        case _:
            return False


def _below(start: Type, steps: tuple[Step, ...], *, deep: bool) -> Iterator[Route]:
    """What is inside a value: its fields, those of its items, and with `deep` all further down."""
    match kind(start):
        case "array":
            yield from _below(element(start), (*steps, Item()), deep=deep)
        case "map":
            inner = Route((*steps, Value()), under(start))
            if not deep:
                yield inner
            else:
                yield from _below(inner.type, inner.steps, deep=deep)
        case "struct":
            for name, found in fields(start):
                route = Route((*steps, Field(name)), found)
                yield route
                if deep:
                    yield from _below(found, route.steps, deep=deep)
        case _:
            return


def parts(found: Type, node: Node) -> dict[tuple[Step, ...], str]:
    """The plain values inside a value that a node asks of it, and their types; at least one."""
    every = dict(_plain(found, ()))
    if node.conditions:
        return every
    asked = {
        (*route.steps, *steps): name
        for child in node.children
        for route in fitting(found, child)
        for steps, name in parts(route.type, child).items()
    }
    return asked or dict([*every.items()][:1])


def _plain(found: Type, steps: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], str]]:
    match kind(found):
        case "array":
            yield from _plain(element(found), (*steps, Item()))
        case "map":
            yield from _plain(under(found), (*steps, Value()))
        case "struct":
            for name, inner in fields(found):
                yield from _plain(inner, (*steps, Field(name)))
        case name:
            yield steps, name


def path_text(steps: tuple[Step, ...]) -> str:
    """Steps below a row as people write them; the first is a column."""
    first, *rest = steps
    head = quote(first.name) if isinstance(first, Field) else step_text(first)
    return head + "".join(step_text(step) for step in rest)


def _nearest(name: str, paths: list[str]) -> list[str]:
    """Paths whose last part is near the name come first."""
    last = {path: path.rsplit(".", 1)[-1].rstrip("[]") for path in paths}
    same = [path for path in paths if last[path].casefold() == name.casefold()]
    return [*same, *(path for path in paths if path not in same)]


def described(found: Type) -> str:
    """A type in a message."""
    match kind(found):
        case "struct":
            return "a struct of " + ", ".join(name for name, _ in fields(found)[:8])
        case "array":
            return "a list"
        case "map":
            return "a map"
        case name:
            return f"a value of type {name}"
