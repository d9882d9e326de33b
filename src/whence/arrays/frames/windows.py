"""Windows over a tracked column (`rolling`, `expanding`, `ewm`), as pandas computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from whence.arrays.frames import spans
from whence.arrays.frames.column import TrackedColumn
from whence.arrays.tracked import TrackedArray

_FOLLOWED = frozenset(
    {"sum", "mean", "min", "max", "std", "var", "median", "count", "sem", "skew", "kurt"}
    | {"quantile", "apply", "rank"}
)


class Windows:
    """What `series.rolling(…)` and its kin give for a tracked column."""

    def __init__(self, series: pd.Series[Any], plain: Any) -> None:
        self._series, self._windows = series, plain
        self._array: TrackedArray = series.array.tracked_

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._windows, name)
        if name not in _FOLLOWED or getattr(self._windows, "step", None) not in (None, 1):
            self._array.session_.escape(self._array.node_, f"{type(self._windows).__name__}.{name}")
            return found
        return lambda *args, **kwargs: self._made(name, found(*args, **kwargs))

    def agg(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """One aggregate by its name; any other way lets the values leave."""
        if isinstance(function, str):
            return getattr(self, function)(*args, **kwargs)
        return self.__getattr__("aggregate")(function, *args, **kwargs)

    aggregate = agg

    def _made(self, name: str, result: Any) -> Any:
        values = result.to_numpy()
        lo, hi = self._bounds(len(values))
        source = None
        if name in ("min", "max"):
            source = spans.first_equal(self._array.data_.astype(np.float64), values, lo, hi)
        made = TrackedColumn(spans.over(self._array, values, lo, hi, source))
        return pd.Series(made, index=self._series.index, name=self._series.name)

    def _bounds(self, size: int) -> tuple[Any, Any]:
        """The first and last row of each window."""
        windows = self._windows
        if isinstance(windows, pd.api.typing.ExponentialMovingWindow):
            return np.zeros(size, dtype=np.int64), np.arange(size)
        lo, end = windows._get_window_indexer().get_window_bounds(
            num_values=size,
            min_periods=windows.min_periods,
            center=getattr(windows, "center", None),
            closed=getattr(windows, "closed", None),
            step=None,
        )
        return np.asarray(lo), np.minimum(np.asarray(end), size) - 1
