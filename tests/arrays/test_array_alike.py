"""A tracked call gives what the plain one gives: values, types, what is changed and what raises."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import whence.arrays as wa

X = np.array([3.0, 1.0, 2.0, 9.0, -4.0, 0.5])
Y = np.array([2.5, 1.0, 7.0, -1.0, 4.0, 0.25])
I = np.array([3, 1, 2, 0, 4, 1])  # noqa: E741
Z = np.random.default_rng(0).normal(size=40) + 1j
Program = Callable[[Any, Any, Any], Any]


def running_total(x: Any, y: Any, i: Any) -> Any:
    total, seen = 0.0, []
    for value in x:
        total += value
        seen.append(total)
    return np.array(seen)


def share(x: Any, y: Any, i: Any) -> Any:
    n = (x > 1).sum()
    n /= 6
    return n


def number_plus_array(x: Any, y: Any, i: Any) -> Any:
    s = x[0]
    s += y
    return s, x


def every_operator_in_place(x: Any, y: Any, i: Any) -> Any:
    n, m = i[0], i[0]
    n -= 1
    n *= 3
    n **= 2
    n //= 5
    n %= 4
    n <<= 2
    n |= 1
    n ^= 2
    n &= 7
    return n, m, i


def copy_through_flat(x: Any, y: Any, i: Any) -> Any:
    part = x.flat[1:3]
    part += 1
    return x, part


def round_and_round(x: Any, y: Any, i: Any) -> Any:
    x.flat[:] = [1.0, 2.0]
    y.flat[1:4] = x[:2]
    i.flat[i > 1] = [7, 8]
    return x, y, i


def flat_of_itself(x: Any, y: Any, i: Any) -> Any:
    x.flat = x[1:]
    y.flat = y[:2].copy()
    return x, y


def step_by_step(x: Any, y: Any, i: Any) -> Any:
    cells = x.reshape(2, 3).T.flat
    first, second = next(cells), next(cells)
    place = cells.index, cells.coords, len(cells)
    return first, second, place, list(cells), np.sort(x.flat), np.add(x.flat, y), x.flat.copy()


def longer_list(x: Any, y: Any, i: Any) -> Any:
    one = two = [0]
    one *= i[0]
    n = i[0]
    n *= "ab"
    return one, two, n


def clip_a_copy(x: Any, y: Any, i: Any) -> Any:
    c = np.clip(x, None, None)
    c += 1
    return c, x


def clip_to(dtype: Any) -> Program:
    def clipped(x: Any, y: Any, i: Any) -> Any:
        out = np.zeros(6, dtype)
        np.clip(x, 0, 2.5, out=out)
        return out

    return clipped


def powers_in_place(x: Any, y: Any, i: Any) -> Any:
    z = x * (1 + 2j)
    z **= 2
    i **= 2
    return z, i


def whole_power_of_a_fraction(x: Any, y: Any, i: Any) -> Any:
    i **= 0.5
    return i


def products_in_place(x: Any, y: Any, i: Any) -> Any:
    square, out = x[:4].reshape(2, 2), [np.zeros((2, 2)) for _ in range(3)]
    np.linalg.multi_dot([square, square, square], out=out[0])
    np.matmul(square, square, out=out[1], axes=[(0, 1), (0, 1), (1, 0)])
    np.dot(square, square, out=out[2])
    line, transformed = np.zeros(2), np.zeros(6, complex)
    np.add.reduce(x.astype(np.float32).reshape(3, 2) / 3, out=line)
    np.fft.fft(x, out=transformed)
    return *out, line, transformed


def result_of_the_wrong_type(x: Any, y: Any, i: Any) -> Any:
    return np.dot(x.reshape(2, 3), y.reshape(3, 2), out=np.zeros((2, 2), np.float32))


def over_its_own_memory(x: Any, y: Any, i: Any) -> Any:
    np.maximum.accumulate(x, out=x)
    table = y.reshape(3, 2)
    np.max(table, axis=0, out=table[1])
    np.add.at(i, i, i)
    return x, y, i


def objects(x: Any, y: Any, i: Any) -> Any:
    o = np.empty(4, object)
    o[0], o[1], o[2], o[3] = x[0], x[:2], "text", i[0].item()
    return [type(v) for v in (o[0], o[3])] and o[1].sum(), o[2], o[3], o[0] + 1, o[2] + "s"


def read_only(x: Any, y: Any, i: Any) -> Any:
    x.setflags(write=False)
    x[0] = 5


def part_of_each_cell(x: Any, y: Any, i: Any) -> Any:
    x.setfield(5, "f8")
    return x


ALIKE: list[Program] = [
    running_total,
    share,
    number_plus_array,
    every_operator_in_place,
    copy_through_flat,
    round_and_round,
    flat_of_itself,
    step_by_step,
    longer_list,
    clip_a_copy,
    clip_to(float),
    clip_to(int),
    powers_in_place,
    whole_power_of_a_fraction,
    products_in_place,
    result_of_the_wrong_type,
    over_its_own_memory,
    objects,
    read_only,
    part_of_each_cell,
    lambda x, y, i: x.compress(x > 1),
    lambda x, y, i: x.reshape(2, 3).compress([True, False], axis=0),
    lambda x, y, i: (i % 2).choose([x, y]),
    # numbers of Python do not make types wider
    lambda x, y, i: x.astype(np.float32) * y[0].item(),
    lambda x, y, i: i.astype(np.int8) * i[0].item(),
    lambda x, y, i: np.maximum(x.astype(np.float32), y.max().item()),
    lambda x, y, i: x.astype(np.float32) * (y[0].item() + 1) ** 2,
    lambda x, y, i: (y[0].item() + y[1].item(), -i[0].item(), i[0].item() ** 70, i.item(2)),
    lambda x, y, i: x[0].item() / 0,
    lambda x, y, i: x.reshape(2, 3).item(1, 2),
    lambda x, y, i: (divmod(i[0].item(), 2), pow(i[0].item(), 3, 5)),
    lambda x, y, i: pow(i[0], 3, 5),
    lambda x, y, i: abs(x[4].item()) > 3,
    # powers
    lambda x, y, i: ((x > 1) ** 2, x**2, x**0.5, x**-1.0, 2**x, x**i, i**2, i[0] ** 2),
    lambda x, y, i: i**-1,
    # repetition
    lambda x, y, i: ([0] * i[0], i[0] * (1, 2), "ab" * i[0], i[0].item() * [1]),
    lambda x, y, i: [0] * x[0],
    lambda x, y, i: (1j + x[0], x[0] + 1j, x[0] + [1, 2], x[0] == None, i[0] + True),  # noqa: E711
    lambda x, y, i: x[0] @ x[1],
    lambda x, y, i: x[0].item() - [1, 2],
    # clip
    lambda x, y, i: np.clip(i.astype(np.int8), 0, 300),
    lambda x, y, i: np.clip(x, 0, 1, dtype=np.float32),
    lambda x, y, i: (x.clip(y), np.clip(x, y, 3), np.clip(x, max=y), np.clip(2.0, x, None)),
    lambda x, y, i: np.clip(x, 0, 1, where=x > 0, out=np.ones(6)),
    # numbers of NumPy are numbers
    lambda x, y, i: (round(x[0], 1), round(x[0]), math.trunc(x[0]), math.floor(x[5])),
    lambda x, y, i: (x[0].is_integer(), x[0].hex(), i[0].bit_count()),
    lambda x, y, i: (x.sum().astype(int), x[0].copy(), x[0].T, x[0].squeeze(), x[0].view()),
    lambda x, y, i: (np.asarray(x[0]), np.array(x[0].item())),
    lambda x, y, i: ((x[0] * 1j).real, np.angle(x[0]), x.astype(str)[0] + i.astype(str)[1]),
    lambda x, y, i: (x.flat > 1, x.flat == y, y.flat != x.flat),
    lambda x, y, i: round(x),
    lambda x, y, i: len(x[0]),
    lambda x, y, i: x[0].nothing,
    # equality where NumPy has no loop
    lambda x, y, i: (x == "q", x != "q", x == None),  # noqa: E711
    lambda x, y, i: x.astype([("p", float)]) == y.astype([("p", float)]),
    lambda x, y, i: x < "q",
    # arrays of lists
    lambda x, y, i: np.array([x[0], "a", None, True, 2], dtype=object),
    lambda x, y, i: np.asarray([[x[0], "a"], [1, y[1]]], object),
    lambda x, y, i: np.array([x, [1, 2, 3, 4, 5, 6]], dtype=object),
    lambda x, y, i: np.array([x, [1, 2]], dtype=object),
    lambda x, y, i: np.array([x, [1, 2]]),
    lambda x, y, i: (np.array([i[0], 2**63]), np.array([x[0], 2**70]), np.array([i[0], "12"], int)),
    lambda x, y, i: np.array([i[0], 300], dtype=np.uint8),
    lambda x, y, i: np.array([i.astype("m8[s]")[0], 1.0]),
    lambda x, y, i: np.array([(x[0], i[0]), (1.5, 2)], dtype=[("a", float), ("b", int)]),
    lambda x, y, i: (
        np.array([x[0]], ndmin=3),
        np.array([[x[:2]], [y[:2]]]),
        np.array([[], x[:0]]),
    ),
    lambda x, y, i: np.append(x, [y[0], "a"]),
    # functions without a rule
    lambda x, y, i: np.unique_counts(i).counts,
    lambda x, y, i: np.cumsum(x.mean(), axis=0),
    lambda x, y, i: np.frompyfunc(lambda v: v + y[0], 1, 1)(x),
    lambda x, y, i: np.frompyfunc(divmod, 2, 2)(i, 2),
]


def outcome(program: Any) -> Any:
    """What a program gives for arrays of its own, or the kind of error."""
    try:
        return program(X.copy(), Y.copy(), I.copy())
    except Exception as error:
        return type(error)


def assert_alike(found: Any, wanted: Any) -> None:
    assert type(found) is type(wanted)
    if isinstance(wanted, list | tuple):
        assert len(found) == len(wanted)
        for one, two in zip(found, wanted, strict=True):
            assert_alike(one, two)
    elif isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        if wanted.dtype == object:
            assert_alike(list(found.flat), list(wanted.flat))
        else:
            assert found.tobytes() == wanted.tobytes()
    else:
        assert found == wanted


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("program", ALIKE)
def test_alike(program: Program) -> None:
    assert_alike(outcome(wa.track(program)), outcome(program))


@pytest.mark.parametrize("exponent", [2, 0.5, -1, 3, 2.0])
def test_complex_powers_to_the_last_bit(exponent: float) -> None:
    assert wa.track(lambda z: z**exponent)(Z).tobytes() == (Z**exponent).tobytes()


def test_functions_given_to_numpy_are_called_once() -> None:
    calls: list[int] = []

    @wa.track
    def f(x: Any) -> Any:
        return np.piecewise(x, [x < 1, x >= 1], [lambda v: calls.append(1) or -v, 0.0])

    @wa.track
    def g(x: Any) -> Any:
        return np.apply_over_axes(lambda a, axis: calls.append(1) or np.sum(a, axis), x, [0])

    assert f(X).tolist() == [0, 0, 0, 0, 4, -0.5]
    assert calls == [1]
    assert f.last.grade == "exact"
    assert g(X).tolist() == [X.sum()]
    assert calls == [1, 1]
    assert g.last.grade == "superset"


def test_an_array_kept_from_an_earlier_call_is_handed_out_plain() -> None:
    class Model:
        @wa.track
        def fit(self, x: Any) -> Any:
            self.state = x * 2
            return x + 1

        @wa.track
        def first(self, y: Any) -> Any:
            return self.state + y

        @wa.track
        def alone(self, x: Any) -> Any:
            return self.state

    model = Model()
    model.fit(X)
    for method, function in ((model.first, Model.first), (model.alone, Model.alone)):
        assert type(method(Y)) is np.ndarray
        assert function.last.grade == "superset"
        assert function.last.notes == ("a tracked array kept from another call",)


# cells


def through_a_number(x: Any) -> Any:
    cell = x[2, ...]
    cell += x[0]
    single = np.squeeze(x[4:5])
    single[...] = x[1]
    return x


def own_key(x: Any) -> Any:
    k = np.array([1, 1, 0, 3, 4, 5]) + 0 * x.astype(int)
    np.add.at(k, k, x.astype(int))
    return k


def masked_by_the_target(x: Any) -> Any:
    out = x > 1
    np.logical_not(out, out=out, where=out)
    return out


CELLS: list[tuple[Callable[[Any], Any], list[list[int]]]] = [
    (lambda x: running_total(x, None, None), [list(range(k + 1)) for k in range(6)]),
    (lambda x: np.array([x[0].item() + x[1].item(), round(x[2], 1)]), [[0, 1], [2]]),
    (lambda x: np.array([(x[0], x[1]), (1, x[5])], "f,f"), [[0, 1], [5]]),
    (lambda x: np.array([x[3], "a", x[:2].sum()], object), [[3], [], [0, 1]]),
    (lambda x: np.array([x[2:4], [1, 2]], object).reshape(-1), [[2], [3], [], []]),
    (lambda x: x.compress(x > 1), [[0], [2], [3]]),
    (lambda x: np.clip(x, x[5], 2.5), [[], [1], [2], [], [5], [5]]),
    (lambda x: np.clip(x, 0, None), [[0], [1], [2], [3], [], [5]]),
    (lambda x: (x**2)[::-1], [[5], [4], [3], [2], [1], [0]]),
    (lambda x: x == "q", [[k] for k in range(6)]),
    (lambda x: x.flat[2:4], [[2], [3]]),
    (lambda x: np.array(list(x.reshape(2, 3).T.flat))[:2], [[0], [3]]),
    (lambda x: np.sort(x.flat)[:2], [[4], [5]]),
    (lambda x: np.cumsum(x[1], axis=0), [[1]]),
    (through_a_number, [[0], [1], [0, 2], [3], [1], [5]]),
    (own_key, [[0, 2], [0, 1], [2], [3], [4], [5]]),
    (masked_by_the_target, [[k] for k in range(6)]),
]


@pytest.mark.parametrize(("program", "wanted"), CELLS)
def test_cells(program: Callable[[Any], Any], wanted: list[list[int]]) -> None:
    function = wa.track(program)
    function(X.copy())
    found: wa.Provenance = function.last
    assert found.grade == "exact"
    assert [found.backward(k)["x"][0].tolist() for k in range(len(wanted))] == wanted
    for cell in range(6):
        reached = [k for k in range(len(wanted)) if cell in wanted[k]]
        assert found.forward("x", cell)[0].tolist() == reached


def test_results_put_somewhere_have_cells() -> None:
    function = wa.track(lambda x, y: products_in_place(x, y, None))
    function(X, Y)
    product, exchanged, dot, line, transformed = function.last
    assert {found.grade for found in (product, dot, line, transformed)} == {"exact"}
    assert exchanged.grade == "superset"
    for found, cell, wanted in (
        (product, (0, 0), [0, 1, 2, 3]),
        (exchanged, (0, 0), [0, 1, 2, 3]),
        (dot, (1, 0), [0, 2, 3]),
        (line, 1, [1, 3, 5]),
        (transformed, 0, [0, 1, 2, 3, 4, 5]),
    ):
        assert found.backward(cell)["x"][0].tolist() == wanted


def test_objects_in_arrays() -> None:
    @wa.track
    def f(x: Any) -> Any:
        o = np.empty(3, object)
        o[0], o[1], o[2] = x[0], x[1:3], x[3]
        return o[1].sum(), o[0] + o[2]

    f(X)
    inside, numbers = f.last
    assert (inside.grade, inside.backward()["x"][0].tolist()) == ("superset", [1, 2])
    assert (numbers.grade, numbers.backward()["x"][0].tolist()) == ("superset", [0, 3])
    missing = wa.track(lambda x: x[1] is None)
    assert missing(np.array([1, None, 3], object)) is True
    assert (missing.last.grade, missing.last.backward()["x"][0].tolist()) == ("superset", [1])
