"""All of TPC-H, text unchanged, in every mode: same output, same traces, and they replay.

`test_cluster` runs some of this on a cluster, `make test-full` all, and on a local session too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tpch_kit import (
    EMPTY,
    FAILS,
    QUERIES,
    TABLES,
    Second,
    locators,
    register,
    sampled,
    traced_tables,
)

import whence

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.full]
MODES = ("eager", "lazy", "auto")
PROMISED = {"q01", "q03", "q05", "q06"}  # at least for these, a replay is guaranteed


@dataclass(frozen=True)
class Case:
    """One query, run plainly and captured in every mode."""

    query: str
    sql: str
    plain: list[Any]
    schema: Any
    runs: dict[str, Any]
    second: Second

    def chosen(self) -> list[dict[str, Any]]:
        return sampled(self.runs["eager"].to_arrow().to_pylist())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpch-archive")


@pytest.fixture(scope="module")
def tables(spark: Any, tpch_tables: Path) -> Iterator[Path]:
    register(spark, tpch_tables)
    # Here there are rows enough for compiling to pay.
    usual = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.adaptive.enabled": "true"}
    before = {name: spark.conf.get(name) for name in usual}
    for name, value in usual.items():
        spark.conf.set(name, value)
    yield tpch_tables
    for name, value in before.items():
        spark.conf.set(name, value)
    for table in TABLES:
        spark.catalog.dropTempView(table)


@pytest.fixture(scope="module", params=sorted(QUERIES))
def case(request: pytest.FixtureRequest, spark: Any, tables: Path, place: Path) -> Case:
    query = request.param
    frame = spark.sql(QUERIES[query])
    runs = {
        mode: whence.capture(frame, name=f"{query}-{mode}", archive=place, mode=mode, list_below=0)
        for mode in MODES
    }
    return Case(query, QUERIES[query], frame.collect(), frame.schema, runs, Second(tables))


def test_captured_output_is_the_output(case):
    plain = [row.asDict() for row in case.plain]
    for mode, run in case.runs.items():
        assert run.output.schema == case.schema, mode
        assert run.to_arrow().to_pylist() == plain, mode


def test_traced_rows_replay_in_duckdb(case):
    run = case.runs["eager"]
    failed, promised = [], []
    for row in case.chosen():
        trace = run.trace([row])
        assert trace.rows == 1
        assert trace.grade == "exact"
        promised.append(trace.replays == "guaranteed")
        assert bool(trace.replay_reasons) != promised[-1]
        if not case.second.gives(case.sql, traced_tables(trace), row):
            failed.append(row)
    assert promised
    assert all(promised) or case.query not in PROMISED
    assert not any(promised) or case.query != FAILS
    assert bool(failed) == (case.query == FAILS)


def test_all_modes_give_the_same_trace(case):
    """Of several rows in one mode and of one row in the other, in turn."""
    rows = case.chosen()
    few, one = rows, rows[len(rows) // 2 :][:1]
    turn = sorted(QUERIES).index(case.query) % 2
    for mode, chosen in zip(("lazy", "auto"), (few, one) if turn else (one, few), strict=True):
        eager = locators(case.runs["eager"].trace(chosen))
        assert bool(eager) == (case.query != EMPTY)
        trace = case.runs[mode].trace(chosen)
        assert locators(trace) == eager, mode
        assert trace.grade == "exact"
