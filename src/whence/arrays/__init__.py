"""Provenance of NumPy code, cell by cell."""

from whence.arrays.capture import provenance, track, tracked
from whence.arrays.cells import Cells
from whence.arrays.declared import declare
from whence.arrays.provenance import Provenance
from whence.arrays.relation import InputAxis, Relation, Row
from whence.arrays.views import Views
from whence.arrays.viewstore import FolderStore, MemoryStore, ViewStore

__all__ = [
    "Cells",
    "FolderStore",
    "InputAxis",
    "MemoryStore",
    "Provenance",
    "Relation",
    "Row",
    "ViewStore",
    "Views",
    "declare",
    "provenance",
    "track",
    "tracked",
]
