"""Aggregates and distinct: every row of the group is a member; a chosen value marks its winners."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from whence import plan as ops
from whence.algebra.packing import pack, packed_sql
from whence.algebra.witness import Collected, Members, PackedSlot
from whence.plan import CHOOSING
from whence.spark import instrument as family
from whence.spark.gateway import Expression, Gateway, Plan
from whence.spark.instrument.keys import comparable
from whence.spark.instrument.traced import Context, Traced, group_slot, own_slots

# The second half of a pivot: groups under a value that is not listed are only looked at.
PIVOT = "PivotFirst"


@dataclass(frozen=True, slots=True)
class Match:
    """A value of the member and the value of the group that it must equal.

    Most aggregates pass over nulls, so a null result is the value of no row; with `nulls` a null
    is a value like any other.
    """

    member: Expression
    result: Expression
    nulls: bool = False

    @property
    def comparable(self) -> bool:
        """Whether SQL can compare values of this type."""
        return "map<" not in str(self.member.dataType().catalogString())


@dataclass(frozen=True, slots=True)
class Flag:
    """How to tell whether a member contributes to some aggregates of its group.

    All `matches` must hold and `when` (a FILTER clause) must let the member through. `columns` are
    those that hold the value of such an aggregate and of no other.
    """

    name: str
    matches: tuple[Match, ...]
    when: Expression | None
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Collection:
    """A column that is `collect_list` or `collect_set` of a value, of the rows let through."""

    column: int
    value: Expression
    when: Expression | None
    of_set: bool
    result: Expression


def aggregate(context: Context, operator: ops.Aggregate, node: Plan, copied: bool) -> Traced:
    """A group's witness: the list of its members, or a reference to it by its key.

    Where the result itself lists its members' values, listing the members takes no more.
    """
    by_key = context.policy == "key" and not find_collections(context, operator, node)
    if copied or operator.in_python or by_key:
        return _keyed(context, operator, node)
    return listed(context, operator, node, ())


def _keyed(context: Context, operator: ops.Aggregate, node: Plan) -> Traced:
    """The aggregate as it is, with its grouping keys carried along.

    SELECT sum(x) FROM t GROUP BY k   →   SELECT sum(x), struct(k) AS slot FROM t GROUP BY k
    """
    gateway = context.gateway
    names, plan = with_keys(gateway, node)
    traced = Traced(plan, {}, family.rows.one_row(node).shape)
    grouped = group_slot(context, traced, operator, comparable(gateway, plan, names))
    plan = gateway.project(node.output(), grouped.plan, list(grouped.slots.values()))
    return grouped.over(plan)


def with_keys(gateway: Gateway, node: Plan) -> tuple[list[Any], Plan]:
    """The aggregate with its grouping expressions as extra columns, and their attributes."""
    keys = [gateway.alias(key, gateway.fresh("k")) for key in grouping(gateway, node)]
    plan = gateway.with_arguments(node, {1: gateway.seq(node.aggregateExpressions(), keys)})
    return [key.toAttribute() for key in keys], plan


def grouping(gateway: Gateway, node: Plan) -> list[Expression]:
    """The grouping expressions of an aggregate."""
    return gateway.items(node.groupingExpressions())


def listed(
    context: Context,
    operator: ops.Aggregate,
    node: Plan,
    extra: Sequence[Any],
    child: Traced | None = None,
) -> Traced:
    """The aggregate with the list of its members' slots; `extra` are more columns to compute.

    SELECT sum(x) FROM t GROUP BY k   →   SELECT sum(x), collect_list(slots) FROM t GROUP BY k
    """
    gateway = context.gateway
    if child is None:
        child = family.instrument(context, operator.children[0], node.child(), copied=False)
    members = own_slots(child)
    if not members:
        expressions = gateway.seq(node.aggregateExpressions(), extra)
        plan = gateway.with_arguments(node, {1: expressions, 2: child.plan})
        return Traced(plan, {}, child.shape)
    name = gateway.fresh("m")
    flags = find_flags(gateway, operator, node)
    collections = find_collections(context, operator, node)
    fields = _item_fields(gateway, collections, members)
    packed = () if flags else _packed(context, child, members, fields, collections)
    if packed:
        child, member = _with_number(gateway, child, packed, [*members, *fields])
        slot = gateway.alias(gateway.collect_list(member), name)
    else:
        slot = gateway.alias(collect(gateway, [*members, *fields], flags), name)
    results = [gateway.alias(m.result, gateway.fresh("r")) for f in flags for m in f.matches]
    sets = [
        (field, gateway.alias(c.result, gateway.fresh("r")))
        for c, (field, _) in _with_fields(collections, fields)
        if c.of_set
    ]
    added = [*extra, slot, *results, *(result for _, result in sets)]
    expressions = gateway.seq(node.aggregateExpressions(), added)
    plan = gateway.with_arguments(node, {1: expressions, 2: child.plan})
    if sets:
        plan = _set_items(gateway, plan, name, sets)
        slot = gateway.attribute(plan, name)
    shape = Members(
        slot=name,
        operator=operator.id,
        element=child.shape,
        flags=tuple(flag.name for flag in flags),
        collected=_collected(collections, fields),
        chosen=tuple((column, flag.name) for flag in flags for column in flag.columns),
        packed=packed,
    )
    if not flags:
        return Traced(plan, {name: gateway.attribute(plan, name)}, shape)
    kept = [n for n, _ in (*members, *fields)]
    return _decided(context, plan, slot, results, flags, kept, shape)


def _packed(
    context: Context,
    child: Traced,
    members: Sequence[tuple[str, Any]],
    fields: Sequence[tuple[str, Any]],
    collections: Sequence[Collection],
) -> tuple[PackedSlot, ...]:
    """How a member's slots and fields are one number; not where a set's values are among them."""
    if len(members) + len(fields) < 2 or any(c.of_set for c in collections):
        return ()
    names = [name for name, _ in members]
    return pack(child.shape, names, [name for name, _ in fields], context.extents)


def _with_number(
    gateway: Gateway,
    child: Traced,
    packed: Sequence[PackedSlot],
    values: Sequence[tuple[str, Any]],
) -> tuple[Traced, Any]:
    """The members with their number; in a projection, which Spark compiles, unlike lists."""
    aliases = [gateway.alias(value, gateway.fresh("v")) for _, value in values]
    texts = {name: f"`{a.name()}`" for (name, _), a in zip(values, aliases, strict=True)}
    name = gateway.fresh("n")
    plan = gateway.widened(child.plan, aliases)
    plan = gateway.resolved_project(child.plan.output(), plan, [(name, packed_sql(packed, texts))])
    return child.over(plan), gateway.attribute(plan, name)


def find_collections(context: Context, operator: ops.Aggregate, node: Plan) -> list[Collection]:
    """The columns that collect their members' values."""
    gateway = context.gateway
    made = {call.column for call in operator.aggregates}
    found = []
    for position, column in enumerate(operator.output):
        if column.number not in made:
            continue
        expression = node.aggregateExpressions().apply(position)
        call = expression.child() if gateway.kind(expression) == "Alias" else expression
        if gateway.kind(call) != "AggregateExpression" or call.isDistinct():
            continue
        function = call.aggregateFunction()
        kind = gateway.kind(function)
        if kind in ops.COLLECTING:
            when = call.filter().get() if call.filter().isDefined() else None
            value = gateway.items(function.children())[0]
            found.append(Collection(column.number, value, when, kind == "CollectSet", call))
    return found


def _item_fields(
    gateway: Gateway, collections: Sequence[Collection], members: Sequence[tuple[str, Any]]
) -> list[tuple[str, Any]]:
    """What a member keeps to tell which item it gave: whether there is one, or a set's value."""
    fields = []
    # Spark leaves nulls out of lists: a member that is a bare null would not be counted.
    may_vanish = len(members) == 1 and members[0][1].nullable()
    for number, collection in enumerate(collections):
        always = not collection.value.nullable() and collection.when is None
        if collection.of_set:
            fields.append((f"s{number}", collection.value))
        elif not always or may_vanish:
            tests = [gateway.not_null(collection.value)]
            tests += [] if collection.when is None else [gateway.default_false(collection.when)]
            fields.append((f"n{number}", gateway.conjunction(tests)))
    return fields


def _with_fields(
    collections: Sequence[Collection], fields: Sequence[tuple[str, Any]]
) -> list[tuple[Collection, tuple[str, Any]]]:
    named = dict(fields)
    return [
        (collection, (name, named[name]))
        for number, collection in enumerate(collections)
        for name in (f"s{number}", f"n{number}")
        if name in named
    ]


def _collected(
    collections: Sequence[Collection], fields: Sequence[tuple[str, Any]]
) -> tuple[Collected, ...]:
    own = {c.column: name for c, (name, _) in _with_fields(collections, fields)}
    return tuple(Collected(c.column, own.get(c.column), c.of_set) for c in collections)


def _set_items(
    gateway: Gateway,
    plan: Plan,
    name: str,
    sets: Sequence[tuple[str, Any]],
) -> Plan:
    """The listed members with the position of their value in each set, instead of the value."""
    results = {field: str(result.name()) for field, result in sets}
    struct = gateway.attribute(plan, name).dataType().elementType()
    fields = []
    for field in struct.fieldNames():
        value = f"m.`{field}`"
        if field in results:
            value = f"CAST(array_position(`{results[field]}`, {value}) - 1 AS INT)"
        fields.append(f"'{field}', {value}")
    text = f"transform(`{name}`, m -> named_struct({', '.join(fields)}))"
    internal = {name, *results.values()}
    kept = [a for a in gateway.output(plan) if a.name() not in internal]
    return gateway.resolved_project(kept, plan, [(name, text)])


def collect(gateway: Gateway, members: Sequence[tuple[str, Any]], flags: Sequence[Flag]) -> Any:
    """`collect_list` of the members' slots, and of what decides their flags.

    A single slot is collected bare: a null in it is a member without provenance.
    """
    fields = list(members)
    for flag in flags:
        fields += [(f"{flag.name}v{i}", match.member) for i, match in enumerate(flag.matches)]
        if flag.when is not None:
            fields.append((f"{flag.name}w", flag.when))
    value = fields[0][1] if len(fields) == 1 else gateway.struct(fields)
    return gateway.collect_list(value)


def find_flags(gateway: Gateway, operator: ops.Aggregate, node: Plan) -> list[Flag]:
    """The flags of an aggregate's members; none if every member contributes.

    Members contribute where a chosen value is theirs or where a FILTER clause lets them through.
    One plain aggregate (a sum over all rows, say) makes every member contribute.
    """
    if not operator.aggregates or any(
        a.function not in CHOOSING and a.function != PIVOT and a.filter is None
        for a in operator.aggregates
    ):
        return []
    found = gateway.aggregate_expressions(node)
    flags = [
        replace(_flag(gateway, e, f"f{i}"), columns=_columns(gateway, operator, node, e))
        for i, e in enumerate(found)
    ]
    return _same_row(flags, gateway, found)


def _columns(
    gateway: Gateway, operator: ops.Aggregate, node: Plan, expression: Expression
) -> tuple[int, ...]:
    """The columns that are made with one aggregate only, the given one."""
    found = []
    for column, made in zip(
        operator.output, gateway.items(node.aggregateExpressions()), strict=True
    ):
        own = gateway.aggregates_in([made])
        if len(own) == 1 and own[0].semanticEquals(expression):
            found.append(column.number)
    return tuple(found)


def _flag(gateway: Gateway, expression: Expression, name: str) -> Flag:
    function = expression.aggregateFunction()
    condition = expression.filter()
    when = condition.get() if condition.isDefined() else None
    kind = gateway.kind(function)
    if kind == PIVOT:
        return Flag(name, (), gateway.listed(function.pivotColumn(), function.pivotColumnValues()))
    if kind not in CHOOSING:
        return Flag(name, (), when)
    values = gateway.items(function.children())
    if kind in ("MinBy", "MaxBy"):
        extreme = gateway.extreme(kind[:3], values[1], when)
        matches = (Match(values[0], expression, nulls=True), Match(values[1], extreme))
        return Flag(name, matches, when)
    nulls = kind in ("First", "Last") and not function.ignoreNulls()
    return Flag(name, (Match(values[0], expression, nulls),), when)


def _same_row(flags: list[Flag], gateway: Gateway, found: list[Expression]) -> list[Flag]:
    """`first` of several columns takes them from one row, so their flags are one."""
    firsts = [
        flag
        for flag, expression in zip(flags, found, strict=True)
        if flag.when is None and _takes_first(gateway, expression)
    ]
    if len(firsts) < 2:
        return flags
    merged = Flag(
        firsts[0].name,
        tuple(m for f in firsts for m in f.matches),
        None,
        tuple(column for f in firsts for column in f.columns),
    )
    return [merged, *(f for f in flags if f not in firsts)]


def _takes_first(gateway: Gateway, expression: Expression) -> bool:
    function = expression.aggregateFunction()
    return gateway.kind(function) == "First" and not function.ignoreNulls()


def _test(match: Match, member: str, result: str) -> str:
    """SQL that tells whether a member's value is the group's."""
    if not match.comparable:
        member, result = (f"to_json(named_struct('v', {v}))" for v in (member, result))
    return f"{member} {'<=>' if match.nulls else '='} {result}"


def _decided(
    context: Context,
    plan: Plan,
    slot: Any,
    results: Sequence[Any],
    flags: Sequence[Flag],
    members: Sequence[str],
    shape: Members,
) -> Traced:
    """The listed members with their flags decided by the group's results.

    Where no member is let through by any flag the group still exists because of its members, so
    all of them contribute.
    """
    gateway = context.gateway
    name = str(slot.name())
    fields = [f"'{member}', m.`{member}`" for member in members]
    position = 0
    for flag in flags:
        tests = [f"m.`{flag.name}w`"] if flag.when is not None else []
        for i, match in enumerate(flag.matches):
            tests.append(_test(match, f"m.`{flag.name}v{i}`", f"`{results[position].name()}`"))
            position += 1
        fields.append(f"'{flag.name}', coalesce({' AND '.join(tests)}, false)")
    decided = f"transform(`{name}`, m -> named_struct({', '.join(fields)}))"
    any_flag = " OR ".join(f"m.{flag.name}" for flag in flags)
    all_true = ", ".join(
        [f"'{member}', m.`{member}`" for member in members]
        + [f"'{flag.name}', true" for flag in flags]
    )
    internal = {name, *(str(r.name()) for r in results)}
    kept = [a for a in gateway.output(plan) if a.name() not in internal]
    first = gateway.resolved_project(kept, plan, [(name, decided)])
    text = (
        f"CASE WHEN exists(`{name}`, m -> {any_flag}) THEN `{name}` "
        f"ELSE transform(`{name}`, m -> named_struct({all_true})) END"
    )
    final = gateway.resolved_project(kept, first, [(name, text)])
    return Traced(final, {name: gateway.attribute(final, name)}, shape)
