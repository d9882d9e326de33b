"""Steps to a value whose positions differ from row to row: they are held in a table's columns."""

from __future__ import annotations

from dataclasses import dataclass

from whence.plan.paths import Step

ROW = "rid"
"""The column that tells rows of a scope apart."""


@dataclass(frozen=True, slots=True)
class Held:
    """A step to an item or to a map's value whose position or key is in a column of a table."""

    column: str
    of_map: bool = False


PlaceStep = Step | Held
