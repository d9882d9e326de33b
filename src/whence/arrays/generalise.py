"""Relations without sizes: numbers of several observations written as expressions of the sizes.

    n=4: b∈[0, 3]    n=7: b∈[0, 6]    →    b∈[0, n−1]

A size is written as a letter only if it was seen to vary. Every expression that explains all
observations is kept; for sizes where two of them say different numbers, there is no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

Sizes = tuple[int, ...]
Numbers = list[int]
# an expression is a constant and (factor, sizes multiplied) terms
Expression = tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Which sizes are letters (None) and which are part of the signature.

    `classes` numbers the letters: sizes that were always equal share a number and must be equal.
    `order`, if given, says which letter is smaller than which (−1, 0, 1 per pair of letters).
    """

    sizes: tuple[int | None, ...]
    classes: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None

    def fits(self, sizes: Sizes) -> bool:
        """Whether a call with these sizes is covered; letters do not stand for 0 or 1."""
        if len(sizes) != len(self.sizes):
            return False
        for own, size in zip(self.sizes, sizes, strict=True):
            if not ((own is None and size > 1) or own == size):
                return False
        values: dict[int, int] = {}
        for number, axis in zip(self.classes, self.letters(), strict=False):
            if values.setdefault(number, sizes[axis]) != sizes[axis]:
                return False
        return self.order is None or self.order == order_of(sizes, self.letters())

    def letters(self) -> list[int]:
        """The axes whose size is a letter."""
        return [i for i, size in enumerate(self.sizes) if size is None]

    def representatives(self) -> list[int]:
        """One axis per class of equal letters."""
        letters = self.letters()
        return [letters[self.classes.index(c)] for c in dict.fromkeys(self.classes)]


def order_of(sizes: Sizes, letters: Sequence[int]) -> tuple[int, ...]:
    """For each pair of letters which is smaller."""
    return tuple((sizes[i] > sizes[j]) - (sizes[i] < sizes[j]) for i, j in combinations(letters, 2))


def evaluate(expression: Expression, sizes: Sizes) -> int:
    """The number that an expression gives for sizes."""
    total, terms = expression
    for factor, axes in terms:
        product = factor
        for axis in axes:
            product *= sizes[axis]
        total += product
    return total


def patterns(seen: Sequence[Sizes], now: Sizes) -> list[tuple[Pattern, list[int]]]:
    """Patterns that cover `now`, most general first, with the observations they must explain.

    Each comes twice: for all observations, and for those with the order of sizes that `now` has.
    """
    free = [i for i, size in enumerate(now) if size > 1]
    out = []
    for count in range(len(free), 0, -1):
        for varying in combinations(free, count):
            loose = Pattern(tuple(None if i in varying else s for i, s in enumerate(now)))
            every = [i for i, sizes in enumerate(seen) if loose.fits(sizes)]
            order = order_of(now, varying)
            alike = [i for i in every if order_of(seen[i], varying) == order]
            for members, own in ((every, None), (alike, order)):
                if all(len({seen[i][axis] for i in members}) > 1 for axis in varying):
                    classes = _tied([seen[i] for i in members], varying)
                    out.append((Pattern(loose.sizes, classes, own), members))
    return out


def _tied(seen: Sequence[Sizes], letters: Sequence[int]) -> tuple[int, ...]:
    columns = [tuple(sizes[axis] for sizes in seen) for axis in letters]
    return tuple(columns.index(column) for column in columns)


@dataclass(frozen=True, slots=True)
class Explained:
    """Every expression that explains a number, and parts of a size, rounded, that would as well."""

    expressions: tuple[Expression, ...]
    rounded: tuple[Rounded, ...] = ()

    def at(self, sizes: Sizes) -> int | None:
        """The number for sizes; None if not all say the same."""
        first = evaluate(self.expressions[0], sizes)
        same = all(evaluate(other, sizes) == first for other in self.expressions[1:])
        same = same and all(other.at(sizes) == first for other in self.rounded)
        return first if same else None


class Rounded(NamedTuple):
    """A part of a size: `constant + factor · ((n + ahead) // divisor)`."""

    constant: int
    factor: int
    axis: int
    ahead: int
    divisor: int

    def at(self, sizes: Sizes) -> int:
        """The number for sizes."""
        return self.constant + self.factor * ((sizes[self.axis] + self.ahead) // self.divisor)


def fit(
    observed: Sequence[Numbers],
    sizes: Sequence[Sizes],
    letters: Sequence[int],
    rounding: bool = False,
) -> list[Explained] | None:
    """What explains every observation, number by number, or None if nothing does.

    With `rounding`, sizes may have been divided: an expression may then fit by chance.
    """
    if len({len(numbers) for numbers in observed}) != 1:
        return None
    out = []
    known: dict[tuple[int, ...], Explained | None] = {}
    for values in zip(*observed, strict=True):
        if values not in known:
            known[values] = _explain(values, sizes, letters, rounding)
        found = known[values]
        if found is None:
            return None
        out.append(found)
    return out


def _explain(
    values: Sequence[int], sizes: Sequence[Sizes], letters: Sequence[int], rounding: bool
) -> Explained | None:
    found = []
    for terms in _candidates(tuple(letters)):
        rests = {v - evaluate((0, terms), own) for v, own in zip(values, sizes, strict=True)}
        if len(rests) == 1:
            found.append((rests.pop(), terms))
    if not found:
        return None
    rounded = []
    for part in _parts(tuple(letters)) if rounding else ():
        rests = {v - part.at(own) for v, own in zip(values, sizes, strict=True)}
        if len(rests) == 1:
            rounded.append(part._replace(constant=rests.pop()))
    return Explained(tuple(found), tuple(rounded))


Terms = tuple[tuple[int, tuple[int, ...]], ...]


def _one(letters: Sequence[int]) -> list[Terms]:
    return [((factor, (axis,)),) for axis in letters for factor in (1, -1)]


def _two(letters: Sequence[int]) -> list[Terms]:
    pairs = combinations(letters, 2)
    return [((p, (i,)), (q, (j,))) for i, j in pairs for p in (1, -1) for q in (1, -1)]


def _multiple(letters: Sequence[int]) -> list[Terms]:
    return [((factor, (axis,)),) for axis in letters for factor in (2, -2, 3, -3)]


def _product(letters: Sequence[int]) -> list[Terms]:
    pairs = list(combinations_with_replacement(letters, 2))
    made: list[Terms] = [((factor, pair),) for pair in pairs for factor in (1, -1)]
    return made + [((1, axes),) for axes in combinations(letters, 3)]


_LEVELS = (_one, _two, _multiple, _product)


@cache
def _candidates(letters: tuple[int, ...]) -> list[Terms]:
    """Constants, then sums, multiples and products of letters."""
    return [(), *(terms for level in _LEVELS for terms in level(letters))]


@cache
def _parts(letters: tuple[int, ...]) -> list[Rounded]:
    """Halves to quarters of letters, rounded in every way."""
    return [
        Rounded(0, factor, axis, ahead, divisor)
        for axis in letters
        for divisor in (2, 3, 4)
        for ahead in range(divisor)
        for factor in (1, -1)
    ]


def describe(expression: Expression, names: Sequence[str]) -> str:
    """An expression as text: `n−1`, `2·n`."""
    constant, terms = expression
    parts: list[str] = []
    for factor, axes in terms:
        body = "·".join(names[a] for a in axes)
        sign = "-" if factor < 0 else "+" if parts else ""
        parts.append(sign + (f"{abs(factor)}·" if abs(factor) != 1 else "") + body)
    if constant or not parts:
        parts.append(f"{constant:+d}" if parts else str(constant))
    return "".join(parts)
