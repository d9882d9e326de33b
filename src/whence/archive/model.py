"""What an archive holds, as plain data: runs of steps over datasets made of files."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

DatasetKind = Literal[
    "source", "snapshot", "output", "group", "range", "nodes", "edges", "uses", "roots"
]

LEAF_KINDS: frozenset[str] = frozenset({"source", "snapshot", "range"})
"""Kinds that pipelines read and no run made."""

SEGMENT_KINDS: frozenset[str] = frozenset({"nodes", "edges", "uses"})
"""Kinds that seals share: the graph behind what was sealed, in segments."""

SEAL_KINDS: frozenset[str] = SEGMENT_KINDS | {"roots"}
"""Kinds that sealing makes."""

OWN_KINDS: frozenset[str] = frozenset({"snapshot", "output", "group"}) | SEAL_KINDS
"""Kinds whose files the archive itself holds; the others belong to somebody else or have none."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a dataset, with the number that stands for it in locators."""

    path: str
    """Own dataset: relative to the dataset's folder. Source: absolute, as Spark names it."""
    slot: int
    """Locator of a row = slot << 40 | row index."""
    size: int
    modified: int
    """Milliseconds since the epoch, as the file system tells."""
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """Rows in files, with a fingerprint."""

    id: str
    """Own dataset: hex, also its folder's name. Else: digest of kind, location, fingerprint."""
    kind: DatasetKind
    name: str
    location: str
    """Own dataset: "datasets/<id>". Source: common root of its files."""
    schema: str
    """Spark schema as JSON text; opaque to the archive."""
    fingerprint: str
    files: tuple[DataFile, ...]
    rows: int | None
    bytes: int
    properties: Mapping[str, Any]
    """JSON-able extras; `version` of a snapshot is the key by which later runs reuse it."""

    @property
    def is_own(self) -> bool:
        """Whether the archive holds this dataset's files."""
        return self.kind in OWN_KINDS


@dataclass(frozen=True, slots=True)
class Step:
    """One plan over datasets that made one dataset with witnesses."""

    number: int
    """Position in the run, from 0; the last step makes the run's output."""
    output: str
    inputs: tuple[str, ...]
    groups: tuple[str, ...]
    """Datasets that hold members of groups, stored beside the output."""
    document: Mapping[str, Any]
    """JSON: plan, witness shape, notes; opaque to the archive."""
    attachment: bytes | None = None
    """Opaque bytes, maybe many. Written with the step; read only by `Archive.attachment`."""


@dataclass(frozen=True, slots=True)
class Run:
    """A committed DAG of steps."""

    id: str
    name: str
    created: datetime
    """When it was committed, UTC."""
    mode: str
    seconds: float
    versions: Mapping[str, str]
    steps: tuple[Step, ...]

    @property
    def output(self) -> str:
        """Id of the dataset that the run made: the output of its last step."""
        return self.steps[-1].output
