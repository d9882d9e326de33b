"""Marks: paths of one operator's output, or of its inputs, that a question asks about.

A mark is a path at schema level with the positions of list items held in a table, one row per
marked cell. Going back through an operator rewrites the path by the operator's moves; the table is
handed on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from whence.plan import Operator
from whence.plan.paths import WITNESS, Field, Item, Key, Move, Path, Value
from whence.trace.places import Held, PlaceStep


@dataclass(frozen=True, slots=True)
class Mark:
    """Marked cells: a column, the steps into it, and the table of rows and positions.

    `accessed` and `moved` are the operators that looked at these cells, and that put them elsewhere
    or made other values of them, on the way to what was asked. Where a value was `chosen` among
    several by looking at data, those that were not taken may have no such cells.
    """

    column: int
    steps: tuple[PlaceStep, ...]
    table: str
    contributing: bool
    accessed: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()
    chosen: bool = False

    def on(self, all_rows: str, others: str) -> Mark:
        """The mark over another table of rows, if it is about all of them; else as it is.

        The other table has the columns of the first one, and the same rows as far as they matter.
        """
        return replace(self, table=others) if self.table == all_rows else self

    def influence(self, path: Path, operator: str) -> Mark:
        """What was looked at at a path, for the same rows."""
        return Mark(path.column, plain(path), self.table, False, frozenset({operator}))


@dataclass(frozen=True, slots=True)
class Passed:
    """A mark that went back through a move, to one of its inputs.

    `tests` are the positions that the move is about, where the mark holds them in columns; `item`
    is the first position inside the moved value, which tells the member of a collected list.
    """

    mark: Mark
    input: int
    tests: tuple[tuple[Held, int | str], ...]
    item: PlaceStep | None
    unknown: bool


def plain(path: Path) -> tuple[PlaceStep, ...]:
    """The steps of a path of the plan."""
    return tuple(path.steps)


def held(steps: Iterable[PlaceStep]) -> list[str]:
    """The columns that steps refer to."""
    return [step.column for step in steps if isinstance(step, Held)]


def moves_of(operator: Operator, mark: Mark) -> list[Move] | None:
    """The moves that make the marked cells; None if the column is handed on untouched."""
    own = [move for move in operator.moves if move.output.column == mark.column]
    if not own:
        return None
    return [move for move in own if _aligned(mark.steps, move.output.steps) is not None]


def through(
    mark: Mark, move: Move, operator: str, unnested: PlaceStep | None = None
) -> Iterator[Passed]:
    """The mark on the inputs of a move; nothing if the move is about another part of the column.

    `unnested` is the position that the witness tells for an item which a generator took out.
    """
    aligned = _aligned(mark.steps, move.output.steps)
    if aligned is None:
        return
    positions, rest, tests = aligned
    accessed = mark.accessed | ({operator} if move.how != "copied" else frozenset())
    moved = mark.moved | {operator}
    item = positions[0] if positions else None
    for path, places in zip(move.inputs, places_of(move), strict=False):
        steps, unknown = _steps(path, places, positions, unnested)
        if move.how == "copied":
            steps += rest
        made = replace(
            mark,
            column=path.column,
            steps=steps,
            accessed=frozenset(accessed),
            moved=moved,
            chosen=mark.chosen or move.chosen,
        )
        lost = any(isinstance(p, Held) and p.to == "entry" for p in positions)
        guessed = lost or (unknown and (move.how == "copied" or move.positions == "any"))
        yield Passed(made, path.input or 0, tests, item, guessed)


def entry_number(operator: Operator, move: Move, key: str) -> int | None:
    """Which entry of a map that an operator makes has a key; None if only the data tells."""
    depth = move.output.steps.index(Value(key))
    before = move.output.steps[:depth]
    keys = dict.fromkeys(
        step.key
        for other in operator.moves
        if other.output.column == move.output.column and other.output.steps[:depth] == before
        for step in other.output.steps[depth : depth + 1]
        if isinstance(step, Value)
    )
    return None if None in keys else list(keys).index(key)


def influences(
    mark: Mark, move: Move, operator: str, unnested: PlaceStep | None = None
) -> Iterator[tuple[int, Mark]]:
    """What was looked at to choose the marked value, each with the number of the input."""
    aligned = _aligned(mark.steps, move.output.steps)
    if aligned is None:
        return
    for path, places in zip(move.influences, places_of(move)[len(move.inputs) :], strict=True):
        steps, _ = _steps(path, places, aligned[0], unnested)
        looked = Mark(path.column, steps, mark.table, False, frozenset({operator}))
        yield path.input or 0, looked


_Places = tuple[int | None, ...]


def places_of(move: Move) -> list[_Places]:
    """The places of the open steps of each input and influence."""
    if move.places:
        return list(move.places)
    usual: _Places = tuple(range(sum(map(is_open, move.output.steps))))
    return [
        *((usual if move.how == "copied" else ()) for _ in move.inputs),
        *(() for _ in move.influences),
    ]


def is_open(step: PlaceStep) -> bool:
    """Whether a step goes to any item or value."""
    return step in (Item(), Value())


def _steps(
    path: Path, places: _Places, positions: list[PlaceStep], unnested: PlaceStep | None
) -> tuple[tuple[PlaceStep, ...], bool]:
    """The steps of an input path, with the positions that are known; whether one is not."""
    found: list[PlaceStep] = []
    unknown = False
    number = 0
    for step in path.steps:
        if not is_open(step):
            found.append(step)
            continue
        place = places[number] if number < len(places) else None
        number += 1
        if place is None or (place == WITNESS and unnested is None):
            found.append(step)
            unknown = True
        elif place == WITNESS:
            assert unnested is not None
            if isinstance(step, Value) and isinstance(unnested, Held):
                found.append(Held(unnested.column, "entry"))
            else:
                found.append(unnested)
        else:
            known = positions[place]
            found.append(step if isinstance(known, Held) and known.to == "entry" else known)
    return tuple(found), unknown


_Aligned = tuple[list[PlaceStep], tuple[PlaceStep, ...], tuple[tuple[Held, int | str], ...]]


def _aligned(mark: tuple[PlaceStep, ...], output: tuple[PlaceStep, ...]) -> _Aligned | None:
    """A mark's steps along those of a move's output: positions, the rest, and tests."""
    positions: list[PlaceStep] = []
    tests: list[tuple[Held, int | str]] = []
    for mine, its in zip(mark, output, strict=False):
        match its:
            case Field(name):
                if not isinstance(mine, Field) or mine.name.casefold() != name.casefold():
                    return None
            case Item(None) | Value(None):
                if isinstance(mine, Field | Key):
                    return None
                positions.append(mine)
            case Item(position):
                if isinstance(mine, Held):
                    tests.append((mine, int(position or 0)))
                elif mine not in (its, Item()):
                    return None
            case Value(key):
                if isinstance(mine, Held):
                    tests.append((mine, str(key)))
                elif mine not in (its, Value()):
                    return None
            case Key():
                if mine != its:
                    return None
            case _:
                return None
    positions += [s for s in output[len(mark) :] if s in (Item(), Value())]
    return positions, mark[len(output) :], tuple(tests)
