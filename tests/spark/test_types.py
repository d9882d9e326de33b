"""Values, types and names that are easily lost: keys of every type, odd and repeated names."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from kit import MODES, Workshop, assert_output, key_of

import whence

pytestmark = pytest.mark.spark

# For each type some values as SQL; equal ones make one group.
KEYS = {
    "double": ["CAST('NaN' AS DOUBLE)", "0.0D", "-0.0D", "CAST('Infinity' AS DOUBLE)", "NULL"],
    "float": ["CAST('NaN' AS FLOAT)", "CAST(0.1 AS FLOAT)", "CAST(-0.0 AS FLOAT)", "NULL"],
    "decimal": ["1.50BD", "1.5BD", "-99999999999999999999999999999999999.999BD", "NULL"],
    "timestamp": [
        "TIMESTAMP'2024-02-29 12:00:00.123456Z'",
        "TIMESTAMP'1900-01-01 00:00:00Z'",
        "NULL",
    ],
    "timestamp_ntz": [
        "TIMESTAMP_NTZ'2024-02-29 12:00:00.123456'",
        "TIMESTAMP_NTZ'1900-01-01'",
        "NULL",
    ],
    "date": ["DATE'2024-02-29'", "DATE'0001-01-01'", "NULL"],
    "binary": ["X'00FF'", "X''", "NULL"],
    "string": ["'it''s'", "'a\\\\b'", "''", "'ü \U0001f600'", "NULL"],
    "boolean": ["true", "false", "NULL"],
    "bigint": ["9223372036854775807L", "-9223372036854775808L", "NULL"],
    "array": ["array(1, NULL)", "array()", "NULL"],
    "struct": ["named_struct('a.b', 1, 'c', 'x')", "named_struct('a.b', 2, 'c', NULL)", "NULL"],
    "interval day": ["INTERVAL '1 02:03:04' DAY TO SECOND", "INTERVAL '2' DAY", "NULL"],
    "interval year": ["INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '2' YEAR", "NULL"],
}


def keyed(workshop: Workshop, kind: str) -> Any:
    """A saved table of the values, each twice, beside numbers that tell the rows apart."""
    values = KEYS[kind]
    rows = ", ".join(f"({v}, {i})" for i, v in enumerate([*values, *values]))
    frame = workshop.session.sql(f"SELECT * FROM VALUES {rows} AS t(v, n)")
    path = str(workshop.folder() / "keyed")
    frame.coalesce(1).write.parquet(path)
    return workshop.session.read.parquet(path)


def shown(frame: Any) -> list[Any]:
    """The rows, with intervals that Python has no type for as text."""
    plain = frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))
    texts = [
        f"CAST({f.name} AS STRING)" if "interval" in f.dataType.simpleString() else f.name
        for f in plain.schema
    ]
    return sorted((key_of(row) for row in plain.selectExpr(*texts).collect()), key=repr)


def assert_shown(run: Any, frame: Any) -> list[Any]:
    rows = shown(frame)
    assert run.output.schema == frame.schema
    assert shown(run.output) == rows
    return rows


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *((kind, "eager") for kind in KEYS),
        *((kind, MODES[1 + i % 2]) for i, kind in enumerate([*KEYS][::3])),
    ],
)
def test_group_by_a_key_of_any_type(workshop: Workshop, kind: str, mode: str) -> None:
    frame = keyed(workshop, kind)
    plain = {row[1]: row[0] for row in shown(frame)}
    frame.createOrReplaceTempView("keyed")
    query = (
        "SELECT g.v, m, c, count(*) OVER (PARTITION BY g.v) AS w FROM "
        "(SELECT v, max(n) AS m, count(*) AS c FROM keyed GROUP BY v) g"
    )
    grouped = workshop.session.sql(query)
    run = whence.capture(grouped, archive=workshop.folder(), mode=mode, progress=False)
    largest = [row[1] for row in assert_shown(run, grouped)]
    for m in largest[: None if mode == "eager" else 2]:
        members = {n for n, key in plain.items() if key == plain[m]}
        trace = run.trace(f"m = {m}")
        assert trace.grade == "exact"
        assert set(trace["keyed"].locators()["row"].to_pylist()) == members, (mode, m)


@pytest.mark.parametrize("mode", MODES)
def test_columns_that_parquet_does_not_hold(workshop: Workshop, mode: str) -> None:
    workshop.views(
        {"t": [{"k": 1, "a.b": 2, "select": "x"}, {"k": 2, "a.b": 3, "select": "y"}], "u": []}
    )
    frame = workshop.session.sql(
        "SELECT k, k, NULL AS nothing, array(NULL) AS nothings, make_interval(1, 2, 3, k) AS i, "
        "`select` AS `x y;{}()`, map(`select`, k) AS m, INTERVAL '1' DAY AS d, "
        "named_struct('a', k, 'b', array(`a.b`)) AS s, `a.b` AS __whence_w1, k AS K FROM t"
    )
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    assert_shown(run, frame)
    assert run.trace()["t"].locators()["row"].to_pylist() == [0, 1]
    assert run.trace("__whence_w1 = 3")["t"].locators()["row"].to_pylist() == [1]


def test_values_that_python_sees_otherwise(workshop: Workshop) -> None:
    """Intervals are stored as numbers or text, variants as bytes; rows are found by them again."""
    frame = workshop.session.sql(
        "SELECT id, make_dt_interval(id) AS d, make_ym_interval(id) AS y, make_interval(id) AS c, "
        "array(struct(make_dt_interval(id, 2) AS d)) AS ds, map('k', make_ym_interval(id)) AS m, "
        "parse_json(concat('[', id, ']')) AS v, NULL AS n FROM range(1, 3)"
    )
    run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
    replayed = run.check()
    assert replayed.ok and replayed.guaranteed, replayed.rows
    for chosen in (
        "d = INTERVAL '1' DAY",
        "d < INTERVAL '1 12:00:00' DAY TO SECOND",
        "y = INTERVAL '12' MONTH",
        "ds[0].d = INTERVAL '26' HOUR",
        [{"d": timedelta(days=1)}],
    ):
        assert run.trace(chosen).output()["id"].to_pylist() == [1], chosen


@pytest.mark.parametrize("mode", MODES)
def test_variants_are_not_what_rows_are_found_by(workshop: Workshop, mode: str) -> None:
    path = str(workshop.folder())
    workshop.session.range(4).coalesce(1).write.parquet(path)
    frame = workshop.session.read.parquet(path).selectExpr(
        "id DIV 2 AS half", "parse_json(concat('[', id, ']')) AS v", "array(parse_json('1')) AS vs"
    )
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    trace = run.trace("half = 1")
    assert [trace[name].locators()["row"].to_pylist() for name in trace] == [[2, 3]]
    assert run.check(2).ok


@pytest.mark.parametrize("mode", MODES)
def test_fields_of_one_name(workshop: Workshop, mode: str) -> None:
    """As `struct(*)` over a join has them."""
    session = workshop.session
    path = str(workshop.folder())
    session.range(3).selectExpr("id", "id * 2 AS n").write.parquet(path)
    one, other = (session.read.parquet(path).alias(name) for name in "ab")
    frame = one.crossJoin(other).selectExpr("a.n", "struct(*) AS s", "array(struct(a.*, b.*)) AS l")
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    assert_output(run, frame, frame.collect(), ordered=False)
    listed = run.trace(whence.pattern("n = 4")).cells().to_pylist()
    assert {c["path"] for c in listed} == {"n", ""}  # the rows of the other side are there


@pytest.mark.parametrize("mode", MODES)
def test_no_columns_and_no_sources(workshop: Workshop, mode: str) -> None:
    one = workshop.session.sql("SELECT 1 AS one, explode(array(2, 3)) AS more")
    run = whence.capture(one, archive=workshop.folder(), mode=mode, progress=False)
    assert_output(run, one, one.collect(), False, mode)
    assert dict(run.trace()) == {}
    empty = workshop.session.createDataFrame([], "a int, b array<int>")
    run = whence.capture(empty, archive=workshop.folder(), mode=mode, progress=False)
    assert_output(run, empty, [], False, mode)
    assert run.to_arrow().schema.names == ["a", "b"]


@pytest.mark.parametrize("mode", MODES)
def test_nested_nullability_and_metadata(workshop: Workshop, mode: str) -> None:
    frame = workshop.session.sql(
        "SELECT array(id) AS a, map('k', id) AS m, named_struct('x', array(id)) AS s FROM range(2)"
    )
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    assert run.output.schema.json() == frame.schema.json()
    assert isinstance(run.to_arrow(), pa.Table)
    assert_output(run, frame, frame.collect(), False, mode)


@pytest.mark.parametrize("mode", ["eager", "auto"])
def test_keys_that_are_equal_in_spark_alone(workshop: Workshop, mode: str) -> None:
    session, path = workshop.session, str(workshop.folder() / "keyed")
    session.sql(
        "SELECT i, c COLLATE UTF8_LCASE AS c, m FROM VALUES (0, 'a', map('x', 1, 'y', 2)), "
        "(1, 'A', map('y', 2, 'x', 1)), (2, 'b', map()) AS t(i, c, m)"
    ).coalesce(1).write.parquet(path)
    session.read.parquet(path).createOrReplaceTempView("keyed")
    grouped = session.sql(
        "SELECT a.c, b.n, count(*) OVER (PARTITION BY a.c) AS w FROM "
        "(SELECT c, count(*) AS n FROM keyed GROUP BY c) a JOIN "
        "(SELECT m, count(*) AS n FROM keyed GROUP BY m) b ON a.n = b.n"
    )
    run = whence.capture(grouped, archive=workshop.folder(), mode=mode, progress=False)
    assert run.output.schema == grouped.schema
    for n, members in ((2, [0, 1]), (1, [2])):
        assert run.trace(f"n = {n}")["keyed"].locators()["row"].to_pylist() == members
