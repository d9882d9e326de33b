"""Verifying an archive, also one that is too damaged to be opened."""

from __future__ import annotations

import os
from collections.abc import Callable

from whence.archive import Archive, ledger
from whence.archive.head import HEAD
from whence.archive.verify import Verification, verify

_ROUNDS = 5


def verify_archive(
    location: str | os.PathLike[str],
    *,
    catalog: str | None = None,
    public_key: str | None = None,
    expect: str | None = None,
    sources: bool = True,
    tokens: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Verification:
    """Whether every byte that seals cover is what it was; with `tokens` all are recomputed.

    The head, the catalog and the files are read one after another. Where somebody seals or forgets
    meanwhile they do not fit each other, so what is found then is looked at again.
    """
    place = os.fspath(location)
    for round_ in range(1, _ROUNDS + 1):
        before = _end(place, catalog)
        report, archive, expected = verify(
            place,
            catalog=catalog,
            public_key=public_key,
            expect=expect,
            sources=sources,
            progress=progress,
        )
        if tokens and report.ok and archive is not None and expected.runs:
            from whence.trace import recompute
            from whence.trace.ptable import PTable
            from whence.trace.tables import Tables

            progress("computing tokens again")
            tables = Tables(archive)
            try:
                recompute.check(tables, PTable(archive, tables), expected, report)
            except Exception as error:  # of files that are gone, say, with what was forgotten
                if round_ < _ROUNDS and _end(place, catalog) != before:
                    continue
                report.add("tokens", f"they cannot be computed again: {error}")
        if report.ok or _end(place, catalog) == before:
            break
    return report


def _end(location: str, catalog: str | None) -> tuple[int, str | None] | None:
    """How long the chain is, and what its head says; None if it cannot be read."""
    try:
        archive = Archive.open(location, catalog=catalog)
        chain = archive.catalog.read(lambda c: ledger.load_seals(c) if ledger.is_sealed(c) else [])
        return len(chain), archive.storage.read_text(HEAD)
    except Exception:  # `verify` tells what is wrong
        return None
