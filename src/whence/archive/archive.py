"""An archive: where runs live. This module is the way in; the others do the work."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, select

from whence.archive import format_1, gc, layout
from whence.archive.catalog import Catalog
from whence.archive.commit import RunWriter
from whence.archive.model import Dataset, Run, Step
from whence.archive.storage import Storage, file_errors, storage_at
from whence.errors import ArchiveError, SelectionError, UnknownNameError


class Archive:
    """Runs, their datasets and their files, at one location.

    Holds no open connection, so it need not be closed and can be used from many threads.
    """

    def __init__(self, location: str, catalog: Catalog, *, checked: bool) -> None:
        self.location = location
        self._catalog = catalog
        self._checked = checked
        self._opened_storage: Storage | None = None
        self._known: dict[str, Dataset] = {}

    @classmethod
    def open(
        cls,
        location: str | os.PathLike[str],
        *,
        catalog: str | None = None,
        create: bool = False,
    ) -> "Archive":
        """Open the archive in a folder or at a URL.

        `catalog` is an SQLAlchemy URL; without it the catalog is a file in the folder. With
        `create` an archive that is not there is made.
        """
        with file_errors("opening the archive at", repr(location)):
            found = layout.absolute(location)
            if catalog is None:
                return cls(found, _own_catalog(found, create), checked=True)
            archive = cls(found, Catalog.open(catalog, create=create), checked=False)
            if create:
                archive._mark()
            elif layout.is_local(found):
                archive._check_marker()
            return archive

    @property
    def catalog(self) -> Catalog:
        """The SQL catalog."""
        return self._catalog

    @property
    def storage(self) -> Storage:
        """The archive's files."""
        return self._storage

    def runs(self) -> list[Run]:
        """All runs, newest last, without attachments."""
        return self._catalog.read(format_1.load_runs)

    def run(self, ref: str) -> Run:
        """The run with this id, the newest of this name, the only one whose id starts so.

        `latest` is the newest of all. Attachments are left out; see `attachment`.
        """
        return self._catalog.read(lambda connection: _find_run(connection, ref))

    def dataset(self, id: str) -> Dataset:
        """The dataset with this id."""
        if id in self._known:
            return self._known[id]
        found = self._datasets(format_1.datasets.c.id == id)
        if not found:
            raise UnknownNameError("dataset", id, [dataset.id for dataset in self.datasets()])
        if found[0].is_own:  # these never change, while what is known of a source is renewed
            self._known[id] = found[0]
        return found[0]

    def gone(self, ids: Iterable[str]) -> None:
        """Take note that datasets were removed."""
        for id in ids:
            self._known.pop(id, None)

    def datasets(self, ids: Iterable[str] | None = None) -> list[Dataset]:
        """All datasets of committed runs, or those with some ids, from one reading."""
        if ids is None:
            return self._datasets()
        return self._datasets(format_1.datasets.c.id.in_(list(ids)))

    def dataset_at(self, location: str) -> Dataset | None:
        """The dataset of this archive whose folder is at a path or URL."""
        with file_errors("looking at", repr(location)):
            top, _, name = layout.canonical(location).rpartition("/")
        if top != layout.join(layout.canonical(self.location), layout.DATASETS):
            return None
        found = self._datasets(format_1.datasets.c.id == name)
        return found[0] if found and found[0].is_own else None

    def producer(self, dataset_id: str) -> tuple[Run, Step] | None:
        """The step whose output a dataset is, with its run."""
        return self._catalog.read(lambda connection: _find_producer(connection, dataset_id))

    def snapshot(self, version_key: str) -> Dataset | None:
        """The snapshot whose `version` property is this key."""
        table = format_1.datasets
        found = self._datasets((table.c.version == version_key) & (table.c.kind == "snapshot"))
        return found[0] if found else None

    def path(self, dataset: Dataset) -> str:
        """Absolute folder of an own dataset; of a source, its location."""
        return layout.join(self.location, dataset.location) if dataset.is_own else dataset.location

    def file_paths(self, dataset: Dataset) -> list[str]:
        """Absolute paths of a dataset's files, in the order in which it lists them."""
        if not dataset.is_own:
            return [file.path for file in dataset.files]
        return [layout.join(self.path(dataset), file.path) for file in dataset.files]

    def attachment(self, run_id: str, step_number: int) -> bytes | None:
        """The bytes that were stored with a step, if any."""
        table = format_1.attachments
        chosen = select(table.c.content).where(table.c.run == run_id, table.c.number == step_number)
        found = self._catalog.read(lambda connection: connection.execute(chosen).scalar())
        return None if found is None else bytes(found)

    def writer(self, name: str | None, mode: str) -> RunWriter:
        """Begin a run; its name, if none is given, is the start of its id."""
        self._check_marker()
        return RunWriter(self._catalog, self._storage, self.location, name, mode)

    def gc(self, *, grace_seconds: float = 3600, dry_run: bool = False) -> gc.GcReport:
        """Remove files that no committed run refers to and that no live writer is writing."""
        self._check_marker()
        return gc.collect(
            self._catalog, self._storage, grace_seconds=grace_seconds, dry_run=dry_run
        )

    def _datasets(self, condition: ColumnElement[bool] | None = None) -> list[Dataset]:
        return self._catalog.read(lambda c: format_1.load_datasets(c, condition))

    @property
    def _storage(self) -> Storage:
        if self._opened_storage is None:
            self._opened_storage = storage_at(self.location)
        return self._opened_storage

    def _mark(self) -> None:
        """Tie the location to the catalog, once; see `_check_marker`."""
        if not self._is_marked():
            # Another process may have marked the place since, and only then committed a run.
            has_runs = not self._catalog.is_new and self._catalog.read(format_1.load_runs)
            if has_runs and not self._is_marked():
                raise ArchiveError(
                    f"the catalog belongs to an archive at another place than {self.location}, "
                    "which is not an archive; give each archive a catalog of its own"
                )
            self._storage.prepare()
            marker = {"archive": self._catalog.archive_id}
            self._storage.write_text(layout.MARKER, json.dumps(marker) + "\n")
        self._check_marker()

    def _is_marked(self) -> bool:
        return self._storage.read_text(layout.MARKER) is not None

    def _check_marker(self) -> None:
        """Refuse a catalog of another archive: reading would go wrong, and gc remove everything."""
        if self._checked:
            return
        text = self._storage.read_text(layout.MARKER)
        if text is None:
            raise ArchiveError(
                f"there is no archive at {self.location} (no {layout.MARKER} in it); capturing a "
                "run into it makes one"
            )
        try:
            found = json.loads(text)["archive"]
        except (ValueError, TypeError, LookupError) as error:
            raise ArchiveError(
                f"{layout.join(self.location, layout.MARKER)} is damaged: {error}"
            ) from error
        if found != self._catalog.archive_id:
            raise ArchiveError(
                f"the catalog belongs to another archive than the one at {self.location} "
                f"({self._catalog.archive_id}, expected {found})"
            )
        self._checked = True


def _own_catalog(location: str, create: bool) -> Catalog:
    """The catalog file that lies in the archive's own folder."""
    if not layout.is_local(location):
        raise ArchiveError(
            f"an archive at {location} needs a catalog elsewhere; give catalog= an SQLAlchemy URL "
            "such as postgresql://host/database"
        )
    folder = Path(location)
    if folder.exists() and not folder.is_dir():
        raise ArchiveError(f"{location} is a file; an archive is a folder")
    if (folder / layout.MARKER).exists() and not (folder / layout.CATALOG).exists():
        raise ArchiveError(
            f"the archive at {location} has its catalog elsewhere, in a database; give catalog= "
            "(--catalog) the SQLAlchemy URL that it was made with"
        )
    if create:
        storage_at(location).prepare()
    elif not folder.exists():
        raise ArchiveError(f"there is no archive at {location}; capturing a run into it makes one")
    elif not (folder / layout.CATALOG).exists():
        raise ArchiveError(
            f"{location} is not an archive: it holds no {layout.CATALOG}; capturing a run into it "
            "makes one"
        )
    return Catalog.open(folder / layout.CATALOG, create=create)


def _find_run(connection: Connection, ref: str) -> Run:
    table = format_1.runs
    newest = select(table.c.id).order_by(table.c.sequence.desc())
    for chosen in (
        [newest]
        if ref == "latest"
        else [newest.where(c == ref) for c in (table.c.id, table.c.name)]
    ):
        found = connection.execute(chosen.limit(1)).scalar()
        if found is not None:
            return format_1.load_runs(connection, table.c.id == found)[0]
    matches: list[str] = []
    if layout.is_id_prefix(ref):
        matches += connection.execute(newest.where(table.c.id.startswith(ref))).scalars()
    if len(matches) > 1:
        raise SelectionError(
            f"{len(matches)} runs have an id that starts with {ref!r}: "
            + ", ".join(sorted(matches)[:12])
        )
    if not matches:
        names = connection.execute(newest.with_only_columns(table.c.name)).scalars()
        raise UnknownNameError("run", ref, [*names, *connection.execute(newest).scalars()])
    return format_1.load_runs(connection, table.c.id == matches[0])[0]


def _find_producer(connection: Connection, dataset_id: str) -> tuple[Run, Step] | None:
    table = format_1.steps
    chosen = select(table.c.run, table.c.number).where(table.c.output == dataset_id)
    found = connection.execute(chosen.order_by(table.c.run, table.c.number)).first()
    if found is None:
        return None
    run = format_1.load_runs(connection, format_1.runs.c.id == found.run)[0]
    return run, run.steps[found.number]
