"""Matching a pattern where the data lies: in DuckDB, node by node, over rows with their locators.

The *occurrences* of a node are a table: the locator of the row, the positions of the list items on
the way (`p0`, `p1`, ...; a map's keys are positions too) and the value. A node's conditions and
children leave some of them; what remains is then cut down to what lies below values that remained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from whence.archive import Dataset
from whence.errors import PatternError
from whence.plan.paths import Field, Item, Step, Value
from whence.trace.patterns import schema as types
from whence.trace.patterns.schema import Route, Type
from whence.trace.patterns.tree import Condition, Node, Pattern, node_text
from whence.trace.places import ROW, Held, PlaceStep
from whence.trace.tables import LOCATOR, Tables, quoted, text


@dataclass(frozen=True, slots=True)
class Place:
    """Occurrences of a value: the steps to it, their table, and its type."""

    steps: tuple[PlaceStep, ...]
    table: str
    type: Type

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that tell occurrences apart."""
        return (ROW, *(step.column for step in self.steps if isinstance(step, Held)))


@dataclass(slots=True)
class _Found:
    """A place with what was found below it, for each child of its node."""

    place: Place
    below: list[list[_Found]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Matched:
    """The rows that a pattern matches, and the places of what it names in them."""

    rows: str
    chosen: tuple[Place, ...]


class Matcher:
    """Matches one pattern against one dataset."""

    def __init__(self, tables: Tables, dataset: Dataset, schema: Type) -> None:
        self._tables = tables
        self._dataset = dataset
        self._schema = schema
        names = [name for name, _ in types.fields(schema)]
        physical = dataset.properties.get("physical", names)
        self._physical = dict(zip(names, physical, strict=True))

    def match(self, pattern: Pattern) -> Matched:
        """The rows in which all nodes of the pattern are found, and where."""
        found = [self._node(node, None) for node in pattern.nodes]
        rows = self._satisfied(pattern.nodes, found)
        chosen: list[Place] = []
        for places in found:
            for each in places:
                chosen += self._pruned(each, rows, (ROW,))
        return Matched(rows, tuple(chosen))

    def _satisfied(self, nodes: Sequence[Node], found: Sequence[list[_Found]]) -> str:
        every = f"SELECT {LOCATOR} AS {ROW} FROM ({self._tables.rows(self._dataset, ['1 AS v'])})"
        parts = [
            self._counted(node, places, every, (ROW,))
            for node, places in zip(nodes, found, strict=True)
        ]
        return self._tables.table("matched", " INTERSECT ".join(f"({p})" for p in parts))

    @staticmethod
    def _counted(node: Node, places: list[_Found], above: str, keys: tuple[str, ...]) -> str:
        """SQL for the keys, of those above, under which a node is found as often as it must."""
        low, high = node.times or (1, None)
        listed = ", ".join(keys)
        union = " UNION ALL ".join(f"SELECT {listed} FROM {f.place.table}" for f in places)
        grouped = f"SELECT {listed} FROM ({union}) GROUP BY {listed} HAVING count(*)"
        if low == 0:
            return f"({above}) EXCEPT ({grouped} > {high})" if high is not None else above
        most = "" if high is None else f" AND count(*) <= {high}"
        return f"{grouped} >= {low}{most}"

    def _node(self, node: Node, above: Place | None) -> list[_Found]:
        """The occurrences of a node below a place, or below the rows."""
        start = self._schema if above is None else above.type
        found = []
        for route in types.routes(start, node):
            place = self._expanded(node, above, self._to_items(node, route))
            each = _Found(self._filtered(node, place))
            for child in node.children:
                below = self._node(child, each.place)
                names = each.place.keys
                every = f"SELECT {', '.join(names)} FROM {each.place.table}"
                keys = self._counted(child, below, every, names)
                each.place = self._kept(each.place, f"({keys})", names)
                each.below.append(below)
            found.append(each)
        return found

    @staticmethod
    def _to_items(node: Node, route: Route) -> Route:
        """A route that ends in a list goes on to its items, unless the list itself is meant."""
        if node.is_plain or types.kind(route.type) != "array":
            if node.position is not None:
                raise PatternError(
                    f"{node_text(node)}: there is no list to take an item of; this is "
                    f"{types.described(route.type)}"
                )
            return route
        return Route((*route.steps, Item(node.position)), types.element(route.type))

    # --- Tables -----------------------------------------------------------------------------

    def _expanded(self, node: Node, above: Place | None, route: Route) -> Place:
        """The table of what a route leads to."""
        steps = list(route.steps)
        if above is None:
            first = steps.pop(0)
            assert isinstance(first, Field)
            column = quoted(self._physical[first.name])
            sql = f"SELECT {LOCATOR} AS {ROW}, v FROM ({self._rows(column)})"
            done: tuple[PlaceStep, ...] = (first,)
            keys: list[str] = [ROW]
        else:
            sql = f"SELECT * FROM {above.table}"
            done, keys = above.steps, list(above.keys)
        for step in steps:
            sql, done = self._step(sql, done, keys, step, node)
        return Place(done, self._tables.table("found", sql, self._dataset), route.type)

    def _rows(self, column: str) -> str:
        return self._tables.rows(self._dataset, [f"{column} AS v"])

    def _step(
        self,
        sql: str,
        done: tuple[PlaceStep, ...],
        keys: list[str],
        step: Step,
        node: Node,
    ) -> tuple[str, tuple[PlaceStep, ...]]:
        listed = ", ".join(keys)
        position = f"p{len(keys) - 1}"
        match step:
            case Field(name):
                return f"SELECT {listed}, v.{quoted(name)} AS v FROM ({sql})", (*done, step)
            case Item(None):
                sql = (
                    f"SELECT {listed}, generate_subscripts(v, 1) - 1 AS {position}, "
                    f"unnest(v) AS v FROM ({sql})"
                )
                keys.append(position)
                return sql, (*done, Held(position))
            case Item(int(wanted)):
                sql = (
                    f"SELECT {listed}, {wanted} AS {position}, v[{wanted + 1}] AS v "
                    f"FROM ({sql}) WHERE len(v) > {wanted}"
                )
                keys.append(position)
                return sql, (*done, Held(position))
            case Value():
                sql = (
                    f"SELECT {listed}, e.key::VARCHAR AS {position}, e.value AS v "
                    f"FROM (SELECT {listed}, unnest(map_entries(v)) AS e FROM ({sql}))"
                )
                if node.name is not None and node.edge == "child":
                    sql += f" WHERE {position} = {text(node.name)}"
                keys.append(position)
                return sql, (*done, Held(position, of_map=True))
            case _:
                raise PatternError(f"a pattern cannot go into the keys of a map: {node_text(node)}")

    def _filtered(self, node: Node, place: Place) -> Place:
        if not node.conditions:
            return place
        tests = " AND ".join(self._test(node, c, place.type) for c in node.conditions)
        try:
            named = f'SELECT *, v AS "_" FROM {place.table}'
            sql = f'SELECT * EXCLUDE ("_") FROM ({named}) WHERE {tests}'
            table = self._tables.table("kept", sql)
        except Exception as error:
            raise PatternError(
                f"{node_text(node)} does not fit {types.described(place.type)}: "
                f"{str(error).splitlines()[0]}"
            ) from error
        return replace(place, table=table)

    @staticmethod
    def _test(node: Node, condition: Condition, found: Type) -> str:
        match condition.comparison:
            case "is null" | "is not null":
                return f"v {condition.comparison}"
            case "where":
                return f"({_predicate(node, str(condition.value))})"
        if types.kind(found) in ("struct", "array", "map"):
            raise PatternError(
                f"{node_text(node)}: this is {types.described(found)}, which cannot be compared; "
                "name a part of it"
            )
        if condition.comparison == "in":
            return f"v IN ({', '.join(map(_literal, condition.value))})"
        return f"v {condition.comparison} {_literal(condition.value)}"

    def _kept(self, place: Place, keys: str, names: tuple[str, ...]) -> Place:
        """The occurrences whose keys are among some."""
        tests = " AND ".join(f"k.{n} IS NOT DISTINCT FROM o.{n}" for n in names)
        sql = f"SELECT o.* FROM {place.table} AS o SEMI JOIN {keys} AS k ON {tests}"
        return replace(place, table=self._tables.table("kept", sql))

    def _pruned(self, found: _Found, above: str, keys: tuple[str, ...]) -> list[Place]:
        """The leaves below, cut down to what lies below values that remained."""
        place = self._kept(found.place, above, keys)
        if not found.below:
            return [place]
        chosen: list[Place] = []
        for places in found.below:
            for each in places:
                chosen += self._pruned(each, place.table, place.keys)
        return chosen


def _predicate(node: Node, where: str) -> str:
    """A predicate in Spark's SQL over the value `_`, as DuckDB's."""
    from whence.trace.selection import condition, known

    found = condition(where, known(["_"]))
    if found is None:
        raise PatternError(
            f"{node_text(node)}: only Spark can tell what {where!r} means; use comparisons, "
            "arithmetic and plain functions of text, or compute it as a column of the pipeline"
        )
    return found


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    return text(str(value))
