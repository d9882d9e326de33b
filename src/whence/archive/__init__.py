"""The archive: catalog, dataset layout, commit protocol, gc."""

from whence.archive.archive import Archive
from whence.archive.commit import RunWriter
from whence.archive.gc import GcReport
from whence.archive.model import DataFile, Dataset, DatasetKind, Run, Step

__all__ = [
    "Archive",
    "DataFile",
    "Dataset",
    "DatasetKind",
    "GcReport",
    "Run",
    "RunWriter",
    "Step",
]
