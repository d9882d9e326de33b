"""Random programs with views, aliases and in-place changes, against annotated cells."""

from typing import Any

import numpy as np
from array_oracle import matrix
from hypothesis import given, settings
from hypothesis import strategies as st

import whence.arrays as wa
from whence.arrays.annotated import annotated_array, read

Step = tuple[str, int, int]
STEPS = [
    "slice",
    "step",
    "reverse",
    "transpose",
    "add",
    "scale",
    "iadd_scalar",
    "iadd",
    "assign",
    "assign_row",
    "assign_mask",
    "reshape",
    "concat",
    "sum",
    "cumsum",
    "roll",
    "repeat",
    "take",
    "sort",
    "max",
    "copy",
    "where",
    "flat_write",
    "swap",
    "mask",
    "fancy",
    "diag",
    "tile",
    "fancy_write",
    "isort",
    "out_sum",
]


def run(steps: list[Step], first: Any, second: Any) -> Any:
    """Interpret a program over a list of two-dimensional arrays; gives the arrays it ends with."""
    arrays = [first, second]
    for name, i, j in steps:
        a, b = arrays[i % len(arrays)], arrays[j % len(arrays)]
        made = _step(name, a, b, i, j)
        if made is not None:
            arrays.append(made)
        arrays = arrays[-5:]
    return tuple(arrays)


def _step(name: str, a: Any, b: Any, i: int, j: int) -> Any:
    rows, columns = a.shape
    same = a.shape == b.shape
    match name:
        case "slice":
            return a[min(i % 2, rows - 1) :, : max(1, columns - j % 2)]
        case "step":
            return a[:: 1 + i % 2, :: 1 + j % 2]
        case "reverse":
            return a[::-1]
        case "transpose":
            return a.T
        case "add":
            return a + b if same else None
        case "scale":
            return a * 2 - b[0, 0]
        case "iadd_scalar":
            a += 1
        case "iadd" if same:
            a += b
        case "assign" if same:
            a[...] = b
        case "assign_row":
            a[i % rows, :] = b[j % b.shape[0], j % b.shape[1]]
        case "assign_mask":
            a[np.arange(rows) % 2 == 0] = b[0, 0]
        case "reshape":
            return a.reshape(columns, rows)
        case "concat" if b.shape[1] == columns and rows + b.shape[0] < 9:
            return np.concatenate([a, b], axis=0)
        case "sum":
            return a.sum(axis=i % 2, keepdims=True)
        case "cumsum":
            return np.cumsum(a, axis=i % 2)
        case "roll":
            return np.roll(a, j, axis=i % 2)
        case "repeat" if rows < 5:
            return np.repeat(a, 2, axis=0)
        case "take":
            return np.take(a, [j % columns, 0], axis=1)
        case "sort":
            return np.sort(a, axis=i % 2)
        case "isort":
            a.sort(axis=1)
        case "max":
            return np.max(a, axis=i % 2, keepdims=True)
        case "copy":
            return a.copy()
        case "where" if same:
            return np.where(np.indices(a.shape).sum(axis=0) % 2 == 0, a, b)
        case "flat_write":
            a.reshape(-1)[j % a.size] = 7
        case "swap":
            return np.swapaxes(a, 0, 1)[: max(1, i % 3)]
        case "mask":
            return a[:, np.arange(columns) % 2 == j % 2][:, :1] if columns > 1 else None
        case "fancy":
            return a[[i % rows, 0, j % rows]]
        case "diag":
            return np.diag(np.diagonal(a)) if min(a.shape) < 4 else None
        case "tile" if a.size < 13:
            return np.tile(a, (1, 2))
        case "fancy_write":
            a[[0, i % rows], [0, j % columns]] = b[:1, 0]
        case "out_sum" if same:
            np.add(a, b, out=a[::-1])
        case _:
            return None
    return None


steps = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=9
)
shapes = st.tuples(st.integers(1, 4), st.integers(1, 4))


@settings(max_examples=250, deadline=None)
@given(steps, shapes, shapes, st.booleans(), st.integers(0, 1000))
def test_programs(program: list[Step], one: Any, two: Any, overlap: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = rng.permutation(one[0] * one[1] * 4).astype(float)
    first = base[: one[0] * one[1]].reshape(one)
    # the second input may share memory with the first
    second = first[: two[0]] if overlap else rng.random(two)
    cells = annotated_array(first, 0, [])
    partner = cells[: two[0]] if overlap else annotated_array(second, 1, [])
    expected = run(program, cells, partner)
    plain_first = first.copy()
    plain_second = plain_first[: two[0]] if overlap else second.copy()
    plain = run(program, plain_first, plain_second)
    results = wa.track(run)(program, first, second)
    for result, value, found in zip(results, plain, expected, strict=True):
        assert np.array_equal(result, value)
        answer = wa.provenance(result)
        assert answer.grade == "exact"
        shapes_in = [first.shape, second.shape]
        wanted = [matrix(form) for form in read(found, shapes_in)]
        mine = [matrix(answer.relation(n).form) for n in ("first", "second")]
        if overlap:  # the same memory: a cell of the second is that cell of the first
            mine[0][:, : second.size] |= mine[1]
            mine[1][:] = False
        for left, right in zip(mine, wanted, strict=True):
            assert np.array_equal(left, right)
        _queries_agree(answer, mine, overlap)


def _queries_agree(answer: wa.Provenance, mine: list[Any], overlap: bool) -> None:
    """Walks over the recorded steps give what the composed relation gives."""
    if overlap or not answer.shape[0]:
        return
    cell = (0, 0)
    for name, relation in zip(("first", "second"), mine, strict=True):
        flat = np.ravel_multi_index(answer.backward(cell)[name], answer.inputs[name])
        assert np.array_equal(flat, np.flatnonzero(relation[0]))
        forward = np.ravel_multi_index(answer.forward(name, (0, 0)), answer.shape)
        assert np.array_equal(forward, np.flatnonzero(relation[:, 0]))
