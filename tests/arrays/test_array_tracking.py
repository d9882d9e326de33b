"""Tracking: control flow, values that leave, aliasing, unknown functions, bad input."""

import copy
import math
import pickle
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from array_oracle import matrix
from pyspark import cloudpickle

import whence.arrays as wa
from whence.errors import ArrayError, SelectionError, UnknownNameError

X = np.array([3.0, 1.0, 2.0, 9.0])


def flat(found: wa.Provenance, cell: Any, name: str = "x", role: Any = "contributing") -> list[int]:
    return found.cells(cell, role)[name].positions().tolist()


def test_results_are_ordinary_and_equal() -> None:
    @wa.track
    def f(x: Any, *, scale: float = 1.0) -> Any:
        """Scaled."""
        return x * scale

    result = f(X, scale=2.0)
    assert type(result) is np.ndarray
    assert np.array_equal(result, X * 2)
    assert (f.__name__, f.__doc__) == ("f", "Scaled.")
    found = wa.provenance(result)
    assert found.grade == "exact"
    assert found.backward((3,))["x"][0].tolist() == [3]
    assert found.forward("x", (1,))[0].tolist() == [1]
    assert found.backward()["x"][0].tolist() == [0, 1, 2, 3]


def test_the_same_object_comes_back() -> None:
    assert wa.track(lambda x: x)(X) is X
    assert wa.provenance(X).relation("x").rows()[0].outputs == ((0, 3),)


def test_scalars_are_numpy_scalars() -> None:
    result = wa.track(lambda x: x.sum())(X)
    assert type(result) is np.float64
    assert flat(wa.provenance(result), ()) == [0, 1, 2, 3]


def test_many_outputs_and_inputs() -> None:
    pair = namedtuple("pair", "one two")

    @wa.track
    def f(parts: list[Any], *more: Any, **named: Any) -> Any:
        return pair(parts[0] + more[0], {"z": [named["k"] * 2, 5]})

    result = f([X, X + 1], X * 3, k=X)
    assert isinstance(result, pair)
    one, two = wa.provenance(result.one), wa.provenance(result.two["z"][0])
    assert set(one.inputs) == {"parts[0]", "parts[1]", "more[0]", "k"}
    assert [n for n, c in one.cells(0).items() if len(c)] == ["parts[0]", "more[0]"]
    assert [n for n, c in two.cells(0).items() if len(c)] == ["k"]


def test_methods_and_nested_tracked_functions() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = 2.0

        @wa.track
        def apply(self, x: Any) -> Any:
            return inner(x) * self.weight

    inner = wa.track(lambda x: x[::-1])
    result = Model().apply(X)
    assert np.array_equal(result, X[::-1] * 2)
    assert flat(wa.provenance(result), 0) == [3]


def test_branches_on_values_are_influence() -> None:
    @wa.track
    def f(x: Any) -> Any:
        if x[3] > 5:
            return x[:2]
        return x[2:]

    found = wa.provenance(f(X))
    assert flat(found, 0) == [0]
    assert flat(found, 0, role="influencing") == [3]
    assert found.grade == "exact"


def test_masks_and_losers_are_influence() -> None:
    found = wa.provenance(wa.track(lambda x: np.maximum(x, x[::-1]))(X))
    assert flat(found, 1) == [2] and flat(found, 1, role="influencing") == [1]
    found = wa.provenance(wa.track(lambda x: x.max())(X))
    assert flat(found, ()) == [3] and flat(found, (), role="influencing") == [0, 1, 2]
    found = wa.provenance(wa.track(lambda x: x[x > 1.5])(X))
    assert flat(found, 1) == [2] and flat(found, 1, role="influencing") == [0, 1, 3]
    found = wa.provenance(wa.track(lambda x, y: np.where(x > 1.5, y, 0))(X, X * 2))
    assert flat(found, 0, "y") == [0] and flat(found, 0, "x") == []
    assert flat(found, 0, "x", "influencing") == [0]
    assert flat(found, 1, "y") == []


@pytest.mark.parametrize("leave", [float, int, math.sqrt, lambda v: v.tolist(), np.asarray])
def test_values_that_leave_make_a_superset(leave: Any) -> None:
    out = leave.__module__ == "numpy"  # the name np.asarray taken before the call is the original

    @wa.track
    def f(x: Any) -> Any:
        factor = leave(x[0])
        return x[1:] * (factor if not out else factor + 0)

    found = wa.provenance(f(X))
    assert found.grade == "superset"
    assert any("left through" in note for note in found.notes)
    assert flat(found, 0) == [0, 1]


def test_a_shape_that_values_decided_is_a_branch() -> None:
    @wa.track
    def f(x: Any) -> Any:
        many = x[x > 1.5]
        return x[:2] * len(many), x[:2] * np.size(many * 1), x[:2] * len(x)

    by_len, by_size, fixed = map(wa.provenance, f(X))
    for found in (by_len, by_size, fixed):
        assert flat(found, 0) == [0] and found.grade == "exact"
    assert flat(by_len, 0, role="influencing") == [1, 2, 3]
    plain = wa.provenance(wa.track(lambda x: x[:2] * np.ndim(x) * x.shape[0])(X))
    assert flat(plain, 0, role="influencing") == []


def test_truth_values_of_comparisons_are_branches() -> None:
    found = wa.provenance(wa.track(lambda x, y: y if np.allclose(x, 3) else y * 2)(X, X * 2))
    assert found.grade == "exact"
    assert flat(found, 1, "y") == [1] and flat(found, 1, "x", "influencing") == [0, 1, 2, 3]


def test_plain_indices_after_values_left_are_doubted() -> None:
    @wa.track
    def f(x: Any) -> Any:
        order = OLD_ASARRAY(x).argsort()
        return x[order], {x[0]: 1}[3.0]

    found = wa.provenance(f(X)[0])
    assert found.grade == "superset"
    with pytest.raises(TypeError, match="unhashable"):
        wa.track(lambda x: {x: 1})(X)


OLD_ASARRAY = np.asarray


def test_a_plain_array_that_was_written_to_is_a_superset() -> None:
    store = np.zeros(2)

    @wa.track
    def f(x: Any) -> Any:
        store[0] = x[1]
        return store + 0

    found = wa.provenance(f(X))
    assert found.grade == "superset" and flat(found, 0) == [1]


def test_blank_arrays_made_in_the_call_are_followed() -> None:
    @wa.track
    def f(x: Any) -> Any:
        out = np.zeros(3)
        for i in range(3):
            out[i] = x[i] + x[i + 1]
        table = np.array([[x[0], 1.0], [x[2], x[3]]])
        return out, table, np.asarray(x, dtype=np.float32), np.full(2, x[1])

    out, table, narrow, full = map(wa.provenance, f(X))
    assert [flat(out, i) for i in range(3)] == [[0, 1], [1, 2], [2, 3]]
    assert [flat(table, (i, j)) for i in (0, 1) for j in (0, 1)] == [[0], [], [2], [3]]
    assert flat(narrow, 2) == [2] and flat(full, 1) == [1]
    assert {p.grade for p in (out, table, narrow, full)} == {"exact"}
    assert np.zeros.__module__ == "numpy" and type(np.zeros(1)) is np.ndarray


def test_unit_matrices_made_in_the_call_are_followed() -> None:
    def factors(x: Any) -> Any:
        lower, upper = np.eye(2), x.reshape(2, 2).copy()
        lower[1, 0] = upper[1, 0] / upper[0, 0]
        upper[1] -= lower[1, 0] * upper[0]
        return lower, upper

    follow = wa.track(factors)
    assert all(map(np.array_equal, follow(X), factors(X)))
    assert {p.grade for p in follow.last} == {"exact"}
    assert [flat(follow.last[0], (1, k)) for k in (0, 1)] == [[0, 2], []]
    hot = wa.track(lambda x: np.eye(10)[x.astype(int) % 10])
    assert flat(wa.provenance(hot(X)), (1, 0), role="influencing") == [1]
    sized = wa.track(lambda x: np.identity(x.argmax()) * 2)
    sized(X)
    assert flat(sized.last, (1, 1), role="influencing") == [0, 1, 2, 3]
    viewed = wa.track(lambda x: x.reshape(2, 2)[~np.eye(2, dtype=bool)], views=wa.Views())
    for _ in range(3):
        viewed(X)
    assert viewed.last.view == "dimensional"


def test_strings_and_pickles_are_unknown() -> None:
    for leave in (str, repr, pickle.dumps, lambda x: f"{x}"):
        follow = wa.track(lambda x, go=leave: go(x))
        follow(X)
        assert follow.last.grade == "unknown"
        with pytest.raises(ArrayError, match="unknown"):
            follow.last.backward(())


def test_texts_are_those_of_numpy() -> None:
    def texts(x: Any) -> Any:
        return repr(x), str([x[0], x.sum(), x[1].item()]), f"{x[0]!r}"

    assert wa.track(texts)(X) == texts(X)
    follow = wa.track(lambda x: float(str([x[1].item()])[1:-1]) * x[0])
    follow(X)
    assert flat(follow.last, ()) == [0, 1]


def test_unknown_functions_run_on_annotated_cells_or_are_supersets() -> None:
    found = wa.provenance(wa.track(lambda x: np.vander(x, 3))(X))
    assert found.grade == "exact"
    assert [flat(found, (1, i)) for i in range(3)] == [[1], [1], []]
    found = wa.provenance(wa.track(lambda x: np.polyval(x, 2.0))(X))
    assert found.grade == "exact" and flat(found, ()) == [0, 1, 2, 3]
    found = wa.provenance(wa.track(lambda x: np.linalg.qr(x.reshape(2, 2)).R)(X))
    assert found.grade == "superset" and "qr" in found.notes[0]
    found = wa.provenance(wa.track(lambda x: np.vander(x, 3))(np.ones(5000)))
    assert found.grade == "superset" and "vander" in found.notes[0]
    assert len(found.cells((0, 0))["x"]) == 5000


def test_declared_rules() -> None:
    def every_other(x: Any) -> Any:
        return np.asarray(x)[::2].copy()

    def reverse(result: Any, x: Any) -> Any:
        return {0: (np.arange(len(x)), np.arange(len(x))[::-1])}

    moves = wa.declare(every_other, "moves cells")
    told = wa.declare(lambda x: np.asarray(x)[::-1].copy(), reverse)
    found = wa.provenance(wa.track(lambda x: told(moves(x)))(X))
    assert found.grade == "exact" and flat(found, 0) == [2]
    cells = wa.declare(lambda x: np.array(list(x)) ** 2, "element-wise")
    assert flat(wa.provenance(wa.track(lambda x: cells(x))(X)), 2) == [2]
    assert np.array_equal(cells(X), X**2)
    whole = wa.declare(lambda x: np.array([1.0]), "everything")
    assert flat(wa.provenance(wa.track(lambda x: whole(x))(X)), 0) == [0, 1, 2, 3]
    with pytest.raises(ArrayError, match="no rule"):
        wa.declare(len, "sideways")  # type: ignore[arg-type]
    outside = wa.declare(lambda x: np.array([1.0]), lambda r, x: {0: ([0], [99])})
    with pytest.raises(ArrayError, match="outside"):
        wa.track(lambda x: outside(x))(X)


def test_interactive_use() -> None:
    a = wa.tracked(X, "a")
    b = np.sort(a)[::-1] * 2
    found = wa.provenance(b)
    assert found.backward(0)["a"][0].tolist() == [3]
    X2 = X.copy()  # noqa: N806
    t = wa.tracked(X2, "t")
    mask = t > 1.5
    X2[:] = 0  # the caller's array is not the tracked one
    assert wa.provenance(t[mask]).backward(0)["t"][0].tolist() == [0]
    assert "tracked(array" in repr(t) and str(t) == str(X)
    assert wa.provenance(t * 2).grade == "exact"
    other = wa.tracked(X, "other")
    half = float(other[0]) / 2
    found = wa.provenance(t * half)
    assert found.grade == "superset" and found.backward(1)["other"][0].tolist() == [0]
    del a, b, t, other, mask
    assert wa.provenance(wa.tracked(X) * 2).grade == "exact"  # nothing is left of the above
    assert flat(wa.provenance(wa.track(lambda x: copy.copy(x)[::-1])(X)), 0) == [3]


def test_changes_after_the_call_do_not_matter() -> None:
    x = X.copy()
    result = wa.track(np.sort)(x)
    x[:] = [9, 8, 7, 6]
    assert [wa.provenance(result).backward(i)["a"][0].tolist() for i in range(4)] == [
        [1], [2], [0], [3],
    ]  # fmt: skip


def test_changes_inside_the_call_do_not_matter() -> None:
    @wa.track
    def f(x: Any) -> Any:
        ordered = np.sort(x)
        x[:] = 0
        return ordered, x

    ordered, x = map(wa.provenance, f(X.copy()))
    assert flat(ordered, 0) == [1]
    assert flat(x, 0) == []


def test_in_place_methods_and_functions() -> None:
    @wa.track
    def f(x: Any) -> Any:
        view = x[1:]
        view.sort()
        x[0] *= 2
        np.copyto(x, 5.0, where=np.array([False, False, False, True]))
        y = x.reshape(2, 2)
        y.fill(1) if len(x) == 5 else None
        np.put(y, [0], x[1])
        y.shape = (4,)
        return x, y

    x, y = map(wa.provenance, f(X.copy()))
    assert [flat(x, i) for i in range(4)] == [[1], [1], [2], []]
    assert [flat(y, i) for i in range(4)] == [[1], [1], [2], []]


def test_ufunc_methods() -> None:
    @wa.track
    def f(x: Any) -> Any:
        out = np.zeros_like(x)
        np.add.at(out, [0, 0, 2], x[1:])
        masked = np.add(x, 1, where=x > 1.5, out=np.zeros(4))
        return (
            np.add.reduce(x), np.add.accumulate(x), np.add.outer(x, x[:2]),
            np.add.reduceat(x, [0, 2]), out, masked, np.maximum.accumulate(x),
        )  # fmt: skip

    results = f(X)
    answers = [wa.provenance(r) for r in results]
    assert flat(answers[0], ()) == [0, 1, 2, 3]
    assert flat(answers[1], 1) == [0, 1]
    assert flat(answers[2], (3, 1)) == [1, 3]
    assert flat(answers[3], 1) == [2, 3]
    assert [flat(answers[4], i) for i in range(4)] == [[1, 2], [], [3], []]
    assert [flat(answers[5], i) for i in range(4)] == [[0], [], [2], [3]]
    assert [flat(answers[6], i) for i in range(4)] == [[0], [0], [0], [3]]


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x: np.argsort(x), [[1], [2], [0], [3]]),
        (lambda x: np.clip(x, 1.5, 5), [[0], [], [2], []]),
        (lambda x: np.searchsorted(np.array([1.5, 5]), x), [[0], [1], [2], [3]]),
        (lambda x: np.histogram(x, bins=2)[0], [[0, 1, 2], [3]]),
        (lambda x: np.bincount(x.astype(int), minlength=4)[:4], [[], [1], [2], [0]]),
        (lambda x: np.unique(x, return_counts=True)[1], [[1], [2], [0], [3]]),
        (lambda x: np.einsum("i,i->i", x, x), [[0], [1], [2], [3]]),
        (lambda x: np.tensordot(x, np.ones((4, 2)), 1), [[0, 1, 2, 3]] * 2),
        (lambda x: np.tril(x.reshape(2, 2)).ravel(), [[0], [], [2], [3]]),
        (lambda x: np.pad(x, (1, 1), mode="reflect"), [[1], [0], [1], [2], [3], [2]]),
        (lambda x: np.nansum(np.where(x > 2.5, np.nan, x), keepdims=True), [[1, 2]]),
        (lambda x: np.fft.fft(x), [[0, 1, 2, 3]] * 4),
        (lambda x: np.diff(x, prepend=0), [[0], [0, 1], [1, 2], [2, 3]]),
        (lambda x: np.split(x, 2)[1], [[2], [3]]),
        (lambda x: np.lib.stride_tricks.sliding_window_view(x, 3)[0], [[0], [1], [2]]),
        (lambda x: np.average(x, weights=x[::-1], keepdims=True), [[0, 1, 2, 3]]),
    ],
)
def test_other_functions(function: Any, wanted: list[list[int]]) -> None:
    found = wa.provenance(wa.track(lambda x: function(x))(X))
    assert found.grade == "exact", found.notes
    assert [flat(found, i) for i in range(len(wanted))] == wanted


# bad input


def test_object_and_structured_arrays() -> None:
    things = np.array([1, "a", None, 2.5], dtype=object)
    found = wa.provenance(wa.track(lambda x: x[::-1])(things))
    assert flat(found, 0) == [3]
    found = wa.provenance(wa.track(lambda x: x + x)(np.array([1, 2], dtype=object)))
    assert flat(found, 1) == [1]
    records = np.array([(1, 2.0), (3, 4.0)], dtype=[("a", int), ("b", float)])
    result = wa.track(lambda x: x["b"] * 2)(records)
    assert result.tolist() == [4.0, 8.0]
    assert flat(wa.provenance(result), 1) == [1]
    result = wa.track(lambda x: np.sort(x, order="b"))(records[::-1].copy())
    assert flat(wa.provenance(result), 0) == [1]


RECORDS = np.array(
    [(1, 2.0, (5, 6)), (3, 4.0, (7, 8)), (2, 1.0, (9, 0))],
    dtype=[("a", int), ("b", float), ("c", int, 2)],
)


def set_fields(x: Any, y: Any) -> Any:
    for record, value in zip(x, y, strict=False):
        record["b"] = value
        record[0] = 7
    return x


def set_part_of_field(x: Any, y: Any) -> Any:
    x[1]["c"][:] = y[:2]
    return x["c"]


def set_with_what_left(x: Any, y: Any) -> Any:
    x["b"] = float(y[0]) + float(y[1]) + float(y[2])
    return x["b"]


def set_record(x: Any, y: Any) -> Any:
    x[1] = (1, y[0] + y[1] + y[2], (2, 3))
    return x["b"]


@pytest.mark.parametrize("f", [set_fields, set_part_of_field, set_with_what_left, set_record])
def test_writing_into_records(f: Any) -> None:
    plain, given = RECORDS.copy(), RECORDS.copy()
    follow = wa.track(f)
    assert np.array_equal(f(plain, X), follow(given, X)) and np.array_equal(plain, given)
    assert follow.last.grade == "superset"
    assert follow.last.backward()["y"][0].tolist()[:2] == [0, 1]


def test_records_lie_in_their_array() -> None:
    def f(x: Any) -> Any:
        record, copied = x[1], x[1].copy()
        x[1] = x[0]
        return record["a"], record[1], record[["a", "b"]], copied["b"], record["c"], x[2][-1]

    follow = wa.track(f)
    for one, two in zip(f(RECORDS.copy()), follow(RECORDS.copy()), strict=True):
        assert type(one) is type(two) and np.array_equal(one, two)
    assert [p.grade for p in follow.last] == ["exact"] * 6
    assert [set(p.backward()["x"][0].tolist()) for p in follow.last] == [{0}] * 3 + [{1}, {0}, {2}]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), ()])
def test_zero_sizes_and_zero_dimensions(shape: tuple[int, ...]) -> None:
    x = np.ones(shape)
    calls = [np.sin, np.sum, np.sort, np.cumsum, np.ravel, lambda a: a + a, np.transpose]
    for call in calls:
        if call is np.sort and not shape:
            continue
        follow = wa.track(lambda a, go=call: go(a))
        result = follow(x)
        assert np.array_equal(result, call(x))
        relation = follow.last.relation("a")
        assert matrix(relation.form).shape == (np.size(result), x.size)
        assert relation.rows() is not None and relation.nbytes > 0
        assert wa.Relation.from_bytes(relation.to_bytes()).nbytes == relation.nbytes
    if x.size:
        assert follow.last.backward(()) == {"a": ()}


def test_masked_arrays_and_matrices_are_supersets() -> None:
    masked = np.ma.masked_less(X, 2.5)
    result = wa.track(lambda x, y: x.sum() + y)(masked, X)
    assert np.array_equal(result, masked.sum() + X)
    found = wa.provenance(result)
    assert found.grade == "superset" and "MaskedArray" in found.notes[0]
    assert flat(found, 1) == [0, 1, 2, 3] and flat(found, 1, "y") == [1]

    class Mine(np.ndarray):
        pass

    mine = X.view(Mine)
    result = wa.track(lambda x: x * 2)(mine)
    assert type(result) is Mine
    assert wa.provenance(result).grade == "superset"


def test_memory_maps(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    result = wa.track(lambda x: np.sort(x))(mapped)
    assert np.array_equal(result, np.sort(X))
    assert flat(wa.provenance(result), 0) == [1]


def test_nan() -> None:
    x = np.array([2.0, np.nan, 1.0])
    assert flat(wa.provenance(wa.track(np.max)(x)), (), "a") == [1]
    assert flat(wa.provenance(wa.track(np.median)(x)), (), "a") == [1]
    assert flat(wa.provenance(wa.track(np.nanmax)(x)), (), "a") == [0]
    assert flat(wa.provenance(wa.track(np.sort)(x)), 2, "a") == [1]
    y = np.array([np.nan, 5.0, 3.0])
    one = wa.track(lambda x, y: np.maximum(x, y))(x, y)
    assert [flat(wa.provenance(one), i) for i in range(3)] == [[], [1], []]
    two = wa.track(lambda x, y: np.fmax(x, y))(x, y)
    assert [flat(wa.provenance(two), i) for i in range(3)] == [[0], [], []]
    nans = np.array([np.nan, 1.0, np.nan])
    found = wa.provenance(wa.track(np.unique)(nans))
    assert [flat(found, i, "ar") for i in range(2)] == [[1], [0]]


@pytest.mark.parametrize("cells", [1000, (1 << 19) + 77])  # as a whole, and block by block
def test_which_of_two_was_taken(cells: int) -> None:
    x, y = (np.random.default_rng(k).integers(0, 9, cells).astype(float) for k in (1, 2))
    x[::7] = np.nan
    y[::11] = np.nan
    missing = {np.maximum: np.isnan(x), np.minimum: np.isnan(x)}
    missing |= {np.fmax: np.isnan(y), np.fmin: np.isnan(y)}
    for ufunc, nan in missing.items():
        found = wa.provenance(wa.track(lambda x, y, go=ufunc: go(x, y))(x, y))
        larger = ufunc in (np.maximum, np.fmax)
        first = nan | (x >= y if larger else x <= y)
        for name, taken in (("x", first), ("y", ~first)):
            assert np.array_equal(
                found.backward(..., "contributing")[name][0], np.flatnonzero(taken)
            )


def test_numpy_is_itself_again_and_stays_a_module() -> None:
    """Also for who pickles it or changes a name of it meanwhile, and in other threads."""
    before, kind, seen = dict(vars(np)), type(np), []
    library: dict[str, Any] = {"__name__": "library"}

    @wa.track
    def f(x: Any) -> Any:
        seen.append((np.full is before["full"], isinstance(np, ModuleType), "full" in dir(np)))
        seen.append(pickle.loads(cloudpickle.dumps(np)) is np)
        with ThreadPoolExecutor(1) as other:
            seen.append(other.submit(lambda: np.asarray).result() is before["asarray"])
        exec("from numpy import zeros", library)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np, "full", None)
            assert vars(np)["full"] is None and np.full is None
            patch.delattr(np, "ones")
            assert not hasattr(np, "ones")
        assert not hasattr(np, "no_such_name")
        return x + np.zeros_like(x)

    f(X)
    assert seen == [(False, True, True), True, True]
    assert (type(np), np.full) == (kind, before["full"])
    assert dict(vars(np)) == before and library["zeros"] is np.zeros


def test_what_is_put_in_place_of_a_function_is_called() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np, "zeros", lambda count: np.full(count, 7.0))
        assert wa.track(lambda x: x + np.zeros(4))(X).tolist() == (X + 7).tolist()


def test_reshape_refuses_the_order_of_memory() -> None:
    for call in (lambda x: x.reshape(-1, order="K"), lambda x: np.reshape(x, 4, order="K")):
        with pytest.raises(ValueError, match="K"):
            wa.track(call)(X)


def test_functions_that_raise() -> None:
    @wa.track
    def f(x: Any) -> Any:
        y = np.zeros(2)
        raise KeyError(f"half way {len(y)}")

    original = np.zeros
    with pytest.raises(KeyError, match="half way 2"):
        f(X)
    assert np.zeros is original and type(np.asarray(X)) is np.ndarray
    for wrong in (lambda x: x[10], lambda x: x + np.ones(3), lambda x: x.nothing):
        with pytest.raises((IndexError, ValueError, AttributeError)) as plain:
            wrong(X)
        with pytest.raises(plain.type) as tracked:
            wa.track(wrong)(X)
        assert str(tracked.value) == str(plain.value)


def test_questions_that_make_no_sense() -> None:
    result = wa.track(lambda image: image * 2)(np.ones((3, 4)))
    found = wa.provenance(result)
    with pytest.raises(UnknownNameError, match="did you mean 'image'"):
        found.forward("imag", (0, 0))
    with pytest.raises(ArrayError, match="out of bounds"):
        found.backward((9, 9))
    with pytest.raises(ArrayError, match="3 indices"):
        found.backward((0, 0, 0))
    with pytest.raises(SelectionError, match="role"):
        found.backward((0, 0), "sideways")  # type: ignore[arg-type]
    with pytest.raises(ArrayError, match="no provenance is known"):
        wa.provenance(np.ones(3))
    with pytest.raises(ArrayError, match="expects a function"):
        wa.track(5)  # type: ignore[arg-type]


def test_arguments_that_are_not_followed_are_named() -> None:
    class Holder:
        values = np.ones(4)

    found = wa.provenance(wa.track(lambda x, h: x + h.values)(X, Holder()))
    assert found.untracked == ("h",)


def test_threads_do_not_meet() -> None:
    from concurrent.futures import ThreadPoolExecutor

    follow = wa.track(lambda x: np.asarray(np.zeros(4) + np.sort(x)))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda i: follow(np.roll(X, i)), range(40)))
    for i, result in enumerate(results):
        where = int(np.argmin(np.roll(X, i)))
        assert wa.provenance(result).backward(0)["x"][0].tolist() == [where]
    assert type(np.zeros(1)) is np.ndarray


def test_random_numbers_inside_a_tracked_function() -> None:
    @wa.track
    def noisy(a: Any) -> Any:
        return a + np.random.default_rng(3).normal(size=a.shape)

    a = np.arange(4.0)
    y = noisy(a)
    np.testing.assert_array_equal(y, a + np.random.default_rng(3).normal(size=4))
    assert wa.provenance(y).backward(2)["a"][0].tolist() == [2]
    assert wa.provenance(y).grade == "exact"


def test_two_arrays_of_one_name_are_told_apart() -> None:
    one, two = wa.tracked(np.arange(3.0)), wa.tracked(np.arange(3.0) + 5)
    found = wa.provenance(one[::-1] + two).backward(0)
    assert len(found) == 2
    assert sorted(part[0].tolist() for part in found.values()) == [[0], [2]]


def test_a_branch_on_a_value_that_left_is_not_overlooked() -> None:
    @wa.track
    def f(x: Any) -> Any:
        return np.negative(x) if float(x[2]) > 0 else np.square(x)

    found = wa.provenance(f(X))
    assert found.grade == "superset"
    assert flat(found, 0) == [0]
    assert flat(found, 0, role="influencing") == [2]


def test_an_inner_call_hands_arrays_of_the_outer_call_back_tracked() -> None:
    kept: list[Any] = []

    @wa.track
    def inner(n: int) -> Any:
        return kept[0] * 2

    @wa.track
    def outer(x: Any) -> Any:
        kept.append(x)
        return inner(3)[::-1]

    assert flat(wa.provenance(outer(X)), 0) == [3]


def test_an_inner_call_on_plain_arrays_is_part_of_the_outer_call() -> None:
    @wa.track
    def outer(x: Any) -> Any:
        @wa.track
        def shifted(z: Any) -> Any:
            return z + x

        @wa.track
        def fill(z: Any) -> None:
            z[0] = x[3]

        plain = np.arange(4.0)
        fill(plain)
        return shifted(np.arange(4.0)) * 2, plain

    shifted, plain = map(wa.provenance, outer(X))
    assert shifted.backward(2)["x"][0].tolist() == [2, 3]
    assert flat(plain, 0) == [3] and plain.grade == "superset"


def test_errors_that_are_caught_are_branches() -> None:
    def first(call: Any) -> Any:
        @wa.track
        def f(x: Any, y: Any) -> Any:
            try:
                call(x, y)
            except (ArithmeticError, LookupError, ValueError):
                return x[:1]
            return x

        with np.errstate(all="raise"):
            found = wa.provenance(f(X, np.array([0, 9])))
        assert found.grade == "exact" and flat(found, 0) == [0]
        return [flat(found, 0, name, "influencing") for name in ("x", "y")]

    assert first(lambda x, y: x[0] / y) == [[], [0, 1]]
    assert first(lambda x, y: x[y]) == [[], [0, 1]]
    assert first(lambda x, y: np.bincount(y[:1] - 1)) == [[], [0]]
    assert first(lambda x, y: np.asarray_chkfinite(np.where(y, np.inf, 0))) == [[], [0, 1]]
    for of_sizes in (lambda x, y: x[9], lambda x, y: x + y, lambda x, y: y.__setitem__(2, 1)):
        assert first(of_sizes) == [[], []]


def test_a_shape_that_is_set_is_that_of_every_name() -> None:
    @wa.track
    def f(x: Any) -> Any:
        same = np.squeeze(x)
        x.shape = (4,)
        return same

    found = wa.provenance(f(X.reshape(2, 2).copy()))
    assert found.shape == (4,)
    assert [part.tolist() for part in found.backward(2)["x"]] == [[1], [0]]


def test_partials_callable_objects_and_generators() -> None:
    class Doubled:
        def __call__(self, x: Any) -> Any:
            return x * 2

    for function in (Doubled(), partial(np.multiply, 2.0)):
        follow = wa.track(function)
        assert flat(wa.provenance(follow(X)), 1, list(follow.last.inputs)[-1]) == [1]
        assert follow.last.name in ("Doubled", "partial")

    @wa.track
    def each(x: Any) -> Any:
        told = yield np.sort(x)[:1]
        yield x[told]

    x = X.copy()
    made = each(x)
    first = next(made)
    x[1] = 100.0  # between two values the caller may do as it likes
    second = made.send(3)
    assert type(first) is np.ndarray and type(second) is np.float64
    assert flat(wa.provenance(first), 0) == [1] and flat(wa.provenance(second), ()) == [3]

    ended: list[bool] = []

    @wa.track
    def caught(x: Any) -> Any:
        try:
            yield x[0]
        except KeyError:
            yield x[1:3]
        finally:
            ended.append(True)

    made = caught(X)
    next(made)
    assert flat(wa.provenance(made.throw(KeyError())), 1) == [2]
    made.close()
    assert ended == [True]

    async def later(x: Any) -> Any:
        return x

    with pytest.raises(ArrayError, match="async"):
        wa.track(later)


def test_tracked_arrays_kept_from_another_call_are_doubted() -> None:
    kept: list[Any] = []
    wa.track(lambda x: kept.append(x * 2))(X)
    for function in (lambda x: x[::-1] + kept[0], lambda y: y + kept[0]):
        found = wa.provenance(wa.track(function)(X))
        assert found.grade == "superset" and "another call" in found.notes[0]


def test_memory_maps_are_themselves(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        x.view()[0] = x[1]
        x.flush()
        return x * (2 if Path(x.filename).exists() else 3)

    made = []
    for call in (f, wa.track(f)):
        np.save(tmp_path / "x.npy", X)
        made.append(call(np.load(tmp_path / "x.npy", mmap_mode="r+")))
        made.append(np.load(tmp_path / "x.npy"))
    assert np.array_equal(made[0], made[2]) and np.array_equal(made[1], made[3])
    assert 1 in flat(wa.provenance(made[2]), 0)


def test_two_maps_of_one_file_are_doubted(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    one, two = (np.load(tmp_path / "x.npy", mmap_mode="r+") for _ in range(2))

    @wa.track
    def f(x: Any, y: Any) -> Any:
        x[0] = 7.0
        return y + 0

    assert wa.provenance(f(one, two)).grade == "superset"


@wa.track
def decayed(a: Any) -> Any:
    out = np.zeros(len(a))
    for i in range(len(a)):
        out[i] = a[i] + (out[i - 1] / 2 if i else 0)
    return out


def test_a_function_that_was_called_can_be_sent_elsewhere() -> None:
    """As Spark sends it to workers; what it recorded stays here."""
    decayed(np.arange(50.0))
    assert decayed.last is not None
    sent = pickle.loads(cloudpickle.dumps(decayed))
    assert sent.last is None
    assert np.array_equal(sent(np.arange(3.0)), decayed(np.arange(3.0)))


def test_code_for_any_library_of_arrays() -> None:
    @wa.track
    def scaled(x: Any) -> Any:
        xp = x.__array_namespace__()
        return xp.subtract(x, xp.mean(x, axis=0)) / xp.std(x, axis=0)

    x = np.random.default_rng(4).normal(size=(5, 2))
    y = scaled(x)
    assert np.array_equal(y, (x - x.mean(axis=0)) / x.std(axis=0))
    rows, columns = wa.provenance(y).backward((3, 1))["x"]
    assert sorted(rows) == list(range(5))
    assert set(columns) == {1}
