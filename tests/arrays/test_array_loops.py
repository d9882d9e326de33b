"""Loops that write an array cell by cell: against annotated cells, and of linear size."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from array_oracle import matrix

import whence.arrays as wa
from whence.arrays.annotated import annotated_array, read
from whence.arrays.graph import ordered
from whence.arrays.writes import Written


def blank(shape: Any, like: Any) -> Any:
    return np.zeros(shape, dtype=like.dtype)


def stencil(x: Any) -> Any:
    """Each inner cell from its neighbourhood."""
    out = blank(x.shape, x)
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            out[i, j] = x[i - 1 : i + 2, j - 1 : j + 2].sum()
    return out


def recurrence(x: Any) -> Any:
    """Each cell from the one before it, as it was then."""
    flat = x.reshape(-1)
    out = blank(flat.shape, x)
    out[0] = flat[0]
    for i in range(1, len(flat)):
        out[i] = out[i - 1] * 2 + flat[i]
        if i % 7 == 0:
            out[i - 1] = 0
    return out


def buckets(x: Any) -> Any:
    """Sums that grow in place."""
    out = blank((3,), x)
    for i, value in enumerate(x.reshape(-1)):
        out[i % 3] += value
    return out


def rows_by_view(x: Any) -> Any:
    """Rows written through views of them, and read back through the whole."""
    out = blank(x.shape, x)
    for turn in range(5):
        for i in range(len(x)):
            row = out[i]
            row[:] = x[i] + x[turn]
            row[turn % x.shape[1]] = x[0, 0]
        out[turn] = out[turn - 1]
    return out


def many_views(x: Any) -> Any:
    """One array written through views that turn, step and flatten it."""
    out = x.copy()
    turned, flat, back, odd = out.T, out.reshape(-1), out[::-1], out[1::2, ::-2]
    for i in range(12):
        turned[i % turned.shape[0], 0] = x[1, 1]
        flat[i * 3 % flat.size] = turned[0, 0]
        back[0] = x[i % len(x)]
        odd[0, i % odd.shape[1]] = flat[i]
    return out + back


def odd_keys(x: Any) -> Any:
    """Keys of every kind; of two values for one cell the last stays."""
    out = x.copy()
    for i in np.arange(12):
        out[i % 5, -1] = x[0, i % 3]
        out[..., i % 3] = x[:, 0]
        out[[0, 2, 0], [1, 1, 1]] = x[3, :3]
        out[np.arange(len(x)) % 4 == i % 4] = x[i % 3]
        out[None, i % 2 : 4 : 2, 1:3] = x[None, None, 0, 2:4]
        out[4] = 9
    return out


def swaps(x: Any) -> Any:
    """Cells and rows that change places."""
    out = x.copy()
    for i in range(40):
        a, b = i % len(x), (i * 3 + 1) % len(x)
        out[a, 0], out[b, 1] = out[b, 1], out[a, 0]
        out[[a, b]] = out[[b, a]]
    return out


def versions(x: Any) -> Any:
    """Earlier states stay what they were."""
    out = blank(x.shape, x)
    kept = []
    for i in range(40):
        out[i % len(x), i % x.shape[1]] = x.reshape(-1)[i % x.size]
        if i % 9 == 0:
            kept.append(out.copy())
        if i == 20:
            early = out[1] + out[2]
    return np.concatenate([*kept, out, early[None]])


def branches(x: Any) -> Any:
    """Two arrays that part from one: each goes its own way."""
    out = blank(x.shape, x)
    for i in range(40):
        out[i % len(x)] = x[(i + 1) % len(x)]
    other = out.copy()
    for i in range(40):
        other[:, i % 3] = out[:, 3]
        out[i % 2, 1] = other[0, 0]
    return out + other


LOOPS = [
    stencil,
    recurrence,
    buckets,
    rows_by_view,
    many_views,
    odd_keys,
    swaps,
    versions,
    branches,
]


@pytest.mark.parametrize("loop", LOOPS)
def test_loops(loop: Callable[[Any], Any]) -> None:
    x = np.random.default_rng(3).permutation(42).astype(float).reshape(6, 7)
    (wanted,) = map(matrix, read(np.asarray(loop(annotated_array(x, 0, []))), [x.shape]))
    result = wa.track(loop)(x)
    assert np.array_equal(result, loop(x))
    answer = wa.provenance(result)
    assert answer.grade == "exact"
    assert np.array_equal(matrix(answer.relation("x").form), wanted)
    for cell in range(0, result.size, 3):
        found = answer.backward(np.unravel_index(cell, result.shape))["x"]
        assert np.array_equal(np.ravel_multi_index(found, x.shape), np.flatnonzero(wanted[cell]))
    for cell in range(0, x.size, 4):
        there = answer.forward("x", np.unravel_index(cell, x.shape))
        flat = np.ravel_multi_index(there, result.shape)
        assert np.array_equal(flat, np.flatnonzero(wanted[:, cell]))
    every = answer.backward()["x"]
    assert np.array_equal(np.ravel_multi_index(every, x.shape), np.flatnonzero(wanted.any(axis=0)))
    everywhere = np.ravel_multi_index(answer.forward("x"), result.shape)
    assert np.array_equal(everywhere, np.flatnonzero(wanted.any(axis=1)))


def place(x: Any, order: Any) -> Any:
    """Values put where another array says."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[order[i]] = x[i]
    return out


def count(x: Any, order: Any) -> Any:
    """Sums of the values that fall into each bin, and the state half-way."""
    out = np.zeros(7)
    for i in range(len(x)):
        out[order[i] % 7] += x[i]
        if i == 20:
            early = out * 2
    return np.concatenate([out, early])


def rows_by_key(x: Any, order: Any) -> Any:
    """Cells of rows, put where another array says through views of the rows."""
    out = np.zeros((4, 9))
    for i in range(len(x)):
        row = out[i % 3]
        row[order[i] % 9] = x[i]
        if i == 20:
            out[0] = 5
    return out.reshape(-1)


def test_keys_steer_the_cells_that_they_left_alone() -> None:
    x, order = np.arange(40.0), np.roll(np.arange(40), 3)
    answer = wa.provenance(wa.track(place)(x, order))
    at = int(np.flatnonzero(order == 5)[0])
    assert answer.backward(5)["x"][0].tolist() == [at]
    assert len(answer.backward(5)["order"][0]) == 0
    # later keys could have chosen this cell too; what earlier ones wrote is gone
    assert answer.backward(5, role="influencing")["order"][0].tolist() == list(range(at, 40))
    assert answer.forward("order", 8, role="influencing")[0].tolist() == sorted(order[:9].tolist())
    assert len(answer.forward("order", 8)[0]) == 0


def test_keys_of_a_view_steer_what_lies_in_it() -> None:
    x, order = np.arange(36.0), np.arange(36)
    answer = wa.provenance(wa.track(rows_by_key)(x, order))
    assert answer.forward("order", 35, "influencing")[0].tolist() == list(range(18, 27))
    assert len(answer.backward(30, "influencing")["order"][0]) == 0  # no key went there
    assert 18 not in answer.backward(1, "influencing")["order"][0]  # written over since


@pytest.mark.parametrize("loop", [place, count, rows_by_key])
def test_roles_agree_however_they_are_asked_for(loop: Callable[..., Any]) -> None:
    rng = np.random.default_rng(1)
    x, order = rng.random(36), rng.permutation(36)
    answer = wa.provenance(wa.track(loop)(x, order))
    assert answer.grade == "exact"
    for name in ("x", "order"):
        direct = matrix(answer.relation(name).form)
        steered = matrix(answer.relation(name, "influencing").form) & ~direct
        for cell in range(answer.shape[0]):
            for role, wanted in (("contributing", direct), ("influencing", steered)):
                found = answer.backward(cell, role)[name][0]
                assert np.array_equal(found, np.flatnonzero(wanted[cell]))
        for cell in range(36):
            for role, wanted in (("contributing", direct), ("influencing", steered)):
                found = answer.forward(name, cell, role)[0]
                assert np.array_equal(found, np.flatnonzero(wanted[:, cell]))


def test_a_slice_that_values_bound() -> None:
    """Asking lets no value leave."""
    x = wa.tracked(np.arange(6.0), "x")
    n = wa.tracked(np.array([2, 4]), "n")
    out = np.zeros_like(x)
    out[n[0] : n[1]] = x[:2]
    answer = wa.provenance(out)
    assert answer.backward(3)["x"][0].tolist() == [1]
    assert answer.backward(3, role="influencing")["n"][0].tolist() == [0, 1]
    assert wa.provenance(out + 1).grade == answer.grade == "exact"


def test_a_question_between_two_writes() -> None:
    """At a prompt: the log grows after it was asked."""
    x = wa.tracked(np.arange(4.0), "x")
    out = np.zeros_like(x)
    for i in range(4):
        out[i] = x[3 - i]
        assert wa.provenance(out).backward(i)["x"][0].tolist() == [3 - i]
        assert wa.provenance(out).forward("x", 3)[0].tolist() == [0]


def test_a_long_loop_is_one_log() -> None:
    """No form of the array's size per write: only the cells that were written are looked at."""
    count = 5_000

    @wa.track
    def fill(x: Any) -> Any:
        out = np.zeros(len(x))
        for i in range(len(x)):
            out[i] = x[i] + x[i - 1]
        return out

    fill(np.arange(float(count)))
    answer = fill.last
    assert isinstance(answer.node, Written)
    assert len(answer.node.log.places) == count
    assert answer.backward(7)["x"][0].tolist() == [6, 7]
    assert answer.forward("x", 7)[0].tolist() == [7, 8]
    assert len(answer.relation("x").table) == 3
    looked = answer.node
    for _ in range(count):
        assert all(e._form is None or not hasattr(e._form, "index") for e in looked.edges)
        looked = looked.edges[0].parent
    assert not isinstance(looked, Written)


def test_held_values_are_not_watched_twice() -> None:
    """A mask that was copied before a write costs later writes nothing."""

    @wa.track
    def loop(x: Any) -> Any:
        out = x.copy()
        for i in range(30):
            seen.append(len(creation_session().held.get(block_of(out.data_), ())))
            out[i] = np.where(out > 3, out, 0)[i]
        return out

    from whence.arrays.memory import block_of
    from whence.arrays.rules import creation

    def creation_session() -> Any:
        return creation.current.get()

    seen: list[int] = []
    loop(np.arange(30.0))
    assert max(seen) <= 1


def half_of_each_that_left(x: Any) -> Any:
    out = np.zeros(len(x))
    for k in range(len(x)):
        out[k] = float(x[k]) / 2
    return out


def test_values_that_leave_one_by_one_make_a_graph_that_grows_with_them() -> None:
    sizes = []
    for n in (50, 100):
        function = wa.track(half_of_each_that_left)
        function(np.arange(float(n)))
        nodes = ordered(function.last.node)
        sizes.append(sum(len(node.edges) for node in nodes))
        assert function.last.grade == "superset"
        assert function.last.backward(0)["x"][0].tolist() == [0]
        assert function.last.backward(n - 1)["x"][0].tolist() == list(range(n))
        assert function.last.notes == ("a value left through float()",)
    assert sizes[1] < 2.2 * sizes[0]
