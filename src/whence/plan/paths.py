"""Where a value stands in a row: a column and the steps into it; and how operators move values.

A path is kept once per operator, at schema level: `user_mentions[].id_str` says "of any item".
The position of an item comes from the witness (design, section 3).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str


@dataclass(frozen=True, slots=True)
class Item:
    """An item of an array: the one at `position` (zero-based), or any."""

    position: int | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """Any key of a map."""


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a map under `key` (as text), or any."""

    key: str | None = None


Step = Field | Item | Key | Value


@dataclass(frozen=True, slots=True)
class Path:
    """A column and the steps into it.

    `input` says whose column: the number of a child, then of a subquery (counted after the
    children); `None` is the operator's own output.
    """

    column: int
    name: str
    steps: tuple[Step, ...] = ()
    input: int | None = None

    def then(self, *steps: Step) -> "Path":
        """The path some steps further in."""
        return Path(self.column, self.name, self.steps + steps, self.input)

    def covers(self, other: "Path") -> bool:
        """Whether `other` is this value or a part of it."""
        return (
            self.column == other.column
            and self.input == other.input
            and len(self.steps) <= len(other.steps)
            and all(_covers(mine, its) for mine, its in zip(self.steps, other.steps, strict=False))
        )

    def __str__(self) -> str:
        return quote(self.name) + "".join(step_text(step) for step in self.steps)


def _covers(mine: Step, its: Step) -> bool:
    return mine == its or (mine in (Item(), Value()) and type(mine) is type(its))


WITNESS = -1
"""Among the places of a move, the position of the item that a generator took out."""
How = Literal["copied", "computed", "undefined"]
Positions = Literal["same", "witness", "any"]


@dataclass(frozen=True, slots=True)
class Move:
    """Where one output path comes from.

    - `copied`: the value is the one at the input path, with all that is inside it. Several inputs
      are alternatives (CASE, coalesce, union): the value is the one at one of them.
    - `computed`: the value is made from all of the inputs; no inputs means a constant, which moves
      nothing.
    - `undefined`: a function that cannot be looked into reads the inputs (the seed's ⊥).

    `influences` are paths that were only looked at to choose this value. `positions` says how
    array items on both sides correspond: the same index, by the witness, or not known. `chosen`
    says that only the data tells which of the inputs the value was made from. A column that an
    operator hands on untouched, under the same number, has no move at all.

    `places` has, for each input and then each influence, which position its open steps (`[]`, `{}`)
    have: that of the open step of this number in the output, that of the item which a generator
    took out (`WITNESS`), or any. If it is empty, they are those of the output in order where a
    value is copied, and any where it is computed. `at` says that the move is about one item only of
    those that a generator takes out, the one at this position.
    """

    output: Path
    inputs: tuple[Path, ...]
    how: How
    influences: tuple[Path, ...] = ()
    positions: Positions = "same"
    chosen: bool = False
    places: tuple[tuple[int | None, ...], ...] = ()
    at: int | None = None

    def __str__(self) -> str:
        return move_text(self, str)


def move_text(move: Move, text: Callable[[Path], str]) -> str:
    """A move as people read it, with paths written by `text`."""
    inputs = ", ".join(map(text, move.inputs)) or "∅"
    source = {"copied": inputs, "computed": f"f({inputs})", "undefined": f"⊥({inputs})"}
    line = f"{text(move.output)} <- {source[move.how]}"
    if move.influences:
        line += " by " + ", ".join(map(text, move.influences))
    if move.at is not None:
        line += f" at {move.at}"
    return line if move.positions == "same" else f"{line} [{move.positions}]"


def quote(name: str) -> str:
    """A name as it stands in SQL: in backticks unless it is plain."""
    return name if _PLAIN.match(name) else "`" + name.replace("`", "``") + "`"


def named(names: Iterable[str], name: str) -> str | None:
    """The name that is meant: as it is written, else whatever its case.

    >>> named(["a", "A"], "A"), named(["a", "b"], "A"), named(["a"], "c")
    ('A', 'a', None)
    """
    near = [other for other in names if other.casefold() == name.casefold()]
    return name if name in near else next(iter(near), None)


def key_text(key: str) -> str:
    """The step to the value under a key of a map.

    >>> key_text("it's")
    "{'it''s'}"
    """
    return "{'" + key.replace("'", "''") + "'}"


def step_text(step: Step) -> str:
    """One step, as people write it."""
    match step:
        case Field(name):
            return "." + quote(name)
        case Item(position):
            return "[]" if position is None else f"[{position}]"
        case Key():
            return "{key}"
        case Value(key):
            return "{}" if key is None else key_text(key)
