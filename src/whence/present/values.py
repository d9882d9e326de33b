"""One value as JSON can hold it, or as people read it in a cell."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any


def plain(value: Any) -> Any:
    """A value as JSON data; what JSON has no form for becomes text.

    >>> from decimal import Decimal
    >>> plain({"price": Decimal("1.50"), "key": b"\\x00\\xff", "ratio": float("nan")})
    {'price': '1.50', 'key': '00ff', 'ratio': 'NaN'}
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _odd_float(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case Sequence() | set() | frozenset():
            return [plain(item) for item in value]
        case _:
            return str(value)


def _odd_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def cell(value: Any) -> str:
    """A value in one line of text.

    >>> [cell(v) for v in (None, True, [1, None], "two\\nlines")]
    ['null', 'true', '[1, null]', 'two\\\\nlines']
    """
    found = plain(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(found, str):
        return "".join(c if c.isprintable() else _escaped(c) for c in found)
    return json.dumps(found, ensure_ascii=False)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def count(number: int, noun: str) -> str:
    """A number of things.

    >>> count(1, "row"), count(7102, "row")
    ('1 row', '7,102 rows')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def moment(milliseconds: int) -> str:
    """A time that is given as milliseconds since 1970.

    >>> moment(1_700_000_000_250), moment(10**30)
    ('2023-11-14 22:13:20.250 UTC', '1000000000000000000000000000000 ms')
    """
    try:
        found = datetime(1970, 1, 1) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return f"{milliseconds} ms"
    return f"{found.isoformat(sep=' ', timespec='milliseconds')} UTC"


def size(number: int) -> str:
    """Bytes for people.

    >>> size(512), size(278701), size(5 * 1024**3)
    ('512 B', '272 KiB', '5.0 GiB')
    """
    amount, unit = float(number), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.1f} {unit}" if amount < 10 and unit != "B" else f"{amount:.0f} {unit}"


def place(path: str) -> str:
    """A file or folder as people find it: below where they are if it is, else in full."""
    name = path.removeprefix("file:")
    if name != path:
        name = "/" + name.lstrip("/")
    try:
        return str(Path(name).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return name
