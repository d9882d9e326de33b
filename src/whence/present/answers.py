"""Traces, impacts and checks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from whence.archive import Run
from whence.present.columns import columns_read
from whence.present.report import Grid, Report, dicts, distinct_names
from whence.present.values import count, place, plain
from whence.trace.answer import Impact, Trace
from whence.trace.rows import EXTRA, Fetched, SourceRows
from whence.trace.tables import local

TOLD = 10  # rows whose polynomials are told, unless a limit says otherwise


class RowResult(Protocol):
    """One row that was replayed."""

    @property
    def row(self) -> Mapping[str, Any]:
        """The output row."""

    @property
    def ok(self) -> bool:
        """Whether it came out again."""

    @property
    def why(self) -> str:
        """Why it did not."""


class Check(Protocol):
    """What `run.check` gives."""

    @property
    def rows(self) -> Sequence[RowResult]:
        """What became of each row."""

    @property
    def ok(self) -> bool:
        """Whether all came out again."""

    @property
    def guaranteed(self) -> bool:
        """Whether all had to."""

    @property
    def reasons(self) -> Sequence[str]:
        """The operators because of which they had not."""


# --- Trace ----------------------------------------------------------------------------------


def trace_report(
    run: Run,
    trace: Trace,
    *,
    where: str | None = None,
    source: str | None = None,
    how: bool = False,
    cells: bool = False,
    limit: int | None = None,
) -> Report:
    """The chosen rows, the rows behind them by source, and how good the answer is.

    `source` keeps one source only; `limit` bounds the rows of each table.
    """
    names = list(trace) if source is None else [source]
    found = {name: _grid(trace[name].fetch(limit)) for name in names}
    output = output_grid(trace.fetch(limit))
    told = trace.how(rows=limit or TOLD).splitlines() if how else []
    blocks: list[str | Grid] = [f"{run.name}: {count(trace.rows, 'chosen row')}"]
    if trace.rows:
        blocks.append(output)
    for name, grid in found.items():
        read = columns_read(run, trace[name].dataset.id)
        blocks += _source_blocks(trace[name], _for_people(grid, read))
    if how:
        blocks.append("\n".join(["how", *(told or ["nothing was chosen"])]))
    table = _cells_grid(trace, limit) if cells else None
    if table is not None:
        blocks += ["cells", table] if table.rows else ["cells: no step used arrays"]
    blocks.append(quality(trace))
    data = {
        "run": {"id": run.id, "name": run.name},
        "where": where,
        "rows": trace.rows,
        "output": dicts(output),
        "sources": {name: _source_data(trace[name], grid) for name, grid in found.items()},
        **({"how": told} if how else {}),
        **({"cells": dicts(table)} if table is not None else {}),
        "operators": [
            {"run": o.run, "step": o.step, "operator": o.operator, "rows": o.rows}
            for o in trace.operators()
        ],
        "grade": trace.grade,
        "reasons": trace.reasons,
        "replays": trace.replays,
        "replay_reasons": trace.replay_reasons,
        "notes": trace.notes,
    }
    return Report(tuple(blocks), data, _trace_records(found, source))


def _cells_grid(trace: Trace, limit: int | None) -> Grid:
    """The cells behind the cells of steps that used arrays, contributing ones first."""
    found = trace.array_cells().to_pydict()
    rows = list(zip(*found.values(), strict=True))
    rows.sort(key=lambda row: row[-1])
    kept = rows if limit is None else rows[:limit]
    return Grid(tuple(found), kept, len(rows) - len(kept))


def _source_blocks(rows: SourceRows, grid: Grid) -> list[str | Grid]:
    """A source's rows; its only file stands in the title, several stand in the last column."""
    title = f"{rows.name}: {count(len(rows), 'row')}"
    dataset = rows.dataset
    root = local(dataset.location)
    if not dataset.is_own and dataset.files:
        one = len(dataset.files) == 1
        title += f" of {place(local(dataset.files[0].path) if one else root)}"
    if len(dataset.files) <= 1:
        grid = _columns(grid, range(1, len(grid.columns)))
    else:
        short = [(*rest, _below(file, root)) for file, *rest in grid.rows]
        grid = Grid((*grid.columns[1:], grid.columns[0]), short, grid.more)
    return [title, grid] if grid.rows else [title]


def _below(file: str, root: str) -> str:
    """A file's path below a folder; in the archive, whose folders have no meaning, its name."""
    inside = file.removeprefix(root.rstrip("/") + "/")
    return inside if inside != file else file.rpartition("/")[2]


def _for_people(grid: Grid, read: set[str] | None) -> Grid:
    """File, row and role first, then the columns that the pipeline looks at."""
    names = grid.columns
    rest = list(range(len(EXTRA), len(names)))
    wanted = [i for i in rest if read is None or names[i] in read] or rest
    chosen = _columns(grid, [0, 1, 2, *wanted])
    return Grid(("file", "row", "role", *chosen.columns[3:]), chosen.rows, chosen.more)


def _grid(found: Fetched) -> Grid:
    return Grid(found.columns, found.rows, found.more)


def output_grid(found: Fetched) -> Grid:
    """Output rows, under names that differ."""
    return Grid(distinct_names(found.columns), found.rows, found.more)


def _columns(grid: Grid, kept: Sequence[int]) -> Grid:
    rows = [[row[i] for i in kept] for row in grid.rows]
    return Grid(tuple(grid.columns[i] for i in kept), rows, grid.more)


def _source_data(rows: SourceRows, grid: Grid) -> dict[str, Any]:
    listed = []
    names = grid.columns[len(EXTRA) :]
    for file, number, role, *values in grid.rows:
        row = dict(zip(names, values, strict=True))
        listed.append({"file": file, "row": number, "role": role, "values": row})
    return {
        "count": len(rows),
        "kind": rows.dataset.kind,
        "location": rows.dataset.location,
        "rows": listed,
    }


def _trace_records(found: dict[str, Grid], source: str | None) -> Grid:
    """One record per traced row; with one source, its columns are columns of the records."""
    if source is not None:
        return found[source]
    records = []
    for name, grid in found.items():
        names = grid.columns[len(EXTRA) :]
        for file, number, role, *values in grid.rows:
            row = plain(dict(zip(names, values, strict=True)))
            records.append((name, file, number, role, json.dumps(row, ensure_ascii=False)))
    return Grid(("source", "file", "row", "role", "values"), records)


def quality(trace: Trace) -> str:
    """How good an answer is, in a few lines."""
    lines = [f"grade    {trace.grade}"]
    lines += [f"         {reason}" for reason in trace.reasons]
    lines += [f"replays  {trace.replays}"]
    lines += [f"         {reason}" for reason in trace.replay_reasons]
    lines += [f"note     {note}" for note in trace.notes]
    return "\n".join(lines)


# --- Impact and check -----------------------------------------------------------------------


def impact_report(
    run: Run,
    impact: Impact,
    *,
    where: str | None = None,
    limit: int | None = None,
) -> Report:
    """The output rows that chosen source rows took part in."""
    rows = output_grid(impact.fetch(limit))
    title = (
        f"{count(impact.source_rows, 'row')} of {impact.source} took part in "
        f"{count(len(impact), 'row')} of {run.name}"
    )
    blocks: list[str | Grid] = [title]
    if len(impact):
        blocks.append(rows)
    blocks.append(f"grade    {impact.grade}")
    data = {
        "run": {"id": run.id, "name": run.name},
        "source": impact.source,
        "where": where,
        "source_rows": impact.source_rows,
        "count": len(impact),
        "rows": dicts(rows),
        "grade": impact.grade,
    }
    return Report(tuple(blocks), data, rows)


def check_report(run: Run, check: Check) -> Report:
    """Which sampled rows came out again when the pipeline ran on only their traced inputs."""
    good = sum(result.ok for result in check.rows)
    title = f"{run.name}: {good} of {count(len(check.rows), 'sampled row')} came out again"
    names = tuple(dict.fromkeys(name for result in check.rows for name in result.row))
    records = Grid(
        ("ok", "why", *names),
        [(r.ok, r.why, *(r.row.get(name) for name in names)) for r in check.rows],
    )
    reasoned = any(r.why for r in check.rows)
    shown = Grid(
        ("", *names, *(["why"] if reasoned else [])),
        [
            (
                "same" if r.ok else "DIFFERENT",
                *(r.row.get(name) for name in names),
                *([r.why] if reasoned else []),
            )
            for r in check.rows
        ],
    )
    said = ["replays  guaranteed" if check.guaranteed else "replays  not guaranteed"]
    said += [f"         {reason}" for reason in check.reasons]
    tables = (shown,) if check.rows else ()
    data = {
        "run": {"id": run.id, "name": run.name},
        "ok": check.ok,
        "guaranteed": check.guaranteed,
        "reasons": check.reasons,
        "rows": [{"ok": r.ok, "why": r.why, "row": r.row} for r in check.rows],
    }
    return Report((title, *tables, "\n".join(said)), data, records)
