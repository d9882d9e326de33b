"""Relations: forms, queries, joins, ProvRC, bytes, SQL."""

from typing import Any

import numpy as np
import pytest
from array_oracle import matrix
from benchmarks.arrays import TWELVE, Operation, columnar_bytes, twelve_relations
from hypothesis import given, settings
from hypothesis import strategies as st

import whence.arrays as wa
from whence.arrays import cells as cellset
from whence.arrays import forms
from whence.arrays.codec import decode, encode
from whence.arrays.compose import compose, union
from whence.arrays.expand import count_pairs, expand
from whence.arrays.forms import AxisMap, Boxes, Form, Gather, Pairs, Reshape, Run
from whence.arrays.provrc import compress, is_table
from whence.arrays.query import backward, forward
from whence.errors import ArrayError

small = st.integers(1, 5)
shapes = st.lists(small, min_size=1, max_size=3).map(tuple)


def axis_map(draw: Any, out_shape: tuple[int, ...], size: int) -> AxisMap:
    ref = draw(st.integers(0, len(out_shape) - 1))
    kind = draw(st.sampled_from(["whole", "fixed", "window", "scan", "index"]))
    match kind:
        case "whole":
            return forms.whole(size)
        case "fixed":
            return forms.fixed(draw(st.integers(0, size - 1)))
        case "window":
            low = draw(st.integers(-3, 3))
            return forms.window(ref, out_shape[ref], size, low, low + draw(st.integers(0, 3)))
        case "scan":
            stop = min(out_shape[ref], size) - 1
            return forms.runs(ref, [Run(0, stop, 0, 0, 0, 1)])
        case _:
            values = st.lists(
                st.integers(0, size), min_size=out_shape[ref], max_size=out_shape[ref]
            )
            return forms.from_index(ref, np.array(draw(values), dtype=np.int64))


@st.composite
def any_form(draw: Any, out_shape: Any = None, in_shape: Any = None) -> Form:
    out_shape = out_shape or draw(shapes)
    in_shape = in_shape or draw(shapes)
    outs, ins = int(np.prod(out_shape)), int(np.prod(in_shape))
    kind = draw(st.sampled_from(["boxes", "boxes", "gather", "pairs", "reshape"]))
    if kind == "reshape" and outs == ins:
        return Reshape(out_shape, in_shape)
    if kind == "gather":
        index = draw(st.lists(st.integers(-1, ins - 1), min_size=outs, max_size=outs))
        return Gather(out_shape, in_shape, np.array(index).reshape(out_shape))
    if kind == "pairs":
        cells = st.tuples(st.integers(0, outs - 1), st.integers(0, ins - 1))
        listed = np.array(draw(st.lists(cells, max_size=20)), dtype=np.int64).reshape(-1, 2)
        return forms.pairs(out_shape, in_shape, listed[:, 0], listed[:, 1])
    return forms.separable(out_shape, in_shape, [axis_map(draw, out_shape, n) for n in in_shape])


@settings(max_examples=150, deadline=None)
@given(any_form())
def test_compression_loses_nothing_and_queries_agree(form: Form) -> None:
    wanted = matrix(form)
    table = compress(form)
    assert is_table(table)
    assert np.array_equal(matrix(table), wanted)
    assert count_pairs(table) == wanted.sum()
    assert np.array_equal(matrix(decode(encode(form))), wanted)
    for held in (form, table):
        for b in range(0, len(wanted), 3):
            found = backward(held, cellset.from_flat(form.out_shape, [b]))
            assert np.array_equal(found.positions(), np.flatnonzero(wanted[b]))
        for a in range(0, wanted.shape[1], 3):
            found = forward(held, cellset.from_flat(form.in_shape, [a]))
            assert np.array_equal(found.positions(), np.flatnonzero(wanted[:, a]))


@settings(max_examples=100, deadline=None)
@given(any_form(), st.data())
def test_queries_of_many_cells(form: Form, data: Any) -> None:
    wanted = matrix(form)
    for shape, ask, axis in ((form.out_shape, backward, 0), (form.in_shape, forward, 1)):
        start = [data.draw(st.integers(0, n - 1)) for n in shape]
        box = tuple(slice(a, data.draw(st.integers(a + 1, n))) for a, n in zip(start, shape))  # noqa: B905
        chosen = cellset.select(shape, box)
        flat = np.arange(int(np.prod(shape))).reshape(shape)[box].reshape(-1)
        assert np.array_equal(chosen.positions(), np.sort(flat))
        hit = wanted.take(flat, axis=axis).any(axis=axis)
        assert np.array_equal(ask(form, chosen).positions(), np.flatnonzero(hit))
        scattered = cellset.from_flat(shape, flat[::2])
        hit = wanted.take(flat[::2], axis=axis).any(axis=axis)
        assert np.array_equal(ask(form, scattered).positions(), np.flatnonzero(hit))


@settings(max_examples=150, deadline=None)
@given(st.data(), shapes, shapes, shapes)
def test_joins_and_unions(data: Any, outer: Any, middle: Any, inner: Any) -> None:
    first = data.draw(any_form(outer, middle))
    second = data.draw(any_form(middle, inner))
    wanted = (matrix(first).astype(int) @ matrix(second).astype(int)) > 0
    assert np.array_equal(matrix(compose(first, second)), wanted)
    tables = compose(compress(first), compress(second))
    assert np.array_equal(matrix(tables), wanted)
    other = data.draw(any_form(outer, middle))
    both = union([first, other], outer, middle)
    assert np.array_equal(matrix(both), matrix(first) | matrix(other))
    third = data.draw(any_form(outer, middle))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("whence.arrays.compose._WIDE", 0)  # as boxes of many pairs are united
        united = union([other, third, first], outer, middle)
    assert np.array_equal(matrix(united), matrix(both) | matrix(third))


def test_pairs_that_others_hold_go() -> None:
    """Each cell comes from all of its row, whatever it also comes from."""

    def softmax(x: Any) -> Any:
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def normed(x: Any) -> Any:
        return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)

    for shape in ((4, 6), (300, 500)):
        x = np.random.default_rng(3).random(shape)
        wanted = f"[0, {shape[0] - 1}], [0, {shape[1] - 1}] ← 0 (b1), [0, {shape[1] - 1}]"
        assert tracked_rows(softmax, x) == tracked_rows(normed, x) == [wanted]


def tracked_rows(function: Any, *arrays: Any) -> list[str]:
    found = wa.track(lambda x, *ys: function(x, *ys))
    found(*arrays)
    return [str(row) for row in found.last.relation("x").rows()]


def test_table_4_5_zero_based() -> None:
    x, square = np.ones(1000), np.ones((1000, 1000))
    assert tracked_rows(np.negative, x) == ["[0, 999] ← 0 (b1)"]
    assert tracked_rows(np.add, x, x.copy()) == ["[0, 999] ← 0 (b1)"]
    assert tracked_rows(lambda v: np.sum(v, axis=0), x) == ["0 ← [0, 999]"]
    assert tracked_rows(lambda v: np.tile(v, 2), x) == [
        "[0, 999] ← 0 (b1)",
        "[1000, 1999] ← -1000 (b1)",
    ]
    # the seed prints (0, 0) for the product's second axis; every cell of the row takes part
    assert tracked_rows(np.dot, square, square.copy()) == ["[0, 999], [0, 999] ← 0 (b1), [0, 999]"]
    assert tracked_rows(np.transpose, square) == ["[0, 999], [0, 999] ← 0 (b2), 0 (b1)"]


def test_table_4_5_from_listed_pairs() -> None:
    """The same rows when the algorithm starts from every single pair."""
    every = np.arange(1_000_000)
    by_pairs = {
        "[0, 999], [0, 999] ← 0 (b1), 0 (b2)": every,
        "[0, 999], [0, 999] ← 0 (b2), 0 (b1)": every.reshape(1000, 1000).T.reshape(-1),
    }
    for text, inp in by_pairs.items():
        listed = Pairs((1000, 1000), (1000, 1000), every, inp)
        assert [str(r) for r in wa.Relation(listed).rows()] == [text]
    summed = Pairs((1000,), (1000, 1000), every // 1000, every)
    assert [str(r) for r in wa.Relation(summed).rows()] == ["[0, 999] ← 0 (b1), [0, 999]"]
    tiled = Pairs((2000,), (1000,), np.arange(2000), np.arange(2000) % 1000)
    assert len(wa.Relation(tiled).rows()) == 2


@pytest.mark.parametrize("operation", TWELVE, ids=lambda o: o.name)
def test_twelve_operations_are_small(operation: Operation) -> None:
    found = twelve_relations(operation)
    size = sum(r.nbytes for r in found)
    assert size <= operation.seed_provrc
    if operation.irregular:
        assert size <= operation.seed_columnar
        assert size <= sum(columnar_bytes(r.form) for r in found)
    for relation in found:
        if count_pairs(relation.form) <= 1_100_000:
            again = expand(decode(relation.to_bytes()))
            listed = expand(relation.form)
            assert np.array_equal(again.inp, listed.inp) and np.array_equal(again.out, listed.out)


def test_alternating_runs_break_as_the_scan_would() -> None:
    listed = Pairs((8,), (4,), np.arange(8), np.arange(8) // 2)
    rows = [str(r) for r in wa.Relation(listed).rows()]
    assert rows == ["[0, 1] ← 0", "[2, 3] ← 1", "[4, 5] ← 2", "[6, 7] ← 3"]


def test_arrow_and_sql() -> None:
    relation = wa.Relation(forms.identity((3, 4)))
    table = relation.to_arrow()
    assert table.column_names == ["b1", "b2", "a1", "a2"]
    assert table.num_rows == 12
    assert relation.to_arrow(compressed=True).num_rows == 1
    found = relation.sql("SELECT a1, a2 FROM relation WHERE b1 = 2 ORDER BY a2").to_pylist()
    assert found == [{"a1": 2, "a2": i} for i in range(4)]
    listed = relation.sql("SELECT * FROM relation ORDER BY ALL").to_pylist()
    assert listed == table.to_pylist()
    with pytest.raises(ArrayError, match=r"relation\(b1, b2, a1, a2\)"):
        relation.sql("SELECT nothing FROM relation")


@settings(max_examples=20, deadline=None)
@given(any_form())
def test_sql_lists_the_same_pairs(form: Form) -> None:
    relation = wa.Relation(form)
    names = ", ".join(relation.to_arrow().column_names)
    assert relation.sql(f"SELECT {names} FROM relation ORDER BY ALL").to_pylist() == (
        relation.to_arrow().to_pylist()
    )


def test_chains_join() -> None:
    smooth = wa.Relation(forms.separable((5,), (5,), [forms.window(0, 5, 5, -1, 1)]))
    total = wa.Relation(forms.everything((), (5,)))
    assert [str(r) for r in smooth.then(total).rows()] == ["0 ← [0, 4]"]
    twice = smooth.then(smooth)
    assert twice.backward(0)[0].tolist() == [0, 1, 2]
    assert isinstance(twice.form, Boxes)
    with pytest.raises(ArrayError, match="cannot join"):
        smooth.then(wa.Relation(forms.identity((4,))))


def test_too_many_pairs_are_refused() -> None:
    product = wa.Relation(forms.everything((100_000,), (100_000,)))
    assert len(product.rows()) == 1
    with pytest.raises(ArrayError, match="10000000000 pairs"):
        product.pairs()


def test_bytes_that_are_no_relation() -> None:
    whole = wa.Relation(forms.identity((3, 4))).to_bytes()
    assert matrix(decode(whole)).sum() == 12
    for wrong in (b"", b"\x07", whole[:-1], b"\x01\x01\x01\x05"):
        with pytest.raises(ArrayError, match="no array relation"):
            decode(wrong)
