"""The 136 functions of the seed's coverage experiment, and how each is called.

One entry says in which shapes, with which options and on which values a function is tried; the
tests compare it with an oracle, the coverage tool learns views of it, the benchmark times it. Three
functions have gone from NumPy and stand here with what replaced them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One function: `shapes` are templates such as "n m; m", one part per operand."""

    name: str
    group: str
    function: Callable[..., Any]
    shapes: tuple[str, ...] = ("n", "n m", "n m k")
    options: tuple[dict[str, Any], ...] = ({},)
    values: str = "unit"
    listed: bool = False
    at_scale: str = ""
    option_shapes: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def cases(self) -> list[tuple[str, dict[str, Any]]]:
        """Every shape with every option that fits it."""
        return [
            (shape, option)
            for number, option in enumerate(self.options)
            for shape in self.option_shapes.get(number, self.shapes)
        ]

    def call(self, *arrays: Any, **options: Any) -> Any:
        """Call the function as a person would."""
        if self.listed:
            return self.function(list(arrays), **options)
        return self.function(*arrays, **options)

    def arrays(self, shape: str, sizes: Sizes, rng: np.random.Generator) -> list[Array]:
        """Fresh operands for a template."""
        parts = [[sizes.get(d) or int(d) for d in part.split()] for part in shape.split(";")]
        return [_VALUES[self.values](tuple(p), rng, i) for i, p in enumerate(parts)]


def _unit(shape: tuple[int, ...], rng: np.random.Generator, operand: int) -> Array:
    return rng.uniform(0.05, 0.95, shape)


def _signed(shape: tuple[int, ...], rng: np.random.Generator, operand: int) -> Array:
    return rng.normal(0, 3, shape)


def _above(shape: tuple[int, ...], rng: np.random.Generator, operand: int) -> Array:
    return rng.uniform(1.1, 4, shape)


def _complex(shape: tuple[int, ...], rng: np.random.Generator, operand: int) -> Array:
    found: Array = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return found


def _repeating(shape: tuple[int, ...], rng: np.random.Generator, operand: int) -> Array:
    return rng.integers(0, max(2, int(np.prod(shape)) // 2), shape).astype(np.float64)


def _zero_ends(shape: tuple[int, ...], rng: np.random.Generator, operand: int) -> Array:
    out = rng.uniform(0.1, 1, shape)
    size = shape[0]
    out[: int(rng.integers(0, max(1, size // 3)))] = 0
    out[size - int(rng.integers(0, max(1, size // 3))) :] = 0
    return out


def _ladder(shape: tuple[int, ...], rng: np.random.Generator, operand: int) -> Array:
    if operand == 1:
        return np.sort(rng.uniform(0.2, 0.8, shape))
    return rng.uniform(0, 1, shape)


_VALUES: dict[str, Callable[[tuple[int, ...], np.random.Generator, int], Array]] = {
    "unit": _unit,
    "signed": _signed,
    "above": _above,
    "complex": _complex,
    "repeating": _repeating,
    "zero ends": _zero_ends,
    "ladder": _ladder,
}

_TWO = ("n; n", "n m; n m", "n m; m", "n m; n 1")
_AXES: tuple[dict[str, Any], ...] = ({}, {"axis": 0}, {"axis": -1})
_PLAIN_AXES: tuple[str, ...] = ("n", "n m", "n m k")


def _elementwise() -> list[Entry]:
    names = {
        "unit": "sin cos tan arcsin arccos arctan degrees radians deg2rad rad2deg sinh cosh tanh "
        "arcsinh arctanh exp expm1 exp2 log log10 log2 log1p sqrt cbrt reciprocal sinc",
        "signed": "rint fix floor ceil trunc spacing positive negative square absolute fabs sign",
        "above": "arccosh",
        "complex": "angle real imag conj conjugate real_if_close",
    }
    made = [
        Entry(name, "mathematical", getattr(np, name), values=values)
        for values, listed in names.items()
        for name in listed.split()
    ]
    rounding: tuple[dict[str, Any], ...] = ({}, {"decimals": 1})
    made.append(Entry("around", "mathematical", np.around, options=rounding, values="signed"))
    made.append(Entry("round_", "mathematical", np.round, options=rounding, values="signed"))
    pairs = {
        "unit": "hypot arctan2 logaddexp logaddexp2 add multiply divide power subtract "
        "true_divide float_power",
        "signed": "copysign nextafter maximum fmax minimum fmin heaviside",
        "above": "floor_divide fmod mod remainder",
    }
    made += [
        Entry(name, "mathematical", getattr(np, name), _TWO, values=values)
        for values, listed in pairs.items()
        for name in listed.split()
    ]
    return made


def _by_name(name: str) -> Callable[..., Any]:
    """A function that is looked up when it is called, as in code that says `np.asarray(x)`."""

    def late(*args: Any, **options: Any) -> Any:
        return getattr(np, name)(*args, **options)

    return late


def _cross(a: Any, b: Any, **options: Any) -> Any:
    """np.cross without its notice that two components are on their way out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return np.cross(a, b, **options)


def _row_stack(arrays: Any) -> Any:
    """np.row_stack without its notice that it is now called vstack."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(np, "row_stack", np.vstack)(arrays)


def _msort(a: Any) -> Any:
    """What np.msort was."""
    return np.sort(a, axis=0)


def _reductions() -> list[Entry]:
    keep: tuple[dict[str, Any], ...] = ({}, {"axis": 0}, {"axis": -1, "keepdims": True})
    made = [
        Entry(name, group, getattr(np, name), options=keep, values="signed")
        for group, listed in (
            ("misc", "mean std var ptp"),
            ("mathematical", "prod sum amax amin"),
        )
        for name in listed.split()
    ]
    made += [
        Entry(name, "mathematical", getattr(np, name), options=_AXES)
        for name in ("cumprod", "cumsum")
    ]
    made.append(Entry("median", "misc", np.median, options=keep, values="signed"))
    quantiles = [({"q": q}, {"q": q, "axis": 0}) for q in (0.3, 0.5)]
    shares = tuple(o for pair in quantiles for o in pair)
    percents = tuple({**o, "q": o["q"] * 100} for o in shares)
    made.append(Entry("quantile", "misc", np.quantile, options=shares, values="signed"))
    made.append(Entry("percentile", "misc", np.percentile, options=percents, values="signed"))
    made.append(
        Entry("trapz", "mathematical", np.trapezoid, ("n", "n m"), ({}, {"dx": 0.5}, {"axis": 0}))
    )
    made.append(
        Entry("diff", "mathematical", np.diff, options=({}, {"n": 2}, {"axis": 0}), values="signed")
    )
    made.append(Entry("ediff1d", "mathematical", np.ediff1d, ("n", "n m"), values="signed"))
    made.append(Entry("unwrap", "mathematical", np.unwrap, ("n", "n m"), values="signed"))
    return made


def _manipulations() -> list[Entry]:
    group = "manipulation"
    flat = ("asarray", "asanyarray", "asfortranarray", "ascontiguousarray", "asarray_chkfinite")
    made = [Entry(name, group, _by_name(name)) for name in flat]
    made.append(Entry("require", group, _by_name("require"), options=({}, {"requirements": "F"})))
    made += [
        Entry(name, group, getattr(np, name)) for name in ("ravel", "atleast_1d", "atleast_2d")
    ]
    grid = ("n m", "n m k")
    made += [
        Entry("reshape", group, np.reshape, grid, ({"shape": -1}, {"shape": (-1, 2)}),
              option_shapes={1: ("n 2", "4 n")}),
        Entry("moveaxis", group, np.moveaxis, grid,
              ({"source": 0, "destination": -1}, {"source": 1, "destination": 0})),
        Entry("swapaxes", group, np.swapaxes, grid, ({"axis1": 0, "axis2": 1},)),
        Entry("transpose", group, np.transpose),
        Entry("broadcast_to", group, np.broadcast_to, ("3", "n 3"), ({"shape": (4, 3)},),
              option_shapes={0: ("3", "1 3", "4 1")}, at_scale="1 1000"),
        Entry("expand_dims", group, np.expand_dims, options=({"axis": 0}, {"axis": -1})),
        Entry("squeeze", group, np.squeeze, ("n 1", "1 n m"), ({}, {"axis": -1}),
              option_shapes={1: ("n 1",)}),
        Entry("concatenate", group, np.concatenate, ("n; m", "n m; k m"), ({}, {"axis": 0}),
              listed=True),
        Entry("stack", group, np.stack, ("n; n", "n m; n m"), ({}, {"axis": -1}), listed=True),
        Entry("block", group, np.block, ("n; m", "n m; n k"), listed=True),
        Entry("vstack", group, np.vstack, ("n; n", "n m; k m"), listed=True),
        Entry("hstack", group, np.hstack, ("n; m", "n m; n k"), listed=True),
        Entry("column_stack", group, np.column_stack, ("n; n", "n m; n"), listed=True),
        Entry("row_stack", group, _row_stack, ("n; n", "n m; k m"), listed=True),
        Entry("tile", group, np.tile, options=({"reps": 2}, {"reps": (2, 3)})),
        Entry("repeat", group, np.repeat, options=({"repeats": 2}, {"repeats": 3, "axis": 0})),
        Entry("delete", group, np.delete, options=({"obj": 1}, {"obj": 0, "axis": 0})),
        Entry("insert", group, np.insert,
              options=({"obj": 1, "values": 0.0}, {"obj": 0, "values": 5.0, "axis": 0})),
        Entry("append", group, np.append, ("n; m", "n m; k m"), ({}, {"axis": 0})),
        Entry("resize", group, np.resize, ("n", "n m"), ({"new_shape": (2, 3)}, {"new_shape": 5})),
        Entry("trim_zeros", group, np.trim_zeros, ("n",), ({}, {"trim": "f"}), values="zero ends"),
        Entry("flip", group, np.flip, options=_AXES),
        Entry("fliplr", group, np.fliplr, grid),
        Entry("flipud", group, np.flipud),
        Entry("roll", group, np.roll, options=({"shift": 1}, {"shift": 2, "axis": 0},
                                               {"shift": -1, "axis": -1})),
        Entry("rot90", group, np.rot90, grid, ({}, {"k": 2})),
    ]  # fmt: skip
    return made


def _ordering() -> list[Entry]:
    return [
        Entry("unique", "misc", np.unique, ("n", "n m"), values="repeating"),
        Entry("sort", "misc", np.sort, options=({}, {"axis": 0}, {"kind": "stable"}),
              values="signed"),
        Entry("msort", "misc", _msort, values="signed"),
        Entry("partition", "misc", np.partition, options=({"kth": 1}, {"kth": 0, "axis": 0}),
              values="signed"),
        Entry("interp", "mathematical", np.interp, ("n; m; m",), values="ladder",
              at_scale="n; 1000; 1000"),
        Entry("correlate", "misc", np.correlate, ("n; m", "m; n"),
              ({}, {"mode": "full"}, {"mode": "same"}), at_scale="n; 16"),
        Entry("convolve", "mathematical", np.convolve, ("n; m", "m; n"),
              ({}, {"mode": "valid"}, {"mode": "same"}), at_scale="n; 16"),
        Entry("cross", "mathematical", _cross, ("n 3; n 3", "3; 3"), ({},),
              option_shapes={0: ("n 3; n 3", "3; 3", "n 2; n 2", "n 3; 3")}, at_scale="n 3; n 3"),
    ]  # fmt: skip


def _products() -> list[Entry]:
    group = "linear_algebra"
    square = "s s; s s"
    return [
        Entry("dot", group, np.dot, ("n; n", "n m; m", "n m; m k"), at_scale=square),
        Entry("multi_dot", group, np.linalg.multi_dot, ("n m; m k; k 2", "n; n m; m k"),
              listed=True, at_scale="s s; s s; s s"),
        Entry("vdot", group, np.vdot, ("n; n", "n m; n m")),
        Entry("inner", group, np.inner, ("n; n", "n m; m", "n m; k m"), at_scale=square),
        Entry("outer", group, np.outer, ("n; m", "n m; k"), at_scale="s; s"),
        Entry("matmul", group, np.matmul, ("n; n", "n m; m", "n m; m k", "k n m; m 2"),
              at_scale=square),
        Entry("kron", group, np.kron, ("n; m", "n m; k 2"), at_scale="32 32; 32 32"),
    ]  # fmt: skip


def _build() -> tuple[Entry, ...]:
    made: Sequence[Entry] = [
        *_elementwise(), *_reductions(), *_manipulations(), *_ordering(), *_products(),
    ]  # fmt: skip
    return tuple(sorted(made, key=lambda e: (e.group, e.name)))


CATALOGUE: tuple[Entry, ...] = _build()
ELEMENTWISE: frozenset[str] = frozenset(e.name for e in _elementwise())
