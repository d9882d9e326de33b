"""Functions over pandas frames, followed, against a slow oracle: change a cell, see what moves."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import whence.arrays
from whence.arrays.frames.follow import follow_batches, follow_groups
from whence.arrays.frames.uses import uses_arrays

COLUMNS = ["k", "x", "n", "w"]


def frame(rows, seed=0, nan=()):
    dice = np.random.default_rng(seed)
    made = pd.DataFrame(
        {
            "k": [f"key{i % 2}" for i in range(rows)],
            "x": dice.normal(size=rows),
            "n": dice.integers(1, 50, size=rows),
            "w": dice.uniform(0.5, 2.0, size=rows),
        }
    )
    made.loc[list(nan), "x"] = np.nan
    return made


def behind(answer, row, role=None):
    """Input rows (from 0) behind an output row."""
    parts = zip(answer.lo[row], answer.hi[row], answer.role[row], strict=True)
    wanted = [(lo, hi) for lo, hi, r in parts if role is None or r == role]
    return {i - 1 for lo, hi in wanted for i in range(int(lo), int(hi) + 1)}


def cells(answer, row, role=1):
    """Pairs of output column and input cell (column, row from 0) behind an output row."""
    found = set()
    for out, _, inp, lo, hi, r in answer.cells[row].reshape(-1, 6).tolist():
        if r == role:
            found |= {(out, inp, i - 1) for i in range(lo, hi + 1)}
    return found


def moved(function, given, column, row, by):
    """Output cells (row, column) that differ when one input cell is changed; all if rows come."""
    before = function(given.copy())
    other = given.copy()
    old = other.at[row, column]
    if isinstance(old, str):
        other.at[row, column] = old + "x"
    else:
        other.at[row, column] = old + 1 if isinstance(old, np.integer) else by(old)
    after = function(other)
    if len(before) != len(after):
        return {(i, j) for i in range(len(before)) for j in range(before.shape[1])}
    changed = set()
    for j in range(before.shape[1]):
        one, two = before.iloc[:, j].to_numpy(), after.iloc[:, j].to_numpy()
        for i, (a, b) in enumerate(zip(one, two, strict=True)):
            if not (a is b or a == b or (a != a and b != b)):
                changed.add((i, j))
    return changed


# --- Functions: what they do is ordinary; each is tracked, or uses a tracked one ----------------


@whence.arrays.track
def differences(a):
    return np.diff(a, prepend=0.0)


@whence.arrays.track
def weighted(a, weights):
    total = np.zeros_like(a)
    for shift, factor in enumerate((0.5, 0.3, 0.2)):
        total[shift:] += factor * (a * weights)[: len(a) - shift]
    return total


@whence.arrays.track
def ranked(a):
    order = np.argsort(a, kind="stable")
    return a[order], order


def reversed_rows(pdf):
    return pd.DataFrame({"k": pdf.k.to_numpy()[::-1], "d": differences(pdf["x"].to_numpy())[::-1]})


def two_inputs(pdf):
    pdf["t"] = weighted(pdf["x"].to_numpy(), pdf["w"].to_numpy())
    return pdf[["t", "k"]]


def several_results(pdf):
    values, order = ranked(pdf["x"].to_numpy())
    return pd.DataFrame({"v": values, "n": pdf["n"].to_numpy()[order], "half": values / 2})


def longer(pdf):
    return pd.DataFrame({"x": np.repeat(pdf["x"].to_numpy(), 2), "w": np.tile(pdf["w"].values, 2)})


def shorter(pdf):
    x = pdf["x"].to_numpy()
    return pd.DataFrame({"pair": x[: len(x) // 2 * 2].reshape(-1, 2).sum(axis=1)})


def centred(pdf):
    return pdf.assign(x=pdf.x - pdf.x.mean(), share=pdf.w / pdf.w.sum())


def lagged(pdf):
    return pd.DataFrame({"now": pdf.w, "before": pdf.w.shift(1), "sum": pdf.w.cumsum()})


def matrix(pdf):
    both = np.column_stack([pdf["x"].to_numpy(), pdf["w"].to_numpy()])
    turned = both @ np.array([[1.0, 2.0], [0.5, 1.0]])
    return pd.DataFrame({"a": turned[:, 0], "b": turned[:, 1]})


def edited_in_place(pdf):
    x = pdf["x"].to_numpy()
    x[1:3] = x[3:5] * 2
    return pdf


def summary(pdf):
    x = pdf["x"].to_numpy()
    return pd.DataFrame({"mean": [x.mean()], "first": [x[0]], "wmax": [pdf.w.max()]})


def best_row(pdf):
    at = np.argmax(pdf["w"].to_numpy())
    return pd.DataFrame({"k": pdf["k"].to_numpy()[[at]], "w": pdf["w"].to_numpy()[[at]]})


def filtered(pdf):
    return pdf[pdf.w > 1.0].reset_index(drop=True)


def ordered(pdf):
    return pdf.sort_values("w", ascending=False)


def masked(pdf):
    x, w = pdf["x"].to_numpy(), pdf["w"].to_numpy()
    return pd.DataFrame({"k": pdf.k, "y": np.where(w > 1.0, x, -w)})


def branching(pdf):
    x = pdf["x"].to_numpy()
    if x[0] > 0:
        x = x[::-1]
    return pd.DataFrame({"x": x, "k": pdf["k"]})


def stacked_frames(pdf):
    return pd.concat([pdf[["k", "x"]], pdf[["k", "x"]].iloc[:2]], ignore_index=True)


def renamed(pdf):
    out = pdf.rename(columns={"x": "value"}).drop(columns=["w"])
    out.insert(0, "double", 2 * out.pop("value"))
    return out


def quartiles(pdf):
    return pd.DataFrame({"q": np.quantile(pdf["w"].to_numpy(), [0.0, 0.5, 1.0])})


def uses_numpy_lists(pdf):
    return pd.DataFrame({"two": np.array([pdf["x"].to_numpy()[0], pdf["x"].to_numpy()[-1]])})


def through_a_list(pdf):
    return pd.DataFrame({"y": pdf["w"].to_numpy() + np.array(pdf["x"].tolist()[::-1])})


def shifted(pdf):
    """Whole numbers become fractions where some are missing, unless they are filled."""
    return pd.DataFrame(
        {
            "before": pdf["n"].shift(1),
            "after": pdf["x"].shift(-2),
            "filled": pdf["n"].shift(2, fill_value=0),
            "rise": pdf["w"] - pdf["w"].shift(1, fill_value=0.0),
        }
    )


# The relation of these follows from positions, or from an order that small changes keep.
EXACT = [
    reversed_rows,
    two_inputs,
    several_results,
    longer,
    shorter,
    centred,
    lagged,
    matrix,
    edited_in_place,
    summary,
    best_row,
    filtered,
    ordered,
    masked,
    branching,
    stacked_frames,
    renamed,
    quartiles,
    uses_numpy_lists,
    through_a_list,
    shifted,
]


@pytest.mark.parametrize("rows", [5, 6, 9])
@pytest.mark.parametrize("function", EXACT, ids=lambda f: f.__name__)
def test_small_changes_move_just_what_contributes(function, rows):
    given = frame(rows, seed=rows)
    result, answer = follow_groups(function, function, None, [given.copy()])
    pd.testing.assert_frame_equal(result, function(given.copy()))
    assert answer.doubt == [None] * len(result)
    expected: dict[int, set[tuple[int, int, int]]] = {i: set() for i in range(len(result))}
    for column, row in itertools.product(range(4), range(rows)):
        for i, j in moved(function, given, COLUMNS[column], row, lambda old: old * 1.0001):
            expected[i].add((j, column, row))
    for i in range(len(result)):
        assert cells(answer, i) >= expected[i]
        assert behind(answer, i, 1) == {row for _, _, row in cells(answer, i)}
        if function is not quartiles:
            assert cells(answer, i) == expected[i], f"row {i}"


@pytest.mark.parametrize("function", EXACT, ids=lambda f: f.__name__)
def test_large_changes_move_only_what_is_listed(function):
    given = frame(7, seed=3, nan=[4])
    _, answer = follow_groups(function, function, None, [given.copy()])
    for column, row in itertools.product(COLUMNS, range(7)):
        for by in (lambda old: -3 * old - 1, lambda old: old + 100):
            for i, _ in moved(function, given, column, row, by):
                assert row in behind(answer, i), f"{column}[{row}] changes row {i}"


# --- What is not exact says so, and has everything -----------------------------------------------


def counted(pdf):
    return pd.DataFrame({"k": pdf.k, "rows": len(pdf)})


def only_count(pdf):
    return pd.DataFrame({"rows": np.full(1, len(pdf))})


def left_numpy(pdf):
    return pd.DataFrame({"y": pdf["w"].to_numpy() * float(pdf["x"].to_numpy()[2])})


def python_loop(pdf):
    return pd.DataFrame({"y": [float(v) for v in pdf["x"]]})


def unseeded(pdf):
    return pd.DataFrame({"y": pdf["x"].to_numpy() + np.random.default_rng().normal(size=len(pdf))})


def transposed(pdf):
    return pdf.describe().T


def asks_for_type(pdf):
    if not isinstance(pdf["x"].to_numpy(), np.ndarray):
        return pdf.iloc[::-1]
    return pdf


INEXACT = [
    (counted, "column 'rows' is not made of tracked values"),
    (only_count, "no input cell is behind the row"),
    (left_numpy, "a value left through float()"),
    (python_loop, "a value left through float()"),
    (unseeded, "on tracked columns it gave other values in column 'y'"),
    (transposed, "a value left through"),
    (asks_for_type, "on tracked columns it gave other values"),
]


@pytest.mark.parametrize(("function", "why"), INEXACT, ids=[f.__name__ for f, _ in INEXACT])
def test_what_is_not_followed_says_why_and_misses_nothing(function, why):
    given = frame(6, seed=1)
    result, answer = follow_groups(function, function, None, [given.copy()])
    assert all(why in doubt for doubt in answer.doubt)
    if function is unseeded:
        assert all(behind(answer, i, 1) == set(range(6)) for i in range(len(result)))
        return
    for column, row in itertools.product(COLUMNS, range(6)):
        for i, _ in moved(function, given, column, row, lambda old: old + 100):
            assert row in behind(answer, i, 1)


def test_the_real_result_and_the_real_error_count():
    def fails(pdf):
        if pdf["n"].to_numpy().max() > 3:
            raise KeyError("no such thing")
        return pdf

    with pytest.raises(KeyError, match="no such thing"):
        follow_groups(fails, fails, None, [frame(4)])


def test_a_result_that_is_no_frame_is_handed_on():
    assert follow_groups(lambda pdf: 3, lambda pdf: 3, None, [frame(2)]) == (3, None)


def test_the_input_may_be_changed_and_is_not_shared():
    given = frame(5)
    result, answer = follow_groups(edited_in_place, edited_in_place, None, [given])
    assert result is given
    assert behind(answer, 1) == {1, 3}


def test_empty_groups_and_single_rows():
    for rows in (0, 1):
        result, answer = follow_groups(centred, centred, None, [frame(rows)])
        assert len(result) == len(answer.lo) == len(answer.cells) == rows
    assert behind(answer, 0) == {0}


def test_random_numbers_are_the_same_in_both_calls():
    def noisy(pdf):
        return pd.DataFrame({"y": pdf["x"].to_numpy() + np.random.normal() + random.random()})

    np.random.seed(5)
    random.seed(5)
    expected = [noisy(frame(4)), noisy(frame(4))]
    np.random.seed(5)
    random.seed(5)
    for wanted in expected:
        result, answer = follow_groups(noisy, noisy, None, [frame(4)])
        pd.testing.assert_frame_equal(result, wanted)
        assert answer.doubt == [None] * 4
        assert [behind(answer, i) for i in range(4)] == [{0}, {1}, {2}, {3}]


def test_keys_are_seen_but_have_no_rows():
    def keyed(key, pdf):
        scale = 2.0 if key[1] > 3 else 1.0
        return pd.DataFrame({"k": key[0], "y": scale * pdf["x"].to_numpy()})

    result, answer = follow_groups(keyed, keyed, ("a", 7), [frame(3)])
    assert result.k.tolist() == ["a"] * 3
    assert answer.doubt == [None] * 3
    assert [behind(answer, i) for i in range(3)] == [{0}, {1}, {2}]


def test_two_sides():
    def joined(left, right):
        return pd.DataFrame({"y": left["x"].to_numpy() * right["w"].to_numpy()[:3].sum()})

    left, right = frame(4, seed=1), frame(5, seed=2)
    result, answer = follow_groups(joined, joined, None, [left, right])
    assert answer.doubt == [None] * 4
    for row in range(len(result)):
        found = list(zip(answer.side[row], answer.lo[row], answer.hi[row], strict=True))
        assert found == [(0, row + 1, row + 1), (1, 1, 3)]


def test_printing_and_values_kept_between_calls(capsys):
    kept = []

    def keeps(pdf):
        print("once")
        kept.append(pdf["x"].to_numpy())
        return pd.DataFrame({"y": pdf["x"].to_numpy() + kept[0][0]})

    follow_groups(keeps, keeps, None, [frame(3)])
    assert capsys.readouterr().out == "once\n"
    kept[:] = []
    own: list = []

    def other(pdf):
        own.append(pdf["x"].to_numpy())
        return pd.DataFrame({"y": pdf["x"].to_numpy() + own[0][0]})

    follow_groups(keeps, other, None, [frame(3, seed=1)])
    _, answer = follow_groups(keeps, other, None, [frame(3, seed=2)])
    assert all("values of an earlier call" in doubt for doubt in answer.doubt)


def test_threads_and_whole_columns_given_to_tracked_functions():
    def threaded(pdf):
        with ThreadPoolExecutor(2) as pool:
            one, two = pool.map(differences, [pdf["x"], pdf["w"].values])
        return pd.DataFrame({"y": pdf["n"].to_numpy() + one + two})

    given = frame(5)
    result, answer = follow_groups(threaded, threaded, None, [given.copy()])
    for column, row in itertools.product(COLUMNS, range(5)):
        for i, _ in moved(threaded, given, column, row, lambda old: old + 100):
            assert row in behind(answer, i)
    assert len(result) == 5


# --- Batches ------------------------------------------------------------------------------------


def followed(function, batches):
    return list(follow_batches(function, function, iter(batches)))


def test_batches_keep_their_numbers_and_their_state():
    def running(batches):
        total = 0.0
        for batch in batches:
            x = batch["x"].to_numpy()
            total = total + x.sum()
            yield pd.DataFrame({"d": differences(x), "total": total})

    parts = [frame(4, seed=1), frame(3, seed=2), frame(2, seed=3)]
    found = followed(running, parts)
    assert [a.doubt for _, a in found] == [[None] * 4, [None] * 3, [None] * 2]
    assert behind(found[0][1], 2) == {0, 1, 2, 3}
    assert behind(found[2][1], 1) == set(range(9))
    deltas = [sorted(i for o, _, i in cells(found[1][1], r) if o == 0) for r in range(3)]
    assert deltas == [[4], [4, 5], [5, 6]]


def test_batches_split_and_joined_by_the_function():
    def regrouped(batches):
        waiting = []
        for batch in batches:
            waiting.append(batch)
            if len(waiting) == 2:
                yield pd.concat(waiting)[["x"]]
                waiting.clear()
        for batch in waiting:
            for start in range(0, len(batch), 2):
                yield batch[["x"]].iloc[start : start + 2]

    found = followed(regrouped, [frame(3, s) for s in range(3)])
    rows = [behind(answer, i) for result, answer in found for i in range(len(result))]
    assert rows == [{i} for i in range(9)]
    assert all(doubt is None for _, answer in found for doubt in answer.doubt)


def test_a_function_that_fails_midway_on_tracked_columns_goes_on_as_a_superset():
    def hostile(batches):
        for number, batch in enumerate(batches):
            x = batch["x"].to_numpy()
            if number == 1 and not isinstance(x, np.ndarray):
                raise TypeError("wants a plain array")
            yield pd.DataFrame({"x": x})

    found = followed(hostile, [frame(2, s) for s in range(3)])
    assert found[0][1].doubt == [None, None]
    assert "wants a plain array" in found[1][1].doubt[0]
    assert behind(found[1][1], 0) == {0, 1, 2, 3}
    assert behind(found[2][1], 1) == {0, 1, 2, 3, 4, 5}
    assert [len(result) for result, _ in found] == [2, 2, 2]


def test_what_is_no_frame_is_handed_on_and_the_rest_as_well():
    def odd(batches):
        for number, batch in enumerate(batches):
            yield None if number == 1 else batch

    found = followed(odd, [frame(2, s) for s in range(3)])
    assert [result is None for result, _ in found] == [False, True, False]
    assert found[1][1] is None


def test_an_error_midway_is_the_functions_own():
    def fails(batches):
        for number, batch in enumerate(batches):
            if number == 1:
                raise ValueError("bad batch")
            yield batch

    results = follow_batches(fails, fails, iter([frame(2), frame(2)]))
    next(results)
    with pytest.raises(ValueError, match="bad batch"):
        next(results)


@pytest.mark.full
def test_branches_on_many_batches_stay_bounded():
    def careful(batches):
        for batch in batches:
            x = batch["x"].to_numpy()
            yield pd.DataFrame({"x": x if x[0] > 0 else -x})

    found = followed(careful, [frame(2, s) for s in range(100)])
    assert all(doubt is None for doubt in found[10][1].doubt)
    assert behind(found[10][1], 0, 1) == {20}
    assert {0, 2, 20} <= behind(found[10][1], 0)
    assert "many batches" in found[99][1].doubt[0]
    assert behind(found[99][1], 0) >= {0, 2, 196, 198}


# --- Size and detection -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function", [centred, lagged, two_inputs, several_results, filtered, ordered, branching]
)
def test_answers_take_space_linear_in_the_rows(function):
    rows = 20_000
    result, answer = follow_groups(function, function, None, [frame(rows)])
    assert answer.doubt == [None] * len(result)
    assert sum(map(len, answer.lo)) <= 4 * rows
    assert sum(map(len, answer.cells)) <= 6 * 12 * rows


def test_relations_too_large_to_list_become_a_superset_that_says_so():
    def tangled(pdf):
        order = np.argsort(pdf["x"].to_numpy())
        return pd.DataFrame({"y": np.cumsum(pdf["w"].to_numpy()[order])})

    _, answer = follow_groups(tangled, tangled, None, [frame(300)])
    assert "too many rows are behind its rows" in answer.doubt[250]
    x = frame(300)["x"].to_numpy()
    for row in (0, 100, 299):
        assert behind(answer, row, 1) >= set(np.argsort(x)[: row + 1].tolist())
    _, answer = follow_groups(tangled, tangled, None, [frame(6000)])
    assert "too many rows are behind its rows" in answer.doubt[0]
    assert behind(answer, 5999, 1) == set(range(6000))


def helper(x):
    return differences(x)


def test_which_functions_use_tracked_arrays():
    weights = whence.arrays.track(lambda a: a)

    class Callable:
        def __call__(self, pdf):
            return helper(pdf)

    assert uses_arrays(reversed_rows)
    assert uses_arrays(helper)
    assert uses_arrays(lambda pdf: [weights(p) for p in pdf])
    assert uses_arrays(lambda pdf: whence.arrays.tracked(pdf.x))
    assert uses_arrays(Callable())
    assert not uses_arrays(counted)
    assert not uses_arrays(lambda pdf: np.sum(pdf.x))
    assert not uses_arrays(len)
