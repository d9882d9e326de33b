"""Scenarios T1 to T5 on generated tweets: the pipelines run again on the traced cells alone."""

import copy
import json
import re
from typing import Any

import pytest
from benchmarks.tweets import SCENARIOS, tweets
from kit import Workshop
from pyspark.sql import DataFrame

import whence
from whence.trace.cells.trees import parts
from whence.trace.patterns.match import Matcher, Place
from whence.trace.places import Held
from whence.trace.tables import LOCATOR

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROWS = 60


@pytest.fixture(scope="module")
def written(workshop: Workshop) -> tuple[str, Any, list[dict[str, Any]]]:
    """Generated tweets in one file: where it is, their schema, and their values."""
    path = str(workshop.folder())
    frame = tweets(workshop.session, ROWS).drop(*(f"attribute_{i}" for i in range(5, 200)))
    frame.coalesce(1).write.parquet(path)
    read = workshop.session.read.parquet(path)
    return path, read.schema, [row.asDict(recursive=True) for row in read.collect()]


def matched(run: Any, text: str) -> list[Any]:
    """The values that a pattern names in a result."""
    dataset = run.archive.store.dataset(run.stored.output)
    tables = run.archive.tables
    found = Matcher(tables, dataset, json.loads(dataset.schema)).match(whence.pattern(text))
    rows = {row[LOCATOR]: row for row in tables.arrow(tables.rows(dataset)).to_pylist()}

    def values(place: Place) -> list[str]:
        """What the steps of a place lead to, from each of its rows."""
        places = tables.arrow(f"SELECT * FROM {place.table}").to_pylist()
        values = [rows[entry["rid"]] for entry in places]
        for step in place.steps:
            if isinstance(step, Held):
                values = [v[e[step.column]] for v, e in zip(values, places, strict=True)]
            else:
                values = [v[step.name] for v in values]
        return sorted(map(repr, values))

    return [values(place) for place in found.chosen]


def reduced(
    rows: list[dict[str, Any]], cells: list[dict[str, Any]]
) -> tuple[list[int], list[dict[str, Any]]]:
    """Only rows that have cells, and in them only the cells; all other values are null."""
    by_row: dict[int, list[str]] = {}
    for cell in cells:
        by_row.setdefault(cell["row"], []).append(cell["path"])
    numbers = sorted(by_row)
    return numbers, [_kept(rows[n], "", _patterns(by_row[n])) for n in numbers]


def _patterns(paths: list[str]) -> list[re.Pattern[str]]:
    return [
        re.compile(re.escape(path).replace(r"\[\*\]", r"\[\d+\]") + r"(?:[.\[].*)?")
        for path in paths
    ]


def _kept(value: Any, path: str, wanted: list[re.Pattern[str]]) -> Any:
    if isinstance(value, dict):
        return {k: _kept(v, f"{path}.{k}" if path else k, wanted) for k, v in value.items()}
    if isinstance(value, list):
        if not any(p.fullmatch(path) or p.pattern.startswith(re.escape(path)) for p in wanted):
            return None
        return [_kept(v, f"{path}[{i}]", wanted) for i, v in enumerate(value)]
    return value if any(p.fullmatch(path) for p in wanted) else None


def changed(rows: list[dict[str, Any]], number: int, path: str) -> list[dict[str, Any]]:
    """The rows with one cell changed."""
    made = copy.deepcopy(rows)
    *way, last = parts(path)
    at: Any = made[number]
    for step in way:
        at = at[int(step[1:-1])] if step.startswith("[") else at[step]
    key = int(last[1:-1]) if last.startswith("[") else last
    at[key] = at[key] + 1 if isinstance(at[key], int) else f"{at[key]} changed"
    return made


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(workshop: Workshop, written: Any, name: str) -> None:
    path, schema, rows = written
    pipeline, text = SCENARIOS[name]

    def run_on(given: list[dict[str, Any]]) -> Any:
        frame: DataFrame = workshop.session.createDataFrame(given, schema).coalesce(1)
        return whence.capture(
            pipeline(frame), archive=workshop.folder(), mode="eager", progress=False
        )

    frame = pipeline(workshop.session.read.parquet(path))
    run = whence.capture(frame, archive=workshop.folder(), mode="eager", progress=False)
    trace = run.trace(whence.pattern(text))
    assert trace.rows and trace.grade == "exact", trace.reasons
    cells = trace.cells().to_pylist()
    wanted = matched(run, text)
    assert wanted and wanted[0]

    numbers, kept = reduced(rows, cells)
    assert len(kept) < len(rows)
    assert matched(run_on(kept), text) == wanted

    contributing = [c for c in cells if c["role"] == "contributing" and "[*]" not in c["path"]]
    leaf = [c for c in contributing if _value(rows[c["row"]], c["path"]) is not None]
    for cell in leaf[:: len(leaf) // 3 + 1]:
        other = changed(kept, numbers.index(cell["row"]), cell["path"])
        assert matched(run_on(other), text) != wanted, cell


def _value(row: Any, path: str) -> Any:
    for step in parts(path):
        row = row[int(step[1:-1])] if step.startswith("[") else row[step]
    return None if isinstance(row, list | dict) else row
