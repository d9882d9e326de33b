"""What instrumentation passes from operator to operator: a plan, its slots and their shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from whence.algebra.packing import Extent
from whence.algebra.witness import Group, Witness, product, slots
from whence.plan import Operator
from whence.spark.gateway import Gateway, Plan

Policy = Literal["list", "key"]


@dataclass(frozen=True, slots=True)
class Traced:
    """A plan that gives the rows of an operator, and beside them the slots of their witness.

    `slots` maps a slot's name to its attribute.
    """

    plan: Plan
    slots: Mapping[str, Any]
    shape: Witness

    def over(self, plan: Plan) -> Traced:
        """The same witness over another plan that still gives the slots."""
        return replace(self, plan=plan)


@dataclass(slots=True)
class Context:
    """What instrumentation of one step needs to know.

    `policy` says what becomes of groups: `list` lists their members where that copies nothing, and
    `key` refers to them by key. `leaves` has the traced leaf of each source, by operator id, and
    `rows` how many rows it has, if that is known.
    `extents` says how large the locators of each source get, where members may be packed by it;
    `groups` collects the operators whose groups are referred to by key, `scopes` the slots that
    tell the rows of each operator apart.
    """

    gateway: Gateway
    policy: Policy
    leaves: Mapping[str, Traced]
    rows: Mapping[str, int | None] = field(default_factory=dict)
    extents: Mapping[str, Extent] = field(default_factory=dict)
    groups: dict[str, Operator] = field(default_factory=dict)
    scopes: dict[str, tuple[str, ...]] = field(default_factory=dict)


def with_slot(context: Context, traced: Traced, name: str, value: Any, part: Witness) -> Traced:
    """`traced` with one more slot, whose value is an expression over the traced plan."""
    gateway = context.gateway
    alias = gateway.alias(value, name)
    plan = gateway.widened(traced.plan, [alias])
    shape = product(traced.shape, part)
    return Traced(plan, {**traced.slots, name: alias.toAttribute()}, shape)


def group_slot(
    context: Context,
    traced: Traced,
    operator: Operator,
    keys: list[Any],
    group: str | None = None,
    columns: tuple[int, ...] = (),
) -> Traced:
    """`traced` joined to a group of `operator`, referred to by the values of `keys`."""
    gateway = context.gateway
    name = gateway.fresh("g")
    values = keys or [gateway.literal(True)]
    value = gateway.struct(list(zip(key_names(len(keys)), values, strict=True)))
    group_id = group or operator.id
    context.groups[group_id] = operator
    return with_slot(context, traced, name, value, Group(name, group_id, columns))


def key_names(count: int) -> tuple[str, ...]:
    """The names of the fields of a group's key; a group without keys has one constant field.

    >>> key_names(0), key_names(2)
    (('k0',), ('k0', 'k1'))
    """
    return tuple(f"k{i}" for i in range(max(count, 1)))


def own_slots(traced: Traced) -> list[tuple[str, Any]]:
    """The slots that the shape reads, with their attributes."""
    return [(name, traced.slots[name]) for name in slots(traced.shape)]
