"""Traces, impacts and checks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from whence.archive import Run
from whence.present.columns import columns_read
from whence.present.report import Grid, Report, dicts, grid_of
from whence.present.values import count, place, plain
from whence.trace.answer import Impact, SourceRows, Trace

EXTRA = ("_file", "_row", "_role")


class RowResult(Protocol):
    """One row that was replayed."""

    @property
    def row(self) -> dict[str, Any]:
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


# --- Trace ----------------------------------------------------------------------------------


def trace_report(
    run: Run,
    trace: Trace,
    *,
    where: str | None = None,
    source: str | None = None,
    how: bool = False,
    limit: int | None = None,
    shown: int = 10,
) -> Report:
    """The chosen rows, the rows behind them by source, and how good the answer is.

    `source` keeps one source only. `limit` bounds the rows of each table; without it, people are
    shown `shown` of them and programs get all.
    """
    names = list(trace) if source is None else [source]
    found = {name: grid_of(trace[name].to_arrow(extra=True), limit) for name in names}
    output = grid_of(trace.output(), limit)
    told = trace.how(rows=limit or shown).splitlines() if how else []
    few = shown if limit is None else limit
    blocks: list[str | Grid] = [f"{run.name}: {count(trace.rows, 'chosen row')}"]
    if trace.rows:
        blocks.append(_first(output, few))
    for name, grid in found.items():
        read = columns_read(run, trace[name].dataset.id)
        blocks += _source_blocks(trace[name], _first(_for_people(grid, read), few))
    if how:
        blocks.append("\n".join(["how", *(told or ["nothing was chosen"])]))
    blocks.append(_quality(trace))
    data = {
        "run": {"id": run.id, "name": run.name},
        "where": where,
        "rows": trace.rows,
        "output": dicts(output),
        "sources": {name: _source_data(trace[name], grid) for name, grid in found.items()},
        **({"how": told} if how else {}),
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


def _source_blocks(rows: SourceRows, grid: Grid) -> list[str | Grid]:
    """A source's rows; its only file stands in the title, several stand in a column."""
    title = f"{rows.name}: {count(len(rows), 'row')}"
    where = grid.columns.index("file") if grid.rows else 0
    files = {row[where] for row in grid.rows}
    if len(files) == 1 and not grid.more:
        (file,) = files
        title += f" of {place(file)}" if file else ""
        kept = [i for i in range(len(grid.columns)) if i != where]
        grid = _columns(grid, kept)
    elif grid.rows:
        shown = [[place(v) if i == where and v else v for i, v in enumerate(r)] for r in grid.rows]
        grid = Grid(grid.columns, shown, grid.more)
    return [title, grid] if grid.rows else [title]


def _for_people(grid: Grid, read: set[str] | None) -> Grid:
    """File, row and role first, then the columns that the pipeline looks at."""
    names = grid.columns
    first = [names.index(name) for name in EXTRA if name in names]
    rest = [i for i in range(len(names)) if i not in first]
    wanted = [i for i in rest if read is None or names[i] in read] or rest
    chosen = _columns(grid, first + wanted)
    renamed = tuple(name[1:] if name in EXTRA else name for name in chosen.columns)
    return Grid(renamed, chosen.rows, chosen.more)


def _columns(grid: Grid, kept: Sequence[int]) -> Grid:
    rows = [[row[i] for i in kept] for row in grid.rows]
    return Grid(tuple(grid.columns[i] for i in kept), rows, grid.more)


def _first(grid: Grid, rows: int) -> Grid:
    over = max(0, len(grid.rows) - rows)
    return Grid(grid.columns, grid.rows[:rows], grid.more + over)


def _source_data(rows: SourceRows, grid: Grid) -> dict[str, Any]:
    listed = []
    for row in dicts(grid):
        file, number, role = (row.pop(name) for name in EXTRA)
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
        grid = found[source]
        names = grid.columns
        order = [names.index(name) for name in EXTRA]
        return _columns(grid, order + [i for i in range(len(names)) if i not in order])
    records = []
    for name, grid in found.items():
        for row in dicts(grid):
            place_of_row = [row.pop(extra) for extra in EXTRA]
            values = json.dumps(plain(row), ensure_ascii=False)
            records.append((name, *place_of_row, values))
    return Grid(("source", "file", "row", "role", "values"), records)


def _quality(trace: Trace) -> str:
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
    shown: int = 10,
) -> Report:
    """The output rows that chosen source rows took part in."""
    rows = grid_of(impact.to_arrow(), limit)
    few = shown if limit is None else limit
    title = (
        f"{count(impact.source_rows, 'row')} of {impact.source} took part in "
        f"{count(len(impact), 'row')} of {run.name}"
    )
    blocks: list[str | Grid] = [title]
    if len(impact):
        blocks.append(_first(rows, few))
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
    shown = Grid(
        ("", *names, "why"),
        [
            ("same" if r.ok else "DIFFERENT", *(r.row.get(n) for n in names), r.why)
            for r in check.rows
        ],
    )
    said = "guaranteed" if check.guaranteed else "not guaranteed"
    blocks = (title, *([shown] if check.rows else []), f"replays  {said}")
    data = {
        "run": {"id": run.id, "name": run.name},
        "ok": check.ok,
        "guaranteed": check.guaranteed,
        "rows": [{"ok": r.ok, "why": r.why, "row": r.row} for r in check.rows],
    }
    return Report(blocks, data, records)
