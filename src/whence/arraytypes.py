"""Types of columns on three sides: NumPy, Arrow, and Spark's schema."""

from __future__ import annotations

from typing import Any

from whence.errors import ArrayError

_PLAIN = {
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "float": "float",
    "double": "double",
    "bool": "boolean",
    "string": "string",
    "large_string": "string",
    "binary": "binary",
    "date32[day]": "date",
    "timestamp[us]": "timestamp_ntz",
}


def spark_type(kind: Any) -> Any:
    """An Arrow type as Spark's schema writes it."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        inner = spark_type(kind.value_type)
        return {"type": "array", "elementType": inner, "containsNull": True}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [spark_field(field.name, field.type) for field in kind]}
    if str(kind) not in _PLAIN:
        raise ArrayError(
            f"an array of type {kind} cannot be stored as a column; there are "
            + ", ".join(dict.fromkeys(_PLAIN.values()))
        )
    return _PLAIN[str(kind)]


def spark_field(name: str, kind: Any) -> dict[str, Any]:
    """A column of an Arrow type as Spark's schema writes it."""
    return {"name": name, "type": spark_type(kind), "nullable": True, "metadata": {}}


def to_arrow(array: Any) -> Any:
    """A result as a column: one row for each position on the first axis, the rest in lists."""
    import numpy as np
    import pyarrow as pa

    if array.ndim > 1:
        inner = to_arrow(array.reshape(-1, *array.shape[2:]))
        offsets = np.arange(len(array) + 1, dtype=np.int32) * array.shape[1]
        return pa.ListArray.from_arrays(pa.array(offsets), inner)
    kind = array.dtype.kind
    if kind == "u":
        widened = array.astype(np.int64)
        if bool((widened < 0).any()):
            raise ArrayError("an array holds unsigned numbers beyond 63 bits; cast it to float")
        array = widened
    elif kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float32 if array.dtype.itemsize < 4 else np.float64)
    elif kind == "M":
        array = array.astype("datetime64[us]")
    try:
        made = pa.array(np.ascontiguousarray(array))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise ArrayError(f"an array of {array.dtype} cannot be stored: {error}") from error
    spark_type(made.type)
    return made


def to_numpy(column: Any) -> Any:
    """An Arrow column as an array of its own; what is missing is NaN, NaT or None."""
    import numpy as np

    return np.array(column.to_numpy())
