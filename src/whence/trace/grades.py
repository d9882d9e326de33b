"""How good an answer is: its grade, and whether a replay is guaranteed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from whence import plan as ops
from whence.plan import Operator, unsafe_paths, walk

if TYPE_CHECKING:
    from whence.trace.backward import Backward

Grade = Literal["exact", "superset", "unknown"]
Guarantee = Literal["guaranteed", "not guaranteed"]


def plan_reasons(plan: Operator) -> list[str]:
    """The operators of a plan because of which an answer may hold more than matters."""
    reasons = []
    for operator in walk(plan):
        match operator:
            case ops.MapBatches(function=function):
                reasons.append(f"{operator.id}: {function} sees whole batches, all of them count")
            case ops.MapGroups(function=function) | ops.MapCogroups(function=function):
                reasons.append(f"{operator.id}: {function} sees whole groups, all rows count")
            case _:
                pass
    return reasons


def grade_of(
    backward: Backward | None, plan: Operator | None = None
) -> tuple[Grade, tuple[str, ...]]:
    """The grade of an answer and the reasons for it."""
    reasons: list[str] = []
    if backward is not None:
        lost = [
            f"{rows} rows of run {run!r} did not come out again when it was run again"
            for run, rows in backward.lost
        ]
        if lost:
            return "unknown", tuple(lost)
        for view in backward.views:
            reasons += [r for r in plan_reasons(view.plan) if r not in reasons]
    if plan is not None:
        reasons += plan_reasons(plan)
    return ("superset" if reasons else "exact"), tuple(reasons)


def guarantee_of(plan: Operator) -> tuple[Guarantee, tuple[str, ...]]:
    """Whether replaying a trace is sure to work: no path with two non-monotonic operators."""
    paths = unsafe_paths(plan)
    if not paths:
        return "guaranteed", ()
    return "not guaranteed", tuple(" over ".join(path) for path in paths)
