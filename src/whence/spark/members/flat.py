"""Groups that are asked for, the rows with their keys, and these rows as they are stored: flat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from whence import plan as ops
from whence.algebra.witness import GroupShape, Test
from whence.plan import Operator
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument import Context, Traced
from whence.spark.instrument.traced import key_names, own_slots
from whence.spark.literals import NULL


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


def by_values(
    context: Context,
    operator: Operator,
    child: Traced,
    keys: Sequence[Any],
    group: str,
    bounds: Bounds | None,
) -> tuple[Plan, GroupShape]:
    """Rows of an operator, told by the values of some expressions over them."""
    gateway = context.gateway
    plan = restrict(gateway, operator, child.plan, keys, bounds)
    return flat(gateway, plan, named_keys(gateway, keys), child, group)


def named_keys(gateway: Gateway, keys: Sequence[Any]) -> list[Any]:
    """The fields of a key, named k0, k1, ...; one that is always true where there is none."""
    values = list(keys) or [gateway.literal(True)]
    return [gateway.alias(v, n) for v, n in zip(values, key_names(len(keys)), strict=True)]


def flat(
    gateway: Gateway,
    plan: Plan,
    keys: Sequence[Any],
    traced: Traced,
    group: str,
    extra: Sequence[Any] = (),
    tests: tuple[Test, ...] = (),
) -> tuple[Plan, GroupShape]:
    """One row per member: the key's fields, the slots, and what else members have."""
    slots = [attribute for _, attribute in own_slots(traced)]
    names = tuple(str(key.name()) for key in keys)
    members = gateway.project([*keys, *slots, *extra], plan)
    return members, GroupShape(group, names, traced.shape, (), tests)


def restrict(
    gateway: Gateway, operator: Operator, plan: Plan, keys: Sequence[Any], bounds: Bounds | None
) -> Plan:
    """The rows of a plan, which an operator makes, whose key is among those asked for."""
    if bounds is None or not keys:
        return plan
    plan = apart(gateway, operator, plan)
    if bounds.literals is not None:
        plan = matching(gateway, plan, keys, bounds.literals)
        if len(keys) == 1 or len(bounds.literals) < 2:
            return plan
    wanted = gateway.output(bounds.plan)[: len(keys)]
    pairs = zip(keys, wanted, strict=True)
    condition = gateway.conjunction(
        [gateway.null_safe_equal(k, gateway.as_type(w, k.dataType())) for k, w in pairs]
    )
    return gateway.join(plan, bounds.plan, "leftsemi", condition)


def apart(gateway: Gateway, operator: Operator, plan: Plan) -> Plan:
    """The plan of an operator as what filters stay on top of, if there are session windows in it.

    Spark moves a filter on the start or the end of sessions below their aggregate, where it drops
    rows before it is known how far a session goes.
    """
    if not any(isinstance(op, ops.Aggregate) and op.merges for op in ops.walk(operator)):
        return plan
    return gateway.resolve(gateway.filter(gateway.parse("spark_partition_id() >= 0"), plan))


def matching(
    gateway: Gateway, plan: Plan, keys: Sequence[Any], rows: Sequence[Sequence[str]]
) -> Plan:
    """The rows of a plan whose key's fields are among some literals: Spark can push that down."""
    columns = gateway.output(plan)
    names = [gateway.fresh("k") for _ in keys]
    aliases = [gateway.alias(k, n) for k, n in zip(keys, names, strict=True)]
    wide = gateway.project([*columns, *aliases], plan)
    wide.setAnalyzed()
    pairs = enumerate(zip(keys, names, strict=True))
    exact = [(i, n) for i, (k, n) in pairs if has_literals(k)]
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


def has_literals(value: Any) -> bool:
    """Whether values of this type have literals that equal them in SQL."""
    kind = str(value.dataType().catalogString())
    plain = not any(word in kind for word in ("map<", "void", "interval"))
    return plain and not is_float(value)


def is_float(value: Any) -> bool:
    """Whether values are told apart only up to the order of their additions."""
    return str(value.dataType().catalogString()) in ("float", "double")
