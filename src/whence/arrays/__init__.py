"""Provenance of NumPy code, cell by cell."""

from whence.arrays.capture import provenance, track, tracked
from whence.arrays.cells import Cells
from whence.arrays.provenance import Provenance
from whence.arrays.relation import InputAxis, Relation, Row

__all__ = ["Cells", "InputAxis", "Provenance", "Relation", "Row", "provenance", "track", "tracked"]
