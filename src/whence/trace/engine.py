"""What a trace asks of Spark: the members of groups that were not stored."""

from __future__ import annotations

from typing import Any, Protocol

from whence.algebra.witness import GroupShape
from whence.archive import Run, Step


class Engine(Protocol):
    """Finds members of groups by running the pipeline again under the keys asked for."""

    def members(
        self, run: Run, step: Step, group: str, keys: str | None
    ) -> tuple[list[str], GroupShape]:
        """Parquet files with the members of groups, and what a member looks like.

        `keys` is a Parquet file with the keys asked for; None asks for all groups.
        """
        ...

    def frame(self, table: Any) -> Any:
        """An Arrow table as a Spark DataFrame."""
        ...
