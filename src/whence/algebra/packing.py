"""Members of a list as one number each: the slots of a member side by side in 63 bits.

A list of numbers takes Spark a fraction of the time that a list of structs does. How wide a slot
has to be is known of some (the branches of a union) and assumed of others: files of some ten
million rows, arrays of some ten thousand items. What does not fit is noticed when it is packed.

In its bits a slot is one more than its value, and 0 where it is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from whence.algebra.locators import ROW_BITS, ROW_MASK
from whence.algebra.witness import Choice, Item, Members, PackedSlot, Product, Row, Witness

_ROOM = 63  # so that no number is negative
_LEAST = {"locator": 25, "number": 14}
_MOST = {"locator": ROW_BITS, "number": 32}
OVERFLOW = "whence: a locator or a position does not fit into its bits"


@dataclass(frozen=True, slots=True)
class Extent:
    """How large the locators of a source get: bits of a file's number, rows of a file if known."""

    slot_bits: int
    rows: int | None = None


@dataclass(slots=True)
class _Width:
    """The bits that a slot needs, and the most that it can use; `above` are those of files."""

    kind: Literal["locator", "number", "flag"]
    least: int
    most: int
    above: int = 0

    def cover(self, other: _Width) -> _Width:
        """Wide enough for both."""
        return _Width(
            self.kind,
            max(self.least, other.least),
            max(self.most, other.most),
            max(self.above, other.above),
        )


def pack(
    element: Witness, names: Sequence[str], flags: Sequence[str], extents: Mapping[str, Extent]
) -> tuple[PackedSlot, ...]:
    """Where each slot and each flag of a member goes; nothing if they do not all fit.

    >>> pack(Product((Row("w1", "a"), Row("w2", "b"))), ["w1", "w2"], [], {"a": Extent(3)})
    ()
    """
    widths: dict[str, _Width] = {}
    for name, width in _widths(element, extents):
        widths[name] = width.cover(widths[name]) if name in widths else width
    if any(name not in widths for name in names):
        return ()
    chosen = [(name, widths[name]) for name in names]
    chosen += [(name, _Width("flag", 1, 1)) for name in flags]
    spare = _ROOM - sum(width.least + width.above for _, width in chosen)
    if spare < 0:
        return ()
    for number, (_, width) in enumerate(chosen):
        more = min(width.most - width.least, spare // (len(chosen) - number))
        width.least, spare = width.least + more, spare - more
    packed, low = [], 0
    # Locators come highest: those of a list mostly rise, and are stored as small differences.
    for name, width in sorted(chosen, key=lambda pair: pair[1].kind == "locator"):
        bits = width.least + width.above
        packed.append(PackedSlot(name, width.kind, low, bits, width.least))
        low += bits
    return tuple(packed)


def _widths(element: Witness, extents: Mapping[str, Extent]) -> Iterable[tuple[str, _Width]]:
    """The slots of an element that can be packed, each with its width."""
    match element:
        case Row(slot, source):
            found = extents.get(source, Extent(_ROOM))
            known = None if found.rows is None else (found.rows + 1).bit_length()
            least, most = known or _LEAST["locator"], known or _MOST["locator"]
            yield slot, _Width("locator", least, most, found.slot_bits)
        case Product(parts):
            for part in parts:
                yield from _widths(part, extents)
        case Choice(slot, branches):
            bits = len(branches).bit_length()
            yield slot, _Width("number", bits, bits)
            for branch in branches:
                yield from _widths(branch, extents)
        case Item(parent, slot):
            if slot is not None:
                yield slot, _Width("number", _LEAST["number"], _MOST["number"])
            yield from _widths(parent, extents)
        case _:
            pass


# --- SQL ------------------------------------------------------------------------------------


def packed_sql(fields: Sequence[PackedSlot], values: Mapping[str, str]) -> str:
    """Spark's SQL for a member's number, given SQL for its slots and flags."""
    parts, tests = [], []
    for field in fields:
        value = values[field.name]
        if field.kind == "flag":
            parts.append(f"shiftleft(CASE WHEN {value} THEN 1L ELSE 0L END, {field.low})")
            continue
        row, above = f"CAST({value} AS BIGINT)", ""
        if field.kind == "locator":
            row = f"({value} & {ROW_MASK}L)"
            above = f" + shiftleft(shiftright({value}, {ROW_BITS}), {field.rows})"
        parts.append(f"shiftleft(coalesce({row}{above} + 1L, 0L), {field.low})")
        tests.append(f"coalesce({row}, 0L) < {(1 << field.rows) - 1}L")
    listed = " | ".join(parts)
    if not tests:
        return listed
    return f"CASE WHEN {' AND '.join(tests)} THEN {listed} ELSE raise_error('{OVERFLOW}') END"


def member_sql(shape: Members, name: str, quote: Callable[[str], str], member: str = "m") -> str:
    """SQL, the same for DuckDB and Spark, for a slot or flag of a list's member."""
    if not shape.packed:
        return member if shape.is_bare else f"({member}).{quote(name)}"
    field = next(field for field in shape.packed if field.name == name)
    bits = f"(({member} >> {field.low}) & {(1 << field.bits) - 1})"
    match field.kind:
        case "flag":
            return f"({bits} = 1)"
        case "number":
            return f"CAST(nullif({bits}, 0) - 1 AS INT)"
        case "locator":
            value = f"({bits} - 1)"
            row = f"({value} & {(1 << field.rows) - 1})"
            found = f"(({value} >> {field.rows}) << {ROW_BITS}) + {row}"
            return f"CASE WHEN {bits} > 0 THEN {found} END"


def member_values(shape: Members, member: Any) -> Mapping[str, Any]:
    """The slots and flags of a list's member, by name."""
    if not shape.packed:
        return {shape.bare_slot: member} if shape.is_bare else member
    return {field.name: _value(field, member) for field in shape.packed}


def _value(field: PackedSlot, member: int) -> Any:
    bits = (member >> field.low) & ((1 << field.bits) - 1)
    if field.kind == "flag":
        return bits == 1
    if bits == 0:
        return None
    if field.kind == "number":
        return bits - 1
    above, row = divmod(bits - 1, 1 << field.rows)
    return (above << ROW_BITS) + row
