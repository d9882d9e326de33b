"""Calls beyond the 136: other functions, and unusual arguments, against the oracles."""

from typing import Any

import numpy as np
import pytest
from array_oracle import annotated, matrix, perturbed

import whence.arrays as wa

A = np.random.default_rng(5).permutation(24).astype(float)
SQUARE = A[:16].reshape(4, 4)
TABLE = A.reshape(4, 6)
CUBE = A.reshape(2, 3, 4)
LINE = A[:7]

ANNOTATED = {
    "take scalar": (lambda x: np.take(x, 2), TABLE),
    "take flat": (lambda x: np.take(x, [5, 1, 1]), TABLE),
    "take grid": (lambda x: np.take(x, [[0, 1], [2, 3]], axis=1), TABLE),
    "take wrap": (lambda x: np.take(x, [7, -9], axis=0, mode="wrap"), TABLE),
    "take_along_axis": (lambda x: np.take_along_axis(x, np.array([[1], [0], [2], [3]]), 1), TABLE),
    "repeat list": (lambda x: np.repeat(x, [1, 0, 2, 3], axis=0), TABLE),
    "repeat flat": (lambda x: np.repeat(x, 2), TABLE),
    "delete slice": (lambda x: np.delete(x, slice(1, 5, 2), axis=1), TABLE),
    "delete flat": (lambda x: np.delete(x, [0, 5, 7]), TABLE),
    "insert several": (lambda x: np.insert(x, [1, 3], [[7.0], [8.0]], axis=0), TABLE),
    "insert of itself": (lambda x: np.insert(x, 1, x[0], axis=0), TABLE),
    "insert flat": (lambda x: np.insert(x, 2, 9.0), TABLE),
    "append flat": (lambda x: np.append(x, x[0]), TABLE),
    "roll axes": (lambda x: np.roll(x, (1, 2), axis=(0, 1)), TABLE),
    "roll flat": (lambda x: np.roll(x, 5), TABLE),
    "flip axes": (lambda x: np.flip(x, (0, 2)), CUBE),
    "rot90 axes": (lambda x: np.rot90(x, axes=(1, 2)), CUBE),
    "transpose": (lambda x: x.transpose(2, 0, 1), CUBE),
    "ravel K": (lambda x: x.T.ravel("K"), TABLE),
    "ravel K axes": (lambda x: np.ravel(np.swapaxes(x[:, ::-1], 0, 2), order="K"), CUBE),
    "flatten K": (lambda x: x.T.flatten("K"), TABLE),
    "flatten A": (lambda x: x.T.flatten("A"), TABLE),
    "reshape A": (lambda x: np.reshape(x.T, (4, 6), order="A"), TABLE),
    "ravel F": (lambda x: np.ravel(x, order="F"), TABLE),
    "reshape F": (lambda x: np.reshape(x, (6, 4), order="F"), TABLE),
    "reshape slice": (lambda x: x[:, 1:4].reshape(-1)[::2], TABLE),
    "resize": (lambda x: np.resize(x, (3, 11)), TABLE),
    "tile": (lambda x: np.tile(x, (2, 1, 2)), TABLE),
    "tril": (lambda x: np.tril(x, -1), TABLE),
    "diag": (lambda x: np.diag(x, 1), TABLE),
    "diag of line": (lambda x: np.diag(x, -2), LINE),
    "diagonal": (lambda x: np.diagonal(x, 1, 0, 2), CUBE),
    "trace": (lambda x: np.trace(x, axis1=1, axis2=2), CUBE),
    "dstack": (lambda x: np.dstack([x, x[::-1]]), TABLE),
    "stack": (lambda x: np.stack([x, x * 2, np.zeros((4, 6))], axis=1), TABLE),
    "hstack": (lambda x: np.hstack([x[0], x[1, :2]]), TABLE),
    "column_stack": (lambda x: np.column_stack([x[:, 0], x[:, 1:3]]), TABLE),
    "concatenate flat": (lambda x: np.concatenate([x, x[:1]], axis=None), TABLE),
    "block": (lambda x: np.block([[x, x[:, :1]], [x[:1], np.zeros((1, 1))]]), TABLE),
    "meshgrid": (lambda x: np.meshgrid(x[0], x[1])[1], TABLE),
    "array_split": (lambda x: np.array_split(x, 4, axis=1)[2], TABLE),
    "pad constant": (lambda x: np.pad(x, ((1, 0), (2, 1))), TABLE),
    "pad far": (lambda x: np.pad(x, ((2, 0), (5, 3), (0, 6)), mode="wrap"), CUBE),
    "pad wrap": (lambda x: np.pad(x, 2, mode="wrap"), TABLE),
    "pad symmetric": (lambda x: np.pad(x, ((0, 1), (2, 0)), mode="symmetric"), TABLE),
    "windows": (lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, axis=1), TABLE),
    "broadcast": (lambda x: np.broadcast_to(x[:, None], (4, 3, 6)), TABLE),
    "newaxis": (lambda x: x[None, ..., 1:, None], CUBE),
    "fancy pair": (lambda x: x[[0, 2, 3], [1, 1, 0]], TABLE),
    "fancy mixed": (lambda x: x[:, [2, 0], 1:3], CUBE),
    "fancy and slice": (lambda x: x[[1, 0], :, [2, 3]], CUBE),
    "ix_": (lambda x: x[np.ix_([0, 2], [5, 1])], TABLE),
    "mask": (lambda x: x[np.indices((4, 6)).sum(0) % 3 == 0], TABLE),
    "compress": (lambda x: np.compress([True, False, True], x, axis=1), TABLE),
    "where": (lambda x: np.where([True, False] * 3, x, x[::-1]), TABLE),
    "select": (lambda x: np.select([np.eye(4, 6) > 0, np.tri(4, 6) > 0], [x, x + 1], -1), TABLE),
    "sum axes": (lambda x: np.sum(x, axis=(0, 2)), CUBE),
    "sum keepdims": (lambda x: x.sum(axis=(1,), keepdims=True), CUBE),
    "mean": (lambda x: x.mean(axis=-1), CUBE),
    "cumsum flat": (lambda x: np.cumsum(x), TABLE),
    "max axes": (lambda x: np.max(x, axis=(0, 2)), CUBE),
    "max all": (lambda x: np.max(x), CUBE),
    "min keepdims": (lambda x: x.min(axis=1, keepdims=True), CUBE),
    "max where": (lambda x: np.max(x, axis=1, where=np.tri(4, 6) > 0, initial=-5), TABLE),
    "sort flat": (lambda x: np.sort(x, axis=None), TABLE),
    "partition": (lambda x: np.partition(x, (1, 3), axis=0), TABLE),
    "dot cube": (lambda x: np.dot(x, x[0].T), CUBE),
    "matmul batch": (lambda x: x @ np.swapaxes(x, 1, 2), CUBE),
    "matmul vector": (lambda x: x[0, 0] @ np.swapaxes(x, 1, 2), CUBE),
    "inner": (lambda x: np.inner(x, x[0]), CUBE),
    "tensordot": (lambda x: np.tensordot(x, x, axes=([0, 2], [0, 2])), CUBE),
    "einsum": (lambda x: np.einsum("ijk,ik->kj", x, x[:, 0]), CUBE),
    "einsum implicit": (lambda x: np.einsum("ij,kj", x, x), TABLE),
    "einsum diagonal": (lambda x: np.einsum("ii->i", x), SQUARE),
    "einsum trace": (lambda x: np.einsum("ii", x), SQUARE),
    "einsum dots": (lambda x: np.einsum("...i,i...->...", x[0], x[0]), SQUARE[None].repeat(2, 0)),
    "outer": (lambda x: np.outer(x[:2], x[2]), TABLE),
    "outer ufunc": (lambda x: np.multiply.outer(x[0], x[1, :2]), TABLE),
    "kron": (lambda x: np.kron(x[:2, :2], x[2:4, :3]), TABLE),
    "kron ranks": (lambda x: np.kron(x[0, :2], x[1:3, :2]), TABLE),
    "cross": (lambda x: np.cross(x[:, :3], x[0, 3:]), TABLE),
    "cross axis": (lambda x: np.cross(x[:3], x[1:], axis=0), TABLE),
    "convolve": (lambda x: np.convolve(x[:2], x, "same"), LINE),
    "convolve by number": (lambda x: np.convolve(x, x[:2], 1), LINE),  # type: ignore[call-overload]
    "correlate": (lambda x: np.correlate(x[:2], x, "same"), LINE),
    "correlate full": (lambda x: np.correlate(x[:3], x, "full"), LINE),
    "diff twice": (lambda x: np.diff(x, 2, axis=0, append=x[:1]), TABLE),
    "ediff1d": (lambda x: np.ediff1d(x, to_begin=x[0, :2], to_end=7), TABLE),
    "trapezoid": (lambda x: np.trapezoid(x, x=x[0], axis=1), TABLE),
    "apply_along_axis": (lambda x: np.apply_along_axis(lambda v: v[::2] + v[0], 0, x), TABLE),
    "apply_along_axis sum": (lambda x: np.apply_along_axis(np.sum, 1, x), CUBE),
    "reduceat": (lambda x: np.add.reduceat(x, [0, 2, 1], axis=1), TABLE),
    "accumulate": (lambda x: np.multiply.accumulate(x, axis=1), TABLE),
    "unstack": (lambda x: list(x)[1], TABLE),
    "round": (lambda x: x.round(), TABLE),
    "vander": (lambda x: np.vander(x, 3), LINE),
    "polyval": (lambda x: np.polyval(x, 0.5), LINE),
    "in place": (lambda x: _in_place(x.copy()), TABLE),
    "copyto": (lambda x: _copyto(x.copy()), TABLE),
    "fill_diagonal": (lambda x: _diagonal(x.copy()), SQUARE),
    "put_along_axis": (lambda x: _along(x.copy()), TABLE),
}  # fmt: skip

CHANGED = {
    "cov": (lambda x: np.cov(x)[1:], TABLE),
    "cov of columns": (lambda x: np.cov(x, rowvar=False), TABLE),
    "cov of two": (lambda x: np.cov(x[0], x[1:3], aweights=[1, 2, 3, 1, 2, 4]), TABLE),
    "cov of one": (np.cov, LINE),
    "corrcoef": (lambda x: np.corrcoef(x[:2], x[3])[:2, 2], TABLE),
    "fft of the first cells": (lambda x: np.fft.fft(x, 3, axis=0), TABLE),
    "fft of a longer line": (lambda x: np.fft.rfft(x, n=9), LINE),
    "irfft as long as before": (lambda x: np.fft.irfft(x, n=6)[1:3], LINE),
    "hfft of two": (lambda x: np.fft.hfft(x, 3)[1:], LINE),
    "rfft2 of a corner": (lambda x: np.fft.rfft2(x, s=(2, 3)), TABLE),
    "irfftn of one axis": (lambda x: np.fft.irfftn(x, s=(5,), axes=(0,)), TABLE),
    "fftn of all of an axis": (lambda x: np.fft.fftn(x, s=(-1, 2), axes=(0, 2)), CUBE),
    "imag of real": (lambda x: np.imag(x) + x.imag, TABLE),
    "imag of real numbers": (lambda x: np.imag(x[0]) + x[1].imag + np.imag(val=x), LINE),
    "isreal of a number": (lambda x: np.isreal(x[0]) * 2 + np.iscomplex(x[1]), LINE),
    "iscomplex": (np.iscomplex, TABLE),
    "isreal": (np.isreal, LINE.astype(int)),
    "sum where": (lambda x: np.sum(x, axis=1, where=np.tri(4, 6) > 0), TABLE),
    "gradient": (lambda x: np.gradient(x), LINE),
    "gradient spaced": (lambda x: np.gradient(x, 0.5, axis=1), TABLE),
    "norm": (lambda x: np.linalg.norm(x, axis=1), TABLE),
    "norm all": (lambda x: np.linalg.norm(x), TABLE),
    "solve": (lambda x: np.linalg.solve(x + 30 * np.eye(4), x[:, :2]), SQUARE),
    "inv": (lambda x: np.linalg.inv(x + 30 * np.eye(4)), SQUARE),
    "det": (lambda x: np.linalg.det(x.reshape(2, 3, 4)[:, :2, :2]), TABLE),
    "fft": (lambda x: np.fft.fft(x, axis=1).real[:, 1] + np.fft.fft(x, axis=1).imag[:, 1], TABLE),
    "clip": (lambda x: np.clip(x, 3.5, 15.5), TABLE),
    "nanmedian": (lambda x: np.nanmedian(np.where(x > 12.5, np.nan, x), axis=1), TABLE),
    "quantile many": (lambda x: np.quantile(x, [0.2, 0.5, 0.9], axis=1), TABLE),
    "quantile at": (lambda x: np.quantile(x[:, :3], x[0, 3:] / 40, axis=1), TABLE),
    "quantile lower": (lambda x: np.quantile(x, 0.3, axis=0, method="lower"), TABLE),
    "quantile hazen": (lambda x: np.quantile(x, 0.3, axis=(0, 2), method="hazen"), CUBE),
    "percentile keep": (lambda x: np.percentile(x, 40, keepdims=True), TABLE),
    "average": (lambda x: np.average(x, axis=1, weights=x + 1), TABLE),
    "nanmean": (lambda x: np.nanmean(np.where(x > 12.5, np.nan, x), axis=1), TABLE),
    "std": (lambda x: x.std(axis=0, ddof=1), TABLE),
    "interp": (lambda x: np.interp([1.5, 4.2, 30], np.sort(x), x), LINE),
    "logical": (lambda x: np.hypot(x, 2) * np.arctan2(x, 3), TABLE),
}


def _in_place(x: Any) -> Any:
    x[1:] += x[:-1]
    x[:, ::2] *= 2
    x[0] = x[3]
    return x


def _copyto(x: Any) -> Any:
    np.copyto(x[:2], x[2:], where=np.array([True, False] * 3))
    np.putmask(x, np.tri(4, 6) > 0, x[0])
    np.place(x, np.eye(4, 6) > 0, [1.0, 2.0])
    return x


def _diagonal(x: Any) -> Any:
    np.fill_diagonal(x, x[1])
    return x


def _along(x: Any) -> Any:
    np.put_along_axis(x, np.array([[1], [0], [2], [3]]), x[:, :1], axis=1)
    return x


def found_by_rules(call: Any, array: Any) -> tuple[wa.Provenance, Any]:
    result = wa.track(lambda x: call(x))(array.copy())
    plain = call(array.copy())
    assert type(result) is type(plain)
    assert np.array_equal(result, plain, equal_nan=True)
    found = wa.provenance(result)
    assert found.grade == "exact", found.notes
    return found, matrix(found.relation("x").form)


@pytest.mark.parametrize("name", ANNOTATED)
def test_as_annotated(name: str) -> None:
    call, array = ANNOTATED[name]
    found, mine = found_by_rules(call, array)
    wanted = annotated(call, call, [array])
    assert wanted is not None
    assert np.array_equal(mine, wanted[0])
    for cell in range(0, len(mine), 5):
        index = np.unravel_index(cell, found.shape) if found.shape else ()
        flat = found.cells(index)["x"].positions()
        assert np.array_equal(flat, np.flatnonzero(mine[cell]))


@pytest.mark.parametrize("name", CHANGED)
def test_as_changed(name: str) -> None:
    call, array = CHANGED[name]
    _, mine = found_by_rules(call, array)
    assert np.array_equal(mine, perturbed(call, [array], [1e-5])[0])


WORDS = np.array(["ab", "C d", " e ", "ab"])
DAYS = np.array(["2020-01-01", "2020-03-05", "2019-12-31", "2021-07-02"], "M8[D]")
PLACES = np.array([3, 1, 2, 5])
EACH: dict[str, tuple[Any, Any]] = {
    "upper": (np.char.upper, WORDS),
    "slice": (lambda x: np.strings.slice(x, 1, 3), WORDS),
    "replace": (lambda x: np.strings.replace(x, "b", "long"), WORDS),
    "multiply": (lambda x: np.char.multiply(x, 2), WORDS),
    "center": (lambda x: np.strings.center(x, 9), WORDS),
    "encode": (lambda x: np.char.encode(x, "utf8"), WORDS),
    "partition": (lambda x: np.strings.partition(x, " ")[2], WORDS),
    "words of any length": (np.strings.upper, WORDS.astype(np.dtypes.StringDType())),
    "unravel_index": (lambda x: np.unravel_index(x, (2, 3))[1], PLACES),
    "unravel_index of one": (lambda x: np.unravel_index(x, (2, 3))[0][:4], PLACES),
    "ravel_multi_index": (lambda x: np.ravel_multi_index((x, 1), (6, 2)), PLACES),
    "ravel_multi_index of rows": (lambda x: np.ravel_multi_index(x[None], (6,)), PLACES),
    "busday_count": (lambda x: np.busday_count("2020-01-01", x), DAYS),
    "busday_offset": (lambda x: np.busday_offset(x, 1, roll="forward"), DAYS),
    "busday_offset by": (lambda x: np.busday_offset("2020-01-01", x), PLACES),
    "is_busday": (np.is_busday, DAYS),
    "datetime_as_string": (lambda x: np.datetime_as_string(x, "M"), DAYS),
    "datetime_as_string auto": (lambda x: np.datetime_as_string(x, "auto"), DAYS),
}


@pytest.mark.parametrize("name", EACH)
def test_each_cell_is_from_its_own(name: str) -> None:
    call, array = EACH[name]
    follow = wa.track(lambda x: call(x))
    plain, found = call(array), follow(array)
    assert found.dtype == plain.dtype and (found == plain).all()
    answer = follow.last
    assert answer.grade == "exact"
    assert [answer.backward((k,))["x"][0].tolist() for k in range(4)] == [[0], [1], [2], [3]]
    sized = name in ("replace", "multiply", "center", "encode", "datetime_as_string auto")
    others = answer.backward((1,), "influencing")["x"][0].tolist()
    assert others == ([0, 2, 3] if sized or name == "partition" else [])


def test_words_of_any_length_one_by_one() -> None:
    words = WORDS.astype(np.dtypes.StringDType())
    follow = wa.track(lambda x: ([str(word) for word in x], x[0]))
    assert follow(words) == ([str(word) for word in words], words[0])


def test_holidays_and_masks_of_indices_have_a_say() -> None:
    follow = wa.track(lambda x: np.is_busday(np.array(["2020-01-01"], "M8[D]"), holidays=x[:2]))
    follow(DAYS)
    assert follow.last.backward((0,), "influencing")["x"][0].tolist() == [0, 1]
    sized = wa.track(lambda x: np.unravel_index(x[:2], (x[2], x[3])))
    sized(PLACES)
    assert sized.last[0].backward((0,), "influencing")["x"][0].tolist() == [2, 3]


BY_INDEX: dict[str, Any] = {
    "rows": (lambda a, i: a[i], lambda at: [at[0]]),
    "columns": (lambda a, i: a[:, i], lambda at: [at[1]]),
    "after others": (lambda a, i: a[..., None, i], lambda at: [at[2]]),
    "others between": (lambda a, i: a[None][0, :, None, i], lambda at: [at[0]]),
    "a column of positions": (lambda a, i: a[i[:, None], [0, 1]], lambda at: [at[0]]),
    "mesh": (lambda a, i: a[np.ix_([0, 2], i)], lambda at: [at[1]]),
    "take": (lambda a, i: np.take(a, i, axis=1), lambda at: [at[1]]),
    "take a table": (lambda a, i: a.take(i.reshape(2, 2), axis=-1), lambda at: [at[1] * 2 + at[2]]),
    "take_along_axis": (lambda a, i: np.take_along_axis(a, i[:, None], 1), lambda at: [at[0]]),
    "choose": (lambda a, i: np.choose(i % 2, a[:2, :4]), lambda at: [at[0]]),
}


@pytest.mark.parametrize("name", BY_INDEX)
def test_an_index_array_tells_cell_by_cell(name: str) -> None:
    call, wanted = BY_INDEX[name]
    follow = wa.track(lambda a, i: call(a, i))
    index = np.array([2, 0, 1, 2])
    assert np.array_equal(follow(TABLE, index), call(TABLE, index))
    answer = follow.last
    assert answer.grade == "exact"
    for at in np.ndindex(*answer.shape):
        assert answer.backward(at, "influencing")["i"][0].tolist() == wanted(at)
        assert not len(answer.backward(at)["i"][0])


def test_a_mesh_of_masks_is_steered_by_all_of_them() -> None:
    follow = wa.track(lambda a, m: a[np.ix_(m, [0, 1])])
    follow(TABLE, np.array([True, False, True, False]))
    assert follow.last.grade == "exact"
    assert follow.last.backward((1, 0), "influencing")["m"][0].tolist() == [0, 1, 2, 3]
    assert [found.tolist() for found in follow.last.backward((1, 0))["a"]] == [[2], [0]]


def test_pieces_of_an_array() -> None:
    def folded(x: Any, y: Any) -> Any:
        pieces = [lambda v, k: v * k, lambda v, k: v - k, y[0]]
        one = np.piecewise(x, [x < 5, x > 9], pieces, 2.0)
        return one, np.piecewise(np.arange(7.0), x > 9, [y[1], 5]), np.piecewise(y, [y > 99], [1])

    y = np.array([0.5, -1.0])
    follow = wa.track(folded)
    for found, plain in zip(follow(LINE, y), folded(LINE, y), strict=True):
        assert np.array_equal(found, plain)
    first, second, third = follow.last
    assert {answer.grade for answer in follow.last} == {"exact"}
    for k, value in enumerate(LINE):
        outside = value < 5 or value > 9
        assert first.backward((k,))["x"][0].tolist() == ([k] if outside else [])
        assert first.backward((k,))["y"][0].tolist() == ([] if outside else [0])
        assert k in second.backward((k,), "influencing")["x"][0]
        assert second.backward((k,))["y"][0].tolist() == ([1] if value > 9 else [])
    assert third.backward((0,), "influencing")["y"][0].tolist() == [0]
    with pytest.raises(ValueError, match="condition"):
        wa.track(lambda x: np.piecewise(x, [x < 0, x > 2], [1]))(LINE)
