"""Containers of Python around tracked arrays, and how many pieces there are of one."""

import collections
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import whence.arrays as wa
from whence.plan.paths import Value


class Pair(NamedTuple):
    one: Any
    other: Any


X = np.array([1.0, 2, 9, 3, 8, 4])


@pytest.mark.parametrize(
    ("given", "take"),
    [
        (collections.OrderedDict(a=X, b=1), lambda d: d["a"]),
        (collections.defaultdict(list, {"a": X}), lambda d: d["a"]),
        (SimpleNamespace(a=X), lambda d: d.a),
        (Pair(X, 2), lambda d: d.one),
        (collections.deque([1, X]), lambda d: d.pop()),
        ({"a": [Pair(1, X)]}, lambda d: d["a"][0].other),
    ],
)
def test_arrays_in_containers_are_inputs(given: Any, take: Any) -> None:
    double = wa.track(lambda d: take(d) * 2)
    assert np.array_equal(double(given), X * 2)
    (name,) = double.last.inputs
    assert double.last.untracked == ()
    assert [list(found) for found in double.last.backward(3)[name]] == [[3]]


@pytest.mark.parametrize(
    "make",
    [
        lambda v: collections.OrderedDict(a=v * 2),
        lambda v: collections.defaultdict(list, {"a": v * 2}),
        lambda v: collections.deque([v * 2], maxlen=3),
        lambda v: SimpleNamespace(a=v * 2),
        lambda v: Pair(v * 2, [v[0]]),
    ],
)
def test_containers_come_back_as_they_are(make: Any) -> None:
    plain, found = make(X), wa.track(make)(X)
    assert type(found) is type(plain)
    assert getattr(found, "maxlen", None) == getattr(plain, "maxlen", None)
    inside = vars(found) if isinstance(found, SimpleNamespace) else found
    value = inside["a"] if isinstance(inside, dict) else inside[0]
    assert type(value) is np.ndarray
    assert wa.provenance(value).grade == "exact"


def test_how_many_pieces_there_are() -> None:
    """Whether a value was given or a list of positions, whoever counts the pieces looks at it."""

    def at_gaps(t: Any) -> Any:
        return len(np.split(np.arange(6.0), np.flatnonzero(np.diff(t) > 3) + 1))

    def by_number(t: Any) -> Any:
        return np.zeros(len(np.array_split(np.arange(6.0), (t > 5).sum() + 1)))

    def made_of_each(t: Any) -> Any:
        return np.array([1.0 for _ in np.split(t, np.flatnonzero(t > 5))])

    for function in (at_gaps, by_number, made_of_each):
        tracked = wa.track(function)
        tracked(X)
        (rows,) = tracked.last.backward(..., "influencing")["t"]
        assert sorted(set(rows)) == list(range(6)), function.__name__


def test_pieces_of_a_number_that_is_written_are_no_branch() -> None:
    tracked = wa.track(lambda x: len(np.split(x, [2, 4])))
    assert tracked(X) == 3
    assert not any(len(rows) for rows in tracked.last.backward(..., "influencing")["x"])


def test_a_view_is_not_learned_of_a_program_that_counts_pieces() -> None:
    def program(x: Any) -> Any:
        pieces = np.split(x, np.flatnonzero(np.diff(x) > 3) + 1)
        return x * len(pieces) if len(pieces) < 3 else x[::-1]

    seen = wa.track(views=wa.Views(recheck=10**9))(program)
    for values in ([1.0, 2, 9, 3, 8, 4], [1.0, 2, 9, 3, 8, 5], [1.0, 2, 3, 4, 5, 6]):
        seen(np.array(values))
    assert [list(found) for found in seen.last.backward(0)["x"]] == [[0]]


def test_a_number_is_a_scalar() -> None:
    def pair(x: Any) -> Any:
        return [np.isscalar(x[0]), np.isscalar(x), np.isscalar(2), np.isscalar(x.max())]

    assert wa.track(pair)(X) == pair(X)


def test_an_object_that_gives_a_tracked_array() -> None:
    class Signal:
        def __init__(self, values: Any) -> None:
            self.values = values

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.values

    double = wa.track(lambda x: np.asarray(Signal(x)) * 2)
    assert np.array_equal(double(X), X * 2)
    assert [list(found) for found in double.last.backward(3)["x"]] == [[3]]


def test_weights_that_stay_in_a_running_sum() -> None:
    counted = wa.track(lambda x, w: np.histogram(x, bins=[0, 1, 2, 3], weights=w)[0])
    counted(np.array([0.5, 1.5, 2.5]), np.array([np.nan, 2, 3]))
    (rows,) = counted.last.backward(1, "influencing")["w"]
    assert 0 in rows


class Stack(list[Any]):
    def __init__(self, limit: int) -> None:
        self.limit = limit


def test_containers_that_are_made_in_ways_of_their_own() -> None:
    def pushed(x: Any, limit: int) -> Any:
        made = Stack(limit)
        made.append(x * 2)
        return made

    found = wa.track(pushed)(X, 3)
    assert type(found) is Stack
    assert found.limit == 3
    assert wa.provenance(found[0]).grade == "exact"
    stack = Stack(2)
    stack.append(X)
    assert np.array_equal(wa.track(lambda s: s[0] * s.limit)(stack), X * 2)


def test_what_holds_no_arrays_is_the_callers_own() -> None:
    """A function may put there what its caller waits for."""
    seen: collections.deque[int] = collections.deque()
    wa.track(lambda x, log: log.append(len(x)) or x)(X, seen)
    assert list(seen) == [6]


def test_what_is_put_into_a_callers_container_is_there() -> None:
    def step(x: Any, log: Any, state: Any) -> Any:
        log.append(x[0] * 2)
        log[0] = [x]
        state["w"] = state["w"] - x
        state["n"] = len(log)
        return x[1]

    w, log, state = X.copy(), [0], {"w": X.copy(), "n": 1}
    wa.track(step)(X, log, state)
    assert log == [[X], 2.0] and [type(item) for item in log] == [list, np.float64]
    assert log[0][0] is X
    assert list(state) == ["w", "n"] and state["n"] == 2
    assert type(state["w"]) is np.ndarray and np.array_equal(state["w"], w - X)
    answer = wa.provenance(state["w"])
    assert answer.grade == "exact"
    assert [rows.tolist() for (rows,) in answer.backward(3).values()] == [[3], [3]]


def test_what_was_put_there_before_an_error_is_there() -> None:
    seen: list[Any] = []

    def stops(x: Any, log: Any) -> None:
        log.append(x * 2)
        raise StopAsyncIteration

    with pytest.raises(StopAsyncIteration):
        wa.track(stops)(X, seen)
    assert type(seen[0]) is np.ndarray


def test_a_container_that_is_returned_is_the_callers_own() -> None:
    def doubled(items: Any) -> Any:
        items[0] = items[0] * 2
        items.append(items[1])
        return items

    for given in ([X, 5], [4, X]):
        kept = list(given)
        found = wa.track(doubled)(given)
        assert found is given
        assert np.array_equal(given[0], kept[0] * 2) and given[2] is given[1] is kept[1]
        changed = found[0] if kept[0] is X else found[2]
        assert [list(found) for found in wa.provenance(changed).backward(3).values()] == [[[3]]]
    twice = wa.track(lambda one, other: one.append(1) or len(other))
    both = [X]
    assert twice(both, both) == 2


def test_a_generator_finds_plain_arrays_where_its_caller_does() -> None:
    def steps(x: Any, log: Any) -> Any:
        log.append(x * 2)
        yield x[0]
        yield log[0] + 1

    log: list[Any] = []
    tracked = wa.track(steps)
    found = list(tracked(X, log))
    assert np.array_equal(found[1], X * 2 + 1)
    answer = wa.provenance(found[1])
    assert answer.grade == "superset"
    assert 3 in answer.backward(3)["x"][0]


def test_keys_sets_and_slices_are_plain() -> None:
    def groups(x: Any) -> Any:
        sums = {key: x[x == key].sum() for key in np.unique(x)}
        return sums, {(x[0], 1): x[1]}, {x[0], x[1]}, slice(x[0], x[1]), frozenset(x)

    plain, found = groups(X), wa.track(groups)(X)
    assert found == plain
    assert [type(key) for key in found[0]] == [np.float64] * 6
    assert {type(item) for item in (*found[2], found[3].stop, *found[4])} == {np.float64}


@dataclass
class Fitted:
    slope: Any
    name: str = "line"
    inner: Any = None


@dataclass(frozen=True, slots=True)
class Halves:
    one: Any
    two: Any


@wa.track
def fitted(x: Any) -> Any:
    found = Fitted(x * 2, inner={"halves": Halves(x[0], x[1:])})
    found.inner["whole"] = found
    return found


def test_arrays_in_a_dataclass_that_is_returned_are_plain_and_have_answers() -> None:
    found = fitted(np.arange(4.0))
    assert type(found) is Fitted and found.inner["whole"] is found
    assert type(found.slope) is type(found.inner["halves"].two) is np.ndarray
    assert type(found.inner["halves"].one) is np.float64
    assert wa.provenance(found.slope).backward(1)["x"][0].tolist() == [1]
    assert wa.provenance(found.inner["halves"].two).backward(1)["x"][0].tolist() == [2]
    assert {p.name for p in fitted.last if p.grade == "exact"} == {
        "fitted.slope",
        "fitted.inner['halves'].one",
        "fitted.inner['halves'].two",
    }


def test_an_argument_of_a_dataclass_that_is_returned_is_itself() -> None:
    model = Fitted(None)
    fit = wa.track(lambda self, x: setattr(self, "slope", x.mean()) or self)
    assert fit(model, np.arange(4.0)) is model
    assert model.slope == 1.5 and type(model.slope) is np.float64


def test_views_know_the_fields_of_a_dataclass() -> None:
    split = wa.track(lambda x: Value(x + 1), views=wa.Views())  # what libraries define is known
    for _ in range(4):
        made: Any = split(np.arange(4.0))
        assert wa.provenance(made.key).backward(1)["x"][0].tolist() == [1]
    assert split.last.view == "dimensional"


def test_what_holds_nothing_tracked_is_handed_out_as_it_is() -> None:
    seen, found = {1, 2}, Fitted(None)
    for level in range(3000):  # each in the one before it
        found = Fitted(level, inner=found)
    shared = Fitted(seen, inner=seen)
    handed = wa.track(lambda x: (shared, seen, found))(np.arange(2.0))
    assert handed[0] is shared and shared.slope is shared.inner is seen
    assert handed[1] is seen and handed[2] is found
