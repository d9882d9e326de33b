"""Which columns of a source a pipeline looks at: those are worth showing."""

from __future__ import annotations

from whence.archive import Run
from whence.plan import Operator, sources, walk
from whence.trace.steps import step_view


def columns_read(run: Run, dataset_id: str) -> set[str] | None:
    """The columns of a dataset that a run reads or hands on to its output; None: not its input."""
    found: set[str] | None = None
    for step in run.steps:
        if dataset_id not in step.inputs:
            continue
        view = step_view(run, step)
        used = _used(view.plan)
        found = found or set()
        for source in sources(view.plan):
            if view.inputs[source.id] == dataset_id:
                found |= {column.name for column in source.output if column.number in used}
    return found


def _used(plan: Operator) -> set[int]:
    """The numbers of all columns that are read, moved, or in the output."""
    used = {column.number for column in plan.output}
    for operator in walk(plan):
        used.update(path.column for path in operator.reads)
        used.update(path.column for move in operator.moves for path in move.inputs)
    return used
