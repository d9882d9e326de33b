"""Witness shapes: how the columns beside an output row say which input rows made it.

A witness is kept flat: each locator, tag, list or group key stands in a *slot*, a column of its
own, and the *shape* says how the slots belong together. The shape follows the plan and is the
same for every row, so it is stored once per step; only slots are stored per row.

    Nothing            0: no input row (a literal row, an empty group)
    Row(slot)          a source row; the slot holds its locator, null for a null-extended side
    Product(parts)     joint use: a · b
    Choice(slot, …)    one of several branches of a union; the slot holds the branch's number
    Members(slot, …)   accumulation: a list of members' slots, a + b + …
    Group(slot, …)     accumulation by reference: the slot holds the key of a group that is stored
                       elsewhere, or found again by filtering the operator's input
    Item(parent, slot) an unnested item: its parent and the position in it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, assert_never


@dataclass(frozen=True, slots=True)
class Nothing:
    """No input row."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the source that operator `source` reads; the slot holds its locator."""

    slot: str
    source: str


@dataclass(frozen=True, slots=True)
class Product:
    """All parts are used jointly."""

    parts: tuple[Witness, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One branch is used: the one whose number stands in the slot."""

    slot: str
    branches: tuple[Witness, ...]


@dataclass(frozen=True, slots=True)
class Collected:
    """A column that collects values of the members, in the order in which they are listed.

    `field` of a member says whether it gave an item to a list, or which item of a set is its
    value; without a field every member gave one item.
    """

    column: int
    field: str | None = None
    of_set: bool = False


@dataclass(frozen=True, slots=True)
class PackedSlot:
    """Where a slot lies in a member that is one number; of a locator, `rows` bits are the row's."""

    name: str
    kind: Literal["locator", "number", "flag"]
    low: int
    bits: int
    rows: int


@dataclass(frozen=True, slots=True)
class Members:
    """Every member of a listed group is used; members hold the slots of `element`.

    `flags` are boolean fields of a member: it contributes where one of them is true, and only
    influences otherwise. Without flags every member contributes. `chosen` pairs columns whose value
    is that of some members with the flag that tells which. With `packed` a member is one number,
    which has all of its slots in it (`whence.algebra.packing`).
    """

    slot: str
    operator: str
    element: Witness
    flags: tuple[str, ...] = ()
    collected: tuple[Collected, ...] = ()
    chosen: tuple[tuple[int, str], ...] = ()
    packed: tuple[PackedSlot, ...] = ()

    @property
    def is_bare(self) -> bool:
        """Whether the list holds a member's only slot as it is, not in a struct."""
        extra = self.flags or self.packed or any(c.field for c in self.collected)
        return not extra and len(slots(self.element)) == 1

    @property
    def bare_slot(self) -> str:
        """The only slot of a member that is bare."""
        return slots(self.element)[0]


@dataclass(frozen=True, slots=True)
class Group:
    """Members of a group that is referred to by its key; `operator` names whose group it is.

    `columns` are those whose values were made from these members alone, where others were not.
    """

    slot: str
    operator: str
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """An item of a collection in the parent row; the slot holds its position, if it is known."""

    parent: Witness
    slot: str | None
    operator: str


Witness = Nothing | Row | Product | Choice | Members | Group | Item


Comparison = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Test:
    """What a member must fulfil: a field of the key compared with a field of the member."""

    key: str
    comparison: Comparison
    field: str


@dataclass(frozen=True, slots=True)
class GroupShape:
    """What a group of an operator looks like: how its members are told, and a member's shape.

    Members have the group's `keys` as fields and fulfil its `tests`: that their rank lies in a
    window's frame, or that a semi join's condition holds for them.
    """

    operator: str
    keys: tuple[str, ...]
    element: Witness
    flags: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()
    scopes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """For each operator below, the slots of a member that tell its rows apart."""
    chosen: tuple[tuple[int, str], ...] = ()
    orders: tuple[int, ...] = ()
    """The columns of a result whose lists may be in another order than those that are stored."""
    taken: tuple[Taken, ...] = ()
    """The columns whose values are those of some members of a frame only."""

    @property
    def frame(self) -> tuple[str, str] | None:
        """The key's fields with the first and last rank of a window's frame, if it is one."""
        if len(self.tests) == 2 and self.tests == between(self.tests[0].key, self.tests[1].key):
            return self.tests[0].key, self.tests[1].key
        return None


@dataclass(frozen=True, slots=True)
class Taken:
    """How to tell whether a member's value was taken for a column, or passed over.

    Its `field` must equal the key's field `key` (two nulls are equal if `nulls`), and its field
    `when`, a FILTER clause, must hold; either may not be there.
    """

    column: int
    key: str | None = None
    field: str | None = None
    nulls: bool = False
    when: str | None = None


RANK = "rank"


def order_name(column: int) -> str:
    """The field that tells where a list's stored items are in the list that came out again."""
    return f"o{column}"


def between(low: str, high: str) -> tuple[Test, ...]:
    """A member's rank lies between two fields of the key."""
    return Test(low, "<=", RANK), Test(high, ">=", RANK)


def product(*parts: Witness) -> Witness:
    """Joint use, flattened: nothing is dropped but `Nothing`.

    >>> product(Nothing(), Row("w1", "source-1"))
    Row(slot='w1', source='source-1')
    """
    flat: list[Witness] = []
    for part in parts:
        match part:
            case Nothing():
                pass
            case Product(inner):
                flat.extend(inner)
            case _:
                flat.append(part)
    if not flat:
        return Nothing()
    return flat[0] if len(flat) == 1 else Product(tuple(flat))


def children(shape: Witness) -> tuple[Witness, ...]:
    """The shapes directly inside a shape."""
    match shape:
        case Nothing() | Row() | Group():
            return ()
        case Product(parts):
            return parts
        case Choice(_, branches):
            return branches
        case Members(element=element):
            return (element,)
        case Item(parent):
            return (parent,)
        case _:
            assert_never(shape)


def walk(shape: Witness) -> Iterator[Witness]:
    """The shape and all shapes inside it, outermost first."""
    yield shape
    for child in children(shape):
        yield from walk(child)


def slots(shape: Witness) -> tuple[str, ...]:
    """The slots that a shape reads at its own level, not those inside list members."""
    match shape:
        case Nothing():
            return ()
        case Row(slot) | Members(slot) | Group(slot):
            return (slot,)
        case Product(parts):
            return _distinct(s for part in parts for s in slots(part))
        case Choice(slot, branches):
            return _distinct([slot, *(s for branch in branches for s in slots(branch))])
        case Item(parent, slot):
            return _distinct([*slots(parent), *([slot] if slot else [])])
        case _:
            assert_never(shape)


def _distinct(names: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def rename(shape: Witness, names: Mapping[str, str]) -> Witness:
    """The shape with the slots of its own level called by other names.

    >>> rename(Row("w1", "source-1"), {"w1": "u1"})
    Row(slot='u1', source='source-1')
    """
    match shape:
        case Nothing():
            return shape
        case Row(slot) | Members(slot) | Group(slot):
            return replace(shape, slot=names.get(slot, slot))
        case Product(parts):
            return Product(tuple(rename(part, names) for part in parts))
        case Choice(slot, branches):
            renamed = tuple(rename(branch, names) for branch in branches)
            return Choice(names.get(slot, slot), renamed)
        case Item(parent, slot, operator):
            position = slot and names.get(slot, slot)
            return Item(rename(parent, names), position, operator)
        case _:
            assert_never(shape)


def to_json(shape: Witness) -> dict[str, Any]:
    """A shape as JSON data.

    >>> from_json(to_json(Row("w1", "source-1")))
    Row(slot='w1', source='source-1')
    """
    match shape:
        case Nothing():
            return {"kind": "nothing"}
        case Row(slot, source):
            return {"kind": "row", "slot": slot, "source": source}
        case Product(parts):
            return {"kind": "product", "parts": [to_json(part) for part in parts]}
        case Choice(slot, branches):
            return {"kind": "choice", "slot": slot, "branches": [to_json(b) for b in branches]}
        case Members(slot, operator, element, flags, collected, chosen, packed):
            return {
                "kind": "members",
                "slot": slot,
                "operator": operator,
                "element": to_json(element),
                "flags": list(flags),
                "collected": [[c.column, c.field, c.of_set] for c in collected],
                "chosen": [list(pair) for pair in chosen],
                "packed": [[p.name, p.kind, p.low, p.bits, p.rows] for p in packed],
            }
        case Group(slot, operator, columns):
            found = {"kind": "group", "slot": slot, "operator": operator}
            return {**found, "columns": list(columns)} if columns else found
        case Item(parent, slot, operator):
            return {"kind": "item", "slot": slot, "operator": operator, "parent": to_json(parent)}
        case _:
            assert_never(shape)


def from_json(data: Mapping[str, Any]) -> Witness:
    """The shape that `to_json` made."""
    match data["kind"]:
        case "nothing":
            return Nothing()
        case "row":
            return Row(data["slot"], data["source"])
        case "product":
            return Product(tuple(from_json(part) for part in data["parts"]))
        case "choice":
            return Choice(data["slot"], tuple(from_json(b) for b in data["branches"]))
        case "members":
            return Members(
                slot=data["slot"],
                operator=data["operator"],
                element=from_json(data["element"]),
                flags=tuple(data["flags"]),
                collected=tuple(Collected(*c) for c in data["collected"]),
                chosen=tuple((column, flag) for column, flag in data["chosen"]),
                packed=tuple(PackedSlot(*p) for p in data.get("packed", ())),
            )
        case "group":
            return Group(data["slot"], data["operator"], tuple(data.get("columns", ())))
        case "item":
            return Item(from_json(data["parent"]), data["slot"], data["operator"])
        case kind:
            raise ValueError(f"unknown witness kind {kind!r}")


def group_to_json(group: GroupShape) -> dict[str, Any]:
    """A group's shape as JSON data; of a result that came out again there is none."""
    return {
        "operator": group.operator,
        "keys": list(group.keys),
        "element": to_json(group.element),
        "flags": list(group.flags),
        "chosen": [list(pair) for pair in group.chosen],
        "tests": [[test.key, test.comparison, test.field] for test in group.tests],
        "scopes": {name: list(own) for name, own in group.scopes.items()},
        "taken": [[t.column, t.key, t.field, t.nulls, t.when] for t in group.taken],
    }


def group_from_json(data: Mapping[str, Any]) -> GroupShape:
    """The group shape that `group_to_json` made."""
    return GroupShape(
        operator=data["operator"],
        keys=tuple(data["keys"]),
        element=from_json(data["element"]),
        flags=tuple(data["flags"]),
        chosen=tuple((column, flag) for column, flag in data["chosen"]),
        tests=tuple(Test(*test) for test in data["tests"]),
        scopes={name: tuple(own) for name, own in data["scopes"].items()},
        taken=tuple(Taken(*taken) for taken in data.get("taken", ())),
    )
