"""Datasets as the Spark side sees them: what was written or found, and where to write more."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A Parquet file and the number that stands for it in locators."""

    path: str
    slot: int
    size: int
    modified: int
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A dataset: a source where it lies, or something that was written for this run."""

    id: str
    kind: Literal["source", "snapshot", "output", "group", "range"]
    name: str
    location: str
    schema: str
    fingerprint: str
    files: tuple[StoredFile, ...] = ()
    rows: int | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(file.size for file in self.files)


class Shelf(Protocol):
    """Where a capture writes, and finds what earlier captures wrote."""

    def new_folder(self) -> tuple[str, str]:
        """An id and a folder that does not exist yet, for a new dataset."""
        ...

    def snapshot(self, version: str) -> tuple[Stored, str] | None:
        """The snapshot of that version and its folder, if there is one."""
        ...

    def keep(self, stored: Stored) -> None:
        """Make a dataset of this run known to its later steps."""
        ...

    def own(self, location: str) -> Stored | None:
        """The dataset that an earlier run, or an earlier step of this one, wrote at a location."""
        ...


def fingerprint(parts: Sequence[object]) -> str:
    """A digest of some values, in order."""
    return hashlib.sha256(repr(list(parts)).encode()).hexdigest()[:32]


def files_fingerprint(files: Sequence[StoredFile]) -> str:
    """A digest that changes when a file is added, removed, replaced or written to."""
    return fingerprint([(f.path, f.size, f.modified) for f in sorted(files, key=lambda f: f.path)])
