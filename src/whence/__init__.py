"""whence: where did this row come from? Provenance for PySpark pipelines, unchanged."""

from whence.api import Archive, Run, capture, capture_arrays, open, rowwise
from whence.errors import (
    ArchiveError,
    ArrayError,
    CaptureError,
    EngineError,
    FormatError,
    SelectionError,
    SourceChangedError,
    SourceError,
    UnknownNameError,
    UnsupportedError,
    WhenceError,
)
from whence.trace.answer import Impact, Trace

__all__ = [
    "Archive",
    "ArchiveError",
    "ArrayError",
    "CaptureError",
    "EngineError",
    "FormatError",
    "Impact",
    "Run",
    "SelectionError",
    "SourceChangedError",
    "SourceError",
    "Trace",
    "UnknownNameError",
    "UnsupportedError",
    "WhenceError",
    "capture",
    "capture_arrays",
    "open",
    "rowwise",
]
