"""Provenance expressions: what a witness of one row says, as a polynomial over source rows.

Zero            no input
Atom            a row of a source
Times(parts)    joint use: a · b
Plus(parts)     alternatives or accumulation: a + b
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never


@dataclass(frozen=True, slots=True)
class Zero:
    """No input row."""


@dataclass(frozen=True, slots=True)
class Atom:
    """A row of a source, and where it was unnested from, the positions of its items."""

    source: str
    row: str
    positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Times:
    """All parts were used together."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Plus:
    """Any part, or each in turn; `more` further parts are not shown."""

    parts: tuple[Expression, ...]
    more: int = 0


Expression = Zero | Atom | Times | Plus


def times(parts: Iterable[Expression]) -> Expression:
    """Joint use; a part without provenance adds nothing."""
    kept = [part for part in parts if not isinstance(part, Zero)]
    flat: list[Expression] = []
    for part in kept:
        flat.extend(part.parts if isinstance(part, Times) else [part])
    if not flat:
        return Zero()
    return flat[0] if len(flat) == 1 else Times(tuple(flat))


def plus(parts: Iterable[Expression], more: int = 0) -> Expression:
    """Alternatives or accumulation; equal parts stand once."""
    kept: list[Expression] = list(
        dict.fromkeys(part for part in parts if not isinstance(part, Zero))
    )
    if not kept:
        return Zero()
    if len(kept) == 1 and not more:
        return kept[0]
    if more:
        return Plus(tuple(kept), more)
    return _factored(kept)


def _factored(parts: list[Expression]) -> Expression:
    """a·b + a·c as a·(b + c): what all parts share stands once."""
    factors: list[list[Expression]] = [
        list(part.parts) if isinstance(part, Times) else [part] for part in parts
    ]
    common: list[Expression] = []
    for factor in list(factors[0]):
        if all(factor in others for others in factors):
            common.append(factor)
            for others in factors:
                others.remove(factor)
    if not common or not all(factors):
        return Plus(tuple(parts))
    return times([*common, Plus(tuple(times(rest) for rest in factors))])


def render(expression: Expression) -> str:
    """The expression for people.

    >>> a, b, c = Atom("orders", "4"), Atom("lineitem", "17"), Atom("lineitem", "18")
    >>> render(times([a, plus([b, c])]))
    'orders[4]·(lineitem[17] + lineitem[18])'
    """
    match expression:
        case Zero():
            return "0"
        case Atom(source, row, positions):
            return f"{source}[{row}]" + "".join(f"@{position}" for position in positions)
        case Times(parts):
            return "·".join(_factor(part) for part in parts)
        case Plus(parts, more):
            tail = [f"… {more:,} more"] if more else []
            return " + ".join([*(render(part) for part in parts), *tail])
        case _:
            assert_never(expression)


def _factor(expression: Expression) -> str:
    text = render(expression)
    return f"({text})" if isinstance(expression, Plus) else text
