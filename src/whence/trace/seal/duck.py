"""DuckDB as the engine of sealing, for runs that one machine holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whence.algebra.canonical import CHUNK, Column, Dialect
from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.archive import Dataset, merkle
from whence.trace.records import stored_columns
from whence.trace.seal.formulas import binary
from whence.trace.seal.settings import ROW_ID, Kind
from whence.trace.seal.sorted import add, begun
from whence.trace.seal.work import CONTRIBUTES
from whence.trace.tables import LOCATOR, Tables, local, text

# As Spark writes them; parts of a file are small, so that a look-up can pass over them. What is in
# order or hardly repeats gains nothing by a dictionary, which takes a sixth of the time to write.
_WRITTEN = (
    "FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2, ROW_GROUP_SIZE 100000, "
    "DICTIONARY_SIZE_LIMIT 1"
)
# Threads take turns with parts of a table, and those of one in memory have 122,880 rows.
_PARTED = "FORMAT parquet, COMPRESSION uncompressed, ROW_GROUP_SIZE 16384"
_AT_ONCE = 1_000_000
"""So many entries of groups are put in order in memory."""
_EMPTY: dict[Kind, str] = {
    "nodes": "0::BIGINT AS id, 0 AS label, ''::BLOB AS digest",
    "edges": "0::BIGINT AS input, 0 AS label, 0 AS index, 0::BIGINT AS derived, "
    "0::BIGINT AS times, true AS contributes",
    "roots": "0::BIGINT AS row, 0::BIGINT AS node",
}


class DuckEngine:
    """Runs the SQL of sealing in this process."""

    dialect: Dialect = "duckdb"
    number = "hash({})"

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def run(self, sql: str) -> list[Any]:
        """All rows that SQL gives."""
        return self._tables.run(sql)

    def table(self, stem: str, sql: str) -> str:
        """A temporary table with the answer to a query; its name."""
        return self._tables.table(stem, sql)

    def rows(self, dataset: Dataset) -> str:
        """The rows of a dataset, each with its locator."""
        return f"({self._tables.rows(dataset)})"

    def columns(self, dataset: Dataset) -> list[Column]:
        """Name, stored name and type of each column of a dataset."""
        return stored_columns(self._tables, dataset)

    def stored(self, kind: Kind, paths: Sequence[str]) -> str:
        """What seals wrote."""
        if not paths:
            return f"(SELECT {_EMPTY[kind]} WHERE false)"
        return self._tables.scan([local(path) for path in paths])

    def members(self, paths: Sequence[str]) -> str:
        """Members of groups, told apart by `__row`."""
        listed = ", ".join(text(local(path)) for path in paths)
        row = f"filename || ':' || CAST(file_row_number AS VARCHAR) AS {ROW_ID}"
        scan = f"read_parquet([{listed}], filename = true, file_row_number = true)"
        return f"(SELECT * EXCLUDE (filename, file_row_number), {row} FROM {scan})"

    def listed(self, sql: str) -> str:
        """Items of lists. Out of those of few rows, one thread would do all that comes behind."""
        path = self._tables.scratch_file()
        self._tables.run(f"COPY ({sql}) TO {text(path)} ({_PARTED})")
        return self._tables.scan([path])

    def alike(self, table: str, keys: str) -> bool:
        """Whether rows of a table may have the same keys, told by one number for each.

        NumPy puts the numbers in order in a fifth of the time that groups of them take.
        """
        number = self.number.format(keys)
        hashes = self._tables.arrow(f"SELECT {number} AS h FROM {table} AS t").column("h")
        ordered = np.sort(hashes.to_numpy())
        return bool((ordered[1:] == ordered[:-1]).any())

    def counted(self, rows: str, keys: str, sql: str) -> str:
        """Different rows, and in `times` how often each occurs: mostly once."""
        found = self.table("found", rows)
        if self.alike(found, keys):
            return self.table("counted", sql)
        return f"(SELECT *, CAST(1 AS BIGINT) AS times FROM {found})"

    def bags(self, entries: str, label: str, bits: int, sql: str) -> str:
        """A table with the key and the hashes of each group.

        Lists of text, as the SQL has them, take three times as long as sorted rows do.
        """
        keys = f"SELECT DISTINCT k FROM {entries} AS e"
        keys = f"SELECT * FROM ({keys}) ORDER BY k"  # what is near in a file stays near
        groups = self.table("groups", f"SELECT k, row_number() OVER () - 1 AS g FROM ({keys})")
        columns = {"g": pa.array(range(self._tables.count(groups)), pa.int64())}
        columns["f"] = self._hashed(entries, groups, label, "f", "f" if bits == 256 else "s")
        if bits != 256:
            full = self._hashed(entries, groups, label, "s", "s")
            columns["s"] = pc.binary_slice(full, 0, bits // 8)
        # To know an Arrow table by name, DuckDB would import pandas, which takes longer than this.
        path = self._tables.scratch_file()
        pq.write_table(pa.table(columns), path)
        found = self._tables.scan([path])
        return self.table(
            "bags", f"SELECT k, h.* EXCLUDE (g) FROM {groups} AS g JOIN {found} AS h USING (g)"
        )

    def _hashed(self, entries: str, groups: str, label: str, name: str, token: str) -> Any:
        """The full hash of each group, by its number, from one of the hashes of its entries.

        Many entries are fetched in several goes, each of some first bytes of their tokens.
        """
        hashes = begun(label, self._tables.count(groups))
        goes = min(1 + self._tables.count(entries) // _AT_ONCE, 256)
        bounds = [256 * go // goes for go in range(goes + 1)]
        byte = f"array_slice(e.{token}, 1, 1)"
        first = "" if name == token else f"{byte} AS b, "
        for low, high in pairwise(bounds):
            within = f"{byte} BETWEEN {binary(bytes([low]))} AND {binary(bytes([high - 1]))}"
            some = f" WHERE {within}" if goes > 1 else ""
            rows = self._tables.arrow(
                f"SELECT g.g, {first}e.{name} AS token, e.{CONTRIBUTES} AS contributes, "
                f"e.l AS source, e.times FROM {entries} AS e "
                f"JOIN {groups} AS g ON e.k IS NOT DISTINCT FROM g.k{some}"
            )
            add(hashes, rows)
        return pa.array([found.digest() for found in hashes], pa.binary())

    def numbered(self, sql: str, order: str, reserve: Callable[[int], int]) -> tuple[str, int]:
        """Rows with an `id` in this order, or as they come; and how many there are."""
        # A table numbers its rows by itself; a window would take longer than to put them in order.
        name = self.table("numbered", f"{sql} ORDER BY {order}" if order else sql)
        count = self._tables.count(name)
        return f"(SELECT n.*, {reserve(count)} + n.rowid AS id FROM {name} AS n)", count

    def write(self, sql: str, folder: str, order: Sequence[str]) -> None:
        """Write rows in order to one file."""
        path = Path(local(folder))
        path.mkdir(parents=True)
        ordered = f"SELECT * FROM ({sql}) AS w ORDER BY {', '.join(order)}"
        target = text(str(path / "part-0.parquet"))
        self._tables.run(f"COPY ({ordered}) TO {target} ({_WRITTEN})")

    def chunks(self, sql: str) -> list[tuple[int, int, int, bytes]]:
        """Slot, number, rows and Merkle root of each chunk of an output."""
        rows = self._tables.arrow(f"SELECT {LOCATOR}, leaf FROM ({sql}) AS l ORDER BY {LOCATOR}")
        pairs = zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True)
        found = []
        for number, chunk in groupby(pairs, key=lambda pair: pair[0] // CHUNK):
            leaves = [leaf for _, leaf in chunk]
            locator = number * CHUNK
            place = (locator >> ROW_BITS, (locator & ROW_MASK) // CHUNK)
            found.append((*place, len(leaves), merkle.root(leaves)))
        return found
