"""What a pattern matches, against a slow oracle that looks into every value of every row."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from whence.archive import Archive, DataFile, Dataset, DatasetKind
from whence.errors import PatternError
from whence.plan.paths import Field, Item, Value
from whence.trace.longlists import part_of_rows
from whence.trace.patterns import Condition, Node, Pattern
from whence.trace.patterns.match import Matcher, Place, _literal
from whence.trace.patterns.parse import parse
from whence.trace.places import Held
from whence.trace.tables import Tables

ITEM = pa.struct([("a", pa.int32()), ("t", pa.string()), ("k", pa.list_(pa.string()))])
ARROW = pa.schema(
    [
        ("id", pa.int32()),
        ("s", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int32()))])),
        ("l", pa.list_(ITEM)),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("ll", pa.list_(pa.list_(pa.int32()))),
    ]
)

Steps = tuple[str | int, ...]
Found = tuple[Steps, Any, pa.DataType]


# --- The oracle -------------------------------------------------------------------------------


def inside(value: Any, kind: pa.DataType, steps: Steps, deep: bool) -> Iterator[tuple[str, Found]]:
    """What is below a value, by name: fields, those of items, and with `deep` all further down."""
    if pa.types.is_list(kind):
        for i, item in enumerate(value or ()):
            yield from inside(item, kind.value_type, (*steps, i), deep)
    elif pa.types.is_map(kind):
        for key, item in value or ():
            if not deep:
                yield key, ((*steps, key), item, kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            own = None if value is None else value[field.name]
            yield field.name, ((*steps, field.name), own, field.type)
            if deep:
                yield from inside(own, field.type, (*steps, field.name), deep)


def holds(condition: Condition, value: Any) -> bool:
    match condition.comparison:
        case "is null":
            return value is None
        case "is not null":
            return value is not None
        case "in":
            return value is not None and value in condition.value
        case "=":
            return value is not None and value == condition.value
        case "<>":
            return value is not None and value != condition.value
    return value is not None and value > condition.value


def occurrences(node: Node, above: Found) -> list[Found]:
    """Where a node is found below a value, with all that it asks of what is there."""
    steps, value, kind = above
    if node.name == "":
        found = [above]
    else:
        below = inside(value, kind, steps, node.edge == "descendant")
        found = [each for name, each in below if node.name in (None, name)]
    if not node.is_plain:
        found = [item for each in found for item in items(node, each)]
    return [
        each
        for each in found
        if all(holds(c, each[1]) for c in node.conditions)
        and all(enough(child, occurrences(child, each)) for child in node.children)
    ]


def items(node: Node, each: Found) -> list[Found]:
    steps, value, kind = each
    if not pa.types.is_list(kind):
        return [each]
    own = [((*steps, i), item, kind.value_type) for i, item in enumerate(value or ())]
    return own if node.position is None else own[node.position :][:1]


def enough(node: Node, found: list[Found]) -> bool:
    low, high = node.times or (1, None)
    return len(found) >= low and (high is None or len(found) <= high)


def named(node: Node, above: Found) -> Iterator[Steps]:
    """What the last names of a node stand for."""
    for each in occurrences(node, above):
        if not node.children:
            yield each[0]
        for child in node.children:
            yield from named(child, each)


def expected(rows: list[Any], pattern: Pattern) -> dict[int, set[Steps]]:
    top = pa.struct(list(ARROW))
    return {
        number: {steps for node in pattern.nodes for steps in named(node, ((), row, top))}
        for number, row in enumerate(rows)
        if all(enough(node, occurrences(node, ((), row, top))) for node in pattern.nodes)
    }


# --- What is matched --------------------------------------------------------------------------


def spark_type(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        fields = [{"name": f.name, "type": spark_type(f.type)} for f in kind]
        return {"type": "struct", "fields": fields}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": spark_type(kind.value_type)}
    if pa.types.is_map(kind):
        return {"type": "map", "keyType": "string", "valueType": spark_type(kind.item_type)}
    return "string" if pa.types.is_string(kind) else "integer"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matching")


def stored(folder: Path, rows: list[Any], kind: DatasetKind = "source") -> Dataset:
    """The rows in two files, in row groups of two."""
    files = []
    place = folder / "archive" / "datasets" / "d"
    place.mkdir(parents=True, exist_ok=True)
    for slot, part in enumerate((rows[: len(rows) // 2], rows[len(rows) // 2 :])):
        path = place / f"{slot}.parquet"
        pq.write_table(pa.Table.from_pylist(part, ARROW), path, row_group_size=2)
        files.append(DataFile(path.name if kind == "output" else str(path), slot, 0, 0))
    schema = json.dumps(spark_type(pa.struct(list(ARROW))))
    size = len(rows) * 10_000  # as if their lists were long
    return Dataset("d", kind, "t", "datasets/d", schema, "", tuple(files), len(rows), size, {})


def matched(
    folder: Path, rows: list[Any], pattern: Pattern, kind: DatasetKind = "source"
) -> dict[int, set[Steps]]:
    tables = Tables(Archive.open(folder / "archive", create=True))
    dataset = stored(folder, rows, kind)
    found = Matcher(tables, dataset, json.loads(dataset.schema)).match(pattern)

    def number(locator: int) -> int:
        return locator if locator < 1 << 40 else len(rows) // 2 + locator - (1 << 40)

    def places(place: Place) -> Iterator[tuple[int, Steps]]:
        for entry in tables.arrow(f"SELECT * FROM {place.table}").to_pylist():
            steps = [
                entry[step.column] if isinstance(step, Held) else step.name
                for step in place.steps
                if isinstance(step, Field | Held)
            ]
            yield number(entry["rid"]), tuple(steps)

    answer: dict[int, set[Steps]] = {
        number(row): set() for (row,) in tables.run(f"SELECT rid FROM {found.rows}")
    }
    for place in found.chosen:
        for row, steps in places(place):
            answer[row].add(steps)
    return answer


# --- Rows and patterns ------------------------------------------------------------------------

numbers = st.none() | st.integers(0, 2)
words = st.none() | st.sampled_from("xy")
rows = st.fixed_dictionaries(
    {
        "id": numbers,
        "s": st.none() | st.fixed_dictionaries({"a": numbers, "b": st.lists(numbers, max_size=2)}),
        "l": st.none()
        | st.lists(
            st.fixed_dictionaries({"a": numbers, "t": words, "k": st.lists(words, max_size=2)}),
            max_size=3,
        ),
        "m": st.none()
        | st.dictionaries(st.sampled_from("ab"), numbers).map(lambda d: [*d.items()]),
        "ll": st.none() | st.lists(st.none() | st.lists(numbers, max_size=2), max_size=2),
    }
)
anything = st.builds(Condition, st.sampled_from(["is null", "is not null"]))
of_numbers = st.one_of(
    st.builds(Condition, st.sampled_from(["=", "<>", ">"]), st.integers(0, 2)),
    st.builds(Condition, st.just("in"), st.just((0, 2))),
)
of_words = st.builds(Condition, st.just("="), st.sampled_from("xy"))
times = st.sampled_from([None, None, None, (0, 0), (0, 1), (1, None), (2, 2), (2, None)])


def reachable(kind: pa.DataType, *, deep: bool) -> list[tuple[str, pa.DataType]]:
    """Names below a type, and the types that they lead to; a list on the way is passed through."""
    if pa.types.is_list(kind):
        return reachable(kind.value_type, deep=deep)
    if pa.types.is_map(kind):
        return [] if deep else [("a", kind.item_type), ("b", kind.item_type)]
    found = []
    for field in kind if pa.types.is_struct(kind) else ():
        found += [(field.name, field.type), *(reachable(field.type, deep=True) if deep else ())]
    return found


@st.composite
def nodes(draw: Any, above: pa.DataType, depth: int = 0) -> Node:
    """A node that can be below a value of a type."""
    if pa.types.is_list(above):
        name, edge, kind = "", "child", above
    else:
        deep = draw(st.integers(0, 2)) == 0 and not pa.types.is_map(above)
        edge = "descendant" if deep else "child"
        name, kind = draw(st.sampled_from(reachable(above, deep=deep)))
    inner = kind.value_type if pa.types.is_list(kind) else kind
    of_list = inner is not kind
    position = draw(st.none() | st.integers(0, 1)) if of_list else None
    often = draw(times)
    if pa.types.is_nested(inner):
        asked = draw(st.lists(anything, max_size=1))
    else:
        asked = draw(
            st.lists(anything | (of_words if pa.types.is_string(inner) else of_numbers), max_size=1)
        )
    children: list[Node] = []
    if depth < 2 and pa.types.is_nested(inner) and (not pa.types.is_map(inner) or not of_list):
        children = draw(st.lists(nodes(inner, depth + 1), max_size=2))
    return Node(name, edge, position, tuple(asked), often, tuple(children))


patterns = st.lists(nodes(pa.struct(list(ARROW))), min_size=1, max_size=3).map(
    lambda found: Pattern(tuple(found))
)


@settings(max_examples=20 * int(os.environ.get("WHENCE_EXAMPLES", "2")))
@given(st.lists(rows, max_size=5), patterns)
def test_matches_are_those_of_the_oracle(folder: Path, table: list[Any], pattern: Pattern) -> None:
    try:
        found = matched(folder, table, pattern)
    except PatternError:
        assume(False)
    assert found == expected(table, pattern)


@settings(max_examples=20 * int(os.environ.get("WHENCE_EXAMPLES", "2")))
@given(st.lists(rows, min_size=1, max_size=5), patterns)
def test_of_few_rows_parts_of_lists_are_read(
    folder: Path, table: list[Any], pattern: Pattern
) -> None:
    known = Node("id", conditions=(Condition("is not null"),))
    pattern = Pattern((known, *pattern.nodes))
    try:
        found = matched(folder, table, pattern, "output")
    except PatternError:
        assume(False)
    assert found == expected(table, pattern)


def test_parts_are_read_where_lists_are_long_and_rows_few(folder: Path) -> None:
    items = [{"a": n, "t": "x" if n else None, "k": ["y"] * n} for n in range(3)]
    table = [dict(dict.fromkeys(ARROW.names), l=items[:n]) for n in range(5)]
    tables = Tables(Archive.open(folder / "archive", create=True))
    dataset = stored(folder, table, "output")
    rows = f"(SELECT unnest([1, {(1 << 40) + 1}]) AS locator)"
    parts: dict[Any, str] = {(Item(1), Field("t")): "string"}
    sql = part_of_rows(tables, dataset, "l", parts, rows)
    assert sql is not None
    assert tables.run(f"SELECT l, v FROM ({sql}) AS t(l, v)") == [
        (1, [{"t": None}]),
        ((1 << 40) + 1, [{"t": None}, {"t": "x"}]),
    ]
    small, source = replace(dataset, bytes=10), stored(folder, table)
    assert part_of_rows(tables, small, "l", parts, rows) is None
    assert part_of_rows(tables, source, "l", parts, rows) is None
    assert part_of_rows(tables, dataset, "l", {(Item(), Field("d")): "timestamp"}, rows) is None
    assert part_of_rows(tables, dataset, "m", {(Value(),): "integer"}, rows) is None
    (folder / "archive" / "datasets" / "d" / "1.parquet").write_bytes(b"nothing of the kind")
    assert part_of_rows(tables, dataset, "l", parts, rows) is None
    many = "(SELECT unnest(range(17)) AS locator)"
    assert part_of_rows(tables, dataset, "l", parts, many) is None


@pytest.mark.parametrize("text", ["//* = 'x'", "l[* = 'x']", "//l[//* in ('x', 'y')]", "l.* = 1"])
def test_of_several_values_those_count_that_can_be_compared(folder: Path, text: str) -> None:
    items = [{"a": 1, "t": "x", "k": ["y", "x"]}, {"a": 2, "t": "y", "k": []}]
    table = [dict(zip(ARROW.names, row, strict=True)) for row in ((1, None, items, [], None),) * 2]
    assert matched(folder, table, parse(text)) == expected(table, parse(text)) != {}


def test_where_no_value_can_be_compared_it_is_told(folder: Path) -> None:
    with pytest.raises(PatternError, match="a = 'x' does not fit a value of type integer"):
        matched(folder, [dict.fromkeys(ARROW.names)] * 2, parse("s.a = 'x'"))


def test_a_condition_that_fails_for_some_values_is_not_passed_over(folder: Path) -> None:
    table = [dict(dict.fromkeys(ARROW.names), l=[{"a": 3, "t": "x", "k": []}])] * 2
    beyond = Condition("where", "abs(_ * 9223372036854775807) > 1")
    with pytest.raises(PatternError, match="fails: Out of Range"):
        matched(folder, table, Pattern((Node("a", "descendant", None, (beyond,)),)))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (float("inf"), "DOUBLE"),
        (float("-inf"), "DOUBLE"),
        (1e300, "DOUBLE"),
        (np.float64(1.5), "DOUBLE"),
        (np.int64(3), "BIGINT"),
        (b"a\x00'", "BLOB"),
        ("it's", "VARCHAR"),
        (True, "BOOLEAN"),
    ],
)
def test_values_from_python_are_compared_as_they_are(value: Any, kind: str) -> None:
    sql = f"SELECT v = {_literal(value)} FROM (SELECT ?::{kind} AS v)"
    given = value.item() if isinstance(value, np.generic) else value
    assert duckdb.connect().execute(sql, [given]).fetchall() == [(True,)]
