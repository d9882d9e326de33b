"""A slow, plain oracle: every operator over lists of rows that carry their provenance.

An atom is (source, row number). A row's `by` are the atoms that contribute to it, `near` those that
only influence it. SQL's unknown is None: predicates keep a row only if they say True.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

Atom = tuple[str, int]
Values = dict[str, Any]
Function = Callable[[Values], Any]


@dataclass(frozen=True)
class Row:
    values: Values
    by: frozenset[Atom] = frozenset()
    near: frozenset[Atom] = frozenset()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


Table = list[Row]


def source(name: str, rows: Iterable[Values]) -> Table:
    return [Row(values, frozenset({(name, i)})) for i, values in enumerate(rows)]


def canonical(value: Any) -> Any:
    """A value that can be compared and hashed as SQL groups it: NaN is NaN, -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(sorted((canonical(k), canonical(v)) for k, v in value.items()))
    if isinstance(value, list | tuple):
        return tuple(canonical(v) for v in value)
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def identity(row: Row) -> Any:
    return canonical(list(row.values.values()))


def jointly(values: Values, *rows: Row) -> Row:
    """A row made from all of these together."""
    by = frozenset().union(*(row.by for row in rows))
    near = frozenset().union(*(row.near for row in rows))
    return Row(values, by, near)


def gather(values: Values, members: Sequence[Row], chosen: Sequence[bool]) -> Row:
    """A row made from a group; members that are not chosen only influence it."""
    by: set[Atom] = set()
    near: set[Atom] = set()
    for member, contributes in zip(members, chosen, strict=True):
        (by if contributes else near).update(member.by)
        near.update(member.near)
    return Row(values, frozenset(by), frozenset(near))


# --- Rows ------------------------------------------------------------------------------------


def select(table: Table, **columns: Function | str) -> Table:
    return project(table, columns)


def project(table: Table, columns: Mapping[str, Function | str]) -> Table:
    return [replace(row, values=_evaluate(columns, row.values)) for row in table]


def _evaluate(columns: Mapping[str, Function | str], values: Values) -> Values:
    return {n: values[f] if isinstance(f, str) else f(values) for n, f in columns.items()}


def with_column(table: Table, name: str, function: Function) -> Table:
    return [replace(row, values={**row.values, name: function(row.values)}) for row in table]


def where(table: Table, predicate: Function) -> Table:
    return [row for row in table if predicate(row.values) is True]


def order_by(table: Table, key: Callable[[Values], Any]) -> Table:
    return sorted(table, key=lambda row: key(row.values))


def nulls_first(*values: Any) -> tuple[Any, ...]:
    """A sort key with nulls before everything else, as Spark sorts ascending."""
    return tuple((value is not None, 0 if value is None else value) for value in values)


# --- Joins -----------------------------------------------------------------------------------

Condition = Callable[[Values, Values], Any]


def join(
    left: Table,
    right: Table,
    how: str,
    on: Condition,
    names: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Table:
    """Any join. `names` are the columns of both sides, for rows that are null-extended."""
    pairs = [(a, b) for a in left for b in right if on(a.values, b.values) is True]
    matches = {id(a): [b for x, b in pairs if x is a] for a in left}
    if how == "semi":
        return [jointly(a.values, a, *matches[id(a)]) for a in left if matches[id(a)]]
    if how == "anti":
        return [a for a in left if not matches[id(a)]]
    if how == "existence":
        return [
            jointly({**a.values, "exists": bool(matches[id(a)])}, a, *matches[id(a)]) for a in left
        ]
    result = [jointly({**a.values, **b.values}, a, b) for a, b in pairs]
    if how in ("left", "full"):
        blank = dict.fromkeys(names[1])
        result += [replace(a, values={**a.values, **blank}) for a in left if not matches[id(a)]]
    if how in ("right", "full"):
        matched = {id(b) for _, b in pairs}
        blank = dict.fromkeys(names[0])
        result += [replace(b, values={**blank, **b.values}) for b in right if id(b) not in matched]
    return result


def with_scalar(table: Table, name: str, inner: Table) -> Table:
    """Each row beside the value of a scalar subquery, jointly with what made that value."""
    assert len(inner) <= 1
    if not inner:
        return with_column(table, name, lambda _: None)
    (value,) = inner[0].values.values()
    return [jointly({**row.values, name: value}, row, inner[0]) for row in table]


# --- Sets ------------------------------------------------------------------------------------


def union(*tables: Table) -> Table:
    """Columns by position; the first table names them."""
    names = next((list(t[0].values) for t in tables if t), [])
    return [
        replace(row, values=dict(zip(names, row.values.values(), strict=True)))
        for table in tables
        for row in table
    ]


def _by(table: Table, key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in table:
        groups.setdefault(key(row), []).append(row)
    return groups


def distinct(table: Table) -> Table:
    """All duplicates are alternatives."""
    return [jointly(rows[0].values, *rows) for rows in _by(table, identity).values()]


def intersect(left: Table, right: Table, *, all: bool = False) -> Table:
    ours, theirs = _by(left, identity), _by(right, identity)
    result = []
    for key, rows in ours.items():
        count = min(len(rows), len(theirs.get(key, ()))) if all else key in theirs
        result += [jointly(rows[0].values, *rows, *theirs.get(key, ()))] * int(count)
    return result


def subtract(left: Table, right: Table, *, all: bool = False) -> Table:
    ours, theirs = _by(left, identity), _by(right, identity)
    result = []
    for key, rows in ours.items():
        other = len(theirs.get(key, ()))
        count = max(0, len(rows) - other) if all else int(not other)
        result += [jointly(rows[0].values, *rows)] * count
    return result


# --- Groups ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Aggregate:
    """`value` gives the result from the members' values; `chosen` tells which members gave it.

    Without `chosen` every member contributes. `when` is a FILTER clause: only the members it lets
    through are seen at all.
    """

    value: Callable[[list[Values]], Any]
    chosen: Callable[[list[Values], Any], list[bool]] | None = None
    when: Function | None = None


def group(table: Table, keys: Mapping[str, Function | str], **aggregates: Aggregate) -> Table:
    """GROUP BY: a row per group; without keys one row, even of nothing."""
    evaluated = [(row, _evaluate(keys, row.values)) for row in table]
    groups: dict[Any, list[tuple[Row, Values]]] = {}
    for row, values in evaluated:
        groups.setdefault(canonical(list(values.values())), []).append((row, values))
    if not keys and not groups:
        groups[()] = []
    return [
        _grouped([row for row, _ in pairs], pairs[0][1] if pairs else {}, aggregates)
        for pairs in groups.values()
    ]


def _grouped(rows: list[Row], keys: Values, aggregates: Mapping[str, Aggregate]) -> Row:
    results = dict(keys)
    chosen = [not aggregates] * len(rows)
    for name, aggregate in aggregates.items():
        seen = [i for i, r in enumerate(rows) if _passes(aggregate, r.values)]
        members = [rows[i].values for i in seen]
        results[name] = aggregate.value(members)
        flags = [True] * len(seen)
        if aggregate.chosen is not None:
            flags = aggregate.chosen(members, results[name])
        for i, flag in zip(seen, flags, strict=True):
            chosen[i] = chosen[i] or flag
    # A group that nobody gave a value to is still there because of its members.
    return gather(results, rows, chosen if any(chosen) else [True] * len(rows))


def _passes(aggregate: Aggregate, values: Values) -> bool:
    return aggregate.when is None or aggregate.when(values) is True


def _present(column: str, rows: Iterable[Values]) -> list[Any]:
    return [row[column] for row in rows if row[column] is not None]


def total(column: str, when: Function | None = None) -> Aggregate:
    def value(rows: list[Values]) -> Any:
        found = _present(column, rows)
        return sum(found) if found else None

    return Aggregate(value, None, when)


def count(column: str | None = None, when: Function | None = None) -> Aggregate:
    return Aggregate(lambda rows: len(_present(column, rows) if column else rows), None, when)


def count_distinct(column: str) -> Aggregate:
    return Aggregate(lambda rows: len({canonical(v) for v in _present(column, rows)}))


def average(column: str) -> Aggregate:
    def value(rows: list[Values]) -> Any:
        found = _present(column, rows)
        return sum(found) / len(found) if found else None

    return Aggregate(value)


def collected(column: str, *, once: bool = False) -> Aggregate:
    """collect_list or collect_set, sorted."""

    def value(rows: list[Values]) -> Any:
        found = _present(column, rows)
        return sorted(set(found)) if once else sorted(found)

    return Aggregate(value)


def _same(column: str) -> Callable[[list[Values], Any], list[bool]]:
    def chosen(rows: list[Values], value: Any) -> list[bool]:
        return [value is not None and canonical(r[column]) == canonical(value) for r in rows]

    return chosen


def smallest(column: str, when: Function | None = None) -> Aggregate:
    return Aggregate(lambda rows: min(_present(column, rows), default=None), _same(column), when)


def largest(column: str, when: Function | None = None) -> Aggregate:
    return Aggregate(lambda rows: max(_present(column, rows), default=None), _same(column), when)


def first(column: str, *, ignore_nulls: bool = False) -> Aggregate:
    """The first row in the order of the source: its value, null or not, is what is returned."""
    if ignore_nulls:
        return Aggregate(lambda rows: next(iter(_present(column, rows)), None), _same(column))
    return Aggregate(
        lambda rows: rows[0][column] if rows else None,
        lambda rows, value: [r[column] == value for r in rows],
    )


def last(column: str) -> Aggregate:
    return Aggregate(
        lambda rows: rows[-1][column] if rows else None,
        lambda rows, value: [r[column] == value for r in rows],
    )


def extreme_by(column: str, order: str, pick: Callable[..., Any]) -> Aggregate:
    """min_by and max_by, for orders that no two rows with different values share."""

    def best(rows: list[Values]) -> Any:
        return pick(_present(order, rows), default=None)

    def value(rows: list[Values]) -> Any:
        winners = [r[column] for r in rows if r[order] is not None and r[order] == best(rows)]
        return winners[0] if winners else None

    def chosen(rows: list[Values], result: Any) -> list[bool]:
        top = best(rows)
        return [top is not None and r[order] == top and r[column] == result for r in rows]

    return Aggregate(value, chosen)


def mode(column: str) -> Aggregate:
    """The most frequent value, the smallest of several (as Spark's deterministic mode gives)."""

    def value(rows: list[Values]) -> Any:
        found = _present(column, rows)
        return min(found, key=lambda v: (-found.count(v), v)) if found else None

    return Aggregate(value, _same(column))


def grouping_sets(
    table: Table, keys: Sequence[str], sets: Iterable[Sequence[str]], **aggregates: Aggregate
) -> Table:
    """One grouping after the other; keys that are left out of a set are null."""
    result: Table = []
    for chosen in sets:
        if not table and not chosen:
            continue
        for row in group(table, {k: k for k in chosen}, **aggregates):
            values = {k: row.values.get(k) for k in keys}
            values.update({name: row[name] for name in aggregates})
            result.append(replace(row, values=values))
    return result


def unpivot(table: Table, ids: Sequence[str], columns: Sequence[str]) -> Table:
    return [
        replace(row, values={**{i: row[i] for i in ids}, "variable": c, "value": row[c]})
        for row in table
        for c in columns
    ]


# --- Windows ---------------------------------------------------------------------------------

Frame = Callable[[int, int], range]
WindowFunction = Callable[[list[Values], int, range], Any]


def over(
    table: Table,
    name: str,
    partition: Sequence[str],
    order: Callable[[Values], Any] | None,
    frame: Frame | None,
    function: WindowFunction,
) -> Table:
    """One window function; see `windows`."""
    return windows(table, partition, order, {name: (frame, function)})


def windows(
    table: Table,
    partition: Sequence[str],
    order: Callable[[Values], Any] | None,
    columns: Mapping[str, tuple[Frame | None, WindowFunction]],
) -> Table:
    """Window functions. A frame gives the positions seen from a position, given the size.

    Without a frame it is the whole partition. What the function reads contributes, and so do rows
    that tie with the frame's edges: any of them may have stood there.
    """
    result: Table = []
    for rows in _by(table, lambda r: canonical([r[p] for p in partition])).values():
        ranked = sorted(rows, key=lambda r: order(r.values)) if order else rows
        keys = [canonical(order(r.values)) if order else 0 for r in ranked]
        for i, row in enumerate(ranked):
            values, members = dict(row.values), [row]
            for name, (frame, function) in columns.items():
                wanted = frame(i, len(ranked)) if frame else range(len(ranked))
                seen = [j for j in wanted if 0 <= j < len(ranked)]
                edges = {keys[j] for j in (seen[:1] + seen[-1:])}
                members += [r for j, r in enumerate(ranked) if j in seen or keys[j] in edges]
                found = range(seen[0], seen[-1] + 1) if seen else range(0)
                values[name] = function([r.values for r in ranked], i, found)
            result.append(jointly(values, *members))
    return result


# --- Unnesting -------------------------------------------------------------------------------


def explode(table: Table, items: Function, names: Sequence[str], *, outer: bool = False) -> Table:
    """Each row beside each of its items; an item is a tuple of values for the names."""
    result: Table = []
    for row in table:
        found = list(items(row.values) or [])
        if not found and outer:
            found = [(None,) * len(names)]
        for item in found:
            values = {**row.values, **dict(zip(names, item, strict=True))}
            result.append(replace(row, values=values))
    return result


# --- Answers ---------------------------------------------------------------------------------


def answers(table: Table) -> dict[Any, tuple[frozenset[Atom], frozenset[Atom]]]:
    """For each distinct row its contributing and influencing atoms, over all equal rows."""
    result = {}
    for key, rows in _by(table, identity).items():
        by = frozenset().union(*(r.by for r in rows))
        near = frozenset().union(*(r.near for r in rows)) - by
        result[key] = (by, near)
    return result
