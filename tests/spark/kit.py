"""Pipelines that are captured in every mode and held against the oracle."""

import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import oracle
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from oracle import Atom, Table, Values, canonical

import whence

MODES = tuple(os.environ.get("WHENCE_MODES", "eager auto lazy").split())
EXAMPLES = int(os.environ.get("WHENCE_EXAMPLES", "2"))
EVERY_MODE = "WHENCE_MODES" in os.environ

ANY_MODE = st.sampled_from(MODES)
_OTHERS = itertools.cycle((("auto",), (), ("lazy",), ()))
_TURNS = itertools.cycle((0, 1))

# Few values, so that duplicates, ties and empty matches are common; one key is more common.
T_SCHEMA = pa.schema([("k", pa.int32()), ("a.b", pa.int64()), ("select", pa.string())])
U_SCHEMA = pa.schema([("j", pa.int32()), ("y", pa.int64()), ("tags", pa.list_(pa.int32()))])
T, U = ("k", "a.b", "select"), ("j", "y", "tags")

_KEYS = st.sampled_from([1, 1, 1, 2, 3, None])
_NUMBERS = st.sampled_from([0, 1, 2, -5, None])
_TEXTS = st.sampled_from(["x", "y", "", None])
_TAGS = st.none() | st.lists(st.sampled_from([7, 8, None]), max_size=3)


def table_of(**columns: Any) -> Any:
    return st.lists(st.fixed_dictionaries(columns), max_size=6)


TABLES = st.fixed_dictionaries(
    {
        "t": table_of(k=_KEYS, **{"a.b": _NUMBERS, "select": _TEXTS}),
        "u": table_of(j=_KEYS, y=_NUMBERS, tags=_TAGS),
    }
)

# Nulls, duplicates, ties and skew in one, so that no run is without them.
FULL: dict[str, list[Values]] = {
    "t": [
        {"k": 1, "a.b": 2, "select": "x"},
        {"k": 1, "a.b": 2, "select": "x"},
        {"k": 1, "a.b": None, "select": "y"},
        {"k": 1, "a.b": 0, "select": None},
        {"k": 2, "a.b": 1, "select": "y"},
        {"k": None, "a.b": -5, "select": ""},
        {"k": None, "a.b": None, "select": None},
        {"k": 3, "a.b": 1, "select": "x"},
    ],
    "u": [
        {"j": 1, "y": 1, "tags": [7, 8, 7]},
        {"j": 1, "y": 1, "tags": [7, 8, 7]},
        {"j": 1, "y": None, "tags": []},
        {"j": 2, "y": 0, "tags": None},
        {"j": None, "y": 2, "tags": [None]},
        {"j": 4, "y": 2, "tags": [8]},
    ],
}

few = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="WHENCE_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@dataclass(frozen=True)
class Pipeline:
    """The same pipeline twice: over the views `t` and `u` in Spark, and in the oracle."""

    spark: str | Callable[[Any], Any]
    oracle: Callable[[Table, Table], Table]
    ordered: bool = False

    def frame(self, session: Any) -> Any:
        return session.sql(self.spark) if isinstance(self.spark, str) else self.spark(session)


class Workshop:
    """Folders for tables and archives, and the session."""

    def __init__(self, session: Any, folder: Path) -> None:
        self.session = session
        self._folder = folder
        self._numbers = itertools.count()
        self.frames: dict[str, Any] = {}

    def folder(self) -> Path:
        return self._folder / str(next(self._numbers))

    def views(self, tables: dict[str, list[Values]]) -> None:
        """The tables as Parquet files behind views of their names."""
        for name, schema in (("t", T_SCHEMA), ("u", U_SCHEMA)):
            path = self.folder()
            path.mkdir()
            pq.write_table(pa.Table.from_pylist(tables[name], schema), path / f"{name}.parquet")
            frame = self.session.read.schema(_ddl(schema)).parquet(str(path))
            frame.createOrReplaceTempView(name)
            self.frames[name] = frame


def _ddl(schema: pa.Schema) -> str:
    kinds = {"int32": "int", "int64": "bigint", "string": "string", "list<element: int32>": "array"}
    texts = {"array": "array<int>"}
    names = [kinds.get(str(f.type), "array") for f in schema]
    return ", ".join(f"`{f.name}` {texts.get(n, n)}" for f, n in zip(schema, names, strict=True))


def check(
    workshop: Workshop,
    pipeline: Pipeline,
    tables: dict[str, list[Values]],
    modes: Sequence[str] | None = None,
) -> None:
    """Capture in some modes; rows, traces and impacts must be the oracle's.

    Without modes: eager, and for every other pipeline auto or lazy, which run the same plans at
    other times. All of them, and every impact, with WHENCE_MODES="eager auto lazy".
    """
    modes = modes or (MODES if EVERY_MODE else ("eager", *next(_OTHERS)))
    # Generated rows may name their columns in any order.
    order = {"t": T, "u": U}
    tables = {n: [{c: row[c] for c in order[n]} for row in rows] for n, rows in tables.items()}
    workshop.views(tables)
    t, u = oracle.source("t", tables["t"]), oracle.source("u", tables["u"])
    result = pipeline.oracle(t, u)
    wanted = [oracle.identity(row) for row in result]
    frame = pipeline.frame(workshop.session)
    expected = oracle.answers(result)
    for mode in modes:
        run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
        assert run.output.schema == frame.schema, mode
        rows = stored_rows(run)
        assert_same([key_of(row) for row in rows], wanted, pipeline.ordered, mode)
        assert_traces(run, rows, expected, mode)
        if mode == "eager":
            assert_impacts(run, tables, expected)


def assert_output(run: Any, frame: Any, plain: list[Any], ordered: bool, mode: str = "") -> None:
    """The output as a frame has the rows, types and nullability of the pipeline."""
    output = run.output
    assert output.schema == frame.schema, mode
    found = [key_of(row) for row in output.collect()]
    assert_same(found, [key_of(row) for row in plain], ordered, mode)


def stored_rows(run: Any) -> list[tuple[Any, ...]]:
    """The output rows, read without Spark where Arrow has the same values."""
    table = run.to_arrow()
    nested = any(word in str(f.type) for f in table.schema for word in ("struct", "map"))
    columns = [column.to_pylist() for column in table.columns]
    return run.output.collect() if nested else list(zip(*columns, strict=True))


def assert_same(found: list[Any], wanted: list[Any], ordered: bool, mode: str) -> None:
    if ordered:
        assert found == wanted, mode
    else:
        assert Counter(found) == Counter(wanted), mode


def assert_traces(run: Any, rows: list[Any], expected: dict[Any, Any], mode: str) -> None:
    """Each row by itself where that needs no Spark job; else one row, or all but that one."""
    distinct = {key_of(row): dict(zip(run.columns, row, strict=True)) for row in rows}
    if mode == "eager":
        for key, row in distinct.items():
            assert traced(run.trace([row])) == expected[key], (mode, key)
        assert traced(run.trace()) == together(expected.values()), mode
        return
    keys = list(distinct)
    parts = [part for part in (keys[-1:], keys[:-1]) if part]
    for chosen in parts if EVERY_MODE else parts[next(_TURNS) :][:1] or parts[:1]:
        found = traced(run.trace([distinct[key] for key in chosen]))
        assert found == together(expected[key] for key in chosen), (mode, chosen)


def together(answers: Any) -> tuple[frozenset[Atom], frozenset[Atom]]:
    found = list(answers)
    by = frozenset().union(*(a for a, _ in found))
    return by, frozenset().union(*(b for _, b in found)) - by


def traced(trace: Any) -> tuple[frozenset[Atom], frozenset[Atom]]:
    """What a trace says, as the oracle says it."""
    found: dict[str, set[Atom]] = {"contributing": set(), "influencing": set()}
    for name, rows in trace.items():
        for entry in rows.locators().to_pylist():
            found[entry["role"]].add((name, entry["row"]))
    assert all("tie at the edge" in reason for reason in trace.reasons), trace.reasons
    return frozenset(found["contributing"]), frozenset(found["influencing"])


def assert_impacts(run: Any, tables: dict[str, list[Values]], expected: dict[Any, Any]) -> None:
    """Forward is the inverse of backward, for rows of each source: all of them, or some."""
    for dataset in run.sources():
        if dataset.kind == "output":
            continue
        rows = tables[dataset.name]
        distinct = list({str(r): r for r in rows}.values())
        for values in distinct if EVERY_MODE else distinct[next(_TURNS) :: 3]:
            atoms = {(dataset.name, i) for i, other in enumerate(rows) if other == values}
            wanted = {key for key, (by, near) in expected.items() if atoms & (by | near)}
            found = run.impact(dataset.name, [values]).to_pylist()
            assert {canonical(list(row.values())) for row in found} == wanted, values


def key_of(row: Any) -> Any:
    return canonical(list(row))
