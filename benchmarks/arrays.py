"""Array provenance: capture against plain NumPy, compression against gzip and columns, queries.

`python -m benchmarks.arrays` prints all tables; `--json FILE` keeps the figures, `--quick` looks
less long. Times are medians of alternating runs in one process; ratios are medians of the ratios of
each turn to the same work without whence.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import math
import statistics
import time
import tracemalloc
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import whence.arrays as wa
from whence.arrays.catalogue import CATALOGUE, ELEMENTWISE, Entry
from whence.arrays.codec import encode
from whence.arrays.expand import count_pairs, expand
from whence.arrays.forms import Form, Pairs
from whence.arrays.provrc import compress

CELLS = 1_000_000
VIEWS_OF_MEMORY = frozenset(
    [
        "real",
        "imag",
        "ravel",
        "reshape",
        "transpose",
        "moveaxis",
        "swapaxes",
        "squeeze",
        "expand_dims",
        "broadcast_to",
        "flip",
        "fliplr",
        "flipud",
        "rot90",
        "atleast_1d",
        "atleast_2d",
        "asarray",
        "asanyarray",
        "ascontiguousarray",
        "asfortranarray",
        "require",
    ]
)
LISTABLE = 5_000_000


@dataclass(frozen=True, slots=True)
class Operation:
    """One of the twelve operations of the seed's table 5.1, at its sizes."""

    name: str
    function: Callable[..., Any]
    make: Callable[[np.random.Generator], list[Any]]
    seed_provrc: int
    seed_columnar: int
    irregular: bool = False


def digit() -> Any:
    """A handwritten-looking digit of 28 by 28 pixels, enlarged to 1000 by 1000; 0 elsewhere."""
    down, right = np.mgrid[0:28, 0:28]
    rings = [np.hypot(down - y, right - 14 + (down - 14) * 0.15) for y in (9, 19)]
    ink = sum(np.clip(2.2 - np.abs(r - 4.5), 0, 1) for r in rings)
    return np.repeat(np.repeat(ink, 36, axis=0), 36, axis=1)[:1000, :1000].copy()


def _wide(rng: np.random.Generator) -> Any:
    return rng.random((10, 100_000))


def _square(rng: np.random.Generator) -> Any:
    return rng.random((1000, 1000))


def _column(rng: np.random.Generator) -> Any:
    return rng.random((CELLS, 1))


def _correlated(rng: np.random.Generator) -> Any:
    return rng.normal(np.arange(CELLS), CELLS / 10).reshape(CELLS, 1)


def above_mean(x: Any) -> Any:
    """Rows above the average."""
    return x[x[:, 0] > x.mean()]


def four_bins(x: Any) -> Any:
    """How many cells fall into each of four bins."""
    return np.histogram(x, bins=4)[0]


TWELVE = (
    Operation("Negative", np.negative, lambda r: [_wide(r)], 71, 110_900),
    Operation("Addition", np.add, lambda r: [_wide(r), _wide(r)], 124, 222_000),
    Operation(
        "Aggregate", lambda x: np.sum(x, axis=1, keepdims=True), lambda r: [_square(r)], 85, 9_108
    ),
    Operation("Repetition", lambda x: np.tile(x, (2, 2)), lambda r: [_wide(r)], 243, 150_900),
    Operation("MatMul", np.dot, lambda r: [_square(r), _square(r)], 126, 9_942_000),
    Operation("MatVecMul", np.dot, lambda r: [_square(r), r.random(1000)], 162, 15_480),
    Operation("VecMul", np.dot, lambda r: [r.random(1000), r.random(1000)], 230, 310_100),
    Operation("RandFilter", above_mean, lambda r: [_column(r)], 21_870_000, 2_364_000, True),
    Operation("CorrFilter", above_mean, lambda r: [_correlated(r)], 4_940_000, 1_503_000, True),
    Operation("ImgFilter", lambda x: x[x != 0], lambda r: [digit()], 66_440, 1_069_000),
    Operation("RandBin4", four_bins, lambda r: [_column(r)], 43_320_000, 816_400, True),
    Operation("SortedBin4", four_bins, lambda r: [np.sort(_column(r), axis=0)], 468, 309_200),
)


def twelve_relations(operation: Operation) -> list[wa.Relation]:
    """The relations of one operation with each of its inputs."""
    arrays = operation.make(np.random.default_rng(5))
    found = wa.track(lambda *xs: operation.function(*xs))
    found(*arrays)
    return [found.last.relation(name) for name in found.last.inputs]


def raw_bytes(form: Form) -> bytes:
    """The relation as rows of 64-bit integers, sorted: what gzip is given."""
    listed = expand(form)
    columns = [
        *np.unravel_index(listed.out, form.out_shape or (1,)),
        *np.unravel_index(listed.inp, form.in_shape or (1,)),
    ]
    return np.stack(columns, axis=1).astype("<i8").tobytes()


def columnar_bytes(form: Form) -> int:
    """The seed's columnar baseline (§4.2.1): differences per column, entropy coded."""
    listed = expand(form)
    total = 0
    for column in (
        *np.unravel_index(listed.out, form.out_shape or (1,)),
        *np.unravel_index(listed.inp, form.in_shape or (1,)),
    ):
        steps = np.diff(column, prepend=0).astype("<i4").view(np.uint8).reshape(-1, 4)
        total += len(zlib.compress(np.ascontiguousarray(steps.T).tobytes(), 6))
    return total


def sizes() -> list[dict[str, Any]]:
    """Compressed bytes of the twelve operations, beside the seed's and the baselines here."""
    rows = []
    for operation in TWELVE:
        found = twelve_relations(operation)
        listable = sum(count_pairs(r.form) for r in found) <= LISTABLE
        rows.append(
            {
                "operation": operation.name,
                "provrc": sum(r.nbytes for r in found),
                "rows": sum(len(r.table) for r in found),
                "seed_provrc": operation.seed_provrc,
                "columnar": sum(columnar_bytes(r.form) for r in found) if listable else None,
                "seed_columnar": operation.seed_columnar,
                "gzip": sum(len(gzip.compress(raw_bytes(r.form), 6)) for r in found)
                if listable
                else None,
            }
        )
    return rows


def compression(budget: float) -> list[dict[str, Any]]:
    """Seconds to compress a listed relation: ProvRC to bytes, against gzip -6 of its rows."""
    rows = []
    for operation in TWELVE:
        found = twelve_relations(operation)[0]
        if not CELLS // 10 <= count_pairs(found.form) <= LISTABLE:
            continue
        listed = expand(found.form)
        rows.append(_compression_row(operation.name, listed, budget))
    return rows


def _compression_row(name: str, listed: Pairs, budget: float) -> dict[str, Any]:
    raw = raw_bytes(listed)
    packed, ours, ratio = alternate(lambda: gzip.compress(raw, 6), lambda: encode(listed), budget)
    _, table, _ = alternate(lambda: None, lambda: compress(listed), budget)
    return {
        "operation": name,
        "pairs": len(listed.out),
        "gzip_ms": packed * 1e3,
        "provrc_ms": ours * 1e3,
        "table_ms": table * 1e3,
        "times_faster": 1 / ratio,
    }


def alternate(
    plain: Callable[[], Any], other: Callable[[], Any], budget: float = 0.4
) -> tuple[float, float, float]:
    """Median seconds of two functions run in turn, and the median of the ratios of each turn.

    They take turns in going first: who goes second finds the caches full of the other's results.
    """
    turn: list[tuple[list[float], Callable[[], Any]]] = [([], plain), ([], other)]
    times = turn[0][0], turn[1][0]
    begun = time.perf_counter()
    gc.collect()
    gc.disable()
    try:
        while len(times[0]) < 5 or (time.perf_counter() - begun < budget and len(times[0]) < 301):
            for kept, work in turn:
                start = time.perf_counter()
                result = work()
                kept.append(time.perf_counter() - start)
                del result
            turn.reverse()
    finally:
        gc.enable()
    ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
    return statistics.median(times[0]), statistics.median(times[1]), ratio


def scale_shape(entry: Entry) -> tuple[str, dict[str, int]]:
    """A shape of about a million cells per operand for an entry."""
    side = math.isqrt(CELLS)
    shape = entry.at_scale or entry.cases()[0][0]
    letters = sorted({c for c in shape if c.isalpha()})
    if "3" in shape:
        return shape, {"n": CELLS // 3}
    if letters == ["n"] or (letters == ["m", "n"] and "n m" not in shape):
        return shape, dict.fromkeys(letters, CELLS)
    return shape, dict.fromkeys(letters, side)


def capture(budget: float) -> list[dict[str, Any]]:
    """Time of a tracked call against the plain call, for every function."""
    rng = np.random.default_rng(0)
    return [_capture_row(entry, rng, budget) for entry in CATALOGUE]


def _capture_row(entry: Entry, rng: np.random.Generator, budget: float) -> dict[str, Any]:
    shape, sizes = scale_shape(entry)
    options = {"shape": (1000, 1000)} if entry.name == "broadcast_to" else entry.options[0]
    arrays = entry.arrays(shape, sizes, rng)

    def call(*xs: Any) -> Any:
        return entry.call(*xs, **options)

    follow = wa.track(call, follow=("whence.arrays.catalogue",))
    plain, tracked, ratio = alternate(lambda: call(*arrays), lambda: follow(*arrays), budget)
    extra = _extra_memory(lambda: call(*arrays), lambda: follow(*arrays))
    return {
        "function": entry.name,
        "plain_ms": plain * 1e3,
        "tracked_ms": tracked * 1e3,
        "ratio": ratio,
        "extra_bytes_per_cell": extra / max(max(a.size for a in arrays), np.size(call(*arrays))),
        "element_wise": entry.name in ELEMENTWISE,
    }


def _extra_memory(plain: Callable[[], Any], tracked: Callable[[], Any]) -> int:
    """Bytes at the peak of a tracked call beyond those of the plain call."""
    peaks = []
    for work in (plain, tracked):
        gc.collect()
        tracemalloc.start()
        result = work()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        del result
    return peaks[1] - peaks[0]


def queries(repeat: int = 20) -> list[dict[str, Any]]:
    """Backward queries on 100 million cells where the relation is regular."""
    side = 10_000
    image = np.zeros((side, side), dtype=np.int8)
    cases: dict[str, tuple[Callable[[Any], Any], Any]] = {
        "element-wise, one cell": (lambda x: -x, (77, 5)),
        "element-wise, a slice of 1000 by 1000": (
            lambda x: -x, (slice(0, 1000), slice(0, 1000))),
        "sum along an axis, one cell": (lambda x: x.sum(axis=1), 9_999),
        "transpose, flip, shift, one cell": (lambda x: np.roll(x.T[::-1], 3, axis=0), (3, 4)),
        "reshape to one axis, one cell": (lambda x: x.reshape(-1), 12_345_678),
        "three by three neighbourhood, one cell": (
            lambda x: x[:-2, :-2] + x[1:-1, 1:-1] + x[2:, 2:], (5, 5)),
    }  # fmt: skip
    rows = []
    for name, (function, cell) in cases.items():
        follow = wa.track(function)
        result = follow(image)
        answer = follow.last
        start = time.perf_counter()
        cells = answer.cells(cell)["x"]
        first = time.perf_counter() - start
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            cells = answer.cells(cell)["x"]
            times.append(time.perf_counter() - start)
        rows.append(
            {
                "query": name,
                "cells_found": len(cells),
                "first_ms": first * 1e3,
                "median_ms": statistics.median(times) * 1e3,
            }
        )
        del result, answer, follow
    return rows


def geometric(values: list[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The means that the capture is judged by."""
    plain = [r for r in rows if r["element_wise"]]
    computed = [r["ratio"] for r in plain if r["function"] not in VIEWS_OF_MEMORY]
    return {
        "all": geometric([r["ratio"] for r in rows]),
        "element_wise": geometric([r["ratio"] for r in plain]),
        "element_wise_not_views_of_memory": geometric(computed),
        "not_views_of_memory": geometric(
            [r["ratio"] for r in rows if r["function"] not in VIEWS_OF_MEMORY]
        ),
        "worst_extra_bytes_per_cell": max(r["extra_bytes_per_cell"] for r in rows),
    }


def show(title: str, rows: list[dict[str, Any]]) -> None:
    """Print rows as a Markdown table."""
    print(f"\n## {title}\n")
    names = list(rows[0])
    print("| " + " | ".join(names) + " |\n" + "|---" * len(names) + "|")
    for row in rows:
        cells = [f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()]
        print("| " + " | ".join(cells) + " |")


def main(arguments: list[str] | None = None) -> None:
    """Run everything and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    budget = 0.1 if options.quick else 0.5
    found: dict[str, Any] = {"sizes": sizes(), "compression": compression(budget)}
    found["queries"] = queries()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found["capture"] = capture(budget)
    for title, rows in found.items():
        show(title, rows)
    found["means"] = summary(found["capture"])
    print("\n" + "\n".join(f"{k}: {v:.3f}" for k, v in found["means"].items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
