"""What was learned of one function: which relations were seen under which signatures."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from whence.arrays.generalise import Explained, Pattern, fit, patterns
from whence.arrays.observe import (
    Output,
    Signature,
    numbers_of,
    rewrite,
    same_output,
)
from whence.arrays.session import Reach
from whence.arrays.viewstore import FORMAT, Document

LEARNED_KEPT = 256


@dataclass(slots=True)
class Seen:
    """What was observed under one dimensional signature."""

    signature: Signature
    outputs: list[Output] = field(default_factory=list)
    count: int = 0
    regular: bool = True
    reach: Reach = Reach.FAR
    exact: dict[str, list[Output]] = field(default_factory=dict)


class Span(NamedTuple):
    """Which sizes of one axis were seen."""

    smallest: int
    largest: int
    parities: frozenset[int]

    def covers(self, size: int, reach: Reach) -> bool:
        """Whether what was seen says enough about a size.

        Up to twice of what was seen, so that a view grows by steps that were looked at; not below,
        where arrays inside the function may come down to a cell or none. Code that looks at sizes
        may do something else beyond as well, or for odd ones.
        """
        if reach is Reach.FAR:
            return self.smallest <= size <= 2 * self.largest
        return self.smallest <= size <= self.largest and size % 2 in self.parities


@dataclass(frozen=True, slots=True)
class Generalised:
    """A view for any sizes that fit a pattern: the outputs of an observation, and its numbers.

    A number that is not settled for some sizes leaves the call to tracking, which settles it.
    """

    pattern: Pattern
    outputs: list[Output]
    numbers: list[Explained]
    spans: tuple[Span, ...]
    reach: Reach

    def near(self, sizes: tuple[int, ...]) -> bool:
        """Whether sizes are within the reach of what was seen."""
        pairs = zip(self.spans, sizes, strict=True)
        return all(span.covers(size, self.reach) for span, size in pairs)

    def at(self, sizes: tuple[int, ...]) -> list[Output] | None:
        """The outputs for sizes, or None if they make no sense there or are not settled."""
        told = {id(number): number.at(sizes) for number in self.numbers}
        filled = [told[id(number)] for number in self.numbers]
        known = [number for number in filled if number is not None]
        return rewrite(self.outputs, known, sizes) if len(known) == len(filled) else None


class Values:
    """The values of an argument that were seen to change nothing: words, and a span of numbers.

    Between two numbers that agree there is little room to differ; beyond them code may do
    something else (`x[:k]` takes all cells if k is large), as it may for another word.
    """

    def __init__(self, listed: Iterable[str] = ()) -> None:
        self.words: set[str] = set()
        self.numbers: list[float] = []
        for value in listed:
            self.take(value)

    def take(self, value: str) -> None:
        """Add one."""
        number = _number(value)
        if number is None:
            self.words.add(value)
        else:
            ends = [*self.numbers, number]
            self.numbers = [min(ends), max(ends)]

    def hold(self, value: str) -> bool:
        """Whether a value is among them."""
        number = _number(value)
        if number is None:
            return value in self.words
        return bool(self.numbers) and self.numbers[0] <= number <= self.numbers[-1]

    def listed(self) -> list[str]:
        """Values that say the same."""
        return [*sorted(self.words), *map(repr, self.numbers)]


def _number(value: str) -> float | None:
    """The number that a text of an argument stands for, also one of NumPy."""
    try:
        found = float(value.partition("(")[2].rstrip(")") if value.startswith("np.") else value)
    except ValueError:
        return None
    return None if math.isnan(found) else found


class Learned:
    """Everything known about one function."""

    def __init__(self, observations: int) -> None:
        self.observations = observations
        self.seen: dict[str, Seen] = {}
        # arguments that change nothing, and ones that seemed so, by name and setting
        self.irrelevant: dict[tuple[str, str], Values] = {}
        self.relevant: set[tuple[str, str]] = set()
        self.general: dict[tuple[str, Pattern], Generalised] = {}

    def find(self, signature: Signature) -> Seen | None:
        """The observations under a signature, leaving out arguments found irrelevant."""
        return self.seen.get(self.key(signature))

    def key(self, signature: Signature) -> str:
        """The signature as text, without irrelevant arguments."""
        return signature.key(self._skipped(signature))

    def _skipped(self, signature: Signature) -> frozenset[str]:
        return frozenset(name for name, _ in self._left_out(signature))

    def _left_out(self, signature: Signature) -> list[tuple[str, str]]:
        """The arguments that change nothing in the setting of a signature, one after the other."""
        found: list[tuple[str, str]] = []
        names = list(signature.arguments) if self.irrelevant else []
        while names:
            without = frozenset(name for name, _ in found)
            tried = [(name, signature.key(without | {name})) for name in names]
            known = next((pair for pair in tried if self._is_left_out(signature, pair)), None)
            if known is None:
                break
            found.append(known)
            names.remove(known[0])
        return found

    def _is_left_out(self, signature: Signature, pair: tuple[str, str]) -> bool:
        values = self.irrelevant.get(pair)
        return values is not None and values.hold(signature.arguments[pair[0]])

    def dimensional(self, signature: Signature) -> list[Output] | None:
        """A dimensional view, if there is one."""
        seen = self.find(signature)
        ready = seen is not None and seen.regular and seen.count >= self.observations
        return seen.outputs if ready and seen is not None else None

    def generalised(self, signature: Signature) -> tuple[list[Output], Hashable] | None:
        """A generalised view that fits, with its numbers filled in, and what it is known by."""
        shape = signature.shape_key(self._skipped(signature))
        sizes = signature.flat_sizes()
        for (own, pattern), view in self.general.items():
            if own == shape and pattern.fits(sizes) and view.near(sizes):
                outputs = view.at(sizes)
                if outputs is not None:
                    return outputs, (own, pattern)
        return None

    def add(
        self, signature: Signature, outputs: list[Output] | None, reach: Reach = Reach.FAR
    ) -> None:
        """Take in an observation; `None` stands for one that depends on values."""
        key = self.key(signature)
        if len(self.seen) >= LEARNED_KEPT and key not in self.seen:
            self.seen.pop(next(iter(self.seen)))
        seen = self.seen.setdefault(key, Seen(signature))
        agrees = outputs is not None and (not seen.count or same_output(seen.outputs, outputs))
        if not agrees and seen.count and seen.regular and self._restore(signature):
            self.add(signature, outputs, reach)
            return
        if outputs is not None and not seen.count:
            seen.outputs = outputs
        seen.regular &= agrees
        seen.reach = max(seen.reach, reach)
        seen.count += 1
        self._generalise(signature)
        self._find_irrelevant(signature)

    def _generalise(self, signature: Signature) -> None:
        """Fit every pattern that covers the newest observation; a misfit withdraws its view."""
        skipped = self._skipped(signature)
        shape = signature.shape_key(skipped)
        alike = [s for s in self.seen.values() if s.signature.shape_key(skipped) == shape]
        sizes = [s.signature.flat_sizes() for s in alike]
        now = signature.flat_sizes()
        self.general = {
            k: v for k, v in self.general.items() if not (k[0] == shape and k[1].fits(now))
        }
        for pattern, members in patterns(sizes, now):
            chosen = [alike[i] for i in members]
            view = self._fit(pattern, chosen) if len(chosen) >= self.observations else None
            if view is not None:
                self.general[(shape, pattern)] = view

    def _fit(self, pattern: Pattern, chosen: list[Seen]) -> Generalised | None:
        reach = max(s.reach for s in chosen)
        if reach is Reach.HERE or not all(s.regular and s.outputs for s in chosen):
            return None
        tables = [numbers_of(s.outputs) for s in chosen]
        if any(t is None for t in tables) or len({t[0] for t in tables if t is not None}) != 1:
            return None
        observed = [t[1] for t in tables if t is not None]
        sizes = [s.signature.flat_sizes() for s in chosen]
        rounding = reach is not Reach.FAR
        found = fit(observed, sizes, pattern.representatives(), rounding)
        if found is None:
            return None
        spans = tuple(
            Span(min(axis), max(axis), frozenset(size % 2 for size in axis))
            for axis in zip(*sizes, strict=True)
        )
        return Generalised(pattern, chosen[0].outputs, found, spans, reach)

    def _find_irrelevant(self, signature: Signature) -> None:
        """An argument is irrelevant if signatures that differ only in it have the same view."""
        for name in signature.arguments:
            skipped = self._skipped(signature)
            without = skipped | {name}
            pair = name, signature.key(without)
            if name in skipped or pair in self.relevant:
                continue
            alike = [
                seen
                for seen in self.seen.values()
                if name in seen.signature.arguments
                and seen.count
                and seen.signature.key(without) == pair[1]
            ]
            values = [seen.signature.arguments[name] for seen in alike]
            bent = any(seen.reach is Reach.HERE for seen in alike)  # no span says anything then
            if bent or len(alike) == 1 or not _agree(alike):
                continue
            if pair in self.irrelevant or _enough(values):
                known = self.irrelevant.setdefault(pair, Values())
                for value in values:
                    known.take(value)
                self._merge()

    def _restore(self, signature: Signature) -> bool:
        """Take back that arguments change nothing in the setting of a signature."""
        found = self._left_out(signature)
        for pair in found:
            del self.irrelevant[pair]
        self.relevant.update(found)
        self._merge()
        return bool(found)

    def _merge(self) -> None:
        """Put observations under their keys again; those that have become one are joined."""
        kept: dict[str, Seen] = {}
        for seen in self.seen.values():
            first = kept.setdefault(self.key(seen.signature), seen)
            if first is not seen:
                first.count += seen.count
                first.regular &= seen.regular
                first.reach = max(first.reach, seen.reach)
        self.seen = kept

    def to_document(self, digest: str, name: str) -> Document:
        """What is kept: observations; views are derived from them."""
        return {
            "format": FORMAT,
            "function": name,
            "digest": digest,
            "irrelevant": sorted([*pair, v.listed()] for pair, v in self.irrelevant.items()),
            "relevant": sorted(self.relevant),
            "seen": [
                {
                    "signature": s.signature.to_json(),
                    "count": s.count,
                    "regular": s.regular,
                    "reach": s.reach,
                    "outputs": [o.to_json() for o in s.outputs],
                    "exact": {k: [o.to_json() for o in v] for k, v in s.exact.items()},
                }
                for s in self.seen.values()
            ],
        }

    @classmethod
    def from_document(cls, document: Document, observations: int) -> Learned:
        """What `to_document` kept."""
        made = cls(observations)
        made.irrelevant = {(n, s): Values(listed) for n, s, listed in document["irrelevant"]}
        made.relevant = {(name, setting) for name, setting in document["relevant"]}
        for item in document["seen"]:
            signature = Signature.from_json(item["signature"])
            outputs = [Output.from_json(o) for o in item["outputs"]]
            exact = {k: [Output.from_json(o) for o in v] for k, v in item["exact"].items()}
            flags = item["regular"], Reach(item["reach"])
            seen = Seen(signature, outputs, item["count"], *flags, exact)
            made.seen[made.key(signature)] = seen
        for seen in list(made.seen.values()):
            made._generalise(seen.signature)
        return made


def _agree(group: list[Seen]) -> bool:
    first = group[0]
    return all(s.regular and same_output(first.outputs, s.outputs) for s in group)


def _enough(listed: list[str]) -> bool:
    """Two values of a word or a flag are enough, three of a number."""
    values = set(listed)
    words = all(value in ("None", "True", "False") or value[0] in "'\"" for value in values)
    return len(values) >= (2 if words else 3)
