"""Source rows that runs which stay share with one that goes: found again in what stays.

Equal rows are one node, named by the file that had it first. When that file's dataset is forgotten,
the node gets the id of an equal row in a source that stays. A dataset whose rows are found nowhere
else, because those sources have changed meanwhile, has to stay as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whence.archive import Dataset
from whence.archive.ledger import RangeRow
from whence.archive.model import LEAF_KINDS
from whence.archive.sealer import Sealer
from whence.errors import WhenceError
from whence.trace.ptable import PTable
from whence.trace.records import stored_columns
from whence.trace.seal.formulas import ROW, START, Formulas, placed
from whence.trace.seal.settings import FileRange, file_ranges
from whence.trace.tables import RECORD, Tables, check_source

_FORMULAS = Formulas("duckdb")


@dataclass(frozen=True, slots=True)
class Rehomed:
    """Nodes that get another id (a table `old`, `new`), and the datasets that have to stay."""

    moved: str | None = None
    staying: frozenset[str] = frozenset()


def rehomed(
    tables: Tables, table: PTable, kept: str, sealer: Sealer, going: Sequence[Dataset]
) -> Rehomed:
    """Where the kept rows of datasets that go are from now on; `kept` has the ids of all nodes."""
    leaving = {dataset.id: dataset for dataset in going}
    lost = [row for row in table.ranges if row.dataset in leaving]
    if not lost:
        return Rehomed()
    spans = ", ".join(f"({r.start}, {r.start + max(r.count, 1) - 1}, '{r.dataset}')" for r in lost)
    homeless = tables.table(
        "homeless",
        f"SELECT k.id AS old, s.dataset FROM {kept} AS k JOIN (VALUES {spans}) "
        "AS s(first, last, dataset) ON k.id BETWEEN s.first AND s.last",
    )
    if not tables.count(homeless):
        return Rehomed()
    wanted = _wanted(tables, table, homeless, sealer, leaving, lost)
    parts = _found(tables, table, wanted, sealer, leaving)
    moved = tables.table(
        "moved", f"SELECT old, min(new) AS new FROM ({' UNION ALL '.join(parts)}) GROUP BY old"
    )
    left = tables.run(
        f"SELECT DISTINCT dataset FROM {homeless} AS h WHERE old NOT IN (SELECT old FROM {moved})"
    )
    staying = frozenset(row[0] for row in left)
    stay = ", ".join(f"'{dataset}'" for dataset in sorted(staying)) or "''"
    chosen = tables.table(
        "moved",
        f"SELECT m.* FROM {moved} AS m JOIN {homeless} AS h USING (old) "
        f"WHERE h.dataset NOT IN ({stay})",
    )
    return Rehomed(chosen, staying)


def _wanted(
    tables: Tables,
    table: PTable,
    homeless: str,
    sealer: Sealer,
    leaving: Mapping[str, Dataset],
    lost: Sequence[RangeRow],
) -> str:
    """A table with the full hash (`f`) of each homeless row (`old`), where it can be told."""
    if table.settings.bits == 256 and table.settings.leaf_digests:
        return tables.table(
            "wanted",
            f"SELECT h.old, n.digest AS f FROM {homeless} AS h JOIN {table.nodes} AS n "
            "ON n.id = h.old",
        )
    parts = ["SELECT 0::BIGINT AS old, ''::BLOB AS f WHERE false"]
    for dataset in {row.dataset: leaving[row.dataset] for row in lost}.values():
        if _is_as_it_was(dataset):
            sql = _hashes(tables, table, dataset, file_ranges(sealer.ranges(dataset)))
            parts.append(f"SELECT i AS old, f FROM ({sql}) WHERE i IN (SELECT old FROM {homeless})")
    return tables.table("wanted", " UNION ALL ".join(parts))


def _found(
    tables: Tables, table: PTable, wanted: str, sealer: Sealer, leaving: Mapping[str, Dataset]
) -> list[str]:
    """SQL that gives the ids of equal rows in the sources of sealed runs that stay."""
    archive = tables.archive
    sealed = [run for run in archive.runs() if sealer.is_sealed(run.id)]
    used = {i for run in sealed for step in run.steps for i in step.inputs}
    taken = {row.start for row in table.ranges if row.dataset in leaving}
    parts = ["SELECT 0::BIGINT AS old, 0::BIGINT AS new WHERE false"]
    for dataset in archive.datasets(sorted(used - set(leaving))):
        if dataset.kind in LEAF_KINDS and _is_as_it_was(dataset):
            ranges = [r for r in file_ranges(sealer.ranges(dataset)) if r.start not in taken]
            sql = _hashes(tables, table, dataset, ranges)
            parts.append(f"SELECT w.old, h.i AS new FROM {wanted} AS w JOIN ({sql}) AS h USING (f)")
    return parts


def _hashes(tables: Tables, table: PTable, dataset: Dataset, ranges: Sequence[FileRange]) -> str:
    """SQL: full hash and id of a dataset's rows."""
    if not ranges:
        return "SELECT ''::BLOB AS f, 0::BIGINT AS i WHERE false"
    scheme = table.settings.scheme
    by_value = scheme == "value" or dataset.kind == "range"
    full = _FORMULAS.source_row(stored_columns(tables, dataset) if by_value else None)
    rows = placed(f"({tables.rows(dataset)})", ranges, scheme)
    return f"SELECT {full} AS f, {START} + {ROW} AS i FROM ({rows}) AS {RECORD}"


def _is_as_it_was(dataset: Dataset) -> bool:
    """Whether a source can be read, and is what the runs read."""
    try:
        check_source(dataset)
    except (OSError, WhenceError):
        return False
    return True
