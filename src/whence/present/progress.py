"""What long work is doing, on a terminal."""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """Says what is being done; silent unless wanted or, by default, on a terminal."""

    def __init__(self, wanted: bool | None) -> None:
        self._shown = sys.stderr.isatty() if wanted is None else wanted
        self._status: Any = None

    def __enter__(self) -> Progress:
        if self._shown:
            from rich.console import Console

            self._status = Console(stderr=True).status("whence: starting")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()

    def __call__(self, message: str) -> None:
        """Say what is being done now."""
        if self._status is not None:
            self._status.update(f"whence: {message}")
