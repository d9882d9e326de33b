"""Members of groups that are referred to by key: their rows, with the key beside each.

Every operator that refers to groups has a way to find their members again: the rows of its input
with the same grouping keys, the same partition, or that a semi join's condition matches. The answer
is flat, one row per member, whatever the size of a group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from whence import plan as ops
from whence.algebra.witness import RANK, GroupShape, Members, Taken, Test, between, order_name
from whence.errors import UnsupportedError
from whence.plan import Operator
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument import Context, Traced, instrument
from whence.spark.instrument.groups import find_flags, grouping, listed
from whence.spark.instrument.joins import bound_expressions, split_condition
from whence.spark.instrument.keys import comparable, is_merged
from whence.spark.instrument.traced import key_names, own_slots
from whence.spark.instrument.windows import Taking, find_taking, rank_column
from whence.spark.literals import NULL

ROOT = "root"
_UNORDERED = {"variant", "interval"}
LIMITED_ROOT = "root/limited"


class Bounds:
    """The groups that are asked for.

    `plan` gives one row per group with the key's `width` fields k0, k1, ... `literals` holds the
    same keys as SQL literals if they are few and of simple types, so that Spark can push them down.
    """

    def __init__(
        self,
        width: int,
        make: Callable[[], Plan],
        literals: Sequence[Sequence[str]] | None = None,
    ) -> None:
        self.width = width
        self.literals = literals
        self._make = make

    @cached_property
    def plan(self) -> Plan:
        """One row per group; literals often do without it, so it is made when it is asked for."""
        return self._make()

    def first(self, gateway: Gateway, width: int) -> Bounds:
        """The groups asked for, told by the first fields of their keys alone."""
        if width in (0, self.width):
            return self
        literals = self.literals
        if literals is not None:
            literals = list(dict.fromkeys(tuple(row[:width]) for row in literals))

        def narrow() -> Plan:
            keys = gateway.output(self.plan)[:width]
            return gateway.distinct(gateway.project(keys, self.plan))

        return Bounds(width, narrow, literals)


def find_members(
    context: Context, operator: Operator, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """The members of the groups asked for (all, without bounds) and what they look like.

    `node` is the operator's node, or the subquery's or pipeline's plan for a scalar or root group.
    """
    plan, shape = _find(context, operator, node, group, bounds)
    return plan, replace(shape, scopes=dict(context.scopes))


def _find(
    context: Context, operator: Operator, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    if group in (ROOT, LIMITED_ROOT):
        return _root(context, operator, node, group, bounds)
    if group.endswith("/scalar"):
        return _scalar(context, operator, node, group)
    match operator:
        case ops.Aggregate():
            return _aggregate(context, operator, node, group, bounds)
        case ops.Join():
            return _semi_join(context, operator, node, group, bounds)
        case ops.Window():
            return _window(context, operator, node, group, bounds)
        case ops.Except() | ops.Intersect():
            side = 0 if group.endswith("/left") else 1
            child = instrument(context, operator.children[side], node.children().apply(side))
            own = context.gateway.output(node.children().apply(side))
            keys = comparable(context.gateway, child.plan, own)
            return _by_values(context, child, keys, group, bounds)
        case _:
            raise UnsupportedError(f"internal: {operator.id} has no groups")


def _root(
    context: Context, operator: Operator, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """Rows of the whole result, told by their values; `kid` is the number of the row asked for.

    Rows that are known to be in the result are traced without the limits and sorts on top of it,
    unless equal rows are beyond the limit.
    """
    gateway = context.gateway
    columns = gateway.output(node)
    on_top = ops.Sort | ops.Limit | ops.Offset | ops.View | ops.Hint
    while group == ROOT and isinstance(operator, on_top):
        operator, node = operator.children[0], node.child()
    traced = instrument(context, operator, node)
    if bounds is None:
        return _by_values(context, traced, columns, group, None)
    kid, *wanted = gateway.output(bounds.plan)
    plan = traced.plan
    if bounds.literals is not None:
        plan = _matching(gateway, plan, columns, [row[1:] for row in bounds.literals])
    collects = any(isinstance(op, ops.Aggregate) and op.collects for op in ops.walk(operator))
    plan, left = _comparable(gateway, plan, columns, columns, collects)
    asked, right = _comparable(gateway, bounds.plan, wanted, columns, collects)
    tests = [_same(gateway, c, w) for c, w in zip(left, right, strict=True) if not _is_void(c)]
    joined = gateway.join(plan, asked, "inner", gateway.conjunction(tests))
    lists = {i: (w, columns[i]) for i, w in enumerate(wanted) if collects and _is_list(columns[i])}
    joined, orders = _orders(gateway, joined, lists)
    flat, shape = _flat(gateway, joined, [kid], traced, group, orders)
    return flat, replace(shape, orders=tuple(lists))


def _orders(
    gateway: Gateway, plan: Plan, lists: Mapping[int, tuple[Any, Any]]
) -> tuple[Plan, list[Any]]:
    """Where the items of stored lists are in the lists that came out again; null if in place.

    The first of several equal items is the first of them again, and so on.
    """
    output = gateway.output(plan)
    aliases, texts = [], []
    for i, (stored, again) in lists.items():
        old = gateway.alias(gateway.as_type(stored, again.dataType()), gateway.fresh("c"))
        new = gateway.alias(again, gateway.fresh("c"))
        aliases += [old, new]
        texts.append((order_name(i), _order(str(old.name()), str(new.name()))))
    if not lists:
        return plan, []
    named = gateway.project([*output, *aliases], plan)
    wide = gateway.resolved_project(output, named, texts)
    return wide, [gateway.attribute(wide, name) for name, _ in texts]


def _order(stored: str, again: str) -> str:
    """SQL for the places of equal items in two lists of the same items."""
    sides = [
        f"sort_array(transform(`{name}`, (v, p) -> named_struct('v', v, 'p', p)))"
        for name in (stored, again)
    ]
    pair = "(s, a) -> named_struct('stored', s.p, 'again', a.p)"
    return f"CASE WHEN NOT `{stored}` <=> `{again}` THEN zip_with({', '.join(sides)}, {pair}) END"


def _is_list(value: Any) -> bool:
    """Whether a value is a list of items that can be sorted."""
    kind = str(value.dataType().catalogString())
    unsorted = {"map", "void", *_UNORDERED} & set(re.split(r"\W", kind))
    return kind.startswith("array<") and not unsorted


def _comparable(
    gateway: Gateway, plan: Plan, columns: Sequence[Any], like: Sequence[Any], collects: bool
) -> tuple[Plan, list[Any]]:
    """The plan with columns that SQL cannot compare (maps, nulls in lists) also as JSON text.

    Where lists are collected, which may come out in another order, they are sorted first.
    """
    kinds = [str(c.dataType().catalogString()) for c in like]
    forms = {}
    for i, kind in enumerate(kinds):
        if kind != "void" and ("map<" in kind or "void" in kind):
            forms[i] = "to_json(struct(`{}` AS v))"
        elif collects and _is_list(like[i]):
            forms[i] = "sort_array(`{}`)"
    if not forms:
        return plan, list(columns)
    output = gateway.output(plan)
    aliases = {i: gateway.alias(columns[i], gateway.fresh("c")) for i in forms}
    named = gateway.project([*output, *aliases.values()], plan)
    texts = {i: (gateway.fresh("j"), forms[i].format(alias.name())) for i, alias in aliases.items()}
    wide = gateway.resolved_project(output, named, list(texts.values()))
    found = {i: gateway.attribute(wide, name) for i, (name, _) in texts.items()}
    return wide, [found.get(i, column) for i, column in enumerate(columns)]


def _same(gateway: Gateway, value: Any, wanted: Any) -> Any:
    """Equality that lets floating-point sums differ in the order of their additions."""
    if _is_float(value):
        return gateway.close_to(value, wanted)
    if str(value.dataType().catalogString()) == "interval":
        value = gateway.cast(value, "string")
    return gateway.null_safe_equal(value, gateway.as_type(wanted, value.dataType()))


def _is_void(value: Any) -> bool:
    return str(value.dataType().catalogString()) == "void"


def _is_float(value: Any) -> bool:
    return str(value.dataType().catalogString()) in ("float", "double")


def _has_literals(value: Any) -> bool:
    """Whether values of this type have literals that equal them in SQL."""
    kind = str(value.dataType().catalogString())
    plain = not any(word in kind for word in ("map<", "void", "interval"))
    return plain and not _is_float(value)


def _scalar(
    context: Context, operator: Operator, node: Plan, group: str
) -> tuple[Plan, GroupShape]:
    """The rows behind a scalar subquery; those of a plain global aggregate are not even listed."""
    gateway = context.gateway
    while isinstance(operator, ops.Project | ops.View) and not operator.subqueries:
        operator, node = operator.children[0], node.child()
    if isinstance(operator, ops.Aggregate) and not operator.keys and not operator.subqueries:
        return _aggregate(context, operator, node, group, None)
    traced = instrument(context, operator, node)
    key = gateway.alias(gateway.literal(True), "k0")
    return _flat(gateway, traced.plan, [key], traced, group)


def _aggregate(
    context: Context, operator: ops.Aggregate, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    gateway = context.gateway
    child = instrument(context, operator.children[0], node.child())
    keys = grouping(gateway, node)
    merged = any(map(is_merged, keys))  # only grouping tells which rows belong together
    if not merged:
        keys = comparable(gateway, child.plan, keys)
    if not merged and not find_flags(gateway, operator, node):
        return _by_values(context, child, keys, group, bounds)
    rows = child.plan if merged else _restrict(gateway, child.plan, keys, bounds)
    restricted = child.over(rows)
    named = _named(gateway, keys)
    traced = listed(context, operator, node, named, restricted)
    keyed = [key.toAttribute() for key in named]
    if not isinstance(traced.shape, Members):
        return _flat(gateway, traced.plan, keyed, traced, group)
    return _exploded(gateway, traced, keyed, traced.shape, group)


def _exploded(
    gateway: Gateway, traced: Traced, keys: list[Any], shape: Members, group: str
) -> tuple[Plan, GroupShape]:
    """A listed group as one row per member."""
    item = gateway.fresh("i")
    plan = gateway.resolved_project(keys, traced.plan, [(item, f"explode(`{shape.slot}`)")])
    names = [str(key.name()) for key in keys]
    kept = [gateway.attribute(plan, name) for name in names]
    if shape.is_bare:
        texts = [(shape.bare_slot, f"`{item}`")]
    else:
        inner = [n for n, _ in _element_fields(gateway, plan, item)]
        texts = [(name, f"`{item}`.`{name}`") for name in inner]
    plan = gateway.resolved_project(kept, plan, texts)
    return plan, GroupShape(group, tuple(names), shape.element, shape.flags, chosen=shape.chosen)


def _element_fields(gateway: Gateway, plan: Plan, item: str) -> list[tuple[str, Any]]:
    struct = gateway.attribute(plan, item).dataType()
    return [(str(f.name()), f.dataType()) for f in struct.fields()]


def _by_values(
    context: Context, child: Traced, keys: Sequence[Any], group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """Rows told by the values of some expressions over them."""
    gateway = context.gateway
    plan = _restrict(gateway, child.plan, keys, bounds)
    return _flat(gateway, plan, _named(gateway, keys), child, group)


def _named(gateway: Gateway, keys: Sequence[Any]) -> list[Any]:
    values = list(keys) or [gateway.literal(True)]
    return [gateway.alias(v, n) for v, n in zip(values, key_names(len(keys)), strict=True)]


def _flat(
    gateway: Gateway,
    plan: Plan,
    keys: Sequence[Any],
    traced: Traced,
    group: str,
    extra: Sequence[Any] = (),
    tests: tuple[Test, ...] = (),
) -> tuple[Plan, GroupShape]:
    slots = [attribute for _, attribute in own_slots(traced)]
    names = tuple(str(key.name()) for key in keys)
    flat = gateway.project([*keys, *slots, *extra], plan)
    return flat, GroupShape(group, names, traced.shape, (), tests)


def _restrict(gateway: Gateway, plan: Plan, keys: Sequence[Any], bounds: Bounds | None) -> Plan:
    """The rows of a plan whose key is among those asked for."""
    if bounds is None or not keys:
        return plan
    if bounds.literals is not None:
        plan = _matching(gateway, plan, keys, bounds.literals)
        if len(keys) == 1 or len(bounds.literals) < 2:
            return plan
    wanted = gateway.output(bounds.plan)[: len(keys)]
    pairs = zip(keys, wanted, strict=True)
    condition = gateway.conjunction(
        [gateway.null_safe_equal(k, gateway.as_type(w, k.dataType())) for k, w in pairs]
    )
    return gateway.join(plan, bounds.plan, "leftsemi", condition)


def _matching(
    gateway: Gateway, plan: Plan, keys: Sequence[Any], rows: Sequence[Sequence[str]]
) -> Plan:
    """The rows of a plan whose key's fields are among some literals: Spark can push that down."""
    columns = gateway.output(plan)
    names = [gateway.fresh("k") for _ in keys]
    aliases = [gateway.alias(k, n) for k, n in zip(keys, names, strict=True)]
    wide = gateway.project([*columns, *aliases], plan)
    wide.setAnalyzed()
    pairs = enumerate(zip(keys, names, strict=True))
    exact = [(i, n) for i, (k, n) in pairs if _has_literals(k)]
    text = _are_among([n for _, n in exact], [[row[i] for i, _ in exact] for row in rows])
    filtered = gateway.resolve(gateway.filter(gateway.parse(text), wide))
    return gateway.project(columns, filtered)


def _are_among(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """SQL that is true if each column holds one of its values in some rows of literals.

    Column by column: Spark makes hash sets of lists and pushes them into scans. Which values
    belong together is for a join to tell.
    """
    if not rows:
        return "false"
    tests: list[str] = []
    for name, values in zip(names, zip(*rows, strict=True), strict=True):
        present = dict.fromkeys(v for v in values if v != NULL)
        parts = [f"`{name}` IN ({', '.join(present)})"] if present else []
        tests.append(" OR ".join([*parts, f"`{name}` IS NULL"] if NULL in values else parts))
    return " AND ".join(f"({test})" for test in tests) or "true"


def _semi_join(
    context: Context, operator: ops.Join, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """The right rows that a semi join's condition matches.

    Rows that share the values which the condition equates are one group: what else it compares is
    kept beside each member. A condition of another form has a group for each of the left values
    that it looks at.
    """
    gateway = context.gateway
    right = instrument(context, operator.children[1], node.right(), copied=True)
    condition = split_condition(gateway, node)
    if condition is None:
        return _matched(context, node, right, group, bounds)
    equal = [c for c in condition.compared if c.comparison == "="]
    others = condition.compared[len(equal) :]
    needed = [gateway.not_null(c.right) for c in equal if not c.nulls]
    plan = right.plan
    if condition.right or needed:
        plan = gateway.filter(gateway.conjunction([*condition.right, *needed]), plan)
    keys = [c.right for c in equal]
    plan = _restrict(gateway, plan, keys, bounds and bounds.first(gateway, len(keys)))
    values = [gateway.alias(c.right, f"c{i}") for i, c in enumerate(others)]
    tests = [Test(f"k{len(equal) + i}", c.comparison, f"c{i}") for i, c in enumerate(others)]
    named = _named(gateway, keys) if equal or not others else []
    return _flat(gateway, plan, named, right, group, values, tuple(tests))


def _matched(
    context: Context, node: Plan, right: Traced, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """The right rows that the condition matches with the left values of each key."""
    gateway = context.gateway
    expressions = bound_expressions(gateway, node)
    if bounds is None:
        named = _named(gateway, expressions)
        plan = gateway.distinct(gateway.project(named, node.left()))
    else:
        plan = bounds.plan
    keys = gateway.output(plan)
    condition = node.condition()
    on = None
    if condition.isDefined():
        typed = [
            (e, gateway.as_type(k, e.dataType())) for e, k in zip(expressions, keys, strict=False)
        ]
        on = gateway.replace_in(condition.get(), typed)
    source = right.plan
    if bounds is not None and bounds.literals is not None:
        for position, expression in _equated(gateway, node, expressions):
            column = [[row[position]] for row in bounds.literals]
            source = _matching(gateway, source, [expression], column)
    joined = gateway.join(plan, source, "inner", on)
    return _flat(gateway, joined, keys, right, group)


def _equated(gateway: Gateway, node: Plan, bound: Sequence[Any]) -> list[tuple[int, Any]]:
    """Right expressions that the condition equates with a bound one, by its position."""
    right = {a.exprId().id() for a in gateway.output(node.right())}
    found: list[tuple[int, Any]] = []
    condition = node.condition()
    pending = [condition.get()] if condition.isDefined() else []
    while pending:
        expression = pending.pop()
        kind = gateway.kind(expression)
        if kind == "And":
            pending.extend(gateway.items(expression.children()))
        elif kind in ("EqualTo", "EqualNullSafe"):
            sides = gateway.items(expression.children())
            for one, other in (sides, sides[::-1]):
                ids = gateway.referenced_ids(other)
                position = next((i for i, b in enumerate(bound) if one.semanticEquals(b)), None)
                if position is not None and ids and ids <= right and _has_literals(other):
                    found.append((position, other))
    return found


def _window(
    context: Context, operator: ops.Window, node: Plan, group: str, bounds: Bounds | None
) -> tuple[Plan, GroupShape]:
    """The rows of each partition with their ranks, and with what tells whose value was taken."""
    gateway = context.gateway
    child = instrument(context, operator.children[0], node.child())
    own = gateway.items(node.partitionSpec())
    partition = comparable(gateway, child.plan, own)
    plan = _restrict(
        gateway, child.plan, partition, bounds and bounds.first(gateway, len(partition))
    )
    order = gateway.items(node.orderSpec())
    if order:
        column = rank_column(gateway, node)
        plan = gateway.window([column], own, order, plan)
        rank = gateway.alias(column.toAttribute(), RANK)
    else:
        rank = gateway.alias(gateway.literal(1), RANK)
    keys = _named(gateway, partition)[: len(partition)]
    tests = between(f"k{len(partition)}", f"k{len(partition) + 1}")
    values, taken = _taken(
        gateway, find_taking(gateway, operator, node), len(partition) + len(tests)
    )
    flat, shape = _flat(gateway, plan, keys, child, group, [rank, *values], tests)
    return flat, replace(shape, taken=taken)


def _taken(
    gateway: Gateway, calls: Sequence[Taking], before: int
) -> tuple[list[Any], tuple[Taken, ...]]:
    """What members have of the calls' values, and how it is compared with the key's fields.

    `before` are the fields of the key that come before those of the calls.
    """
    values, taken = [], []
    for call in calls:
        key = field = when = None
        if call.value is not None:
            key, field = f"k{before}", f"v{call.column}"
            values.append(gateway.alias(call.value, field))
            before += 1
        if call.when is not None:
            when = f"w{call.column}"
            values.append(gateway.alias(gateway.default_false(call.when), when))
        taken.append(Taken(call.column, key, field, call.nulls, when))
    return values, tuple(taken)
