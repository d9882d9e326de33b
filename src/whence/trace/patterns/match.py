"""Matching a pattern where the data lies: in DuckDB, node by node, over rows with their locators.

The *occurrences* of a node are a table: the locator of the row, the positions of the list items on
the way (`p0`, `p1`, ...; a map's keys are positions too) and, while it is needed, the value. A
node's conditions and children leave some of them; what remains is then cut down to what lies below
values that remained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from whence.archive import Dataset
from whence.errors import ArchiveError, PatternError
from whence.plan.paths import Field, Item, Step, Value
from whence.trace.longlists import part_of_rows
from whence.trace.patterns import schema as types
from whence.trace.patterns.schema import Misfit, Route, Type
from whence.trace.patterns.tree import Condition, Node, Pattern, node_text
from whence.trace.places import ROW, Held, PlaceStep
from whence.trace.tables import LOCATOR, Tables, key_as_text, quoted, text


@dataclass(frozen=True, slots=True)
class Place:
    """Occurrences of a value: the steps to it, their table, and its type."""

    steps: tuple[PlaceStep, ...]
    table: str
    type: Type

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that tell occurrences apart; a row is known by its locator alone."""
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
        rows = tables.rows(dataset, ["1 AS v"])
        self._every = f"(SELECT {LOCATOR} AS {ROW} FROM ({rows}))"

    def match(self, pattern: Pattern) -> Matched:
        """The rows in which all nodes of the pattern are found, and where."""
        rows = _Found(Place((), self._every, self._schema))
        self._descend(rows, pattern.nodes)
        return Matched(rows.place.table, tuple(self._leaves(rows)))

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

    def _descend(self, found: _Found, nodes: Sequence[Node]) -> None:
        """Look for nodes below a place, which is cut down to where they are found.

        Each is looked for only where those before it were found, so those with conditions, which
        leave the least, come first.
        """
        for node in sorted(nodes, key=_leaves_much):
            place = found.place
            below = self._node(node, place)
            found.below.append(below)
            if node.times is None and any(each.place.table == place.table for each in below):
                continue  # it is everywhere
            if not (node.times or place.steps) and [b.place.keys for b in below] == [place.keys]:
                found.place = replace(place, table=below[0].place.table)  # once in each row
                continue
            every = f"SELECT {', '.join(place.keys)} FROM {place.table}"
            keys = self._counted(node, below, every, place.keys)
            if place.steps:
                found.place = self._kept(place, f"({keys})", place.keys)
            else:
                found.place = replace(place, table=self._tables.table("matched", keys))
            if len(below) == 1 and not (node.times or node.children):
                below[0].place = _as_often(below[0].place, found.place)

    def _node(self, node: Node, above: Place) -> list[_Found]:
        """The occurrences of a node below a place.

        Of several values that it can mean, those are passed over whose type cannot be compared.
        """
        found: list[_Found] = []
        errors: list[Misfit] = []
        for route in types.fitting(above.type, node):
            try:
                each = _Found(self._occurrences(node, above, route))
                self._descend(each, node.children)
                found.append(each)
            except Misfit as error:
                errors.append(error)
        if not found:
            raise errors[0]
        return found

    # --- Tables -----------------------------------------------------------------------------

    def _occurrences(self, node: Node, above: Place, route: Route) -> Place:
        """The table of what a route leads to, where the node's conditions hold.

        At once, so that DuckDB reads little else; if that fails, one by one, which tells why.
        """
        if not node.conditions:
            return self._expanded(node, above, route)
        tests = " AND ".join(self._test(node, c) for c in node.conditions)
        try:
            return self._expanded(node, above, route, tests)
        except Exception:
            return self._filtered(node, self._expanded(node, above, route), tests)

    def _expanded(self, node: Node, above: Place, route: Route, tests: str = "") -> Place:
        """The table of what a route leads to; with tests, where they hold."""
        steps = list(route.steps)
        done, keys = above.steps, list(above.keys)
        sql = f"SELECT * FROM {above.table}"
        if not above.steps:
            first = steps.pop(0)
            assert isinstance(first, Field)
            sql = self._column(first.name, above, Route(tuple(steps), route.type), node)
            done = (first,)
        for step in steps:
            sql, done = self._step(sql, done, keys, step, node)
        # A value that nothing is asked of need not be read.
        asked = node.children or (node.conditions and not tests)
        columns = [*keys, "v"] if asked else keys
        if columns == list(above.keys) and above.table != self._every and not tests:
            return Place(done, above.table, route.type)
        if tests:
            sql = f'SELECT * FROM (SELECT *, v AS "_" FROM ({sql})) WHERE {tests}'
        sql = f"SELECT {', '.join(columns)} FROM ({sql})"
        return Place(done, self._tables.table("found", sql, self._dataset), route.type)

    def _column(self, name: str, rows: Place, rest: Route, node: Node) -> str:
        """SQL for a column of some rows: as much of it as a node asks for, after more steps."""
        column = self._physical[name]
        items = [f"{quoted(column)} AS v"]
        if rows.table == self._every:
            found = self._tables.rows(self._dataset, items)
        else:
            chosen = f"(SELECT {ROW} AS locator FROM {rows.table})"
            asked = types.parts(rest.type, node)
            parts = {(*rest.steps, *steps): kind for steps, kind in asked.items()}
            found = part_of_rows(
                self._tables, self._dataset, column, parts, chosen
            ) or self._tables.at(self._dataset, items, chosen)
        return f"SELECT {LOCATOR} AS {ROW}, v FROM ({found})"

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
                    f"SELECT {listed}, {key_as_text('e.key')} AS {position}, e.value AS v "
                    f"FROM (SELECT {listed}, unnest(map_entries(v)) AS e FROM ({sql}))"
                )
                if node.name is not None and node.edge == "child":
                    sql += f" WHERE {position} = {text(node.name)}"
                keys.append(position)
                return sql, (*done, Held(position, "value"))
            case _:
                raise PatternError(f"a pattern cannot go into the keys of a map: {node_text(node)}")

    def _filtered(self, node: Node, place: Place, tests: str) -> Place:
        """The occurrences for which tests hold; where these cannot be asked, why."""
        import duckdb

        named = f'SELECT *, v AS "_" FROM {place.table}'
        columns = ", ".join([*place.keys, *(["v"] if node.children else [])])
        try:
            table = self._tables.table("kept", f"SELECT {columns} FROM ({named}) WHERE {tests}")
        except (
            duckdb.BinderException,
            duckdb.ConversionException,
            duckdb.InvalidTypeException,
            duckdb.NotImplementedException,
            duckdb.TypeMismatchException,
        ) as error:
            kind = types.described(place.type)
            raise Misfit(f"{node_text(node)} does not fit {kind}: {_first_line(error)}") from error
        except (duckdb.OutOfRangeException, ArchiveError) as error:
            # Nothing is read from files here, so invalid input is what the pattern gave.
            cause = error.__cause__ or error
            if not isinstance(cause, duckdb.OutOfRangeException | duckdb.InvalidInputException):
                raise
            raise PatternError(f"{node_text(node)} fails: {_first_line(cause)}") from error
        return replace(place, table=table)

    @staticmethod
    def _test(node: Node, condition: Condition) -> str:
        match condition.comparison:
            case "is null" | "is not null":
                return f"v {condition.comparison}"
            case "where":
                return f"({_predicate(node, str(condition.value))})"
        if condition.comparison == "in":
            return f"v IN ({', '.join(map(_literal, condition.value))})"
        return f"v {condition.comparison} {_literal(condition.value)}"

    def _kept(self, place: Place, keys: str, names: tuple[str, ...]) -> Place:
        """The occurrences whose keys are among some."""
        tests = " AND ".join(f"k.{n} IS NOT DISTINCT FROM o.{n}" for n in names)
        sql = f"SELECT o.* FROM {place.table} AS o SEMI JOIN {keys} AS k ON {tests}"
        return replace(place, table=self._tables.table("kept", sql))

    def _leaves(self, found: _Found) -> Iterator[Place]:
        """What remains of the places without children, below a place that is cut down already."""
        if not found.below:
            yield found.place
        for each in (each for places in found.below for each in places):
            each.place = self._within(each.place, found.place)
            yield from self._leaves(each)

    def _within(self, place: Place, above: Place) -> Place:
        """What lies below a place that was cut down; all of it, where it is no list."""
        if place.table == above.table:
            return place
        return self._kept(place, above.table, above.keys)


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0]


def _as_often(place: Place, above: Place) -> Place:
    """A place over the table of the one above, if it is there once for each of these."""
    return replace(place, table=above.table) if place.keys == above.keys else place


def _leaves_much(node: Node) -> bool:
    """Whether a node says only that a value is there."""
    return not node.conditions and all(map(_leaves_much, node.children))


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
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if isinstance(value, float):
        return repr(float(value)) if isfinite(value) else f"'{value}'::DOUBLE"
    return str(int(value)) if isinstance(value, int) else text(str(value))
