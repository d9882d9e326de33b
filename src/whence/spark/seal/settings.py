"""What sealing is told, and what it asks of the archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from whence.algebra.witness import GroupShape, Witness
from whence.plan import Operator
from whence.spark.rerun import Input
from whence.spark.stored import Stored

Scheme = Literal["value", "origin", "content"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How an archive's tokens are made; the same for all of its seals."""

    scheme: Scheme = "value"
    bits: int = 256
    leaf_digests: bool = True


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
    datasets: Mapping[str, Input]
    """By dataset id."""
    code: Mapping[str, Sequence[str]]
    output: Stored
    paths: Sequence[str]
    groups: Callable[[str], tuple[Sequence[str], GroupShape]]
    lazy: LazyRows | None = None


@dataclass(frozen=True, slots=True)
class NewLabel:
    """A label that nodes carry, and what kind of node it makes."""

    digest: str
    form: Literal["joint", "one", "bag"]
    parts: int
    text: str

    @property
    def shape(self) -> str:
        """Form and number of parts: with the digest they tell labels apart."""
        return f"{self.form}/{self.parts}"


@dataclass(frozen=True, slots=True)
class FileRange:
    """The node ids of a file's rows: `start` plus the row's index. `slot` is its locator slot."""

    slot: int
    start: int
    uri: str
    modified: int
    digest: str


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

    def locate(self, ids: Sequence[int]) -> Sequence[tuple[Any, Sequence[FileRange]]]:
        """Inputs, with the ranges of theirs that hold these ids, as far as they are unchanged."""
        ...

    def folder(self, kind: str) -> str:
        """A new folder to write to."""
        ...


@dataclass(slots=True)
class SealedStep:
    """What sealing a step gave: the Merkle leaves of its output, in order, in chunks."""

    roots: str
    rows: int
    chunks: list[bytes] = field(default_factory=list)
