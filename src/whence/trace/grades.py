"""How good an answer is: its grade, and whether a replay is guaranteed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from whence import plan as ops
from whence.plan import non_monotonic, unsafe_paths, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.trace.steps import StepView

Grade = Literal["exact", "superset", "unknown"]
Guarantee = Literal["guaranteed", "not guaranteed"]


def plan_reasons(view: StepView) -> list[str]:
    """The operators of a step because of which an answer may hold more than matters."""
    reasons = []
    for operator in walk(view.plan):
        if operator.id in view.exact:
            continue
        match operator:
            case ops.MapBatches(function=function):
                reasons.append(f"{operator.id}: {function} sees whole batches, all of them count")
            case ops.MapGroups(function=function) | ops.MapCogroups(function=function):
                reasons.append(f"{operator.id}: {function} sees whole groups, all rows count")
            case _:
                pass
    return reasons


def grade_of(
    views: Sequence[StepView], lost: Sequence[tuple[str, int]] = (), doubts: Sequence[str] = ()
) -> tuple[Grade, tuple[str, ...]]:
    """The grade of an answer that went through some steps, and the reasons for it.

    `lost` names runs whose rows did not come out again when they were run again, `doubts` says why
    rows of followed functions are not exact.
    """
    if lost:
        return "unknown", tuple(
            f"{rows} rows of run {run!r} did not come out again when it was run again"
            for run, rows in lost
        )
    static = [r for view in views for r in plan_reasons(view)]
    reasons = list(dict.fromkeys([*static, *doubts]))
    return ("superset" if reasons else "exact"), tuple(reasons)


def guarantee_of(
    views: Sequence[StepView], *, one_row: bool = False
) -> tuple[Guarantee, tuple[str, ...]]:
    """Whether replaying a trace is sure to work: no path with two non-monotonic operators.

    The first view is of the run that is asked, the others of what it was traced through. Paths go
    on into earlier runs: one such operator here and one there is too many.
    """
    paths = list(unsafe_paths(views[0].pipeline, one_row=one_row))
    last = {view.run.id: view for view in views}
    earlier = [v for v in last.values() if v.run.id != views[0].run.id]
    here = [op.id for op in walk(views[0].pipeline) if non_monotonic(op)]
    for view in earlier:
        paths += unsafe_paths(view.pipeline, one_row=one_row)
        there = [op.id for op in walk(view.pipeline) if non_monotonic(op)]
        if here and there:
            paths.append((here[0], f"{there[0]} of run {view.run.name!r}"))
    paths += [
        (f"{operator} refers to single rows of what its function sees at once",)
        for view in views
        for operator in view.doubts
    ]
    if not paths:
        return "guaranteed", ()
    return "not guaranteed", tuple(dict.fromkeys(" over ".join(path) for path in paths))
