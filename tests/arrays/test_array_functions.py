"""All 136 functions, cell by cell, against the oracles."""

import warnings

import numpy as np
import pytest
from array_oracle import annotated, matrix, perturbed

import whence.arrays as wa
from whence.arrays.catalogue import CATALOGUE, Entry

SIZES = {"n": 5, "m": 3, "k": 2}
# by small changes: these run on values that objects cannot stand for, or (unwrap) add whole turns
SMALL = 1e-7
BY_CHANGE = {
    "percentile": SMALL, "quantile": SMALL, "median": SMALL, "interp": SMALL, "unwrap": SMALL,
    "real_if_close": SMALL, "angle": SMALL, "real": SMALL, "imag": SMALL * 1j, "fix": 2.5,
}  # fmt: skip


def relations(entry: Entry, arrays: list, options: dict, role: str = "contributing") -> list:
    follow = wa.track(lambda *xs: entry.call(*xs, **options), follow=("whence.arrays.catalogue",))
    result = follow(*[a.copy() for a in arrays])
    found = wa.provenance(result)
    assert found.grade == "exact", found.notes
    assert np.array_equal(result, entry.call(*arrays, **options), equal_nan=True)
    return [matrix(found.relation(f"xs[{i}]", role).form) for i in range(len(arrays))]


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda e: e.name)
def test_contributing_cells_are_those_of_the_oracle(entry: Entry) -> None:
    rng = np.random.default_rng(sum(map(ord, entry.name)))
    for shape, options in entry.cases():
        arrays = entry.arrays(shape, SIZES, rng)
        call = lambda *xs, o=options: entry.call(*xs, **o)  # noqa: E731
        mine = relations(entry, arrays, options)
        if entry.name not in BY_CHANGE:
            expected = annotated(entry.function, call, arrays)
            assert expected is not None, "objects do not run through this function"
        else:
            expected = perturbed(call, arrays, [BY_CHANGE[entry.name]])
        for found, wanted in zip(mine, expected, strict=True):
            assert np.array_equal(found, wanted), (shape, options)


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda e: e.name)
def test_no_change_goes_unnoticed(entry: Entry) -> None:
    """Whatever an input cell can change is among the cells it contributes to or influences."""
    rng = np.random.default_rng(7)
    for shape, options in entry.cases()[:4]:
        arrays = entry.arrays(shape, SIZES, rng)
        call = lambda *xs, o=options: entry.call(*xs, **o)  # noqa: E731
        deltas = [1e-7, 0.9, -0.9, 7.0, -7.0]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            seen = perturbed(call, arrays, deltas)
        mine = relations(entry, arrays, options)
        steering = relations(entry, arrays, options, "influencing")
        for found, looked, changed in zip(mine, steering, seen, strict=True):
            if entry.name == "interp":  # a ladder that is not sorted is outside its contract
                continue
            assert not (changed & ~(found | looked)).any(), (shape, options)
