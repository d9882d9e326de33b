"""Views: relations learned once per function and used again, so that later calls need no tracking.

Three signatures, from narrow to wide: exact (the values), dimensional (the sizes) and generalised
(any size). A view is made after m observations that agree, is tried again now and then, and is
withdrawn by one that disagrees. What was learned is one document per function in a `ViewStore`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whence.arrays.digest import array_digest, function_digest
from whence.arrays.generalise import Expression, Pattern, evaluate, fit, patterns
from whence.arrays.observe import (
    Inputs,
    Output,
    Signature,
    numbers_of,
    observe,
    rebuild,
    rewrite,
    same_output,
    signature_of,
)
from whence.arrays.viewstore import FORMAT, Document, MemoryStore, ViewStore

if TYPE_CHECKING:
    from whence.arrays.capture import Call, TrackedFunction

EXACT_KEPT = 16
LEARNED_KEPT = 256


@dataclass(slots=True)
class Seen:
    """What was observed under one dimensional signature."""

    signature: Signature
    outputs: list[Output] = field(default_factory=list)
    count: int = 0
    regular: bool = True
    exact: dict[str, list[Output]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Generalised:
    """A view for any sizes that fit a pattern: the outputs of an observation, and its numbers.

    `smallest` and `largest` are the sizes it was seen at. Sizes less than half or more than twice
    that are tracked first, so that it grows by steps that were looked at.
    """

    pattern: Pattern
    outputs: list[Output]
    expressions: list[Expression]
    smallest: tuple[int, ...]
    largest: tuple[int, ...]

    def near(self, sizes: tuple[int, ...]) -> bool:
        """Whether sizes are within the reach of what was seen."""
        limits = zip(sizes, self.smallest, self.largest, strict=True)
        return all(low <= 2 * size and size <= 2 * high for size, low, high in limits)

    def at(self, sizes: tuple[int, ...]) -> list[Output] | None:
        """The outputs for sizes, or None if they make no sense there."""
        return rewrite(self.outputs, [evaluate(e, sizes) for e in self.expressions], sizes)


class Learned:
    """Everything known about one function."""

    def __init__(self, observations: int) -> None:
        self.observations = observations
        self.seen: dict[str, Seen] = {}
        self.irrelevant: set[tuple[str, str]] = set()
        self.general: dict[tuple[str, Pattern], Generalised] = {}

    def find(self, signature: Signature) -> Seen | None:
        """The observations under a signature, leaving out arguments found irrelevant."""
        return self.seen.get(self.key(signature))

    def key(self, signature: Signature) -> str:
        """The signature as text, without irrelevant arguments."""
        return signature.key(self._skipped(signature))

    def _skipped(self, signature: Signature) -> frozenset[str]:
        return frozenset(n for n, ranks in self.irrelevant if ranks == signature.ranks())

    def dimensional(self, signature: Signature) -> list[Output] | None:
        """A dimensional view, if there is one."""
        seen = self.find(signature)
        ready = seen is not None and seen.regular and seen.count >= self.observations
        return seen.outputs if ready and seen is not None else None

    def generalised(self, signature: Signature) -> tuple[list[Output], Pattern] | None:
        """A generalised view that fits, with its numbers filled in."""
        shape = signature.shape_key(self._skipped(signature))
        sizes = signature.flat_sizes()
        for (own, pattern), view in self.general.items():
            if own == shape and pattern.fits(sizes) and view.near(sizes):
                outputs = view.at(sizes)
                if outputs is not None:
                    return outputs, pattern
        return None

    def add(self, signature: Signature, outputs: list[Output] | None) -> None:
        """Take in an observation; `None` stands for one that depends on values."""
        key = self.key(signature)
        if len(self.seen) >= LEARNED_KEPT and key not in self.seen:
            self.seen.pop(next(iter(self.seen)))
        seen = self.seen.setdefault(key, Seen(signature))
        if outputs is None:
            seen.regular = False
        elif not seen.count:
            seen.outputs = outputs
        elif not same_output(seen.outputs, outputs):
            seen.regular = False
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
        if not all(s.regular and s.outputs for s in chosen):
            return None
        tables = [numbers_of(s.outputs) for s in chosen]
        if any(t is None for t in tables) or len({t[0] for t in tables if t is not None}) != 1:
            return None
        observed = [t[1] for t in tables if t is not None]
        sizes = [s.signature.flat_sizes() for s in chosen]
        found = fit(observed, sizes, pattern.representatives())
        if found is None:
            return None
        seen = list(zip(*sizes, strict=True))
        reach = tuple(map(min, seen)), tuple(map(max, seen))
        return Generalised(pattern, chosen[0].outputs, found, *reach)

    def _find_irrelevant(self, signature: Signature) -> None:
        """An argument is irrelevant if signatures that differ only in it have the same view."""
        for name in signature.arguments:
            if (name, signature.ranks()) in self.irrelevant:
                continue
            groups: dict[str, list[Seen]] = {}
            for seen in self.seen.values():
                own = seen.signature
                if own.ranks() == signature.ranks() and name in own.arguments and seen.count:
                    groups.setdefault(own.key(frozenset({name})), []).append(seen)
            rivals = [
                g for g in groups.values() if len({s.signature.arguments[name] for s in g}) > 1
            ]
            if rivals and all(_agree(g) for g in rivals) and _enough(rivals, name):
                self._drop(name, signature.ranks())

    def _drop(self, name: str, ranks: str) -> None:
        self.irrelevant.add((name, ranks))
        kept: dict[str, Seen] = {}
        for seen in self.seen.values():
            key = self.key(seen.signature)
            if key in kept:
                kept[key].count += seen.count
                kept[key].regular &= seen.regular
            else:
                kept[key] = seen
        self.seen = kept

    def to_document(self, digest: str, name: str) -> Document:
        """What is kept: observations; views are derived from them."""
        return {
            "format": FORMAT,
            "function": name,
            "digest": digest,
            "irrelevant": sorted(self.irrelevant),
            "seen": [
                {
                    "signature": s.signature.to_json(),
                    "count": s.count,
                    "regular": s.regular,
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
        made.irrelevant = {(name, ranks) for name, ranks in document["irrelevant"]}
        for item in document["seen"]:
            signature = Signature.from_json(item["signature"])
            outputs = [Output.from_json(o) for o in item["outputs"]]
            exact = {k: [Output.from_json(o) for o in v] for k, v in item["exact"].items()}
            seen = Seen(signature, outputs, item["count"], item["regular"], exact)
            made.seen[made.key(signature)] = seen
        for seen in list(made.seen.values()):
            made._generalise(seen.signature)
        return made


def _agree(group: list[Seen]) -> bool:
    first = group[0]
    return all(s.regular and same_output(first.outputs, s.outputs) for s in group)


def _enough(rivals: list[list[Seen]], name: str) -> bool:
    """Two values of a word or a flag are enough, three of a number."""
    values = {s.signature.arguments[name] for group in rivals for s in group}
    numeric = all(v.lstrip("-").replace(".", "").isdigit() for v in values)
    return len(values) >= (3 if numeric else 2)


class Views:
    """Views of tracked functions: `track(views=Views(store))`.

    `observations` is the seed's m; every `recheck`-th use of a view is tracked again and compared.
    """

    def __init__(
        self, store: ViewStore | None = None, observations: int = 2, recheck: int = 16
    ) -> None:
        self.store: ViewStore = store if store is not None else MemoryStore()
        self.observations, self.recheck = observations, recheck
        self._learned: dict[str, Learned] = {}
        self._digests: dict[int, str | None] = {}
        self._used = 0
        self.withdrawn = 0

    def learned(self, function: TrackedFunction) -> tuple[str, Learned] | None:
        """What is known about a function; None if its code has no stable digest."""
        key = id(function)
        if key not in self._digests:
            self._digests[key] = function_digest(function.function)
        digest = self._digests[key]
        if digest is None:
            return None
        if digest not in self._learned:
            document = self.store.load(digest)
            self._learned[digest] = (
                Learned(self.observations)
                if document is None
                else Learned.from_document(document, self.observations)
            )
        return digest, self._learned[digest]

    def call(self, function: TrackedFunction, args: Any, kwargs: Any) -> Any:
        """Call a tracked function, through a view if one fits."""
        known = self.learned(function)
        inputs = Inputs.of(function, args, kwargs)
        if known is None or inputs is None:
            return function.run(args, kwargs)[0]
        digest, learned = known
        signature = signature_of(inputs)
        found = self._lookup(learned, signature, inputs)
        if found is not None:
            self._used += 1
            if self._used % self.recheck:
                done, result = self._apply(function, args, kwargs, inputs, *found)
                if done:
                    return result
        result, call = function.run(args, kwargs)
        self._take_in(learned, signature, call, inputs, found is not None)
        self.store.save(digest, learned.to_document(digest, function.__name__))
        return result

    def _lookup(
        self, learned: Learned, signature: Signature, inputs: Inputs
    ) -> tuple[list[Output], str] | None:
        outputs = learned.dimensional(signature)
        if outputs is not None:
            return outputs, "dimensional"
        general = learned.generalised(signature)
        seen = learned.find(signature)
        if general is not None and (seen is None or seen.regular):
            return general[0], "generalised"
        if seen is not None and seen.exact:
            outputs = seen.exact.get(array_digest(inputs.arrays.values()))
            if outputs is not None:
                return outputs, "exact"
        return None

    def _apply(
        self, function: TrackedFunction, args: Any, kwargs: Any, inputs: Inputs,
        outputs: list[Output], kind: str,
    ) -> tuple[bool, Any]:  # fmt: skip
        result = function.function(*args, **kwargs)
        answers = rebuild(function, result, inputs, outputs, kind)
        if answers is None:  # another shape than the view says: not this function's pattern
            self.withdrawn += 1
            return False, None
        function.last = answers[0] if len(answers) == 1 else tuple(answers)
        return True, result

    def _take_in(
        self, learned: Learned, signature: Signature, call: Call, inputs: Inputs, again: bool
    ) -> None:
        outputs = observe(call)
        before = self._count(learned)
        learned.add(signature, outputs)
        if again and self._count(learned) < before:
            self.withdrawn += 1
        if outputs is None and _settled(call):
            seen = learned.find(signature)
            whole = observe(call, exact=True)
            if seen is not None and whole is not None and len(seen.exact) < EXACT_KEPT:
                seen.exact[array_digest(inputs.arrays.values())] = whole

    def _count(self, learned: Learned) -> int:
        ready = [s for s in learned.seen.values() if s.regular and s.count >= self.observations]
        return len(ready) + len(learned.general)


def _settled(call: Call) -> bool:
    """Whether every answer is exact and no input was changed."""
    return all(p.grade == "exact" for p in call.answers.values()) and not call.changed
