"""Datasets as DuckDB relations: rows with their locators, read from Parquet where it lies."""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse
from uuid import uuid4

from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.archive import Archive, Dataset
from whence.errors import ArchiveError, SourceChangedError, SourceError

LOCATOR = "__whence_locator"
FILE = "__whence_file"
RECORD = "__whence_record"
"""What rows are called where their columns are read: a name without it might be that of a table."""
_FEW = 1000


def quoted(name: str) -> str:
    """A name as an SQL identifier.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def key_as_text(key: str) -> str:
    """SQL for the key of a map as text; that of a time says nothing of its zone, which is UTC here.

    Files of one source may have a zone with their times, and those of another none.
    """
    zoned = f"typeof({key}) = 'TIMESTAMP WITH TIME ZONE'"
    told = f"CAST({key} AS VARCHAR)"
    return f"(CASE WHEN {zoned} THEN regexp_replace({told}, '[+]00$', '') ELSE {told} END)"


def local(uri: str) -> str:
    """A file as DuckDB names it."""
    parsed = urlparse(uri)
    if parsed.scheme == "file":
        return unquote(parsed.path)
    if parsed.scheme == "s3a":
        return uri.replace("s3a://", "s3://", 1)
    return uri


def check_source(dataset: Dataset) -> None:
    """Raise if a source is not what it was when the run was captured."""
    if dataset.kind != "source":
        return
    for file in dataset.files:
        path = local(file.path)
        if urlparse(path).scheme:
            continue
        try:
            found = Path(path).stat()
        except OSError as error:
            raise SourceChangedError(
                f"source {dataset.name!r}: {path} was there when the run was captured and cannot "
                f"be read now ({error.strerror}); bring it back, or capture again"
            ) from error
        if (found.st_size, found.st_mtime_ns // 1_000_000) != (file.size, file.modified):
            raise SourceChangedError(
                f"source {dataset.name!r}: {path} has changed since the run was captured "
                f"({found.st_size} bytes now, {file.size} then); capture again to trace into it"
            )


def renamed(dataset: Dataset, names: Mapping[str, str]) -> Dataset:
    """A dataset by the name that a run has for it, if it has one."""
    name = names.get(dataset.id, dataset.name)
    return dataset if name == dataset.name else replace(dataset, name=name)


def _options(dataset: Dataset) -> str:
    options = f"filename = '{FILE}', file_row_number = true, union_by_name = true"
    if dataset.properties.get("partitions"):
        options += f", hive_partitioning = true{_partition_types(dataset)}"
    if dataset.kind == "source" and '"binary"' not in dataset.schema:
        options += ", binary_as_string = true"  # text that a file does not call so
    return options


def _partition_types(dataset: Dataset) -> str:
    """The types of partition columns as Spark has them; DuckDB would guess from the folders."""
    kinds = {field["name"]: field["type"] for field in json.loads(dataset.schema)["fields"]}
    typed = {name: str(kinds.get(name)) for name in dataset.properties["partitions"]}
    listed = [
        f"{quoted(name)}: {text(_PARTITIONS.get(kind, kind))}"
        for name, kind in typed.items()
        if kind in _PARTITIONS or kind.startswith("decimal")
    ]
    return f", hive_types = {{{', '.join(listed)}}}" if listed else ""


_PARTITIONS = {
    "string": "VARCHAR",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
}


def _spill_folder() -> str:
    """Where DuckDB puts what memory does not hold: it makes the folder, and removes it.

    By itself it would make one in the working folder.
    """
    return str(Path(tempfile.gettempdir(), f"whence-spill-{uuid4().hex}"))


class Tables:
    """One DuckDB connection over an archive's datasets."""

    def __init__(
        self, archive: Archive, connection: Any = None, names: Mapping[str, str] | None = None
    ) -> None:
        self.archive = archive
        self._called = names or {}
        self._given = connection
        self._names = 0
        self._scratch: str | None = None
        self._known: dict[str, Dataset] = {}
        self._types: dict[str, dict[str, Any]] = {}

    @cached_property
    def _connection(self) -> Any:
        """Made when it is first asked: that takes a while, and much of an archive needs none."""
        import duckdb

        connection = self._given or duckdb.connect(config={"temp_directory": _spill_folder()})
        connection.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC'")
        return connection

    def fork(self, names: Mapping[str, str] | None = None) -> Tables:
        """The same datasets for one question, whose tables are gone when its answer is.

        `names` are what a run calls sources, by dataset: in its answers they are called so.
        """
        return Tables(self.archive, self._connection.cursor(), names)

    def dataset(self, id: str) -> Dataset:
        """The dataset with this id, as the catalog had it when the question first came to it."""
        return self.datasets([id])[0]

    def datasets(self, ids: Iterable[str]) -> list[Dataset]:
        """Some datasets, in this order; those not met before are read at once."""
        wanted = list(dict.fromkeys(ids))
        missing = [i for i in wanted if i not in self._known]
        if missing:
            for found in self.archive.datasets(missing):
                self._known[found.id] = renamed(found, self._called)
        return [self._known[i] if i in self._known else self.archive.dataset(i) for i in wanted]

    def run(self, sql: str, dataset: Dataset | None = None) -> list[Any]:
        """All rows that SQL gives; a failure to read files names the dataset."""
        return list(self._reading(lambda: self._connection.execute(sql).fetchall(), dataset))

    def one(self, sql: str) -> tuple[Any, ...]:
        """The only row that SQL gives."""
        return tuple(self.run(sql)[0])

    def _reading(self, work: Callable[[], Any], dataset: Dataset | None) -> Any:
        import duckdb

        try:
            return work()
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            name = f"{dataset.name!r}: " if dataset else ""
            kind = SourceError if dataset and not dataset.is_own else ArchiveError
            raise kind(f"{name}a Parquet file cannot be read: {error}") from error

    def arrow(self, sql: str, dataset: Dataset | None = None) -> Any:
        """The answer to a query as an Arrow table."""
        return self._reading(lambda: self._connection.sql(sql).to_arrow_table(), dataset)

    def register(self, name: str, table: Any) -> None:
        """Make an Arrow table known under a name."""
        self._connection.register(name, table)

    def fresh(self, stem: str) -> str:
        """A table name that nothing else has."""
        self._names += 1
        return f"{stem}_{self._names}"

    def scratch_file(self) -> str:
        """A path for a Parquet file that lives as long as this connection."""
        if self._scratch is None:
            self._scratch = tempfile.mkdtemp(prefix="whence-")
            weakref.finalize(self, shutil.rmtree, self._scratch, ignore_errors=True)
        self._names += 1
        return f"{self._scratch}/{self._names}.parquet"

    def table(self, stem: str, sql: str, dataset: Dataset | None = None) -> str:
        """A temporary table with the answer to a query; its name."""
        name = self.fresh(stem)
        self.run(f"CREATE TEMP TABLE {name} AS {sql}", dataset)
        return name

    def view(self, stem: str, sql: str) -> str:
        """A name for a query over tables, computed where it is used, as far as it is."""
        name = self.fresh(stem)
        self.run(f"CREATE TEMP VIEW {name} AS {sql}")
        return name

    def literal(self, stem: str, rows: list[Any], more: Mapping[str, str]) -> str:
        """A temporary table of rows of plain values, in order; `more` columns are given as SQL."""
        items = ", ".join(f"{sql} AS {quoted(column)}" for column, sql in more.items())
        name = self.fresh(stem)
        sql = f"CREATE TEMP TABLE {name} AS SELECT unnest(r), {items} FROM (SELECT unnest(?) AS r)"
        self._connection.execute(sql, [rows])
        return name

    def arrow_of(self, rows: list[Any], columns: Mapping[str, str]) -> Any:
        """Rows of plain values as an Arrow table, by way of DuckDB: Arrow would import pandas."""
        if not rows:
            items = [f"NULL::{kind} AS {quoted(name)}" for name, kind in columns.items()]
            return self.arrow(f"SELECT {', '.join(items)} WHERE false")
        items = [f"r.{quoted(name)}::{kind} AS {quoted(name)}" for name, kind in columns.items()]
        sql = f"SELECT {', '.join(items)} FROM (SELECT unnest(?) AS r)"
        return self._connection.sql(sql, params=[rows]).to_arrow_table()

    def scan(self, paths: Sequence[str]) -> str:
        """SQL that reads Parquet files, as what stands behind FROM."""
        return f"read_parquet([{', '.join(text(path) for path in paths)}])"

    def count(self, table: str) -> int:
        """How many rows a table has."""
        return int(self.one(f"SELECT count(*) FROM {table}")[0])

    def rows(self, dataset: Dataset, columns: Iterable[str] = (), where: str = "") -> str:
        """SQL that gives a dataset's rows: the asked columns and the locator.

        Columns are given as SQL select items over the stored names; none means all of them.
        """
        if dataset.kind == "range":
            return self._range(dataset, columns, where)
        items = ", ".join(columns) or f"* EXCLUDE ({FILE}, file_row_number)"
        files = dataset.files
        if not files:
            return self._no_rows(dataset, columns)
        paths = [local(path) for path in self.archive.file_paths(dataset)]
        listed = ", ".join(text(path) for path in paths)
        locator = "file_row_number"
        if len(files) > 1:
            cases = " ".join(
                f"WHEN {text(path)} THEN {file.slot << ROW_BITS}::BIGINT"
                for path, file in zip(paths, files, strict=True)
            )
            locator = f"(CASE {FILE} {cases} END + file_row_number)"
        scan = f"read_parquet([{listed}], {_options(dataset)}) AS {RECORD}"
        condition = f" WHERE {where}" if where else ""
        return f"SELECT {items}, {locator} AS {LOCATOR} FROM {scan}{condition}"

    def column(self, dataset: Dataset, name: str) -> str:
        """SQL for a stored column; one that a source's schema has and no file does is null."""
        if dataset.kind != "source" or not dataset.files:
            return quoted(name)
        return quoted(name) if name.casefold() in self.types(dataset) else "NULL"

    def types(self, dataset: Dataset) -> dict[str, Any]:
        """The type that DuckDB finds of each column in a dataset's files, by lower-case name."""
        if dataset.id not in self._types:
            paths = [text(local(path)) for path in self.archive.file_paths(dataset)]
            scan = f"read_parquet([{', '.join(paths)}], {_options(dataset)})"
            found = self._reading(lambda: self._connection.sql(f"FROM {scan} LIMIT 0"), dataset)
            names = (name.casefold() for name in found.columns)
            self._types[dataset.id] = dict(zip(names, found.types, strict=True))
        return self._types[dataset.id]

    @staticmethod
    def _range(dataset: Dataset, columns: Iterable[str], where: str) -> str:
        bounds = dataset.properties["range"]
        scan = (
            f"SELECT {bounds['start']}::BIGINT + r * {bounds['step']}::BIGINT AS id, "
            f"r AS {LOCATOR} FROM range({bounds['rows']}) AS t(r)"
        )
        items = ", ".join([*columns, LOCATOR]) if columns else "*"
        return f"SELECT {items} FROM ({scan}) AS {RECORD}" + (f" WHERE {where}" if where else "")

    @staticmethod
    def _no_rows(dataset: Dataset, columns: Iterable[str]) -> str:
        """What a table without files gives: its columns, and no rows."""
        names = [field["name"] for field in json.loads(dataset.schema)["fields"]]
        nulls = ", ".join(f"NULL AS {quoted(name)}" for name in names) or "1 AS __whence_none"
        items = ", ".join(columns) or "*"
        rows = f"(SELECT {nulls}) AS {RECORD}"
        return f"SELECT {items}, 0::BIGINT AS {LOCATOR} FROM {rows} WHERE false"

    def at(self, dataset: Dataset, columns: Iterable[str], locators: str) -> str:
        """SQL that gives the rows of a dataset whose locators are in a table's column `locator`."""
        near = self.near(dataset, columns, locators)
        return f"SELECT d.* FROM ({near}) AS d WHERE {LOCATOR} IN (SELECT locator FROM {locators})"

    def near(self, dataset: Dataset, columns: Iterable[str], locators: str) -> str:
        """The same with other rows among them, for what joins them with the locators anyway."""
        return self.rows(dataset, columns, self._nearby(dataset, locators))

    def _nearby(self, dataset: Dataset, locators: str) -> str:
        """A condition that lets DuckDB pass over what lies far from a few rows, unread."""
        if not dataset.files:
            return ""
        found = self.run(f"SELECT locator FROM {locators} LIMIT {_FEW + 1}")
        if len(found) > _FEW:
            return ""
        known = [locator for (locator,) in found if locator is not None]
        numbers = {str(locator & ROW_MASK) for locator in known} or {"-1"}
        condition = f"file_row_number IN ({', '.join(sorted(numbers))})"
        slots = {locator >> ROW_BITS for locator in known}
        if len(slots) >= len(dataset.files):
            return condition
        paths = zip(dataset.files, self.archive.file_paths(dataset), strict=True)
        near = [text(local(path)) for file, path in paths if file.slot in slots] or ["''"]
        return f"{condition} AND {FILE} IN ({', '.join(near)})"
