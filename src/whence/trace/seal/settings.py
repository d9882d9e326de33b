"""What sealing is told, and what it asks of the archive and of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from whence.algebra.canonical import Column, Dialect
from whence.algebra.witness import GroupShape, Witness
from whence.archive import DataFile, Dataset
from whence.archive.ledger import RangeRow
from whence.plan import Operator

Scheme = Literal["value", "origin", "content"]
Kind = Literal["nodes", "edges", "roots"]
ROW_ID = "__row"
"""What tells the rows of a frame apart."""


@dataclass(frozen=True, slots=True)
class LazyRows:
    """Witnesses of a run that stored none: `rows` maps locators to kids, `members` holds them."""

    rows: str
    members: Sequence[str]
    shape: GroupShape


@dataclass(frozen=True, slots=True)
class SealStep:
    """A step to be sealed."""

    plan: Operator
    shape: Witness
    inputs: Mapping[str, str]
    datasets: Mapping[str, Dataset]
    """By dataset id."""
    code: Mapping[str, Sequence[str]]
    output: Dataset
    groups: Callable[[str], tuple[Sequence[str], GroupShape]]
    lazy: LazyRows | None = None


@dataclass(frozen=True, slots=True)
class NewLabel:
    """A label that nodes carry, and what kind of node it makes."""

    digest: str
    form: Literal["joint", "one", "bag"]
    parts: int
    text: str


@dataclass(frozen=True, slots=True)
class FileRange:
    """The node ids of a file's rows: `start` plus the row's index. `slot` is its locator slot."""

    slot: int
    start: int
    uri: str
    modified: int
    digest: str


def file_ranges(found: Iterable[tuple[DataFile | None, RangeRow]]) -> list[FileRange]:
    """The ranges of a dataset's files, as a sealer gives them; one without a file has slot 0."""
    return [
        FileRange(0 if file is None else file.slot, r.start, r.path, r.modified, r.digest)
        for file, r in found
    ]


class Ledger(Protocol):
    """The archive, as sealing sees it."""

    def numbers(self, labels: Sequence[NewLabel]) -> dict[NewLabel, int]:
        """The number of each label, given out where it is new."""
        ...

    def ranges(self, dataset: str) -> Sequence[FileRange]:
        """The node ids of a dataset's rows, by file."""
        ...

    def reserve(self, count: int) -> int:
        """The first of `count` node ids that nobody else has."""
        ...

    def parts(self, kind: Literal["nodes", "edges"]) -> Sequence[str]:
        """The files with all nodes, or all edges, that are stored."""
        ...

    def roots(self, dataset: str) -> Sequence[str] | None:
        """The files that say which node each row of a sealed output is; None if it is not."""
        ...

    def locate(self, ids: Sequence[int]) -> Sequence[tuple[Dataset, Sequence[FileRange]]]:
        """Datasets, with the ranges of theirs that hold these ids, as far as they are unchanged."""
        ...

    def folder(self, kind: str) -> str:
        """A new folder to write to."""
        ...


class Engine(Protocol):
    """What runs the SQL of sealing: DuckDB or Spark."""

    @property
    def dialect(self) -> Dialect:
        """Whose SQL it takes."""
        ...

    @property
    def number(self) -> str:
        """SQL of one number for the value in `{}`: where no rows are `alike`, it tells them."""
        ...

    def run(self, sql: str) -> list[Any]:
        """All rows that SQL gives."""
        ...

    def table(self, stem: str, sql: str) -> str:
        """A temporary table with the answer to a query, computed once; its name."""
        ...

    def columns(self, dataset: Dataset) -> Sequence[Column]:
        """Name, stored name and type of each column of a dataset."""
        ...

    def rows(self, dataset: Dataset) -> str:
        """What stands behind FROM: the rows of a dataset, each with its locator."""
        ...

    def stored(self, kind: Kind, paths: Sequence[str]) -> str:
        """What stands behind FROM: what earlier seals wrote, or this one."""
        ...

    def members(self, paths: Sequence[str]) -> str:
        """What stands behind FROM: members of groups, told apart by `__row`."""
        ...

    def listed(self, sql: str) -> str:
        """What stands behind FROM: the items of lists, one row each."""
        ...

    def numbered(self, sql: str, order: str, reserve: Callable[[int], int]) -> tuple[str, int]:
        """What stands behind FROM: rows with an `id` in this order; and how many there are.

        Without an order, rows that come in one are numbered so.
        """
        ...

    def write(self, sql: str, folder: str, order: Sequence[str]) -> None:
        """Write rows in order, so that their numbers are stored as small differences."""
        ...

    def alike(self, table: str, keys: str) -> bool:
        """Whether rows of a table may have the same keys; it is said only where it is cheap."""
        ...

    def counted(self, rows: str, keys: str, sql: str) -> str:
        """What stands behind FROM: the rows with different keys, as SQL has it, computed once.

        It adds how many `times` each occurs; rows with the same keys are the same.
        """
        ...

    def bags(self, entries: str, label: str, bits: int, sql: str) -> str:
        """A table with the key `k` and the hashes of each group, from its entries, as SQL has it.

        An entry has the key, the hashes (f, and s if tokens are shorter), whether it contributes
        and how often it occurs.
        """
        ...

    def chunks(self, sql: str) -> list[tuple[int, int, int, bytes]]:
        """Slot, number, rows and Merkle root of each chunk, from locators and leaves (`leaf`)."""
        ...


@dataclass(slots=True)
class SealedStep:
    """What sealing a step gave: the Merkle leaves of its output, in order, in chunks."""

    roots: str
    rows: int
    chunks: list[bytes] = field(default_factory=list)
