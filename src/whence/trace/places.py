"""Steps to a value whose positions differ from row to row: they are held in a table's columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from whence.plan.paths import Step

ROW = "rid"
"""The column that tells rows of a scope apart."""


@dataclass(frozen=True, slots=True)
class Held:
    """A step whose position or key is in a column of a table.

    It goes to an item of a list by its position, to a value of a map by its key, or to the value of
    a map's entry by the entry's position, which stands for a key until something changes the map.
    """

    column: str
    to: Literal["item", "value", "entry"] = "item"


PlaceStep = Step | Held
