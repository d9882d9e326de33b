"""Cells behind a pattern: as trees for people, as records for programs."""

from __future__ import annotations

from whence.archive import Run
from whence.present.answers import TOLD, output_grid, quality
from whence.present.report import Grid, Report, dicts
from whence.present.values import count
from whence.trace.answer import Trace

_COLUMNS = ("source", "file", "row", "path", "role", "accessed_by", "moved_by")


def cells_report(
    run: Run,
    trace: Trace,
    pattern: str,
    *,
    source: str | None = None,
    how: bool = False,
    limit: int | None = None,
) -> Report:
    """The rows that a pattern matches, and the source cells behind what it names in them."""
    names = list(trace) if source is None else [trace[source].name]
    blocks: list[str | Grid] = [f"{run.name}: {count(trace.rows, 'matching row')}"]
    output = output_grid(trace.fetch(limit))
    if trace.rows:
        blocks.append(output)
    for name in names:
        rows = trace[name]
        tree = trace.tree(name, rows=len(rows) if limit is None else limit)
        blocks.append(f"{name}: {count(len(rows), 'row')}\n{tree}")
    told = trace.how(rows=limit or TOLD).splitlines() if how else []
    if told:
        blocks.append("\n".join(["how", *told]))
    blocks.append(quality(trace))
    listed = [cell for cell in trace.cells().to_pylist() if cell["source"] in names]
    data = {
        "run": {"id": run.id, "name": run.name},
        "pattern": pattern,
        "rows": trace.rows,
        "output": dicts(output),
        "cells": listed,
        **({"how": told} if how else {}),
        "grade": trace.grade,
        "reasons": trace.reasons,
        "notes": trace.notes,
    }
    records = [tuple(cell[name] for name in _COLUMNS) for cell in listed]
    return Report(tuple(blocks), data, Grid(_COLUMNS, records))
