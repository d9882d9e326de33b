"""Selections mean what Spark's own filter means, whoever decides them."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from kit import Workshop
from pyspark.sql import functions as F  # noqa: N812

import whence

pytestmark = pytest.mark.spark

ROWS = """SELECT * FROM VALUES
 (1, 1.5D, 'abc', DATE'2024-01-31', TIMESTAMP'2024-01-31 23:30:00', array(1, 2, 3),
  map('k', 1, 'l', 2), named_struct('x', 1, 'y', 'q'), 10.25BD, X'00FF', 'A'),
 (-7, -0.0D, 'A%c', DATE'2023-12-31', TIMESTAMP'2023-12-31 00:00:00', array(), map(),
  named_struct('x', NULL, 'y', 'it''s'), -3.75BD, X'', 'b'),
 (NULL, double('NaN'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (100, 1.9D, '', DATE'2024-02-29', TIMESTAMP'1969-12-31 23:59:59', array(NULL, 5), map('l', NULL),
  named_struct('x', 9, 'y', NULL), 0.00BD, X'61', 'a')
 AS t(i, f, s, d, ts, xs, m, st, dec, bin, c)"""

# Decided by DuckDB, which sees them as Spark does.
PLAIN = (
    "i IN (1, NULL) OR s = ''",
    "NOT (i > 0)",
    "f = double('NaN')",
    "s LIKE 'a%'",
    "st.y = 'it\\'s'",
    "d + INTERVAL 1 MONTH = DATE'2024-02-29'",
    "ts > '2024-01-01'",
    "m.k = 1",
    "i / 2 = 0.5",
)
# DuckDB does not know these, or takes them for something else.
SPARK = (
    "s LIKE 'A\\\\%c'",
    "dayofweek(d) = 4",
    "cast(f AS int) = 1",
    "NOT array_contains(xs, 7)",
    "concat(s, 'x') = 'x'",
    "exists(xs, x -> x > 2)",
    "c = 'a'",
)


@pytest.fixture(scope="module")
def source(workshop: Workshop) -> Any:
    path = str(workshop.folder() / "source")
    frame = workshop.session.sql(ROWS).withColumn("c", F.expr("c COLLATE UTF8_LCASE"))
    frame.coalesce(1).write.parquet(path)
    return workshop.session.read.parquet(path)


@pytest.fixture(scope="module")
def run(workshop: Workshop, source: Any) -> Any:
    return whence.capture(source, archive=workshop.folder(), mode="eager", progress=False)


def test_sql_means_what_spark_means_by_it(source: Any, run: Any) -> None:
    plain = source.where("NOT isnan(f)")  # a cast of NaN fails
    texts = [p for p in PLAIN + SPARK if "cast" not in p]
    flags = [F.coalesce(F.expr(p), F.lit(False)) for p in texts]
    wanted: dict[str, set[Any]] = {p: set() for p in texts}
    for i, *found in source.select("i", *flags).collect():
        for text, flag in zip(texts, found, strict=True):
            wanted[text] |= {i} if flag else set()
    for text in texts:
        assert chosen(run, text) == wanted[text], text
    assert chosen(run, "NOT isnan(f) AND cast(f AS int) = 1") == {
        row.i for row in plain.where("cast(f AS int) = 1").collect()
    }


def chosen(run: Any, selection: Any) -> set[Any]:
    return {row["i"] for row in run.trace(selection)["source"].to_pylist()}


def test_columns_of_every_kind(source: Any, run: Any) -> None:
    assert chosen(run, F.col("i").isin(1, 100) & ~F.col("s").isNull()) == {1, 100}
    assert chosen(run, source.s.eqNullSafe(None) | (source["st"]["x"] == 9)) == {None, 100}
    assert chosen(run, (F.size("xs") == 3) & F.exists("xs", lambda x: x > 2)) == {1}
    found = run.impact("source", F.col("d").between(date(2024, 1, 1), date(2024, 2, 1)))
    assert [row["i"] for row in found.to_pylist()] == [1]
    with pytest.raises(whence.SelectionError, match="no column named 'nope'"):
        run.trace(F.col("nope") == 1)
    with pytest.raises(whence.SelectionError, match="cannot select by"):
        run.trace(F.col("i") + 1)


def test_rows_of_nested_values(source: Any, run: Any) -> None:
    for row in source.collect():
        assert chosen(run, [row]) == {row.i}
    assert chosen(run, [{"m": {"l": 2, "k": 1}}]) == {1}
    assert chosen(run, [{"st": {"x": 9, "y": None}, "dec": Decimal("0.00")}]) == {100}


def test_another_time_zone(workshop: Workshop, source: Any) -> None:
    workshop.session.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        run = whence.capture(source, archive=workshop.folder(), mode="eager", progress=False)
        assert chosen(run, "ts = TIMESTAMP'2024-01-31 18:30:00'") == {1}
        assert chosen(run, "hour(ts) = 18") == {1, 100}
    finally:
        workshop.session.conf.set("spark.sql.session.timeZone", "UTC")


def test_names_that_differ_in_case_alone_or_not_at_all(workshop: Workshop) -> None:
    frame = workshop.session.sql("SELECT id, id + 1 AS ID, id + 2 AS x, id + 3 AS x FROM range(3)")
    run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
    assert run.trace("ID = 3")["range"].to_pylist() == [{"id": 2}]
    assert run.trace([{"id": 1}])["range"].to_pylist() == [{"id": 1}]
    with pytest.raises(whence.SelectionError, match="'x' is ambiguous, 2 columns"):
        run.trace("x = 3")
    assert run.check(sample=1).ok


def test_structs_that_are_called_as_tables_are(workshop: Workshop) -> None:
    names = ("r", "d", "x", "g", "c", "__whence_record")
    structs = ", ".join(f"named_struct('id', id * 10) AS {name}" for name in names)
    path = str(workshop.folder() / "named")
    workshop.session.sql(f"SELECT id, {structs} FROM range(4)").coalesce(1).write.parquet(path)
    frame = workshop.session.read.parquet(path)
    run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
    for name in names[:-1]:
        assert run.trace(f"{name}.id = 20")["named"].to_arrow()["id"].to_pylist() == [2]
    assert run.trace([{"id": 3}])["named"].to_arrow()["id"].to_pylist() == [3]
