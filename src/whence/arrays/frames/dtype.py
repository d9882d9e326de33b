"""The type of a tracked column."""

from __future__ import annotations

from typing import Any

import numpy as np
from pandas.api.extensions import ExtensionDtype


class TrackedDtype(ExtensionDtype):
    """The type of a tracked column: that of its values."""

    _metadata = ("numpy_dtype",)

    def __init__(self, numpy_dtype: Any) -> None:
        self.numpy_dtype: np.dtype[Any] = np.dtype(numpy_dtype)

    @property
    def name(self) -> str:  # type: ignore[override]
        """As pandas shows it."""
        return f"tracked[{self.numpy_dtype}]"

    @property
    def type(self) -> Any:  # type: ignore[override]
        """The type of one value."""
        return self.numpy_dtype.type

    @property
    def kind(self) -> Any:
        """NumPy's letter for the type."""
        return self.numpy_dtype.kind

    @property
    def itemsize(self) -> int:
        """Bytes of one value."""
        return self.numpy_dtype.itemsize

    @property
    def na_value(self) -> Any:
        """What stands for a missing value."""
        return np.datetime64("NaT") if self.kind in "mM" else np.nan

    @property
    def _is_numeric(self) -> bool:
        return self.kind in "iufcb"

    @property
    def _is_boolean(self) -> bool:
        return bool(self.kind == "b")

    @classmethod
    def construct_array_type(cls) -> Any:
        """The column's class."""
        from whence.arrays.frames.column import TrackedColumn

        return TrackedColumn

    @classmethod
    def construct_from_string(cls, string: str) -> TrackedDtype:
        """Nobody asks for it by name."""
        raise TypeError(f"cannot make a tracked type of {string!r}")

    def _get_common_dtype(self, dtypes: list[Any]) -> Any:
        plain = [d.numpy_dtype if isinstance(d, TrackedDtype) else d for d in dtypes]
        if not all(isinstance(d, np.dtype) for d in plain):
            return None
        if len({d.kind in "iufcb" or d for d in plain}) > 1:  # a row of unlike values
            return np.dtype(object)
        return TrackedDtype(np.result_type(*plain))
