"""Canonical bytes: one spelling for every value of every Spark type, as an SQL expression.

The spelling is text that no other value has (docs/design/seal.md lists it): `i42;` an integer,
`s5:hello` a string with its length in bytes, `a2:i1;n;` an array. The same rules are written here
as SQL for Spark and for DuckDB; the tests have them once more, as Python.

A type is what Spark's JSON schema says: a name, or an object for array, map and struct.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from whence.errors import UnsupportedError

Type = str | Mapping[str, Any]
Column = tuple[str, str, Type]
"""The name of a column, where it is (a stored name, or SQL), and its type."""
Dialect = Literal["spark", "duckdb"]

CHUNK = 1024
"""Output rows under one Merkle chunk."""
NULL = "n;"
INTEGERS = frozenset({"byte", "short", "integer", "long"})
_SHORT_SCALE = 4
_MOST_DIGITS = 38
_TEXTS = ("string", "varchar", "char")


def string(value: str) -> bytes:
    """Canonical bytes of a string.

    >>> string("é")
    b's2:\\xc3\\xa9'
    """
    data = value.encode()
    return b"s%d:%s" % (len(data), data)


def integer(value: int) -> bytes:
    """Canonical bytes of an integer.

    >>> integer(-7)
    b'i-7;'
    """
    return b"i%d;" % value


def header(names: Sequence[str]) -> str:
    """What a record begins with: the number of its columns and a digest of their names.

    >>> header(["a"])
    'R1:400ft39Ju7YfwCGiFd6Bz8ING8CLkC1RY45i3dROUOs'
    """
    return f"R{len(names)}:{base64.b64encode(_digest(names)).decode().rstrip('=')}"


def struct_header(names: Sequence[str]) -> str:
    """What a struct begins with: the number of its fields and half a digest of their names."""
    return f"r{len(names)}:{_digest(names).hex()[:32]}"


def _digest(names: Sequence[str]) -> bytes:
    return hashlib.sha256(b"".join(string(name) for name in names)).digest()


def record_columns(schema: str, properties: Mapping[str, Any]) -> list[Column]:
    """What a dataset's records are made of: the name, the stored name and the type of each column.

    `schema` and `properties` are those of the dataset in the archive.
    """
    stored = properties.get("stored") or json.loads(schema)
    types = {field["name"]: field["type"] for field in stored["fields"]}
    names, physical = properties.get("columns"), properties.get("physical")
    if names is None or physical is None:
        return [(name, name, kind) for name, kind in types.items()]
    return [(n, p, types[p]) for n, p in zip(names, physical, strict=True)]


def row_sql(columns: Sequence[Column], dialect: Dialect, start: str = "") -> str:
    """SQL that gives a record's canonical bytes as text, `start` before them.

    A column is the name it is known by, the SQL that gives it, and its type.
    """
    writer = _Writer(dialect)
    parts: list[_Piece] = [_Literal(start + header([name for name, _, _ in columns]))]
    for name, sql, kind in columns:
        parts += writer.pieces(sql, kind, name, 0)
    return writer.joined(parts)


def kind_of(kind: Type) -> str:
    """The family that a type belongs to; types that have no canonical bytes raise."""
    if not isinstance(kind, str):
        return _nested_kind(kind)
    if kind in INTEGERS:
        return "integer"
    if kind.startswith(_TEXTS):
        return "string"
    for start, family in _FAMILIES:
        if kind.startswith(start):
            return family
    raise UnsupportedError(f"values of the type {kind} have no canonical bytes")


_FAMILIES = (
    ("decimal", "decimal"),
    ("float", "float"),
    ("double", "float"),
    ("boolean", "boolean"),
    ("binary", "binary"),
    ("date", "date"),
    ("timestamp_ntz", "timestamp_ntz"),
    ("timestamp", "timestamp"),
    ("interval day", "day_interval"),
    ("interval hour", "day_interval"),
    ("interval minute", "day_interval"),
    ("interval second", "day_interval"),
    ("interval year", "month_interval"),
    ("interval month", "month_interval"),
    ("void", "void"),
    ("null", "void"),
)


def _nested_kind(kind: Mapping[str, Any]) -> str:
    name = kind["type"]
    if name == "udt":
        return kind_of(kind["sqlType"])
    if name == "struct":
        _check_apart([field["name"] for field in kind["fields"]])
    if name in ("array", "map", "struct"):
        return str(name)
    raise UnsupportedError(f"values of the type {name} have no canonical bytes")


def _check_apart(names: Sequence[str]) -> None:
    """Refuses fields that differ in case alone: DuckDB reads the first for each of them."""
    known: dict[bytes, str] = {}
    for name in names:
        folded = name.encode().lower()  # of bytes, ASCII alone: as DuckDB
        if folded in known:
            raise UnsupportedError(
                f"values of a struct whose fields {known[folded]} and {name} differ in case alone "
                "have no canonical bytes"
            )
        known[folded] = name


def stored_type(kind: Type) -> Type:
    """The type whose values are stored: of a user-defined type, its SQL type."""
    if not isinstance(kind, str) and kind["type"] == "udt":
        return stored_type(kind["sqlType"])
    return kind


# Tag and SQL of the text between the tag and the semicolon, by family.
_SPARK = {
    "integer": ("i", "CAST({x} AS STRING)"),
    "float": (  # of null, format_string makes text
        "f",
        "CASE WHEN {x} IS NOT NULL THEN format_string('%a', CAST({x} AS DOUBLE) + 0.0D) END",
    ),
    "binary": ("x", "hex({x})"),
    "date": ("D", "CAST(unix_date({x}) AS STRING)"),
    "timestamp": ("t", "CAST(unix_micros({x}) AS STRING)"),
    "timestamp_ntz": ("w", "CAST(unix_micros(CAST({x} AS TIMESTAMP)) AS STRING)"),
    "day_interval": (
        "u",
        "CAST(unix_micros(TIMESTAMP'1970-01-01 00:00:00Z' + {x}) AS STRING)",
    ),
    "month_interval": (
        "y",
        "CAST(CAST(extract(YEAR FROM CAST({x} AS INTERVAL YEAR TO MONTH)) AS BIGINT) * 12 "
        "+ extract(MONTH FROM CAST({x} AS INTERVAL YEAR TO MONTH)) AS STRING)",
    ),
}
# The last and the first times that Spark has are infinite to DuckDB, which has no number for them.
_MICROSECONDS = (
    "CASE WHEN isinf({x}) THEN CASE WHEN {x} > TIMESTAMP '1970-01-01' "
    "THEN '9223372036854775807' ELSE '-9223372036854775807' END "
    "ELSE CAST(epoch_us({x}) AS VARCHAR) END"
)
_DUCKDB = {
    "integer": ("i", "CAST({x} AS VARCHAR)"),
    "float": (
        "f",
        "CASE WHEN isnan({x}) THEN 'NaN' WHEN isinf({x}) THEN "
        "CASE WHEN {x} > 0 THEN 'Infinity' ELSE '-Infinity' END "
        "WHEN {x} = 0 THEN '0x0.0p0' ELSE regexp_replace(replace("
        "printf('%a', CAST({x} AS DOUBLE)), 'p+', 'p'), '^(-?0x.)p', '\\1.0p') END",
    ),
    "binary": ("x", "hex({x})"),
    "date": ("D", "CAST({x} - DATE '1970-01-01' AS VARCHAR)"),
    "timestamp": ("t", _MICROSECONDS),
    "timestamp_ntz": ("w", _MICROSECONDS),
    "day_interval": ("u", "CAST({x} AS VARCHAR)"),
    "month_interval": ("y", "CAST({x} AS VARCHAR)"),
}


@dataclass(frozen=True, slots=True)
class _Literal:
    """Text that is always the same."""

    text: str


@dataclass(frozen=True, slots=True)
class _Tag:
    """One text where a value is null, another where it is not."""

    x: str
    null: str
    other: str


_Piece = _Literal | _Tag | str  # the last is SQL


@dataclass(frozen=True, slots=True)
class _Writer:
    dialect: Dialect

    @property
    def _spark(self) -> bool:
        return self.dialect == "spark"

    def joined(self, parts: Sequence[_Piece]) -> str:
        """Literals go with the tag behind them: the fewer parts, the faster."""
        written, text = [], ""
        for part in parts:
            match part:
                case _Literal():
                    text += part.text
                case _Tag(x, null, other):
                    written.append(
                        f"CASE WHEN {x} IS NULL THEN '{text}{null}' ELSE '{text}{other}' END"
                    )
                    text = ""
                case _:
                    written += [f"'{text}'", part] if text else [part]
                    text = ""
        if text:
            written.append(f"'{text}'")
        return f"concat({', '.join(written)})"

    def pieces(self, x: str, kind: Type, column: str, depth: int) -> list[_Piece]:
        """The text of a value in parts, never null together: a null has its own spelling."""
        kind = stored_type(kind)
        try:
            family = kind_of(kind)
        except UnsupportedError as error:
            raise UnsupportedError(f"column {column!r} cannot be sealed: {error}") from error
        match family:
            case "void":
                return [_Literal(NULL)]
            case "boolean":
                return [f"CASE WHEN {x} IS NULL THEN 'n;' WHEN {x} THEN 'b1;' ELSE 'b0;' END"]
            case "string":
                length = f"CAST({'octet_length' if self._spark else 'strlen'}({x}) AS VARCHAR(20))"
                return [
                    _Tag(x, NULL, "s"),
                    self._or_nothing(length),
                    _Tag(x, "", ":"),
                    self._or_nothing(x),
                ]
            case "decimal":
                return self._tagged(x, "d", self._decimal(x, str(kind)))
            case "array" | "map" | "struct":
                body = self._nested(x, kind, family, column, depth)
                return [f"CASE WHEN {x} IS NULL THEN 'n;' ELSE {body} END"]
            case _:
                tag, body = (_SPARK if self._spark else _DUCKDB)[family]
                return self._tagged(x, tag, body.format(x=x))

    def _tagged(self, x: str, tag: str, body: str) -> list[_Piece]:
        return [_Tag(x, "n", tag), self._or_nothing(body), _Literal(";")]

    def _or_nothing(self, text: str) -> str:
        """A part of `joined` that may be null: DuckDB's `concat` passes over it by itself."""
        return f"coalesce({text}, '')" if self._spark else text

    def _decimal(self, x: str, kind: str) -> str:
        """Plain digits without trailing zeros behind the point."""
        text = f"CAST({x} AS {'STRING' if self._spark else 'VARCHAR'})"
        if kind.rstrip(")").endswith((",0", "decimal")):
            return text
        if self._spark:
            return f"trim(TRAILING '.' FROM trim(TRAILING '0' FROM {text}))"
        precision, scale = map(int, kind.removeprefix("decimal(").rstrip(")").split(","))
        if precision == scale:  # DuckDB writes no zero before the point then
            sign = f"CASE WHEN {x} < 0 THEN '-0' ELSE '0' END"
            text = f"{sign} || ltrim({text}, '-')"
        if scale > _SHORT_SCALE or precision == _MOST_DIGITS:  # rounded up, it might not fit
            return f"rtrim(rtrim({text}, '0'), '.')"
        # Five times as fast: the shortest scale that has the same value.
        shorter = (f"CAST({x} AS DECIMAL({precision}, {digits}))" for digits in range(scale))
        cases = (f"WHEN {x} = {less} THEN CAST({less} AS VARCHAR)" for less in shorter)
        return f"CASE {' '.join(cases)} ELSE {text} END"

    def _nested(self, x: str, kind: Any, family: str, column: str, depth: int) -> str:
        item = f"__whence_x{depth}"  # a column of that name would be taken for it
        if family == "struct":
            fields = kind["fields"]
            parts: list[_Piece] = [_Literal(struct_header([f["name"] for f in fields]))]
            for f in fields:
                parts += self.pieces(f"{x}.{self._name(f['name'])}", f["type"], column, depth)
            return self.joined(parts)
        if family == "array":
            inner = self.pieces(item, kind["elementType"], column, depth + 1)
            return self._listed("a", x, self._each(x, item, self.joined(inner)))
        entry = self.pieces(f"{item}.key", kind["keyType"], column, depth + 1)
        entry += self.pieces(f"{item}.value", kind["valueType"], column, depth + 1)
        texts = self._each(f"map_entries({x})", item, self.joined(entry))
        return self._listed("m", x, f"{'sort_array' if self._spark else 'list_sort'}({texts})")

    def _each(self, x: str, item: str, inner: str) -> str:
        if self._spark:
            return f"transform({x}, {item} -> {inner})"
        return f"list_transform({x}, lambda {item}: {inner})"

    def _listed(self, tag: str, x: str, texts: str) -> str:
        size = f"CAST({'size' if self._spark else 'cardinality' if tag == 'm' else 'len'}({x})"
        size += " AS VARCHAR(20))"
        join = "array_join" if self._spark else "array_to_string"
        items = self._or_nothing(f"{join}({texts}, '')")
        return self.joined([_Literal(tag), size, _Literal(":"), items])

    def _name(self, name: str) -> str:
        if self._spark:
            return "`" + name.replace("`", "``") + "`"
        return '"' + name.replace('"', '""') + '"'
