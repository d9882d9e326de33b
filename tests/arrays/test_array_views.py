"""Views: when they are made, that they are right, and that they are withdrawn."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whence.arrays as wa
from whence.arrays.catalogue import CATALOGUE
from whence.arrays.coverage import measure
from whence.arrays.digest import function_digest
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
    sizes = (6, 9, 18, 40, 70, 3)
    # 40 is more than twice the largest size seen, so it is looked at first
    assert kinds(follow, [(rng.random(n),) for n in sizes]) == [
        "", "", "generalised", "", "generalised", "generalised",
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
    assert kinds(other, [(rng.random(6), 1, word) for word in "abc"]) == ["", "", "dimensional"]


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


def test_cross_is_not_fooled() -> None:
    entry = next(e for e in CATALOGUE if e.name == "cross")
    found = measure(entry, seed=11)
    assert found.wrong == 0 and found.covered == (True, True)


def test_a_view_that_stops_being_right_is_withdrawn() -> None:
    def odd(x: Any) -> Any:
        return x[::-1] if len(x) > 20 else x * 1

    views = wa.Views(recheck=2)
    follow = wa.track(odd, views=views)
    assert "generalised" in kinds(follow, [(rng.random(n),) for n in (11, 15, 16, 17)])
    kinds(follow, [(rng.random(n),) for n in (22, 23, 24)])
    assert views.withdrawn >= 1
    result = follow(rng.random(25))
    assert wa.provenance(result).backward(0)["x"][0].tolist() == [24]


def test_another_shape_than_the_view_says() -> None:
    def wide(x: Any) -> Any:
        return np.concatenate([x, x]) if len(x) > 20 else x * 1

    follow = wa.track(wide, views=wa.Views())
    assert kinds(follow, [(rng.random(n),) for n in (11, 15, 16)])[-1] == "generalised"
    result = follow(rng.random(30))
    assert wa.provenance(result).backward(45)["x"][0].tolist() == [15]
    assert follow.last.view == ""


@pytest.mark.parametrize("name", ["add", "sum", "tile", "matmul", "amax", "sort", "stack", "diff"])
def test_coverage_finds_no_wrong_view(name: str) -> None:
    entry = next(e for e in CATALOGUE if e.name == name)
    found = measure(entry, seed=5, rounds=4)
    assert found.wrong == 0
    assert found.covered[0] == (name != "sort")


def test_fitting_sizes() -> None:
    assert fit([[3, 0], [8, 0]], [(4,), (9,)], [0]) == [(-1, ((1, (0,)),)), (0, ())]
    # two letters would do: wait
    assert fit([[3], [8]], [(4, 6), (9, 11)], [0, 1]) is None
    found = fit([[3], [8], [6]], [(4, 6), (9, 11), (7, 2)], [0, 1])
    assert found is not None and describe(found[0], "nm") == "n-1"
    assert fit([[12], [30], [20]], [(3, 4), (5, 6), (10, 2)], [0, 1]) == [(0, ((1, (0, 1)),))]
    assert fit([[1], [2, 3]], [(1,), (2,)], [0]) is None


def test_patterns_hold_what_was_not_seen_to_vary() -> None:
    found = [p for p, _ in patterns([(4, 3), (9, 3)], (9, 3))]
    assert {p.sizes for p in found} == {(None, 3)}
    tied = next(p for p, _ in patterns([(4, 4), (9, 9)], (9, 9)) if p.sizes == (None, None))
    assert tied.fits((7, 7)) and not tied.fits((7, 8))
    assert not Pattern((None,)).fits((1,)) and not Pattern((None,)).fits((4, 4))


def test_digests_follow_the_code() -> None:
    def make(k: int) -> Any:
        return lambda x: helper(x) * k

    def other(x: Any) -> Any:
        return x

    assert function_digest(make(2)) == function_digest(make(2))
    assert function_digest(make(2)) != function_digest(make(3))
    assert function_digest(other) != function_digest(smooth)
    assert function_digest(np.sin) is None
    held = object()
    assert function_digest(lambda x: (x, held)) is None


def helper(x: Any) -> Any:
    return x + 1


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> wa.ViewStore:
    return wa.MemoryStore() if request.param == "memory" else wa.FolderStore(tmp_path / "views")


def test_stores_keep_documents(store: wa.ViewStore) -> None:
    assert store.load("a" * 32) is None
    store.save("a" * 32, {"format": 1, "seen": [1, "zwei"]})
    store.save("a" * 32, {"format": 1, "seen": []})
    store.save("b" * 32, {"format": 1, "seen": [2]})
    assert store.load("a" * 32) == {"format": 1, "seen": []}
    assert store.load("b" * 32) == {"format": 1, "seen": [2]}
    store.save("c" * 32, {"format": 99})
    with pytest.raises(FormatError, match="format 99"):
        store.load("c" * 32)


def test_stores_carry_views_over(store: wa.ViewStore) -> None:
    first = wa.track(smooth, views=wa.Views(store))
    kinds(first, [(rng.random(n),) for n in (6, 9)])
    second = wa.track(smooth, views=wa.Views(store))
    second(rng.random(15))
    assert second.last.view == "generalised"
    exact = wa.track(np_sort, views=wa.Views(store))
    x = rng.random(5)
    exact(x)
    again = wa.track(np_sort, views=wa.Views(store))
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
        wa.FolderStore(blocked / "sub").save("e" * 32, {"format": 1})


def test_views_outlive_the_process(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import sys
            import numpy as np
            import whence.arrays as wa

            @wa.track(views=wa.Views(wa.FolderStore(sys.argv[1])))
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
