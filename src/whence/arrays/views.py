"""Views: relations learned once per function and used again, so that later calls need no tracking.

Three signatures, from narrow to wide: exact (the values), dimensional (the sizes) and generalised
(any size). A view is made after m observations that agree, is tried again now and then, and is
withdrawn by one that disagrees. What was learned is one document per function in a `ViewStore`.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from whence.arrays.digest import array_digest, function_digest
from whence.arrays.learned import Learned
from whence.arrays.observe import (
    Inputs,
    Output,
    Signature,
    observe,
    rebuild,
    signature_of,
)
from whence.arrays.viewstore import MemoryStore, ViewStore

if TYPE_CHECKING:
    from whence.arrays.call import Call
    from whence.arrays.capture import TrackedFunction

EXACT_KEPT = 16
DIGESTS_KEPT = 16  # a function with more than these has surroundings that keep changing


class Found(NamedTuple):
    """A view that fits a call, its kind, and what it is known by."""

    outputs: list[Output]
    kind: str
    view: Hashable


class Views:
    """Views of tracked functions: `track(views=Views(store))`.

    `observations` is the seed's m; about every `recheck`-th use of each view is tracked again and
    compared. Threads can share views; the lock is not held while a function runs.
    """

    def __init__(
        self, store: ViewStore | None = None, observations: int = 2, recheck: int = 16
    ) -> None:
        self.store: ViewStore = store if store is not None else MemoryStore()
        self.observations, self.recheck = observations, recheck
        self.withdrawn = 0
        self._learned: dict[str, Learned] = {}
        self._kept: set[str] = set()
        self._digests: WeakKeyDictionary[TrackedFunction, set[str]] = WeakKeyDictionary()
        self._turns: dict[Hashable, int] = {}
        self._random = random.Random()
        self._lock = threading.RLock()

    def __reduce__(self) -> tuple[Callable[..., Views], tuple[ViewStore, int, int]]:
        return Views, (self.store, self.observations, self.recheck)

    def learned(self, function: TrackedFunction) -> tuple[str, Learned] | None:
        """What is known about a function; None if its code has no stable digest."""
        digest = function_digest(function.function)
        met = self._digests.setdefault(function, set())
        if digest is None or len(met) > DIGESTS_KEPT:
            return None
        met.add(digest)
        if digest not in self._learned:
            document = self.store.load(digest)
            if document is None:
                self._learned[digest] = Learned(self.observations)
            else:
                self._learned[digest] = Learned.from_document(document, self.observations)
                self._kept.add(digest)
        return digest, self._learned[digest]

    def call(self, function: TrackedFunction, args: Any, kwargs: Any) -> Any:
        """Call a tracked function, through a view if one fits."""
        inputs = Inputs.of(function, args, kwargs)
        with self._lock:
            known = self.learned(function)
        if known is None or inputs is None:
            return function.run(args, kwargs)[0]
        digest, learned = known
        signature = signature_of(inputs)
        with self._lock:
            found = self._lookup(learned, signature, inputs)
            again = found is not None and self._is_due(digest, found.view)
        if found is not None and not again:
            done, result = self._apply(function, args, kwargs, inputs, found)
            if done:
                return result
        result, call = function.run(args, kwargs)
        with self._lock:
            self._take_in(learned, signature, call, inputs, found is not None)
            self.store.save(digest, learned.to_document(digest, function.__name__))
        return result

    def _is_due(self, digest: str, view: Hashable) -> bool:
        """Whether it is a view's turn to be looked at again.

        Turns are drawn, so that calls that alternate do not pass some of them over; a view from the
        store begins anywhere, so that short programs take their turn as well.
        """
        key, around = (digest, view), self.recheck // 2
        left = self._turns.get(key)
        if left is None:
            first = 1 if digest in self._kept else around + 1
            left = self._random.randint(first, self.recheck + (around if first > 1 else 0))
        again = self._random.randint(around + 1, self.recheck + around)
        self._turns[key] = left - 1 if left > 1 else again
        return left <= 1

    def _lookup(self, learned: Learned, signature: Signature, inputs: Inputs) -> Found | None:
        key = learned.key(signature)
        outputs = learned.dimensional(signature)
        if outputs is not None:
            return Found(outputs, "dimensional", key)
        general = learned.generalised(signature)
        seen = learned.find(signature)
        if general is not None and (seen is None or seen.regular):
            return Found(general[0], "generalised", general[1])
        if seen is not None and seen.exact:
            values = array_digest(inputs.arrays.values())
            if values in seen.exact:
                return Found(seen.exact[values], "exact", (key, values))
        return None

    def _apply(
        self, function: TrackedFunction, args: Any, kwargs: Any, inputs: Inputs, found: Found
    ) -> tuple[bool, Any]:
        result = function.function(*args, **kwargs)
        answers = rebuild(function, result, inputs, found.outputs, found.kind)
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
        learned.add(signature, outputs, call.reach)
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
