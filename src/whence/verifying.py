"""Verifying an archive, also one that is too damaged to be opened."""

from __future__ import annotations

import os
from collections.abc import Callable

from whence.archive.verify import Verification, verify


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
    """Whether every byte that seals cover is what it was; with `tokens` all are recomputed."""
    report, archive, expected = verify(
        os.fspath(location),
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
        recompute.check(tables, PTable(archive, tables), expected, report)
    return report
