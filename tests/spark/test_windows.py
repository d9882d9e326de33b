"""Windows: the row, jointly with the rows of its frame; against the oracle."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit import ANY_MODE, FULL, TABLES, Pipeline, check, few
from oracle import Table, Values, jointly, nulls_first, over, where, windows
from pyspark.sql import functions as F  # noqa: N812

import whence

pytestmark = pytest.mark.spark


def unique(values: Values) -> Any:
    return nulls_first(values["a.b"], values["select"])


def tied(values: Values) -> Any:
    return nulls_first(values["a.b"])


def summed(rows: list[Values], i: int, seen: range) -> Any:
    found = [rows[j]["a.b"] for j in seen if rows[j]["a.b"] is not None]
    return sum(found) if found else None


def counted(rows: list[Values], i: int, seen: range) -> int:
    return len(seen)


def position(rows: list[Values], i: int, seen: range) -> int:
    return i + 1


def rank(rows: list[Values], i: int, seen: range) -> int:
    return 1 + min(j for j in range(len(rows)) if tied(rows[j]) == tied(rows[i]))


def dense_rank(rows: list[Values], i: int, seen: range) -> int:
    return len({tied(rows[j]) for j in range(i + 1)})


def value_at(rows: list[Values], i: int, seen: range) -> Any:
    return rows[seen[0]]["a.b"] if len(seen) else None


def last_present(rows: list[Values], i: int, seen: range) -> Any:
    before = [rows[j]["a.b"] for j in range(i) if rows[j]["a.b"] is not None]
    return before[-1] if before else None


def so_far(i: int, size: int) -> range:
    return range(i + 1)


def moved(by: int) -> Callable[[int, int], range]:
    return lambda i, size: range(i + by, i + by + 1)


def around(before: int, after: int) -> Callable[[int, int], range]:
    return lambda i, size: range(max(0, i + before), min(size, i + after + 1))


def _window(text: str, oracle: Callable[[Table], Table]) -> Pipeline:
    return Pipeline(f"SELECT *, {text} FROM t", lambda t, u: oracle(t))


BY = "PARTITION BY k ORDER BY `a.b`, `select`"
TIES = "PARTITION BY k ORDER BY `a.b`"

PIPELINES = {
    "row_number": _window(
        f"row_number() OVER ({BY})", lambda t: over(t, "w", ["k"], unique, so_far, position)
    ),
    "rank": _window(f"rank() OVER ({TIES})", lambda t: over(t, "w", ["k"], tied, so_far, rank)),
    "dense_rank": _window(
        f"dense_rank() OVER ({TIES})", lambda t: over(t, "w", ["k"], tied, so_far, dense_rank)
    ),
    "percent_rank": _window(
        f"percent_rank() OVER ({TIES})",
        lambda t: over(
            t,
            "w",
            ["k"],
            tied,
            None,
            lambda r, i, s: (rank(r, i, s) - 1) / (len(r) - 1) if len(r) > 1 else 0.0,
        ),
    ),
    "ntile": _window(
        f"ntile(1) OVER ({BY})", lambda t: over(t, "w", ["k"], unique, None, lambda r, i, s: 1)
    ),
    "lag": _window(
        f"lag(`a.b`) OVER ({BY})", lambda t: over(t, "w", ["k"], unique, moved(-1), value_at)
    ),
    "lag without nulls": _window(
        f"lag(`a.b`) IGNORE NULLS OVER ({BY})",
        lambda t: over(t, "w", ["k"], unique, None, last_present),
    ),
    "lead by two": _window(
        f"lead(`a.b`, 2) OVER ({BY})", lambda t: over(t, "w", ["k"], unique, moved(2), value_at)
    ),
    "lag and lead": _window(
        f"lag(`a.b`, 2) OVER ({BY}) AS w, lead(`a.b`, 2) OVER ({BY}) AS v",
        lambda t: windows(
            t, ["k"], unique, {"w": (moved(-2), value_at), "v": (moved(2), value_at)}
        ),
    ),
    "running sum": _window(
        f"sum(`a.b`) OVER ({BY} ROWS UNBOUNDED PRECEDING)",
        lambda t: over(t, "w", ["k"], unique, so_far, summed),
    ),
    "moving count": _window(
        f"count(*) OVER ({BY} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
        lambda t: over(t, "w", ["k"], unique, around(-1, 1), counted),
    ),
    "frame that may be empty": _window(
        f"count(*) OVER ({BY} ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING)",
        lambda t: over(t, "w", ["k"], unique, around(-3, -2), counted),
    ),
    "whole partition": _window(
        "sum(`a.b`) OVER (PARTITION BY k)",
        lambda t: over(t, "w", ["k"], None, None, summed),
    ),
    "whole table": _window("count(*) OVER ()", lambda t: over(t, "w", [], None, None, counted)),
    "range frame": Pipeline(
        "SELECT *, sum(`a.b`) OVER (PARTITION BY k ORDER BY `a.b` RANGE BETWEEN 1 PRECEDING AND "
        "CURRENT ROW) FROM t WHERE `a.b` IS NOT NULL",
        lambda t, u: _range(where(t, lambda r: r["a.b"] is not None)),
    ),
    "two windows": _window(
        "sum(`a.b`) OVER (PARTITION BY k) AS w, row_number() OVER (ORDER BY `a.b`, `select`, k) "
        "AS v",
        lambda t: over(
            over(t, "w", ["k"], None, None, summed),
            "v",
            [],
            lambda r: nulls_first(r["a.b"], r["select"], r["k"]),
            so_far,
            position,
        ),
    ),
    "filtered rank": Pipeline(
        f"SELECT * FROM (SELECT *, row_number() OVER ({BY}) AS w FROM t) WHERE w = 2",
        lambda t, u: where(over(t, "w", ["k"], unique, so_far, position), lambda r: r["w"] == 2),
    ),
}


def _range(table: Table) -> Table:
    """Rows of the partition whose number is the row's own or one less."""
    result = []
    for row in table:
        members = [
            m for m in table if m["k"] == row["k"] and row["a.b"] - 1 <= m["a.b"] <= row["a.b"]
        ]
        values = {**row.values, "w": sum(m["a.b"] for m in members)}
        result.append(jointly(values, row, *members))
    return result


@pytest.mark.parametrize("name", PIPELINES)
def test_window(workshop: Any, name: str) -> None:
    check(workshop, PIPELINES[name], FULL)


@pytest.mark.slow
@few
@given(name=st.sampled_from(sorted(PIPELINES)), tables=TABLES, mode=ANY_MODE)
def test_any_tables(workshop: Any, name: str, tables: Any, mode: str) -> None:
    check(workshop, PIPELINES[name], tables, [mode])


@pytest.mark.parametrize("mode", ["eager", "auto", "lazy"])
def test_rows_that_become_one_session(workshop: Any, mode: str) -> None:
    session, path = workshop.session, str(workshop.folder() / "visits")
    times = ", ".join(f"({i}, TIMESTAMP'2024-01-01 10:{m}:00')" for i, m in enumerate(MINUTES))
    session.sql(f"SELECT * FROM VALUES {times} AS v(i, t)").coalesce(1).write.parquet(path)
    found = session.read.parquet(path).groupBy(F.session_window("t", "5 minutes").alias("w"))
    frame = found.agg(F.count("*").alias("n"))
    if mode == "eager":
        frame = frame.join(session.range(1), F.lit(True))
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    for n, rows in ((3, [0, 1, 2]), (2, [3, 4])):
        assert run.trace(f"n = {n}")["visits"].locators()["row"].to_pylist() == rows


ABOVE_SESSIONS = {
    "start": "SELECT w.start AS s, n FROM sessions",
    "end": "SELECT w.end AS e, n FROM sessions",
    "computed": "SELECT CAST(w.end AS DATE) AS d, minute(w.end) AS e, n FROM sessions",
    "group": "SELECT w.end AS e, max(n) AS n FROM sessions GROUP BY w.end",
    "groups": "SELECT w.start AS s, w.end AS e, max(n) AS n FROM sessions GROUP BY w.start, w.end",
    "window": "SELECT sum(n) OVER (PARTITION BY w.start) AS n, w.start AS s FROM sessions",
    "semi": "SELECT m.n, m.e FROM VALUES (3, TIMESTAMP'2024-01-01 10:13:00'), "
    "(2, TIMESTAMP'2024-01-01 10:39:00') AS m(n, e) LEFT SEMI JOIN sessions ON w.end = m.e",
    "except": "SELECT w.end AS e, n FROM sessions EXCEPT SELECT current_timestamp(), 7",
}


SOME = {("start", "lazy"), ("computed", "lazy"), ("groups", "lazy"), ("semi", "lazy")}
SOME |= {("group", "auto"), ("window", "auto"), ("except", "auto")}


@pytest.mark.parametrize(
    ("above", "mode"),
    [
        pytest.param(above, mode, marks=() if (above, mode) in SOME else pytest.mark.full)
        for above in ABOVE_SESSIONS
        for mode in ("lazy", "auto", "eager")
    ],
)
def test_sessions_are_whole_before_they_are_looked_for(
    workshop: Any, above: str, mode: str
) -> None:
    """Spark moves a filter on their start or end below the aggregate that makes them."""
    session, path = workshop.session, str(workshop.folder() / "visits")
    times = ", ".join(f"({i}, TIMESTAMP'2024-01-01 10:{m}:00')" for i, m in enumerate(MINUTES))
    session.sql(f"SELECT * FROM VALUES {times} AS v(i, t)").coalesce(1).write.parquet(path)
    found = session.read.parquet(path).groupBy(F.session_window("t", "5 minutes").alias("w"))
    found.agg(F.count("*").alias("n")).createOrReplaceTempView("sessions")
    frame = session.sql(ABOVE_SESSIONS[above])
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, list_below=0, progress=False)
    for n, rows in ((3, [0, 1, 2]), (2, [3, 4])):
        assert run.trace(f"n = {n}")["visits"].locators()["row"].to_pylist() == rows


MINUTES = ("00", "04", "08", "30", "34")
