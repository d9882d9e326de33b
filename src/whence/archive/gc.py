"""Removing what no committed run refers to, and never what somebody is still writing.

Folders are listed before the catalog is read. A writer registers before its first folder and is
taken out only by the transaction that commits its datasets, so a listed folder is committed, has
a writer, or is left over. A dead writer is marked in the catalog first and then cannot commit.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from whence.archive import format_1, layout
from whence.archive.catalog import Catalog
from whence.archive.storage import Storage
from whence.archive.writers import Writer, forget_writer, load_writers, mark_dead
from whence.errors import ArchiveError


@dataclass(frozen=True, slots=True)
class GcReport:
    """What a gc removed or, in a dry run, would remove."""

    datasets: tuple[str, ...]
    bytes: int
    writers: int
    """Dead writers that were cleared."""
    failed: tuple[str, ...] = ()
    """Datasets whose folders could not be removed, each with the reason."""
    dry_run: bool = False

    @property
    def count(self) -> int:
        """How many datasets were removed."""
        return len(self.datasets)


@dataclass(slots=True)
class _Tally:
    datasets: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    bytes: int = 0


def collect(catalog: Catalog, storage: Storage, *, grace_seconds: float, dry_run: bool) -> GcReport:
    """Remove left-over dataset folders.

    Folders of dead writers go at once, those that no writer is known of when nothing in them has
    changed for `grace_seconds`.
    """
    names = [name for name in storage.folders() if layout.run_of(name)]
    known, committed = catalog.read(_known)
    dead = [writer for writer in known if not writer.is_live()]
    if not dry_run:
        dead = [writer for writer in dead if mark_dead(catalog, writer.id, writer.heartbeat)]
    tally = _Tally()
    _remove(
        storage, _left_over(storage, names, known, dead, committed, grace_seconds), tally, dry_run
    )
    if not dry_run:
        unfinished = {layout.run_of(name) for name in tally.failed}
        for writer in dead:
            if writer.id not in unfinished:
                forget_writer(catalog, writer.id)
    return GcReport(
        datasets=tuple(tally.datasets),
        bytes=tally.bytes,
        writers=len(dead),
        failed=tuple(f"{name}: {reason}" for name, reason in tally.failed.items()),
        dry_run=dry_run,
    )


def _known(connection: Connection) -> tuple[list[Writer], set[str]]:
    found = load_writers(connection)
    return found, set(connection.execute(select(format_1.datasets.c.id)).scalars())


def _left_over(
    storage: Storage,
    names: Iterable[str],
    known: Iterable[Writer],
    dead: Iterable[Writer],
    committed: set[str],
    grace_seconds: float,
) -> list[str]:
    gone = {writer.id for writer in dead}
    live = {writer.id for writer in known} - gone
    latest = format_1.now() / 1e6 - grace_seconds
    found = []
    for name in names:
        run = layout.run_of(name)
        if name in committed or run in live:
            continue
        if run in gone or storage.usage(layout.folder(name)).changed <= latest:
            found.append(name)
    return found


def _remove(storage: Storage, names: Iterable[str], tally: _Tally, dry_run: bool) -> None:
    for name in names:
        try:
            size = storage.usage(layout.folder(name)).bytes
            if not dry_run:
                storage.remove(layout.folder(name))
        except ArchiveError as error:
            tally.failed[name] = str(error)
        else:
            tally.datasets.append(name)
            tally.bytes += size
