"""Writing a run: files first, under names that nobody knows; then one transaction shows them all.

    writer registers in the catalog      from now on gc leaves its folders alone
    Spark writes datasets/<id>/...       nobody refers to them yet
    commit: check that all files are there, then in ONE transaction
        unregister the writer            fails if a gc took it for dead, and with it all the rest
        insert datasets, files, run, steps

A crash before the transaction ends leaves a registered writer whose process is gone, and files
that gc removes.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, select

from whence.archive import format_1, layout, writers
from whence.archive.catalog import Catalog
from whence.archive.model import Dataset, Run, Step
from whence.archive.storage import Storage
from whence.errors import ArchiveError, SelectionError, WhenceError


class RunWriter:
    """Writes one run; use it in a `with` block. Without a commit it leaves nothing behind."""

    def __init__(
        self, catalog: Catalog, storage: Storage, location: str, name: str | None, mode: str
    ) -> None:
        if name == "latest" or name == "" or not isinstance(name, str | None):
            raise SelectionError(f"a run cannot be named {name!r}; choose another name")
        self.run_id = layout.new_run_id()
        self.name = self.run_id[:8] if name is None else name
        self.mode = mode
        self._catalog, self._storage, self._location = catalog, storage, location
        self._issued: list[str] = []
        self._datasets: dict[str, Dataset] = {}
        self._steps: list[Step] = []
        self._open, self._tried = True, False
        self._lease = writers.Lease(catalog, self.run_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abandon()

    def new_dataset(self) -> tuple[str, str]:
        """Id and absolute folder for a dataset; the folder does not exist yet."""
        self._check_open()
        dataset_id = layout.new_dataset_id(self.run_id, len(self._issued))
        self._issued.append(dataset_id)
        return dataset_id, layout.join(self._location, layout.folder(dataset_id))

    def add_dataset(self, dataset: Dataset) -> None:
        """Make a dataset part of the run: a new one that lies in its folder, a source, a range.

        A source that the archive knows is renewed; which slot stands for which of its files must
        be as before. A snapshot of an earlier run may be added again and stays as it is.
        """
        self._check_open()
        format_1.to_json(dataset.properties, f"the properties of {dataset.name!r}")
        if len({file.slot for file in dataset.files}) < len(dataset.files):
            raise ArchiveError(f"dataset {dataset.name!r} has two files with the same slot")
        if dataset.is_own:
            _check_own(dataset)
        self._datasets[dataset.id] = dataset

    def add_step(self, step: Step) -> None:
        """Make a step part of the run; steps come in the order of their numbers."""
        self._check_open()
        if step.number != len(self._steps):
            raise ArchiveError(
                f"steps are numbered from 0 in the order in which they are added: found "
                f"{step.number}, expected {len(self._steps)}"
            )
        format_1.to_json(step.document, f"the document of step {step.number}")
        self._steps.append(step)

    def commit(self, *, seconds: float, versions: Mapping[str, str]) -> Run:
        """Make the whole run visible, in one transaction, and return it as `Archive.run` would."""
        self._check_open()
        if not self._steps:
            raise ArchiveError(f"run {self.name!r} has no steps; there is nothing to commit")
        self._check_files()
        run = Run(
            id=self.run_id,
            name=self.name,
            created=datetime.now(UTC),
            mode=self.mode,
            seconds=float(seconds),
            versions=dict(versions),
            steps=tuple(self._steps),
        )
        self._tried = True
        self._catalog.write(lambda connection: self._insert(connection, run))
        self._close()
        self._remove(set(self._issued) - set(self._datasets))
        return replace(run, steps=tuple(replace(step, attachment=None) for step in run.steps))

    def abandon(self) -> None:
        """Give the run up and remove its files, as far as possible; gc removes the rest.

        After a commit was tried, files go only once the catalog has confirmed that the run can no
        longer be committed: a commit whose answer was lost may have succeeded. Before, they go at
        once: on a full disk the catalog itself needs their room.
        """
        if not self._open:
            return
        self._close()
        if not self._tried:
            self._remove(set(self._issued))
        with suppress(WhenceError):
            if writers.mark_dead(self._catalog, self.run_id) and self._remove(set(self._issued)):
                writers.forget_writer(self._catalog, self.run_id)

    def _insert(self, connection: Connection, run: Run) -> None:
        if not writers.release(connection, run.id):
            raise ArchiveError(
                f"run {run.name!r} cannot be committed: a gc took its writer for dead, since it "
                "had not renewed its lease, and removed its files; run again"
            )
        self._check_references(connection, run)
        format_1.insert_run(connection, run)
        for _, dataset in sorted(self._datasets.items()):
            if not dataset.is_own:
                format_1.upsert_source(connection, dataset, run.id)
            elif dataset.id in self._issued:
                format_1.insert_dataset(connection, dataset, run.id)
        format_1.insert_steps(connection, run)

    def _check_references(self, connection: Connection, run: Run) -> None:
        """Every dataset that the run names is in the catalog or comes with this commit."""
        coming = {d.id for d in self._datasets.values() if not d.is_own or d.id in self._issued}
        for step in run.steps:
            if step.output not in coming:
                raise ArchiveError(f"the output of step {step.number} was not added to the run")
        named = {i for step in run.steps for i in (*step.inputs, *step.groups)}
        for dataset_id in sorted((named | set(self._datasets)) - coming):
            known = select(format_1.datasets.c.id).where(format_1.datasets.c.id == dataset_id)
            if connection.execute(known).first() is None:
                raise ArchiveError(
                    f"run {run.name!r} refers to dataset {dataset_id}, which neither this run nor "
                    "the archive holds"
                )

    def _check_files(self) -> None:
        """Every listed file of a new dataset is there, with its size."""
        for dataset in self._datasets.values():
            if dataset.id not in self._issued:
                continue
            paths = [f"{dataset.location}/{file.path}" for file in dataset.files]
            for file, size in zip(dataset.files, self._storage.sizes(paths), strict=True):
                if size != file.size:
                    found = "it is not there" if size is None else f"it has {size} bytes"
                    raise ArchiveError(
                        f"dataset {dataset.name!r} cannot be committed: {file.path} in "
                        f"{layout.join(self._location, dataset.location)} should have "
                        f"{file.size} bytes, but {found}"
                    )

    def _remove(self, dataset_ids: set[str]) -> bool:
        """Remove folders; False if something was left."""
        done = True
        for dataset_id in sorted(dataset_ids):
            try:
                self._storage.remove(layout.folder(dataset_id))
            except ArchiveError:
                done = False
        return done

    def _close(self) -> None:
        self._open = False
        self._lease.stop()

    def _check_open(self) -> None:
        if not self._open:
            raise ArchiveError(f"run {self.name!r} is committed or abandoned; begin another one")


def _check_own(dataset: Dataset) -> None:
    if dataset.location != layout.folder(dataset.id):
        raise ArchiveError(
            f"dataset {dataset.name!r} of kind {dataset.kind} must lie in "
            f"{layout.folder(dataset.id)}, not in {dataset.location}"
        )
    for file in dataset.files:
        if not layout.stays_inside(file.path):
            raise ArchiveError(
                f"dataset {dataset.name!r}: {file.path!r} is not a path inside its folder"
            )
