"""Constant keys of maps, written as the keys of stored maps are.

A key is a literal, often with casts that Spark added: `m[1]` looks for 1.0 in a map of doubles.
"""

import re
from ctypes import c_float
from decimal import Decimal, InvalidOperation

from whence.plan.catalyst.nodes import Node
from whence.plan.catalyst.types import DataType

_WHOLE = ("byte", "short", "integer", "long")
_FLOATS = ("float", "double")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER = re.compile(r"-?\d+")


def constant_key(node: Node) -> str | None:
    """The text of a constant key; None if it is no constant or of a type that has several texts."""
    if node.name == "Cast":
        inner = node.children[0]
        text = constant_key(inner)
        return None if text is None else converted(text, _type(inner), _type(node))
    value = node.fields.get("value") if node.name == "Literal" else None
    return None if value is None else converted(str(value), _type(node), _type(node))


def converted(text: str, source: DataType, target: DataType) -> str | None:
    """The text of a key in another type.

    >>> converted("1", "integer", "double"), converted("2", "integer", "decimal(5,2)")
    ('1.0', '2.00')
    >>> converted("2024-01-02", "date", "timestamp")
    """
    if not isinstance(source, str) or not isinstance(target, str):
        return None
    number = source in (*_WHOLE, *_FLOATS) or source.startswith("decimal")
    if target in _FLOATS and number:
        return _float(float(text) + 0.0, source, target)  # no map has -0.0 among its keys
    if target.startswith("decimal") and number:
        return _decimal(text, int(target.rstrip(")").rpartition(",")[2]))
    if target in _WHOLE and (source in _WHOLE or source == "string"):
        return str(int(text)) if _NUMBER.fullmatch(text) else None
    if target == "string" and (source in _WHOLE or source in ("string", "boolean", "date")):
        return text
    if target == "date" and source in ("date", "string"):
        return text if _DATE.fullmatch(text) else None
    return text if source == target == "boolean" else None


def _float(value: float, source: str, target: str) -> str | None:
    """A number, if it is the same with single as with double precision or has but one of them."""
    single = source != target and "float" in (source, target)
    return None if single and c_float(value).value != value else repr(value)


def _decimal(text: str, scale: int) -> str | None:
    """A number with so many digits behind the point."""
    try:
        found = Decimal(text)
        fixed = found.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation:
        return None
    return format(fixed, "f") if fixed == found else None


def _type(node: Node) -> DataType:
    found: DataType = node.fields.get("dataType")
    return found
