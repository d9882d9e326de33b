"""whence: where did this row come from? Provenance for PySpark pipelines, unchanged."""

from whence.api import Archive, Run, capture, open, rowwise, verify_archive, verify_proof
from whence.errors import (
    ArchiveError,
    ArrayError,
    CaptureError,
    EngineError,
    FormatError,
    ProofError,
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
    "ProofError",
    "Run",
    "SelectionError",
    "SourceChangedError",
    "SourceError",
    "Trace",
    "UnknownNameError",
    "UnsupportedError",
    "WhenceError",
    "capture",
    "open",
    "rowwise",
    "verify_archive",
    "verify_proof",
]
