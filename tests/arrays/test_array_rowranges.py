"""Ranges of rows against listed pairs, and joins of forms that are too wide to list."""

from typing import Any
from unittest.mock import patch

import numpy as np
from array_oracle import matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.arrays import forms
from whence.arrays.compose import compose, union
from whence.arrays.forms import Gather, boxes, everything, pairs
from whence.arrays.rowranges import Ranges, enclosing, ranges_of, united

sizes = st.integers(1, 7)


@st.composite
def flat_form(draw: Any, out: int, inp: int) -> Any:
    """A relation between two columns, in any form."""
    kind = draw(st.sampled_from(["gather", "pairs", "boxes", "scan", "whole", "reshape"]))
    if kind == "gather":
        index = draw(st.lists(st.integers(-1, inp - 1), min_size=out, max_size=out))
        return Gather((out,), (inp,), np.array(index, dtype=np.int64))
    if kind == "reshape" and out == inp:
        return forms.Reshape((out,), (inp,))
    if kind == "scan" and out <= inp:
        return boxes((out,), (inp,), [([(0, out - 1)], [forms.Bound(0, 0, 0, 0, 1)])])
    if kind == "whole":
        return everything((out,), (inp,))
    listed = draw(st.lists(st.tuples(st.integers(0, out - 1), st.integers(0, inp - 1))))
    if kind == "boxes":
        rows = [
            ([(min(a, b), max(a, b))], [forms.Bound(min(c, d), max(c, d))])
            for (a, c), (b, d) in zip(listed, reversed(listed), strict=True)
        ]
        return boxes((out,), (inp,), rows)
    made = np.array(listed, dtype=np.int64).reshape(-1, 2)
    return pairs((out,), (inp,), made[:, 0], made[:, 1])


def as_matrix(ranges: Ranges, out: int, inp: int) -> Any:
    found = np.zeros((out, inp), dtype=bool)
    for row, lo, hi in zip(*ranges, strict=True):
        assert 0 <= lo <= hi < inp
        found[row, lo : hi + 1] = True
    return found


@settings(max_examples=300, deadline=None)
@given(st.data(), sizes, sizes)
def test_ranges_say_what_pairs_say(data: Any, out: int, inp: int) -> None:
    form = data.draw(flat_form(out, inp))
    wanted = matrix(form)
    found = ranges_of(form)
    assert np.array_equal(as_matrix(found, out, inp), wanted)
    tidy = united([found, found])
    assert np.array_equal(as_matrix(tidy, out, inp), wanted)
    runs = np.diff(wanted.astype(int), axis=1, prepend=0) == 1
    assert len(tidy.out) == runs.sum()
    around = as_matrix(enclosing(tidy), out, inp)
    assert (around >= wanted).all()
    assert len(enclosing(tidy).out) == wanted.any(axis=1).sum()


@settings(max_examples=300, deadline=None)
@given(st.data(), sizes, sizes, sizes)
def test_joins_and_unions_without_listing(data: Any, out: int, middle: int, inp: int) -> None:
    first, second = data.draw(flat_form(out, middle)), data.draw(flat_form(middle, inp))
    wanted = (matrix(first).astype(int) @ matrix(second).astype(int)) > 0
    other = data.draw(flat_form(out, middle))
    with patch("whence.arrays.compose._WIDE", -1):
        assert np.array_equal(matrix(compose(first, second)), wanted)
        both = union([first, other], (out,), (middle,))
    assert np.array_equal(matrix(both), matrix(first) | matrix(other))
