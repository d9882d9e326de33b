"""whence: where did this row come from? Provenance for PySpark pipelines, unchanged."""

from whence.api import (
    Archive,
    Run,
    capture,
    capture_arrays,
    open,
    rowwise,
    verify_archive,
    verify_proof,
)
from whence.errors import (
    ArchiveError,
    ArrayError,
    CaptureError,
    EngineError,
    FormatError,
    PatternError,
    ProofError,
    SelectionError,
    SourceChangedError,
    SourceError,
    UnknownNameError,
    UnsupportedError,
    WhenceError,
)
from whence.trace.answer import Impact, Trace
from whence.trace.patterns import Pattern, anywhere, node, pattern

__all__ = [
    "Archive",
    "ArchiveError",
    "ArrayError",
    "CaptureError",
    "EngineError",
    "FormatError",
    "Impact",
    "Pattern",
    "PatternError",
    "ProofError",
    "Run",
    "SelectionError",
    "SourceChangedError",
    "SourceError",
    "Trace",
    "UnknownNameError",
    "UnsupportedError",
    "WhenceError",
    "anywhere",
    "capture",
    "capture_arrays",
    "node",
    "open",
    "pattern",
    "rowwise",
    "verify_archive",
    "verify_proof",
]
