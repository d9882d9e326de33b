"""Digests of functions: everything that decides what a function does is in them."""

import functools
import types
from typing import Any

import numpy as np
import pytest

import whence.arrays as wa
from whence.arrays.digest import function_digest

SHIFT = 1
COUNT = 0


def sum(x: Any) -> Any:
    return x + 1


def named(x: Any) -> Any:
    return np.roll(sum(x), SHIFT)


def counting(x: Any) -> Any:
    global COUNT
    COUNT += 1
    return x[COUNT:]


def late(x: Any) -> Any:
    import helpers_of_this_test  # type: ignore[import-not-found]

    return helpers_of_this_test.go(x)


def made(value: Any) -> Any:
    return lambda x: (x, value)


class Model:
    step = 1

    def __init__(self, k: int) -> None:
        self.k = k

    def go(self, x: Any) -> Any:
        return np.roll(x, self.k)


def test_digests_follow_the_code() -> None:
    def make(k: int) -> Any:
        return lambda x: sum(x) * k

    def other(x: Any) -> Any:
        return x

    assert function_digest(make(2)) == function_digest(make(2))
    assert function_digest(make(2)) != function_digest(make(3))
    assert function_digest(other) != function_digest(named)
    assert function_digest(np.sin) is None


def test_what_is_named_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {function_digest(named)}
    monkeypatch.setitem(globals(), "SHIFT", 2)
    seen.add(function_digest(named))
    # a name that a builtin has as well
    monkeypatch.setitem(globals(), "sum", lambda x: x - 1)
    seen.add(function_digest(named))
    assert len(seen) == 3 and None not in seen


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (((1,), 2), ((1, 2),)),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ([1], (1,)),
        (np.arange(3), np.arange(3.0)),
        (functools.partial(sum, 1), functools.partial(sum, 2)),
        (slice(1, 2), slice(2, 3)),
        (np.float32, np.float64),
        (wa.track(sum), wa.track(named)),
        (functools.lru_cache(sum), functools.lru_cache(named)),
        (np.sum, np.max),
    ],
)
def test_values_that_differ(one: Any, two: Any) -> None:
    digests = {function_digest(made(one)), function_digest(made(two))}
    assert len(digests) == 2 and None not in digests


def test_mutable_values() -> None:
    listed, module, kind = [1], types.ModuleType("settings"), type("Kind", (), {"k": 1})
    module.k = 1  # type: ignore[attr-defined]

    def use(x: Any) -> Any:
        return x[listed[0] : module.k + kind.k]  # type: ignore[attr-defined]

    seen = {function_digest(use)}
    listed.append(2)
    seen.add(function_digest(use))
    module.k = 2  # type: ignore[attr-defined]
    seen.add(function_digest(use))
    kind.k = 2  # type: ignore[attr-defined]
    seen.add(function_digest(use))
    listed.append(listed)
    seen.add(function_digest(use))
    assert len(seen) == 5 and None not in seen


@pytest.mark.parametrize(
    "function",
    [
        made(object()),
        made(Model(1).go),
        made([].append),
        made(np.random.default_rng(0)),
        counting,
        late,
        lambda x: x[np.random.randint(3) :],
        lambda x: x[int(input()) :],
        lambda x: np.load("file")[x],
    ],
)
def test_what_has_no_stable_description(function: Any) -> None:
    assert function_digest(function) is None


def test_a_helper_module_that_is_edited() -> None:
    seen = set()
    for tail in ("", "[::-1]"):
        helpers = types.ModuleType("helpers_of_this_test")
        exec(f"def go(x): return inner(x)\ndef inner(x): return x{tail}", helpers.__dict__)
        seen.add(_user(helpers))
        assert function_digest(lambda x, h=helpers: h.go(x)) is None
    assert len(seen) == 2 and None not in seen


def _user(helpers: Any) -> str | None:
    return function_digest(lambda x: helpers.go(x))
