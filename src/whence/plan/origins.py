"""Which source row alone makes a column's value, if one does."""

from whence.plan import operators as plan
from whence.plan.operators import Operator
from whence.plan.paths import Path


def origins(operator: Operator, number: int) -> frozenset[str] | None:
    """The ids of the sources whose rows together make a column's value in one output row.

    `None` where that cannot be said: the value comes from several rows of a source (an aggregate,
    a window), from one of several items of a row (a generator), or from Python.
    """
    match operator:
        case plan.Source():
            return frozenset((operator.id,))
        case plan.Aggregate() | plan.Window() | plan.Union() | plan.Expand() | plan.OneRow():
            return None
        case plan.Generate(generated=generated) if number in {c.number for c in generated}:
            return None
        case plan.MapBatches() | plan.MapGroups() | plan.MapCogroups() | plan.ArrayFunction():
            return None
        case plan.Join(existence=found) if found and found.number == number:
            return None
        case _:
            return _made_of(operator, number)


def _made_of(operator: Operator, number: int) -> frozenset[str] | None:
    moves = [move for move in operator.moves if move.output.column == number]
    if moves:
        return together(operator, [p for m in moves for p in (*m.inputs, *m.influences)])
    for child in operator.children:
        if any(column.number == number for column in child.output):
            return origins(child, number)
    return None


def together(operator: Operator, paths: list[Path]) -> frozenset[str] | None:
    """The sources behind some input paths of an operator."""
    found: frozenset[str] = frozenset()
    for path in paths:
        if path.input is None or path.input >= len(operator.children):
            return None
        each = origins(operator.children[path.input], path.column)
        if each is None:
            return None
        found |= each
    return found
