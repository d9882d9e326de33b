"""A slow oracle for cells: every leaf of every input row is tagged, and tags travel with values.

A value is a tree: dicts for structs, lists for arrays, and leaves with the tags of the input cells
that made them. A tag is a row's number and the path of a leaf in it, as whence writes it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Tag = tuple[int, str]


@dataclass(frozen=True)
class Leaf:
    value: Any
    tags: frozenset[Tag] = frozenset()


Tree = Leaf | dict[str, Any] | list[Any]


@dataclass
class Row:
    """Columns as trees, what was looked at on the way, and the members of a group."""

    columns: dict[str, Tree]
    looked: frozenset[Tag] = frozenset()
    members: list["Row"] = field(default_factory=list)
    keys: tuple[str, ...] = ()
    value: str = ""


def tagged(number: int, value: Any, path: str) -> Tree:
    if isinstance(value, dict):
        return {k: tagged(number, v, f"{path}.{k}" if path else k) for k, v in value.items()}
    if isinstance(value, list):
        return [tagged(number, v, f"{path}[{i}]") for i, v in enumerate(value)]
    return Leaf(value, frozenset({(number, path)}))


def source(rows: list[dict[str, Any]]) -> list[Row]:
    return [Row(tagged(i, row, "")) for i, row in enumerate(rows)]  # type: ignore[arg-type]


def plain(tree: Tree) -> Any:
    if isinstance(tree, dict):
        return {k: plain(v) for k, v in tree.items()}
    return [plain(v) for v in tree] if isinstance(tree, list) else tree.value


def tags(tree: Tree) -> frozenset[Tag]:
    if isinstance(tree, Leaf):
        return tree.tags
    parts = tree.values() if isinstance(tree, dict) else tree
    return frozenset().union(*(tags(part) for part in parts))


def at(tree: Tree, path: str) -> Tree:
    """A field inside; inside of nothing is nothing, for the same reason."""
    for name in path.split("."):
        if isinstance(tree, Leaf):
            return Leaf(None, tree.tags)
        tree = tree[name]  # type: ignore[call-overload]
    return tree


def where(rows: list[Row], path: str, test: Callable[[Any], Any]) -> list[Row]:
    kept = []
    for row in rows:
        found = at(row.columns, path)
        if test(plain(found)) is True:
            kept.append(Row(row.columns, row.looked | tags(found)))
    return kept


def select(rows: list[Row], **paths: Any) -> list[Row]:
    """New columns from paths; a dict makes a struct, a function computes a leaf from a path."""

    def value(row: Row, wanted: Any) -> Tree:
        if isinstance(wanted, dict):
            return {k: value(row, v) for k, v in wanted.items()}
        if isinstance(wanted, tuple):
            function, path = wanted
            found = at(row.columns, path)
            return Leaf(function(plain(found)), tags(found))
        return at(row.columns, wanted)

    return [Row({n: value(row, p) for n, p in paths.items()}, row.looked) for row in rows]


def explode(rows: list[Row], path: str, name: str) -> list[Row]:
    made = []
    for row in rows:
        items = at(row.columns, path)
        for item in items if isinstance(items, list) else ():
            made.append(Row({**row.columns, name: item}, row.looked | tags(item)))
    return made


def union(left: list[Row], right: list[Row]) -> list[Row]:
    return left + right


def collect(rows: list[Row], key: str, value: str, name: str) -> list[Row]:
    """Rows grouped by a column, and the values of another that are there, listed."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(repr(plain(row.columns[key])), []).append(row)
    made = []
    for members in groups.values():
        giving = [m for m in members if not _missing(m.columns[value])]
        columns = {key: members[0].columns[key], name: [m.columns[value] for m in giving]}
        made.append(Row(columns, frozenset(), members, (key,), value))
    return made


def _missing(tree: Tree) -> bool:
    return isinstance(tree, Leaf) and tree.value is None


def walk(tree: Tree, path: str) -> Iterator[tuple[str, Tree]]:
    """All values in a tree, with their paths."""
    yield path, tree
    if isinstance(tree, dict):
        for name, part in tree.items():
            yield from walk(part, f"{path}.{name}")
    elif isinstance(tree, list):
        for number, part in enumerate(tree):
            yield from walk(part, f"{path}[{number}]")


def answer(row: Row, chosen: list[tuple[str, list[int | str]]]) -> tuple[set[Tag], set[Tag]]:
    """Contributing and influencing tags behind chosen values: a column and the steps into it."""
    by: set[Tag] = set()
    if not row.members:
        for column, steps in chosen:
            by |= tags(_into(row.columns[column], steps))
        return by, set(row.looked) - by
    used: list[Row] = []
    for column, steps in chosen:
        if column in row.keys:
            continue
        if not steps:  # a null that was left out of the list had its say too
            used += row.members
            by |= {tag for m in row.members for tag in tags(m.columns[row.value])}
            continue
        by |= tags(_into(row.columns[column], steps))
        giving = [m for m in row.members if not _missing(m.columns[row.value])]
        used.append(giving[int(steps[0])])
    asked = any(column not in row.keys for column, _ in chosen)
    near = used if asked else row.members
    looked: set[Tag] = set()
    for member in near:
        looked |= member.looked
        for key in row.keys:
            looked |= tags(member.columns[key])
        for column, steps in chosen:
            if column in row.keys:
                by |= tags(_into(member.columns[column], steps))
    return by, looked - by


def _into(tree: Tree, steps: list[int | str]) -> Tree:
    for step in steps:
        if isinstance(tree, Leaf):
            return tree
        tree = tree[step]  # type: ignore[index]
    return tree
