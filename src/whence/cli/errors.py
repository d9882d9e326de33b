"""From errors to exit codes: one line on stderr, no traceback."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from whence.errors import (
    ArchiveError,
    CaptureError,
    EngineError,
    SelectionError,
    SourceError,
    UnsupportedError,
    WhenceError,
)

_CODES: tuple[tuple[type[WhenceError], int], ...] = (
    (SelectionError, 2),
    (UnsupportedError, 2),
    (ArchiveError, 3),
    (SourceError, 3),
    (EngineError, 4),
    (CaptureError, 4),
)


def exit_code(error: WhenceError) -> int:
    """The code with which the command line ends after an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), 3)


class Commands(TyperGroup):
    """The group of all commands; what whence raises ends in a message, not in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except WhenceError as error:
            typer.echo("whence: " + " ".join(str(error).split()), err=True)
            raise typer.Exit(exit_code(error)) from error
        except BrokenPipeError:
            raise
        except OSError as error:  # what whence itself reads and writes has errors of its own
            typer.echo(f"whence: the answer cannot be written: {error.strerror}", err=True)
            raise typer.Exit(3) from error
