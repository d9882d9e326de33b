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
  faithful, as is every monotonic operator over faithful inputs.
- `loose`: anything else. Only non-monotonic operators that end up loose count on a path.

What settles the matter is often a single row of a source that is read once. Where all keys of a
group over faithful input are made of such a row, a group that appears in a replay is a traced one,
and all of it is there: the groups are exact. Where the condition of an anti, existence or outer
join sees, of the side it keeps, only such a row, that row found its partners, or none, in the full
run as well: the join is faithful. It also is if the side it keeps is exact.

For the trace of *one* row it is enough that each key is made of some source's row: all traced rows
of that source then agree on it, so that no other group can appear.

An offset or a sample chooses rows by position, so one of them is enough to make a path unsafe. So
is a window whose frame of rows is apart from the row, since the rows between are not traced, and
anything that gives other values each time it is run: a random number, a number for each row.
"""

import re
from dataclasses import dataclass
from typing import Literal

from whence.plan import operators as plan
from whence.plan.operators import Operator
from whence.plan.origins import together
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
            | plan.Number()
            | plan.MapBatches()
            | plan.MapGroups()
            | plan.MapCogroups()
            | plan.ArrayFunction()
        ):
            return True
        case _:
            return False


def unsafe_paths(root: Operator, *, one_row: bool = False) -> tuple[tuple[str, ...], ...]:
    """For each path from root to leaf that cannot be relied on: the ids of those to blame.

    `one_row` says that a single output row is traced and replayed.
    """
    grades = replay_grades(root, one_row=one_row)
    blamed = {
        o.id: 2 if _by_position(o) or not o.deterministic else 1
        for o in walk(root)
        if not o.deterministic or (non_monotonic(o) and grades[o.id] == "loose")
    }
    found: dict[tuple[str, ...], None] = {}
    for path in paths_to_leaves(root):
        ids = tuple(operator.id for operator in path if operator.id in blamed)
        if sum(blamed[each] for each in ids) >= 2:
            found.setdefault(ids)
    return tuple(found)


def _by_position(operator: Operator) -> bool:
    """Whether rows are chosen by how many there are before or after them."""
    match operator:
        case plan.Offset() | plan.Sample():
            return True
        case plan.Window(functions=calls):
            return any(_is_apart(call.frame) for call in calls)
        case _:
            return False


_ROWS = re.compile(
    r"ROWS BETWEEN (.+) (PRECEDING|FOLLOWING|ROW) AND (.+) (PRECEDING|FOLLOWING|ROW)"
)


def _is_apart(frame: str) -> bool:
    """Whether rows lie between a row and its frame.

    ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING
    """
    found = _ROWS.fullmatch(frame)
    if found is None:
        return False
    first, side, last, other = found.groups()
    after = side == "FOLLOWING" and first not in ("0", "1")
    return after or (other == "PRECEDING" and last not in ("0", "1"))


def replay_grades(root: Operator, *, one_row: bool = False) -> dict[str, Replay]:
    """For each operator, by id, what a replay makes of its output."""
    plan_facts = _Facts(_read_once(root), _single(root) if one_row else frozenset(), {})
    for operator in reversed(list(walk(root))):
        plan_facts.grades[operator.id] = _grade(operator, plan_facts)
    return plan_facts.grades


@dataclass(frozen=True, slots=True)
class _Facts:
    """Leaves read once, operators of which one row is traced, and the grades so far; by id."""

    once: frozenset[str]
    single: frozenset[str]
    grades: dict[str, Replay]


def _single(root: Operator) -> frozenset[str]:
    """The operators of which the trace of one output row goes through one row at most."""
    found: set[str] = set()
    pending = [root]
    while pending:
        operator = pending.pop()
        found.add(operator.id)
        match operator:
            case plan.Aggregate() | plan.Window() | plan.MapGroups() | plan.MapCogroups():
                continue
            case plan.MapBatches():
                continue
            case plan.Join(type="semi" | "anti" | "existence"):
                pending.append(operator.children[0])
            case _:
                pending.extend(operator.children)
    return frozenset(found)


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


def _grade(operator: Operator, facts: _Facts) -> Replay:
    inputs = [facts.grades[child.id] for child in operator.children]
    if operator.subqueries:
        return "loose"
    monotonic: Replay = "loose" if "loose" in inputs else "faithful"
    match operator:
        case plan.Source():
            return "exact" if operator.id in facts.once else "faithful"
        case plan.OneRow():
            return "faithful"
        case plan.Join():
            return _join(operator, inputs, facts)
        case plan.Aggregate(keys=keys, aggregates=calls):
            if keys and (inputs == ["exact"] or _pinned(operator, monotonic, facts)):
                return "exact"
            return "loose" if calls else monotonic
        case plan.Limit() | plan.Tail():
            return "exact" if inputs == ["exact"] else "loose"
        case plan.MapGroups() | plan.MapCogroups():
            return "faithful" if set(inputs) == {"exact"} else "loose"
        case plan.Project() | plan.Filter() | plan.Sort() | plan.Union() | plan.View():
            return "exact" if set(inputs) == {"exact"} else monotonic
        case plan.Repartition() | plan.Hint() | plan.Observe():
            return inputs[0]
        case _:
            return "loose" if non_monotonic(operator) else monotonic


def _pinned(operator: plan.Aggregate, below: Replay, facts: _Facts) -> bool:
    """Whether only traced groups can appear, because source rows alone decide on the keys."""
    if below == "loose":
        return False
    behind = together(operator, list(operator.decides))
    if behind is None or not behind <= facts.once:
        return False
    if len(behind) == 1:
        return True
    plain = not any(key.functions for key in operator.keys)
    each = [together(operator, [path]) for path in operator.decides]
    return operator.id in facts.single and plain and all(len(found or ()) == 1 for found in each)


def _join(operator: plan.Join, inputs: list[Replay], facts: _Facts) -> Replay:
    left, right = inputs
    if "loose" in inputs:
        return "loose"
    kept = {0: left == "exact", 1: right == "exact"}
    settled = {side: kept[side] or _settled(operator, side, facts) for side in kept}
    match operator.type:
        case "inner" | "cross":
            return "faithful"
        case "semi":
            return "exact" if kept[0] else "faithful"
        case "anti" | "existence":
            return "exact" if kept[0] else "faithful" if settled[0] else "loose"
        case "left":
            return "faithful" if settled[0] else "loose"
        case "right":
            return "faithful" if settled[1] else "loose"
        case "full":
            return "faithful" if settled[0] and settled[1] else "loose"


def _settled(operator: plan.Join, side: int, facts: _Facts) -> bool:
    """Whether the condition sees, of one side, a single row of a source that is read once."""
    behind = together(operator, [path for path in operator.decides if path.input == side])
    return behind is not None and len(behind) == 1 and behind <= facts.once
