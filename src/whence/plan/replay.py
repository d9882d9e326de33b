"""When a trace is enough to replay: which operators can be disturbed by the rows left out.

A replay runs the pipeline on only the traced rows. Over fewer rows a monotonic operator gives
fewer rows, all of them *genuine* (rows of the full run). A non-monotonic one can give rows that
never were: a group of which only some members are there, a row that found no partner. Such a row
does no harm to what was asked for, unless another non-monotonic operator above takes it in. So a
path from the root to a leaf with two or more of them is not safe.

Some cannot give such rows after all. Per operator, of its output during a replay:

- `exact`: it is just the rows that the trace goes through. A source that is read once in the whole
  plan is exact: rows are only given because this leaf was traced. What hands each row on at most
  once keeps that: projections, filters, sorts, unions, limits, semi, anti and existence joins (for
  their left side), and groups by a key, of which all members are traced.
- `faithful`: it holds these rows and maybe more, all genuine. A source that is read twice is
  faithful, as is every monotonic operator over faithful inputs. An outer join is faithful if the
  side that it keeps is exact: a kept row was traced with a partner, or had none.
- `loose`: anything else. Only non-monotonic operators that end up loose count on a path.

An offset or a sample chooses rows by position, so one of them is enough to make a path unsafe.
"""

from collections.abc import Mapping
from typing import Literal

from whence.plan import operators as plan
from whence.plan.operators import Operator
from whence.plan.tree import paths_to_leaves, sources, walk

Replay = Literal["exact", "faithful", "loose"]


def non_monotonic(operator: Operator) -> bool:
    """Whether leaving out input rows can give output rows that were not there before."""
    match operator:
        case plan.Aggregate(aggregates=calls):
            return bool(calls)
        case plan.Join(type=kind):
            return kind in ("anti", "left", "right", "full", "existence")
        case (
            plan.Except()
            | plan.Window()
            | plan.Limit()
            | plan.Offset()
            | plan.Tail()
            | plan.Sample()
            | plan.MapBatches()
            | plan.MapGroups()
            | plan.MapCogroups()
        ):
            return True
        case _:
            return False


def unsafe_paths(root: Operator) -> tuple[tuple[str, ...], ...]:
    """For each path from root to leaf that cannot be relied on: the ids of those to blame."""
    grades = replay_grades(root)
    blamed = {
        o.id: 2 if isinstance(o, plan.Offset | plan.Sample) else 1
        for o in walk(root)
        if non_monotonic(o) and grades[o.id] == "loose"
    }
    found: dict[tuple[str, ...], None] = {}
    for path in paths_to_leaves(root):
        ids = tuple(operator.id for operator in path if operator.id in blamed)
        if sum(blamed[each] for each in ids) >= 2:
            found.setdefault(ids)
    return tuple(found)


def replay_grades(root: Operator) -> dict[str, Replay]:
    """For each operator, by id, what a replay makes of its output."""
    grades: dict[str, Replay] = {}
    once = _read_once(root)
    for operator in reversed(list(walk(root))):
        grades[operator.id] = _grade(operator, grades, once)
    return grades


def _read_once(root: Operator) -> frozenset[str]:
    """The ids of the leaves whose source no other leaf reads; in doubt, it does."""
    every = sources(root)
    return frozenset(
        one.id
        for one in every
        if not any(other is not one and _may_be_same(one, other) for other in every)
    )


def _may_be_same(one: plan.Source, other: plan.Source) -> bool:
    if one.location and other.location:
        return one.location == other.location
    names = [[column.name for column in source.output] for source in (one, other)]
    return one.name == other.name or names[0] == names[1]


def _grade(operator: Operator, grades: Mapping[str, Replay], once: frozenset[str]) -> Replay:
    inputs = [grades[child.id] for child in operator.children]
    monotonic: Replay = "loose" if "loose" in inputs or operator.subqueries else "faithful"
    match operator:
        case plan.Source():
            return "exact" if operator.id in once else "faithful"
        case plan.OneRow():
            return "faithful"
        case plan.Join(type=kind):
            return _join(kind, inputs) if not operator.subqueries else "loose"
        case plan.Aggregate(keys=keys, aggregates=calls):
            if keys and inputs == ["exact"] and not operator.subqueries:
                return "exact"
            return "loose" if calls else monotonic
        case plan.Limit() | plan.Tail():
            return "exact" if inputs == ["exact"] and not operator.subqueries else "loose"
        case plan.MapGroups() | plan.MapCogroups():
            return "faithful" if set(inputs) == {"exact"} else "loose"
        case plan.Project() | plan.Filter() | plan.Sort() | plan.Union() | plan.View():
            return "exact" if set(inputs) == {"exact"} and monotonic == "faithful" else monotonic
        case plan.Repartition() | plan.Hint() | plan.Observe():
            return inputs[0]
        case _:
            return "loose" if non_monotonic(operator) else monotonic


def _join(kind: plan.JoinType, inputs: list[Replay]) -> Replay:
    left, right = inputs
    if "loose" in inputs:
        return "loose"
    match kind:
        case "inner" | "cross":
            return "faithful"
        case "semi":
            return "exact" if left == "exact" else "faithful"
        case "anti" | "existence":
            return "exact" if left == "exact" else "loose"
        case "left":
            return "faithful" if left == "exact" else "loose"
        case "right":
            return "faithful" if right == "exact" else "loose"
        case "full":
            return "faithful" if left == right == "exact" else "loose"
