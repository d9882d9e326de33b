"""Which columns of its sources a plan has a use for: it looks at them, or gives them."""

from __future__ import annotations

from collections.abc import Iterator

from whence.plan import operators as ops
from whence.plan.operators import Operator
from whence.plan.paths import Move, Path

# They take their inputs' columns by position, or all of them.
POSITIONAL = (
    ops.Union,
    ops.Except,
    ops.Intersect,
    ops.MapBatches,
    ops.MapGroups,
    ops.MapCogroups,
    ops.ArrayFunction,
)


def live_columns(plan: Operator) -> dict[str, set[int]]:
    """For each source, by its id, the numbers of the columns that the plan looks at or gives.

    SELECT a FROM (SELECT *, b + 1 AS c FROM t)   →   a and b of t
    """
    found: dict[str, set[int]] = {}
    _visit(plan, {column.number for column in plan.output}, found)
    return found


def _visit(operator: Operator, wanted: set[int], found: dict[str, set[int]]) -> None:
    if isinstance(operator, ops.Source):
        found.setdefault(operator.id, set()).update(wanted)
        return
    made = {move.output.column for move in operator.moves}
    looked = set(_looked_at(operator, wanted))
    for number, below in enumerate(operator.inputs):
        own = {column.number for column in below.output}
        if number >= len(operator.children) or isinstance(operator, POSITIONAL):
            asked = own
        else:
            asked = own & ((wanted - made) | {c for i, c in looked if i == number})
        _visit(below, asked, found)


def _looked_at(operator: Operator, wanted: set[int]) -> Iterator[tuple[int, int]]:
    """What an operator looks at, and what it makes the wanted columns of: input and column."""
    paths: list[Path] = list(operator.reads)
    for move in operator.moves:
        if not isinstance(operator, ops.Project) or move.output.column in wanted:
            paths += _sources(move)
    return ((path.input or 0, path.column) for path in paths)


def _sources(move: Move) -> tuple[Path, ...]:
    return (*move.inputs, *move.influences)
