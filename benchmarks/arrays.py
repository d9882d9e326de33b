"""Array provenance: capture against plain NumPy, compression against gzip and columns, queries.

`python -m benchmarks.arrays` prints all tables; `--json FILE` keeps the figures. Times are medians of
alternating runs in one process, as ratios to the same work without whence.
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
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import whence.arrays as wa
from whence.arrays.catalogue import CATALOGUE, ELEMENTWISE, Entry
from whence.arrays.codec import encode
from whence.arrays.compose import expand
from whence.arrays.forms import Pairs

CELLS = 1_000_000
# compressed size in bytes that the seed's table 6.1 gives for ProvRC, and for its columnar baseline
SEED = {
    "Negative": (71, 110_900),
    "Addition": (124, 222_000),
    "Aggregate": (85, 9_108),
    "Repetition": (243, 150_900),
    "MatMul": (126, 9_942_000),
    "MatVecMul": (162, 15_480),
    "VecMul": (230, 310_100),
    "RandFilter": (21_870_000, 2_364_000),
    "CorrFilter": (4_940_000, 1_503_000),
    "ImgFilter": (66_440, 1_069_000),
    "RandBin4": (43_320_000, 816_400),
    "SortedBin4": (468, 309_200),
}


def alternate(
    plain: Callable[[], Any], other: Callable[[], Any], budget: float = 0.4
) -> tuple[float, float]:
    """Median seconds of two functions, run in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    spent = time.perf_counter()
    gc.collect()
    gc.disable()
    try:
        while len(times[0]) < 5 or (
            time.perf_counter() - spent < budget and len(times[0]) < 301
        ):
            for kept, work in zip(times, (plain, other), strict=True):
                start = time.perf_counter()
                result = work()
                kept.append(time.perf_counter() - start)
                del result
    finally:
        gc.enable()
    return statistics.median(times[0]), statistics.median(times[1])


def scale_shape(entry: Entry) -> tuple[str, dict[str, int]]:
    """A shape of about a million cells for an entry."""
    side = math.isqrt(CELLS)
    if entry.at_scale:
        shape = entry.at_scale
        per_cell = {"n 3; n 3": CELLS // 3}.get(shape, CELLS)
        return shape, {"n": per_cell, "s": side if "; s" in shape else side}
    shape = entry.cases()[0][0]
    letters = sorted({c for c in shape if c.isalpha()})
    if letters == ["n"]:
        return shape, {"n": CELLS}
    if letters == ["m", "n"] and "n m" not in shape:
        return shape, {"n": CELLS, "m": CELLS}
    return shape, dict.fromkeys(letters, side)


def capture(budget: float, only: str = "") -> list[dict[str, Any]]:
    """Time of a tracked call against the plain call, for every function."""
    rng = np.random.default_rng(0)
    rows = []
    for entry in CATALOGUE:
        if only and entry.name != only:
            continue
        shape, sizes = scale_shape(entry)
        options = entry.options[0]
        if entry.name == "broadcast_to":
            options = {"shape": (1000, 1000)}
        arrays = entry.arrays(shape, sizes, rng)

        def call(*xs: Any, e: Entry = entry, o: dict[str, Any] = options) -> Any:
            return e.call(*xs, **o)

        follow = wa.track(call, follow=("whence.arrays.catalogue",))
        plain, tracked = alternate(lambda: call(*arrays), lambda: follow(*arrays), budget)
        rows.append(
            {
                "function": entry.name,
                "plain_ms": plain * 1e3,
                "tracked_ms": tracked * 1e3,
                "ratio": tracked / plain,
                "element_wise": entry.name in ELEMENTWISE,
            }
        )
    return rows


if __name__ == "__main__":
    r=capture(0.15)
    g=lambda x: math.exp(sum(map(math.log,x))/len(x))
    print(g([x['ratio'] for x in r]), g([x['ratio'] for x in r if x['element_wise']]), max(x['ratio'] for x in r if x['element_wise']))
    for x in sorted(r,key=lambda x:-x['ratio'])[:70]: print(x['function'],round(x['plain_ms'],4),round(x['tracked_ms'],4),round(x['ratio'],2))
