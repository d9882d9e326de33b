"""Nodes and edges without what only forgotten runs used."""

from __future__ import annotations

from pathlib import Path

from whence.archive import Dataset, layout
from whence.archive.sealer import Sealer
from whence.errors import ArchiveError
from whence.trace.closure import closure
from whence.trace.ptable import PTable
from whence.trace.tables import Tables, local, text

_ORDER = {"nodes": "id", "edges": "derived, index, input", "uses": "input, derived"}


def kept_nodes(table: PTable, going: set[str]) -> str:
    """A table with the ids of all nodes that the runs which stay are made of."""
    listed = ", ".join(text(run) for run in sorted(going)) or "''"
    start = table.engine.table(
        "start",
        f"SELECT DISTINCT node AS id FROM {table.roots} AS r "
        f"WHERE run NOT IN ({listed}) AND node IS NOT NULL",
    )
    return closure(table, start)


def rewritten(
    tables: Tables, table: PTable, kept: str, sealer: Sealer
) -> tuple[dict[str, Dataset | None], list[int]]:
    """What stands for each segment that holds nodes nobody needs, and the empty id ranges."""
    archive = tables.archive
    replaced: dict[str, Dataset | None] = {}
    for dataset in archive.datasets():
        if dataset.kind not in _ORDER or not dataset.files:
            continue
        column = "id" if dataset.kind == "nodes" else "derived"
        scan = tables.scan([local(path) for path in archive.file_paths(dataset)])
        keep = f"{column} IN (SELECT id FROM {kept})"
        total, left = tables.one(f"SELECT count(*), count(*) FILTER ({keep}) FROM {scan}")
        if left == total:
            continue
        replaced[dataset.id] = None
        if left:
            query = f"SELECT * FROM {scan} WHERE {keep} ORDER BY {_ORDER[dataset.kind]}"
            replaced[dataset.id] = _written(tables, sealer, dataset, query)
    empty = []
    for row in table.ranges:
        last = row.start + max(row.count, 1) - 1
        found = tables.run(f"SELECT 1 FROM {kept} WHERE id BETWEEN {row.start} AND {last} LIMIT 1")
        if not found:
            empty.append(row.start)
    return replaced, empty


def _written(tables: Tables, sealer: Sealer, dataset: Dataset, query: str) -> Dataset:
    new, folder = sealer.folder()
    if not layout.is_local(folder):
        raise ArchiveError(
            "runs of an archive at a URL cannot be forgotten yet: its files are written by Spark"
        )
    Path(folder).mkdir(parents=True)
    path = f"{folder}/part-0.parquet"
    tables.run(
        f"COPY ({query}) TO {text(path)} (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION V2)"
    )
    return sealer.written(new, dataset.kind, {})  # type: ignore[arg-type]
