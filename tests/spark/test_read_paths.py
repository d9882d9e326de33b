"""Paths are sound: what no path names can be taken away without changing a value."""

from typing import Any

import pytest
from cases import SQL, TABLES
from test_read import read

from whence.plan import Field, Item, Move, Path, walk

pytestmark = pytest.mark.spark

COLUMNS = ("a", "b", "d", "xs", "s", "m", "ss")
WITHOUT = {
    "a": (Path(0, "a"), "CAST(NULL AS INT)"),
    "b": (Path(0, "b"), "CAST(NULL AS STRING)"),
    "d": (Path(0, "d"), "CAST(NULL AS DOUBLE)"),
    "xs": (Path(0, "xs"), "CAST(NULL AS ARRAY<INT>)"),
    "m": (Path(0, "m"), "CAST(NULL AS MAP<STRING, INT>)"),
    "s.x": (Path(0, "s", (Field("x"),)), "IF(s IS NULL, s, named_struct('x', NULL, 'y', s.y))"),
    "s.y": (Path(0, "s", (Field("y"),)), "IF(s IS NULL, s, named_struct('x', s.x, 'y', NULL))"),
    "ss[].p": (
        Path(0, "ss", (Item(), Field("p"))),
        "transform(ss, e -> named_struct('p', CAST(NULL AS INT), 'q', e.q))",
    ),
    "ss[].q": (
        Path(0, "ss", (Item(), Field("q"))),
        "transform(ss, e -> named_struct('p', e.p, 'q', CAST(NULL AS STRING)))",
    ),
}
NESTED = ("structs", "arrays", "maps", "lambdas", "json", "choices", "strings", "odd_names")


@pytest.fixture(scope="module")
def tables(spark: Any) -> Any:
    for statement in TABLES.split(";"):
        spark.sql(statement)
    return spark


def overlaps(one: Path, other: Path) -> bool:
    one, other = (Path(0, path.name, path.steps) for path in (one, other))
    return one.name == other.name and (one.covers(other) or other.covers(one))


def may_change(moves: list[Move], taken: Path) -> bool:
    return any(overlaps(path, taken) for m in moves for path in (*m.inputs, *m.influences))


@pytest.mark.slow
@pytest.mark.parametrize("name", NESTED)
def test_what_is_not_named_does_not_matter(tables: Any, name: str) -> None:
    operator = read(tables, tables.sql(SQL[name]))
    before = tables.sql(SQL[name]).collect()
    checked = 0
    for path, instead in WITHOUT.values():
        if any(overlaps(path, found) for each in walk(operator) for found in each.decides):
            continue
        after = without(tables, SQL[name], path.name, instead)
        for i, column in enumerate(operator.output):
            moves = [m for m in operator.moves if m.output.column == column.number]
            if not may_change(moves, path):
                checked += 1
                assert [row[i] for row in after] == [row[i] for row in before], (column, path)
    assert checked > len(operator.output)


def without(spark: Any, text: str, column: str, instead: str) -> list[Any]:
    """The result when one column of the table is replaced."""
    listed = ", ".join(f"{instead} AS {c}" if c == column else c for c in COLUMNS)
    spark.sql(f"CREATE OR REPLACE TEMP VIEW t_without AS SELECT {listed} FROM t")
    rows: list[Any] = spark.sql(text.replace("FROM t", "FROM t_without")).collect()
    return rows
