"""Sealing a run: one sealer at a time, files first, then one transaction, then the head file.

    register as a writer       gc leaves the folders alone
    take the sealer's place    others wait; the place of a dead sealer is free
    Spark writes               nodes, edges, roots, under names that nobody knows
    commit, in ONE transaction: give up writer and place, insert datasets and the seal
    write head.json            the last seal, and the catalog's bytes where it is a file

What dies before the commit leaves the archive as it was, but for ids and labels that were given
out, which do no harm. Sealing again does it all again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self

from sqlalchemy import Connection, delete, insert, select

from whence.algebra.canonical import record_columns
from whence.archive import format_1, layout, ledger, seal, signing, writers
from whence.archive.archive import Archive
from whence.archive.digests import Digests, json_digest
from whence.archive.expected import changed, expected_of
from whence.archive.head import refresh_head
from whence.archive.ledger import LabelRow, RangeRow, SealRow, SealSettings
from whence.archive.model import DataFile, Dataset, Run
from whence.errors import ArchiveError, SelectionError, SourceChangedError, WhenceError

_PLACE = "sealer"
_POLL_SECONDS = 0.2
SealKind = Literal["nodes", "edges", "uses", "roots"]


class Sealer:
    """Holds the sealer's place; use it in a `with` block."""

    def __init__(
        self,
        archive: Archive,
        settings: SealSettings | None = None,
        progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.archive = archive
        self._catalog, self._storage = archive.catalog, archive.storage
        self._progress = progress
        self._wanted = settings
        ledger.prepare(self._catalog)
        self.id = layout.new_run_id()
        self._issued: list[str] = []
        self._digests = Digests()
        self._counts: dict[str, int] = {}
        self._used: dict[str, Dataset] = {}
        self._done = False

    def __enter__(self) -> Self:
        self._lease = writers.Lease(self._catalog, self.id)
        try:
            self._wait()
            self._expected = expected_of(self.chain)
            self._check_counter()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _wait(self) -> None:
        told = False
        while not self._catalog.write(self._begin):
            if not told:
                self._progress("waiting for another sealer")
                told = True
            time.sleep(_POLL_SECONDS)

    def _begin(self, connection: Connection) -> bool:
        """Take the place, agree on settings and read the chain, all from one state."""
        if not self._take_place(connection):
            return False
        self.settings = ledger.agree(connection, self._wanted)
        self.chain = ledger.load_seals(connection)
        self._next_id = ledger.next_id(connection)
        return True

    def _check_counter(self) -> None:
        if self._next_id < self._expected.next_id:
            raise ArchiveError(
                "the catalog would give out node ids again that seals cover: it was changed; "
                "see whence verify"
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lease.stop()
        self._digests.close()
        if self._done:
            return
        with suppress(WhenceError):
            if writers.mark_dead(self._catalog, self.id):
                for dataset in self._issued:
                    self._storage.remove(layout.folder(dataset))
                self._catalog.write(self._leave_place)
                writers.forget_writer(self._catalog, self.id)

    def _take_place(self, connection: Connection) -> bool:
        table = ledger.sealers
        holder = connection.execute(select(table.c.writer)).scalar()
        live = {writer.id for writer in writers.load_writers(connection) if writer.is_live()}
        if holder in live:
            return bool(holder == self.id)
        # Only the holder that was looked at: another may have come between, and must not go.
        connection.execute(delete(table).where(table.c.writer == holder))
        connection.execute(insert(table), {"name": _PLACE, "writer": self.id})
        return True

    def _leave_place(self, connection: Connection) -> None:
        table = ledger.sealers
        connection.execute(delete(table).where(table.c.writer == self.id))

    # --- What the job asks ------------------------------------------------------------------

    def is_sealed(self, run: str) -> bool:
        """Whether a run has a seal."""
        return any(row.run == run for row in self.chain)

    def numbers(self, wanted: Sequence[tuple[str, str, int, str]]) -> dict[Any, int]:
        """The number of each label."""
        return self._catalog.write(lambda c: ledger.number_labels(c, wanted))

    def reserve(self, count: int) -> int:
        """The first of `count` node ids."""
        return self._catalog.write(lambda c: ledger.reserve(c, count)) if count else 0

    def ranges(self, dataset: Dataset) -> list[tuple[DataFile | None, RangeRow]]:
        """The id range of each file of a dataset; a range without files has one."""
        rows: list[tuple[DataFile | None, RangeRow]]
        if dataset.kind == "range":
            whole = RangeRow(0, dataset.rows or 0, dataset.location, 0, 0, "", dataset.id, "")
            rows = [(None, whole)]
        else:
            rows = [(file, self._range(dataset, file, path)) for file, path in self._files(dataset)]
        return self._catalog.write(
            lambda c: [(file, ledger.range_of(c, wanted)) for file, wanted in rows]
        )

    def _files(self, dataset: Dataset) -> list[tuple[DataFile, str]]:
        return list(zip(dataset.files, self.archive.file_paths(dataset), strict=True))

    def _range(self, dataset: Dataset, file: DataFile, path: str) -> RangeRow:
        size, digest = self.digest(path)
        if size != file.size:
            raise SourceChangedError(
                f"source {dataset.name!r}: {path} has changed since the run was captured "
                f"({size} bytes now, {file.size} then); the run cannot be sealed"
            )
        name = file.path if not dataset.is_own else f"{dataset.location}/{file.path}"
        record = ""
        if self.settings.scheme == "value":
            columns = record_columns(dataset.schema, dataset.properties)
            record = json_digest([[column, kind] for column, _, kind in columns])
        count = self._rows(file, path)
        return RangeRow(0, count, name, file.size, file.modified, digest, dataset.id, record)

    def count(self, dataset: Dataset) -> int:
        """The rows of a dataset, as its files tell."""
        if dataset.rows is not None:
            return dataset.rows
        return sum(self._rows(file, path) for file, path in self._files(dataset))

    def _rows(self, file: DataFile, path: str) -> int:
        if file.rows is not None:
            return file.rows
        if path not in self._counts:
            self._counts[path] = _row_count(path)
        return self._counts[path]

    def digest(self, path: str) -> tuple[int, str]:
        """Size and digest of a file, computed once."""
        try:
            return self._digests.of(path)
        except OSError as error:
            raise ArchiveError(f"{path} cannot be read to be sealed: {error}") from error

    def foresee(self, run: Run) -> None:
        """Begin with the digests of all that a run uses."""
        for dataset in self.archive.datasets(_datasets_of(run)):
            self._used[dataset.id] = dataset
            self._digests.begin(self.archive.file_paths(dataset))

    def dataset(self, id: str) -> Dataset:
        """A dataset, as it was when its run was begun to be sealed."""
        return self._used[id] if id in self._used else self.archive.dataset(id)

    def folder(self) -> tuple[str, str]:
        """Id and absolute folder for something that sealing writes; the one before is complete."""
        for before in self._issued[-1:]:
            self._digests.begin(path for _, path in self._contents(layout.folder(before)))
        dataset = layout.new_dataset_id(self.id, len(self._issued))
        self._issued.append(dataset)
        return dataset, layout.join(self.archive.location, layout.folder(dataset))

    def _contents(self, folder: str) -> list[tuple[str, str]]:
        """Name and path of the files in a folder of this archive."""
        top = layout.join(self.archive.location, folder)
        return [(name, layout.join(top, name)) for name, _, _ in self._storage.files(folder)]

    # --- Committing -------------------------------------------------------------------------

    def written(self, dataset: str, kind: SealKind, properties: Mapping[str, Any]) -> Dataset:
        """A folder that the job wrote, as a dataset."""
        location = layout.folder(dataset)
        found = [f for f in self._storage.files(location) if _is_data(f[0])]
        files = tuple(
            DataFile(name, number, size, modified)
            for number, (name, size, modified) in enumerate(found)
        )
        total = sum(file.size for file in files)
        fingerprint = json_digest([[f.path, f.size] for f in files])[:32]
        return Dataset(
            dataset, kind, kind, location, "", fingerprint, files, None, total, dict(properties)
        )

    def commit(
        self,
        run: Run,
        datasets: Sequence[Dataset],
        outputs: Sequence[Mapping[str, Any]],
        key: Any = None,
    ) -> SealRow:
        """Insert what was written and the seal over the run, in one transaction."""
        used = [self.dataset(i) for i in _datasets_of(run)]
        sections = {
            "settings": self.settings.section,
            "plan": [json_digest(step.document["plan"]) for step in run.steps],
            "code": [dict(step.document.get("code") or {}) for step in run.steps],
            "versions": dict(run.versions),
            "parameters": {"name": run.name, "mode": run.mode},
            "sources": {d.id: self._source(d) for d in used if not d.is_own},
            "output": [dict(output) for output in outputs],
        }
        own = {d.id: self.listed(d) for d in (*used, *datasets) if d.is_own}

        def write(connection: Connection) -> SealRow:
            for dataset in datasets:
                format_1.insert_dataset(connection, dataset, run.id)
            return self.insert(
                connection, {**sections, "run": {"id": run.id, "name": run.name}}, own, key
            )

        return self.finish(write, key)

    def finish(self, write: Callable[[Connection], SealRow], key: Any = None) -> SealRow:
        """Do `write` in the transaction that ends this sealing, and write the head."""

        def all_of_it(connection: Connection) -> SealRow:
            if not writers.release(connection, self.id):
                raise ArchiveError(
                    "the seal cannot be committed: a gc took this sealer for dead; seal again"
                )
            self._leave_place(connection)
            return write(connection)

        row = self._catalog.write(all_of_it)
        self._done = True
        refresh_head(self.archive, key)
        return row

    def insert(
        self,
        connection: Connection,
        sections: dict[str, Any],
        own: Mapping[str, Any],
        key: Any,
        kind: str = "run",
    ) -> SealRow:
        """Complete the sections with what the catalog says, and put the seal into the chain."""
        chain = ledger.load_seals(connection)
        if [row.id for row in chain] != [row.id for row in self.chain]:
            raise ArchiveError("another seal came between; seal again")
        self._check_signer(key)
        if "run" in sections:
            run = sections["run"]
            sections["run"] = {**run, "digest": seal.run_digest(connection, run["id"])}
        sections["datasets"] = {
            dataset: {"catalog": seal.dataset_digest(connection, dataset), "files": files}
            for dataset, files in own.items()
        }
        for dataset, about in sections.get("sources", {}).items():
            about["catalog"] = seal.source_digest(connection, dataset)
            about["description"] = seal.description_digest(connection, dataset)
        self._check_unchanged(sections, kind)
        sections["ledger"] = new_ledger(connection, chain)
        sections["seal"] = {
            "format": seal.FORMAT,
            "archive": self._catalog.archive_id,
            "number": len(chain) + 1,
            "previous": chain[-1].id if chain else None,
            "created": format_1.now(),
            "kind": kind,
            "signer": None if key is None else signing.public_hex(key),
        }
        signature = None if key is None else signing.sign(key, seal.seal_id(sections))
        row = seal.to_row(sections, signature)
        values = {name: getattr(row, name) for name in ("number", "id", "run", "content")}
        connection.execute(insert(ledger.seals), {**values, "signature": signature})
        return row

    def _check_signer(self, key: Any) -> None:
        if key is None and any(seal.from_row(row).sections["seal"]["signer"] for row in self.chain):
            raise SelectionError(
                "the seals of this archive are signed, and one without a signature would stand "
                "out for good: give the key"
            )

    def _check_unchanged(self, sections: Mapping[str, Any], kind: str) -> None:
        """What earlier seals cover must still be so; else this seal would make it good."""
        known = self._expected
        for what, held in (("datasets", known.datasets), ("sources", known.sources)):
            entries = sections.get(what, {})
            for dataset in changed(held, entries, forgets=kind == "forget"):
                raise SourceChangedError(
                    f"{what[:-1]} {entries[dataset].get('name', dataset)!r} is no longer what an "
                    "earlier seal covers; see whence verify"
                )

    def _source(self, dataset: Dataset) -> dict[str, Any]:
        files = [[file.path, *self.digest(path)] for file, path in self._files(dataset)]
        return {"name": dataset.name, "location": dataset.location, "files": files}

    def listed(self, dataset: Dataset) -> list[Any]:
        """Every file in a dataset's folder, with size and digest."""
        return [[name, *self.digest(path)] for name, path in self._contents(dataset.location)]


def new_ledger(connection: Connection, chain: Sequence[SealRow]) -> dict[str, Any]:
    """The labels and id ranges that no seal covers yet."""
    covered = [seal.from_row(row).sections["ledger"] for row in chain]
    labels = {number for part in covered for number in part["labels"]}
    starts = {found[0] for part in covered for found in part["ranges"]}
    return {
        "labels": {
            str(row.number): label_entry(row)
            for row in ledger.load_labels(connection)
            if str(row.number) not in labels
        },
        "ranges": [
            range_entry(row) for row in ledger.load_ranges(connection) if row.start not in starts
        ],
        "next": ledger.next_id(connection),
    }


def label_entry(row: LabelRow) -> list[Any]:
    """A label as seals hold it."""
    return [row.digest, row.form, row.parts, row.text]


def range_entry(row: RangeRow) -> list[Any]:
    """An id range as seals hold it."""
    place = [row.path, row.size, row.modified, row.digest]
    return [row.start, row.count, *place, row.dataset, row.record]


def _datasets_of(run: Run) -> list[str]:
    ids = [i for step in run.steps for i in (*step.inputs, step.output, *step.groups)]
    return list(dict.fromkeys(ids))


def _is_data(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith((".", "_"))


def _row_count(path: str) -> int:
    """The rows of a Parquet file, from its footer."""
    import pyarrow.parquet as pq

    from whence.archive.digests import local_path

    local = local_path(path)
    if local is not None:
        return int(pq.read_metadata(local).num_rows)
    from pyarrow import fs

    filesystem, inner = fs.FileSystem.from_uri(layout.canonical(path))
    return int(pq.read_metadata(inner, filesystem=filesystem).num_rows)
