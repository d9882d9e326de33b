"""Cells: which values of the sources made the values that were asked about."""

from whence.trace.cells.table import Cells, cells_of

__all__ = ["Cells", "cells_of"]
