"""Canonical bytes of rows in plain Python, from Arrow data.

The rules are those of `whence.algebra.canonical`, which writes them as SQL; this is what Spark and
DuckDB are held against.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

from whence.algebra.canonical import NULL, Type, header, kind_of, stored_type, struct_header

_NULL = NULL.encode()


def encode_rows(columns: Sequence[tuple[str, Any, Type]]) -> list[bytes]:
    """The canonical bytes of each record; a column is its name, an Arrow array and its type."""
    start = header([name for name, _, _ in columns]).encode()
    encoded = [encode(array, kind) for _, array, kind in columns]
    return [start + b"".join(values) for values in zip(*encoded, strict=True)]


def row_digests(columns: Sequence[tuple[str, Any, Type]]) -> list[bytes]:
    """The SHA-256 of each record's canonical bytes."""
    return [hashlib.sha256(row).digest() for row in encode_rows(columns)]


def encode(array: Any, kind: Type) -> list[bytes]:
    """The canonical bytes of each value of an Arrow array."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in encode(chunk, kind)]
    kind = stored_type(kind)
    family = kind_of(kind)
    match family:
        case "void":
            return [_NULL] * len(array)
        case "string" | "binary":
            return _bytes(array, family)
        case "array":
            return _lists(array, kind)
        case "map":
            return _maps(array, kind)
        case "struct":
            return _structs(array, kind)
        case _:
            write = _SCALARS[family]
            values = _plain(array, family).to_pylist()
            return [_NULL if value is None else write(value) for value in values]


def hex_float(value: float) -> str:
    """A double as Java writes it in hexadecimal; minus zero is zero.

    >>> hex_float(1.5), hex_float(-0.0), hex_float(float("-inf"))
    ('0x1.8p0', '0x0.0p0', '-Infinity')
    """
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0x0.0p0"
    mantissa, exponent = value.hex().split("p")
    start, _, digits = mantissa.partition(".")
    return f"{start}.{digits.rstrip('0') or '0'}p{int(exponent)}"


def plain_decimal(value: Decimal) -> str:
    """A decimal in plain digits, without zeros at the end of its fraction.

    >>> plain_decimal(Decimal("-1.50")), plain_decimal(Decimal("1E+2")), plain_decimal(Decimal(0))
    ('-1.5', '100', '0')
    """
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


_SCALARS: dict[str, Callable[[Any], bytes]] = {
    "integer": lambda value: b"i%d;" % value,
    "decimal": lambda value: b"d%s;" % plain_decimal(value).encode(),
    "float": lambda value: b"f%s;" % hex_float(value).encode(),
    "boolean": lambda value: b"b1;" if value else b"b0;",
    "date": lambda value: b"D%d;" % value,
    "timestamp": lambda value: b"t%d;" % value,
    "timestamp_ntz": lambda value: b"w%d;" % value,
    "day_interval": lambda value: b"u%d;" % value,
    "month_interval": lambda value: b"y%d;" % value,
}


def _plain(array: Any, family: str) -> Any:
    """The array with dates and times as numbers: Python's own have too small a range."""
    import pyarrow as pa

    if family == "date":
        return array.cast(pa.int32())
    if family in ("timestamp", "timestamp_ntz"):
        return array.cast(pa.timestamp("us", tz=array.type.tz), safe=False).cast(pa.int64())
    if pa.types.is_duration(array.type):
        return array.cast(pa.duration("us")).cast(pa.int64())
    return array


def _bytes(array: Any, family: str) -> list[bytes]:
    import pyarrow as pa

    values = array.cast(pa.large_binary()).to_pylist()
    if family == "binary":
        return [_NULL if v is None else b"x%s;" % v.hex().upper().encode() for v in values]
    return [_NULL if v is None else b"s%d:%s" % (len(v), v) for v in values]


def _structs(array: Any, kind: Any) -> list[bytes]:
    start = struct_header([f["name"] for f in kind["fields"]]).encode()
    children = array.flatten()
    columns = [encode(c, f["type"]) for c, f in zip(children, kind["fields"], strict=True)]
    valid = array.is_valid().to_pylist()
    rows = zip(*columns, strict=True) if columns else iter([()] * len(array))
    return [
        start + b"".join(row) if there else _NULL for row, there in zip(rows, valid, strict=True)
    ]


def _spans(array: Any) -> list[tuple[int, int] | None]:
    """Where the items of each list begin and end; None for a null."""
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    pairs = pairwise(offsets)
    return [span if there else None for span, there in zip(pairs, valid, strict=True)]


def _lists(array: Any, kind: Any) -> list[bytes]:
    items = encode(array.values, kind["elementType"])
    return [
        _NULL if span is None else b"a%d:" % (span[1] - span[0]) + b"".join(items[slice(*span)])
        for span in _spans(array)
    ]


def _maps(array: Any, kind: Any) -> list[bytes]:
    keys = encode(array.keys, kind["keyType"])
    values = encode(array.items, kind["valueType"])
    entries = [k + v for k, v in zip(keys, values, strict=True)]
    return [
        _NULL
        if span is None
        else b"m%d:" % (span[1] - span[0]) + b"".join(sorted(entries[slice(*span)]))
        for span in _spans(array)
    ]
