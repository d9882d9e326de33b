"""Python values as Spark SQL literals, so that Spark can push a selection down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

NULL = "NULL"
MAX_LITERALS = 500
"""Up to so many keys are handed to Spark as literals."""


def literal_rows(rows: Sequence[Sequence[Any]]) -> list[list[str]] | None:
    """Rows of values as rows of literals; None if some value has no simple literal."""
    texts = [[literal(value) for value in row] for row in rows]
    if any(text is None for row in texts for text in row):
        return None
    return [[str(text) for text in row] for row in texts]


def literal(value: Any) -> str | None:
    r"""A value as a Spark SQL literal; None if it has no simple one.

    >>> literal("it's"), literal(3), literal(None)
    ("'it\\'s'", '3', 'NULL')
    """
    match value:
        case None:
            return NULL
        case bool():
            return str(value).lower()
        case int():
            return f"{value}" if abs(value) < 2**31 else f"CAST('{value}' AS BIGINT)"
        case float():
            return _float_literal(value)
        case Decimal():
            return f"CAST('{value}' AS DECIMAL(38, {max(0, -int(value.as_tuple().exponent))}))"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            kind = "TIMESTAMP" if value.tzinfo else "TIMESTAMP_NTZ"
            return f"{kind}'{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
        case _:
            return None


def _float_literal(value: float) -> str:
    text = "NaN" if math.isnan(value) else repr(value).replace("inf", "Infinity")
    return f"CAST('{text}' AS DOUBLE)"
