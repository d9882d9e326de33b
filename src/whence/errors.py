"""Every error that whence raises, as one tree.

    WhenceError
    ├── UnsupportedError (NotImplementedError)   a pipeline holds something whence does not know
    ├── SelectionError (ValueError)              a selection, pattern or option cannot be understood
    │   ├── UnknownNameError (LookupError)       a run, source, column or operator that is not there
    │   └── PatternError                         a tree pattern cannot be read or does not fit
    ├── ArchiveError (OSError)                   the archive cannot be read or written
    │   ├── FormatError                          the archive is of another format version
    │   └── ProofError                           a proof does not hold
    ├── SourceError (OSError)                    a source cannot be read
    │   └── SourceChangedError                   a source is not what it was at capture
    ├── CaptureError (RuntimeError)              Spark failed, or went away, while capturing
    ├── EngineError (RuntimeError)               an answer needs Spark and it cannot be had
    └── ArrayError (ValueError)                  array provenance cannot be had as asked

A message says what was found, what is available or was expected, and what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class WhenceError(Exception):
    """Base of every error that whence raises."""


class UnsupportedError(WhenceError, NotImplementedError):
    """A pipeline holds an operator or expression that whence does not know."""


class SelectionError(WhenceError, ValueError):
    """What was asked for cannot be understood: malformed SQL, a wrong type, a bad option."""


class UnknownNameError(SelectionError, LookupError):
    """A name that does not exist; the message offers the nearest that do."""

    def __init__(self, kind: str, name: str, available: Iterable[str]) -> None:
        self.kind, self.name = kind, name
        self.available = tuple(dict.fromkeys(available))
        super().__init__(f"no {kind} named {name!r}; {self._hint()}")

    def _hint(self) -> str:
        near = get_close_matches(str(self.name), self.available, n=3, cutoff=0.5)
        if near:
            return "did you mean " + " or ".join(repr(n) for n in near) + "?"
        if not self.available:
            return "there are none"
        shown = ", ".join(repr(n) for n in self.available[:12])
        more = len(self.available) - 12
        return f"there is {shown}" + (f" and {more} more" if more > 0 else "")


class PatternError(SelectionError):
    """A tree pattern cannot be read, or does not fit the data; says where."""


class ArchiveError(WhenceError, OSError):
    """The archive cannot be read or written."""


class FormatError(ArchiveError):
    """The archive was written in a format that this version does not read."""


class ProofError(ArchiveError):
    """A proof does not hold."""


class SourceError(WhenceError, OSError):
    """A source cannot be read: missing, unreadable or truncated."""


class SourceChangedError(SourceError):
    """A source is not what it was when the run was captured."""


class CaptureError(WhenceError, RuntimeError):
    """Spark failed, or went away, while a run was being captured."""


class EngineError(WhenceError, RuntimeError):
    """An answer needs Spark, and no Spark session can be had."""


class ArrayError(WhenceError, ValueError):
    """Array provenance cannot be had as asked."""
