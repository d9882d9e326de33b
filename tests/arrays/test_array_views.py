"""Views: when they are made, that they are right, and that they are withdrawn."""

import pickle
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whence.arrays as wa
from whence.arrays.catalogue import CATALOGUE
from whence.arrays.coverage import measure
from whence.arrays.generalise import Pattern, describe, fit, patterns
from whence.errors import ArrayError, FormatError

rng = np.random.default_rng(3)


def kinds(function: Any, calls: list[Any]) -> list[str]:
    out = []
    for args in calls:
        function(*args)
        out.append(function.last.view)
    return out


def smooth(x: Any, times: int = 1, note: str = "") -> Any:
    for _ in range(times):
        x = x[:-1] + x[1:]
    return x


def test_a_dimensional_view_after_two_calls() -> None:
    follow = wa.track(smooth, views=wa.Views())
    calls = [(rng.random(6),) for _ in range(4)]
    assert kinds(follow, calls) == ["", "", "dimensional", "dimensional"]
    result = follow(calls[0][0])
    assert np.array_equal(result, smooth(calls[0][0]))
    assert wa.provenance(result).backward(2)["x"][0].tolist() == [2, 3]


def test_a_generalised_view_after_two_sizes() -> None:
    follow = wa.track(smooth, views=wa.Views())
    sizes = (6, 9, 18, 40, 70, 3, 4)
    # 40 is more than twice the largest size seen, 3 less than the smallest: looked at first
    assert kinds(follow, [(rng.random(n),) for n in sizes]) == [
        "", "", "generalised", "", "generalised", "", "generalised",
    ]  # fmt: skip
    follow(rng.random(77))
    assert [str(r) for r in follow.last.relation("x").rows()] == ["[0, 75] ← [0, 1] (b1)"]


def test_arguments_matter_until_they_do_not() -> None:
    follow = wa.track(smooth, views=wa.Views())
    kinds(follow, [(rng.random(6), 1), (rng.random(6), 2), (rng.random(6), 1)])
    assert follow.last.view == ""
    follow(rng.random(6), 2)
    assert follow.last.view == ""
    follow(rng.random(6), 2)
    assert follow.last.view == "dimensional"
    assert follow.last.backward(0)["x"][0].tolist() == [0, 1, 2]
    # a word that changes nothing is left out of the signature
    other = wa.track(smooth, views=wa.Views())
    found = kinds(other, [(rng.random(6), 1, word) for word in "abbcc"])
    assert found == ["", "", "dimensional", "", "dimensional"]  # a new word is looked at once


def test_m_observations() -> None:
    follow = wa.track(smooth, views=wa.Views(observations=3))
    assert kinds(follow, [(rng.random(6),)] * 4) == ["", "", "", "dimensional"]


def test_values_that_decide_prevent_views_but_for_exact_ones() -> None:
    def order(x: Any) -> Any:
        return np.sort(x)

    follow = wa.track(order, views=wa.Views())
    x = rng.random(6)
    assert kinds(follow, [(x,), (x,), (rng.random(6),), (x,)]) == ["", "exact", "", "exact"]
    assert follow.last.backward(0)["x"][0].tolist() == [int(np.argmin(x))]

    def branch(x: Any) -> Any:
        return x[:2] if x[0] > 0 else x[1:3]

    follow = wa.track(branch, views=wa.Views())
    assert "dimensional" not in kinds(follow, [(np.ones(4) + i,) for i in range(5)])
    follow(-np.ones(4))
    assert follow.last.backward(0)["x"][0].tolist() == [1]


def test_a_choice_is_repeated_on_new_values() -> None:
    for function in (np.max, np.min, np.ptp):
        follow = wa.track(lambda x, go=function: go(x, axis=0), views=wa.Views())
        plain = wa.track(lambda x, go=function: go(x, axis=0))
        for n in (4, 4, 4, 6, 9, 12):
            x = rng.random((n, 3))
            follow(x)
            plain(x)
            for role in ("contributing", "influencing"):
                assert follow.last.relation("x", role) == plain.last.relation("x", role)
        assert follow.last.view == "generalised"


def test_a_choice_on_computed_values_is_not_repeated() -> None:
    follow = wa.track(lambda x: np.max(np.abs(x)), views=wa.Views())
    assert set(kinds(follow, [(rng.normal(size=5),) for _ in range(5)])) == {""}


def test_inputs_that_are_changed_prevent_views() -> None:
    def change(x: Any) -> Any:
        x += 1
        return x * 2

    follow = wa.track(change, views=wa.Views())
    assert set(kinds(follow, [(np.ones(4),) for _ in range(4)])) == {""}


def np_roll(x: Any, shift: int) -> Any:
    return np.roll(x, shift)


def test_cross_is_not_fooled() -> None:
    entry = next(e for e in CATALOGUE if e.name == "cross")
    found = measure(entry, seed=11)
    assert found.wrong == 0 and found.covered == (True, True)


def test_a_view_that_stops_being_right_is_withdrawn() -> None:
    def odd(x: Any) -> Any:
        return x[::-1] if len(x) in (14, 16, 18) else x * 1

    views = wa.Views(recheck=2)
    follow = wa.track(odd, views=views)
    assert "generalised" in kinds(follow, [(rng.random(n),) for n in (11, 20, 12, 13)])
    kinds(follow, [(rng.random(n),) for n in (14, 16, 18)])
    assert views.withdrawn >= 1
    result = follow(rng.random(16))
    assert wa.provenance(result).backward(0)["x"][0].tolist() == [15]


def test_a_size_found_out_by_an_error_is_looked_at() -> None:
    def turned_if_long(x: Any) -> Any:
        try:
            x[8]
        except IndexError:
            return x * 2
        return x[::-1]

    follow = wa.track(turned_if_long, views=wa.Views(recheck=10**6))
    assert kinds(follow, [(rng.random(n),) for n in (4, 4, 6, 6, 8, 8, 10)])[-1] == ""
    assert follow.last.backward(0)["x"][0].tolist() == [9]


def test_another_shape_than_the_view_says() -> None:
    def wide(x: Any) -> Any:
        return np.concatenate([x, x]) if len(x) == 15 else x * 1

    follow = wa.track(wide, views=wa.Views())
    assert kinds(follow, [(rng.random(n),) for n in (11, 20, 16)])[-1] == "generalised"
    result = follow(rng.random(15))
    assert wa.provenance(result).backward(25)["x"][0].tolist() == [10]
    assert follow.last.view == ""


def test_every_view_takes_its_turn() -> None:
    """Calls that alternate, and programs that end soon, do not keep a view from being checked."""
    store, turned = wa.MemoryStore(), types.ModuleType("numpy")  # a module that is not looked into

    def turn(x: Any) -> Any:
        return x[::-1] if hasattr(turned, "back") else x * 1

    def still(x: Any) -> Any:
        return x * 1

    views = wa.Views(store, recheck=4)
    one, two = (wa.track(f, views=views) for f in (turn, still))
    for follow in (one, two) * 4:
        follow(np.ones(4))
    turned.back = True  # type: ignore[attr-defined]
    for follow in (one, two) * 7:
        follow(np.ones(4))
    assert views.withdrawn == 1 and one.last.backward(0)["x"][0].tolist() == [3]

    def looked() -> bool:
        short = wa.track(still, views=wa.Views(store, recheck=4))
        short(np.ones(4))
        return bool(short.last.view == "")

    assert any(looked() for _ in range(200))


def test_a_module_that_is_asked_by_other_means_than_its_attributes() -> None:
    """What is taken from it cannot be told beforehand, so there is no view."""
    own = types.ModuleType("users_own")
    for number, take in enumerate(
        (
            lambda x: x[getattr(own, "K")],  # noqa: B009
            lambda x: x[vars(own)["K"]],
            lambda x: x[own.__dict__["K"]],
            lambda x: x[own.K],  # type: ignore[attr-defined]
        )
    ):
        own.K = 0  # type: ignore[attr-defined]
        follow = wa.track(take, views=wa.Views())
        for _ in range(3):
            follow(np.ones((3, 2)))
        assert (follow.last.view == "dimensional") == (number == 3)
        own.K = 2  # type: ignore[attr-defined]
        follow(np.ones((3, 2)))
        assert follow.last.backward()["x"][0].tolist() == [2, 2]


def twice(x: Any, shift: int, word: str = "") -> Any:
    return np.roll(x, shift) if word != "c" else x * 1


def test_an_argument_that_comes_to_matter() -> None:
    follow = wa.track(twice, views=wa.Views(recheck=1))  # each use is tracked as well
    kinds(follow, [(rng.random(6), 1, word) for word in "ab"])
    kinds(follow, [(rng.random(6), 1, "c")])
    follow.views.recheck = 1 << 30
    for word in "abcabcabc":
        follow(rng.random(6), 1, word)
        assert follow.last.backward(0)["x"][0].tolist() == [0 if word == "c" else 5]
    assert follow.last.view == "dimensional"


def R(*shape: int) -> Any:  # noqa: N802
    return rng.random(shape)


def pad(x: Any, width: int, mode: str) -> Any:
    return np.pad(x, width, mode=mode)  # type: ignore[call-overload]


def first_of(x: Any, **options: Any) -> Any:
    return x[next(iter(options.values())) :]


def half(x: Any) -> Any:
    return np.roll(x, len(x) // 2)


def cleared(x: Any) -> Any:
    try:
        x.reshape(-1)[1:] = 0.0
    except ValueError:
        return x[::-1]
    return x * 1


ONE = R(5)
ZEROS = np.array([0.0, -0.0, np.nan, 1, np.nan]), np.array([-0.0, 0.0, np.nan, np.nan, 1])
UNLIKE: dict[str, tuple[Any, list[Any]]] = {
    "item size": (lambda x: x[::-1] if x.dtype == "f4" else x, [R(5), R(5), R(5).astype("f4")]),
    "memory order": (
        lambda x: x[::-1] if x.flags.f_contiguous else x, [R(3, 4), R(3, 4), R(4, 3).T]),
    "backwards": (
        lambda x: x.ravel("K"), [*[R(3, 4)[::-1]] * 2, np.asfortranarray(R(6, 4))[::2]]),
    "the same cells again": (
        lambda x: (x + 1).ravel("K"), [*[np.broadcast_to(R(4), (3, 4))] * 2, R(4, 6).T[::2]]),
    "a copy or not": (
        cleared, [*[R(4, 6)[:, :3]] * 2, R(12, 2)[:, 0].reshape(4, 3)]),
    "read-only": (cleared, [*[np.frombuffer(bytes(32))] * 2, R(4)]),
    "steps in memory": (
        lambda x: x[::-1] if x.strides[0] > 16 else x, [*[R(9)[::2]] * 2, R(15)[::3]]),
    "flags": (lambda x: x if x.flags.owndata else x[::-1], [R(5), R(5), R(9)[:5]]),
    "base": (lambda x: x if x.base is None else x[::-1], [R(5), R(5), R(9)[:5]]),
    "shared memory": (
        lambda x, y: x if np.may_share_memory(x, y) else y, [*[(R(5), R(5))] * 2, (ONE, ONE)]),
    "order of a dict": (
        lambda x, d: x[next(iter(d.values())) :],
        [(R(5), {"a": 1, "b": 2}), (R(5), {"a": 1, "b": 2}), (R(5), {"b": 2, "a": 1})]),
    "in one setting": (
        pad, [(R(5), 0, "edge"), (R(5), 0, "wrap"), *[(R(5), 2, "edge")] * 2, (R(5), 2, "wrap")]),
    "at size 1": (np_roll, [*((R(1), k) for k in (1, 2, 3)), *[(R(5), 1)] * 2, (R(5), 2)]),
    "at size 0": (np_roll, [*((R(0), k) for k in (1, 2, 3)), *[(R(5), 1)] * 2, (R(5), 2)]),
    "once around and more": (np_roll, [(R(6), k) for k in (0, 6, 12, 12, 1)]),
    "numbers of NumPy": (np_roll, [(R(5), np.int64(k)) for k in (5, 10, 1)]),
    "small numbers": (lambda x, k: x[::-1] if k > 1 else x, [(R(5), k) for k in (1e-7, 2e-7, 5e9)]),
    "another word": (
        lambda x, how: {"sum": np.sum, "mean": np.mean, "first": lambda v: v[0]}[how](x),
        [(R(5), how) for how in ("sum", "sum", "mean", "mean", "first")]),
    "smaller numbers": (lambda x, k: np.sum(x[:k]), [(R(5), k) for k in (7, 8, 9, 9, 2, 3)]),
    "numbers and sizes": (
        lambda x, k: np.sum(x[:k]),
        [*((R(5), k) for k in (7, 8, 9)), *((R(12), k) for k in (20, 30, 40, 8))]),
    "all there is at one size": (
        lambda x, trim: np.sum(x[:3] if trim else x),
        [(R(n), trim) for n in (3, 5) for trim in (True, False, True)]),
    "words at other sizes": (
        lambda x, name: x[0] if name < "c" else x[-1],
        [*((R(4), name) for name in "ab"), *((R(6), name) for name in "cd"), (R(4), "c")]),
    "half, even and odd": (half, [R(n) for n in (4, 5, 9, 10)]),
    "half, odd and even": (half, [R(n) for n in (5, 6, 7, 10)]),
    "odd": (lambda x: x[::-1] if x.size % 2 else x, [R(n) for n in (5, 11, 7, 6, 8)]),
    "large": (lambda x: x[::-1] if len(x) > 999 else x, [R(n) for n in (900, 990, 980, 1005)]),
    "steps": (lambda x: np.sum(x[::3]), [R(n) for n in (7, 9, 8, 11, 12)]),
    "more than once around": (lambda x: np.roll(x, 7), [R(n) for n in (3, 6, 5, 4)]),
    "wrapped": (lambda x: np.take(x, [7, 8], mode="wrap"), [R(n) for n in (3, 6, 5, 4)]),
    "clipped": (lambda x: np.take(x, [7, 8], mode="clip"), [R(n) for n in (3, 6, 9, 11)]),
    "shares": (lambda x: np.array_split(x, 3)[1].sum(), [R(n) for n in (6, 7, 8, 10)]),
    "past the end": (lambda x: np.sum(x[:4]), [R(n) for n in (3, 4, 6)]),
    "past the beginning": (lambda x: np.sum(x[-4:]), [R(n) for n in (3, 4, 6)]),
    "around": (lambda x: np.tile(x, 2)[2], [R(n) for n in (2, 4, 3, 5)]),
    "nothing": (lambda x: np.sum(x[2:-1]), [R(n) for n in (2, 3, 6)]),
    "nothing between": (lambda x: np.trapezoid(x[2:-1]), [R(n) for n in (3, 4, 6)]),
    "down to one": (lambda x: np.trapezoid(np.diff(x)), [R(n) for n in (4, 7, 6, 2)]),
    "no axes": (lambda x: x + 1, [np.array(1.0)] * 4),
    "larger of zeros": (lambda x, y: np.maximum(x, y), [ZEROS] * 3),
    "smaller of zeros": (lambda x, y: np.fmin(x, y), [ZEROS] * 3),
    "equal by chance": (lambda x: x.T * 1, [R(4, 4), R(6, 6), R(5, 7), R(7, 5), R(9, 8)]),
    "ones": (
        lambda x, y: x + y, [(R(5), R(5)), (R(7), R(7)), (R(6), R(1)), (R(1), R(6)), (R(1), R(1))]),
    "none": (lambda x: x.sum(axis=0), [R(5, 3), R(7, 4), R(0, 3), R(3, 0)]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNLIKE)
def test_calls_that_are_not_alike(name: str) -> None:
    """What a view tells is what tracking tells, also where calls only look alike."""
    function, calls = UNLIKE[name]
    follow, fresh = wa.track(function, views=wa.Views(recheck=1 << 30)), wa.track(function)
    for call in calls:
        args = call if type(call) is tuple else (call,)
        follow(*args)
        fresh(*args)
        for name in fresh.last.inputs:
            for role in ("contributing", "influencing"):
                assert follow.last.relation(name, role) == fresh.last.relation(name, role)


def test_arguments_given_in_another_order() -> None:
    follow = wa.track(first_of, views=wa.Views())
    for _ in range(3):
        follow(np.ones(5), a=1, b=2)
    assert follow(np.ones(5), b=2, a=1).shape == (3,) and follow.last.view == ""


def test_functions_that_come_and_go() -> None:
    views = wa.Views()
    for k in range(20):
        follow = wa.track(lambda x, k=k: np.roll(x, k), views=views)
        for _ in range(3):
            follow(np.ones(50))
        assert follow.last.backward(0)["x"][0].tolist() == [-k % 50]
        del follow


def test_surroundings_that_keep_changing() -> None:
    store, log = wa.MemoryStore(), [0]
    follow = wa.track(lambda x: x[: len(log)], views=wa.Views(store))
    for _ in range(40):
        follow(np.ones(50))
        log.append(0)
    assert follow.last.view == "" and len(store._documents) < 20


def test_threads_share_views() -> None:
    follow = wa.track(twice, views=wa.Views(recheck=3))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        mine = np.random.default_rng(seed)
        try:
            for n, k in mine.integers((3, 0), (40, 3), size=(60, 2)).tolist():
                found = wa.provenance(follow(mine.random(n), k, "ab"[k % 2]))
                if found.backward(0)["x"][0].tolist() != [-k % n]:
                    wrong.append((n, k))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_views_can_be_pickled() -> None:
    views = pickle.loads(pickle.dumps(wa.Views(recheck=5)))
    assert views.recheck == 5


@pytest.mark.parametrize("name", ["add", "sum", "tile", "matmul", "amax", "sort", "stack", "diff"])
def test_coverage_finds_no_wrong_view(name: str) -> None:
    entry = next(e for e in CATALOGUE if e.name == name)
    found = measure(entry, seed=5, rounds=4)
    assert found.wrong == 0
    assert found.covered[0] == (name != "sort")


def test_fitting_sizes() -> None:
    assert _texts([[3, 0], [8, 0]], [(4,), (9,)]) == [["n-1"], ["0"]]
    # two letters would do
    assert _texts([[3], [8]], [(4, 6), (9, 11)]) == [["n-1", "m-3"]]
    assert _texts([[3], [8], [6]], [(4, 6), (9, 11), (7, 2)]) == [["n-1"]]
    assert _texts([[12], [30], [20]], [(3, 4), (5, 6), (10, 2)]) == [["n·m"]]
    assert fit([[1], [2, 3]], [(1,), (2,)], [0]) is None


def _texts(observed: list[list[int]], sizes: list[Any]) -> list[list[str]]:
    found = fit(observed, sizes, range(len(sizes[0])))
    assert found is not None
    return [[describe(e, "nm") for e in number.expressions] for number in found]


def test_numbers_that_are_not_settled_are_not_told() -> None:
    either = fit([[3], [8]], [(4, 6), (9, 11)], [0, 1])
    assert either is not None
    assert either[0].at((7, 9)) == 6
    assert either[0].at((7, 2)) is None
    # the middle of n, which n - m would explain
    by_chance = fit([[2], [4]], [(5, 3), (10, 6)], [0, 1], rounding=True)
    assert by_chance is not None
    assert by_chance[0].at((7, 3)) is None


def test_the_middle_is_not_taken_for_the_difference_of_two_sizes() -> None:
    follow = wa.track(lambda x: x[(len(x) - 1) // 2], views=wa.Views())
    for sizes in ((5, 3), (10, 6), (7, 3)):
        follow(np.zeros(sizes))
    assert follow.last.backward(0)["x"][0].tolist() == [3]


def test_patterns_hold_what_was_not_seen_to_vary() -> None:
    found = [p for p, _ in patterns([(4, 3), (9, 3)], (9, 3))]
    assert {p.sizes for p in found} == {(None, 3)}
    tied = next(p for p, _ in patterns([(4, 4), (9, 9)], (9, 9)) if p.sizes == (None, None))
    assert tied.fits((7, 7)) and not tied.fits((7, 8))
    assert not Pattern((None,)).fits((1,)) and not Pattern((None,)).fits((4, 4))


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> wa.ViewStore:
    return wa.MemoryStore() if request.param == "memory" else wa.FolderStore(tmp_path / "views")


def test_stores_keep_documents(store: wa.ViewStore) -> None:
    assert store.load("a" * 32) is None
    store.save("a" * 32, {"format": 3, "seen": [1, "zwei"]})
    store.save("a" * 32, {"format": 3, "seen": []})
    store.save("b" * 32, {"format": 3, "seen": [2]})
    assert store.load("a" * 32) == {"format": 3, "seen": []}
    assert store.load("b" * 32) == {"format": 3, "seen": [2]}
    store.save("c" * 32, {"format": 99})
    with pytest.raises(FormatError, match="format 99"):
        store.load("c" * 32)


def test_stores_carry_views_over(store: wa.ViewStore) -> None:
    first = wa.track(smooth, views=wa.Views(store))
    kinds(first, [(rng.random(n),) for n in (6, 9)])
    second = wa.track(smooth, views=wa.Views(store, recheck=1 << 30))
    second(rng.random(15))
    assert second.last.view == "generalised"
    exact = wa.track(np_sort, views=wa.Views(store))
    x = rng.random(5)
    exact(x)
    again = wa.track(np_sort, views=wa.Views(store, recheck=1 << 30))
    again(x)
    assert again.last.view == "exact"


def np_sort(x: Any) -> Any:
    return np.sort(x)


def test_a_folder_that_is_damaged(tmp_path: Path) -> None:
    folder = wa.FolderStore(tmp_path)
    (tmp_path / f"{'d' * 32}.json").write_text("{half")
    with pytest.raises(ArrayError, match="learned again"):
        folder.load("d" * 32)
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ArrayError, match="cannot write"):
        wa.FolderStore(blocked / "sub").save("e" * 32, {"format": 3})


def test_views_outlive_the_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys
            import numpy as np
            import whence.arrays as wa

            @wa.track(views=wa.Views(wa.FolderStore(sys.argv[1]), recheck=1 << 30))
            def mix(x):
                return x[1:] * x[:-1]

            for n in map(int, sys.argv[2:]):
                mix(np.arange(n) * 1.0)
                print(mix.last.view or "tracked", mix.last.backward(1)["x"][0].tolist())
            """
        )
    )

    def run(*sizes: str) -> list[str]:
        command = [sys.executable, str(program), str(tmp_path / "views"), *sizes]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.split("\n")[:-1]

    assert run("5", "8") == ["tracked [1, 2]"] * 2
    assert run("14") == ["generalised [1, 2]"]
