"""Canonical bytes: checked-in spellings, and Python against DuckDB on values of every type."""

import hashlib
import math
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from canonical_bytes import encode, encode_rows, row_digests
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.algebra.canonical import kind_of, row_sql
from whence.errors import UnsupportedError

ARRAY = {"type": "array", "elementType": "integer", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": "double", "valueContainsNull": True}
STRUCT = {
    "type": "struct",
    "fields": [
        {"name": "x", "type": "integer"},
        {"name": "Y z", "type": {"type": "array", "elementType": MAP}},
    ],
}
MAP_TYPE = pa.map_(pa.string(), pa.float64())
WIDE = Context(prec=38)
NAMES = ("x0", "x1", "x", "key", "value", "concat")  # as SQL may name what it works with

# Spark's type, Arrow's type, values.
TYPES: dict[str, tuple[Any, pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": ("byte", pa.int8(), st.integers(-128, 127)),
    "long": ("long", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "double": ("double", pa.float64(), st.floats()),
    "float": ("float", pa.float32(), st.floats(width=32)),
    "decimal": (
        "decimal(20,6)",
        pa.decimal128(20, 6),
        st.decimals(-(10**13), 10**13, places=6, allow_nan=False),
    ),
    "price": (
        "decimal(15,2)",
        pa.decimal128(15, 2),
        st.decimals(-(10**13) + 1, 10**13 - 1, places=2, allow_nan=False),
    ),
    "wide": (
        "decimal(38,4)",
        pa.decimal128(38, 4),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-4, WIDE)),
    ),
    "rate": ("decimal(4,4)", pa.decimal128(4, 4), st.decimals("-0.9999", "0.9999", places=4)),
    "whole": ("decimal(20,0)", pa.decimal128(20, 0), st.integers(-(10**19), 10**19).map(Decimal)),
    "string": ("string", pa.string(), st.text()),
    "binary": ("binary", pa.binary(), st.binary()),
    "boolean": ("boolean", pa.bool_(), st.booleans()),
    "date": ("date", pa.date32(), st.dates()),
    "timestamp": (
        "timestamp",
        pa.timestamp("us", "UTC"),
        st.datetimes(timezones=st.just(UTC)),
    ),
    "timestamp_ntz": ("timestamp_ntz", pa.timestamp("us"), st.datetimes()),
    "array": (ARRAY, pa.list_(pa.int32()), st.lists(st.none() | st.integers(-9, 9), max_size=4)),
    "map": (
        MAP,
        MAP_TYPE,
        st.dictionaries(st.text(max_size=3), st.none() | st.floats(), max_size=4).map(
            lambda found: list(found.items())
        ),
    ),
    "struct": (
        STRUCT,
        pa.struct([("x", pa.int32()), ("Y z", pa.list_(MAP_TYPE))]),
        st.fixed_dictionaries(
            {
                "x": st.none() | st.integers(-9, 9),
                "Y z": st.none()
                | st.lists(
                    st.none()
                    | st.just([("k", -0.0)])
                    | st.just([])
                    | st.just([("b", 1.0), ("a", None)]),
                    max_size=3,
                ),
            }
        ),
    ),
}

EXPECTED = [
    ("integer", pa.int32(), None, b"n;"),
    ("integer", pa.int32(), -42, b"i-42;"),
    ("double", pa.float64(), -0.0, b"f0x0.0p0;"),
    ("double", pa.float64(), math.nan, b"fNaN;"),
    ("double", pa.float64(), -math.inf, b"f-Infinity;"),
    ("double", pa.float64(), 5e-324, b"f0x0.0000000000001p-1022;"),
    ("double", pa.float64(), 0.1, b"f0x1.999999999999ap-4;"),
    ("float", pa.float32(), 0.1, b"f0x1.99999ap-4;"),
    ("decimal(10,2)", pa.decimal128(10, 2), Decimal("-1.50"), b"d-1.5;"),
    ("decimal(10,2)", pa.decimal128(10, 2), Decimal("100.00"), b"d100;"),
    ("decimal(10,7)", pa.decimal128(10, 7), Decimal("0.0000001"), b"d0.0000001;"),
    ("decimal(10,2)", pa.decimal128(10, 2), Decimal("0.00"), b"d0;"),
    ("decimal(2,2)", pa.decimal128(2, 2), Decimal("-0.50"), b"d-0.5;"),
    ("decimal(2,2)", pa.decimal128(2, 2), Decimal("0.05"), b"d0.05;"),
    ("decimal(38,38)", pa.decimal128(38, 38), Decimal("0." + "1" * 38), b"d0." + b"1" * 38 + b";"),
    ("decimal(38,38)", pa.decimal128(38, 38), Decimal("0." + "0" * 38), b"d0;"),
    ("string", pa.string(), "é;", b"s3:\xc3\xa9;"),
    ("binary", pa.binary(), b"\x00\xff", b"x00FF;"),
    ("boolean", pa.bool_(), True, b"b1;"),
    ("date", pa.date32(), date(1969, 12, 31), b"D-1;"),
    (
        "timestamp",
        pa.timestamp("us", "UTC"),
        datetime(1970, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        b"t0;",
    ),
    ("timestamp_ntz", pa.timestamp("us"), datetime(1970, 1, 1, 1), b"w3600000000;"),
    ("interval day to second", pa.int64(), 1_000_000, b"u1000000;"),
    ("interval year to month", pa.int32(), -14, b"y-14;"),
    ("void", pa.null(), None, b"n;"),
    (ARRAY, pa.list_(pa.int32()), [1, None], b"a2:i1;n;"),
    (ARRAY, pa.list_(pa.int32()), [], b"a0:"),
    (MAP, MAP_TYPE, [("b", 1.0), ("a", None)], b"m2:s1:an;s1:bf0x1.0p0;"),
    (
        {"type": "udt", "sqlType": {"type": "array", "elementType": "double"}},
        pa.list_(pa.float64()),
        [1.5],
        b"a1:f0x1.8p0;",
    ),
]


@pytest.mark.parametrize(("kind", "arrow", "value", "expected"), EXPECTED)
def test_spelling(kind: Any, arrow: pa.DataType, value: Any, expected: bytes) -> None:
    assert encode(pa.array([value], arrow), kind) == [expected]


def test_digest_of_a_record_is_the_same_everywhere() -> None:
    """Checked in: it must not change with versions, machines or processes."""
    columns = [
        ("seqid", pa.array(["1"]), "string"),
        ("n", pa.array([None], pa.int64()), "long"),
        ("price", pa.array([Decimal("9.90")]), "decimal(8,2)"),
    ]
    assert [d.hex() for d in row_digests(columns)] == [
        "8c9c1aa5d41e70252878f4aa012d7056f938189998df1c59963a1676fb441012"
    ]


def test_names_and_places_of_columns_count() -> None:
    one, two = pa.array([1]), pa.array([2])
    records = [
        [("a", one, "long"), ("b", two, "long")],
        [("b", one, "long"), ("a", two, "long")],
        [("a", two, "long"), ("b", one, "long")],
        [("ab", one, "long"), ("", two, "long")],
    ]
    assert len({encode_rows(columns)[0] for columns in records}) == 4


def test_no_two_rows_of_strings_are_spelled_alike() -> None:
    pairs = [
        ("a", "b"),
        ("ab", ""),
        ("", "ab"),
        ("a;", "b"),
        ("a", ";b"),
        (None, "n;"),
        ("n;", None),
    ]
    columns = [("x", pa.array([a for a, _ in pairs]), "string")]
    columns.append(("y", pa.array([b for _, b in pairs]), "string"))
    assert len(set(encode_rows(columns))) == len(pairs)


def fields(*names: str) -> Any:
    return {"type": "struct", "fields": [{"name": name, "type": "integer"} for name in names]}


@pytest.mark.parametrize("dialect", ["spark", "duckdb"])
@pytest.mark.parametrize(
    "kind",
    [fields("a", "A"), fields("x", "bA", "Ba"), {"type": "array", "elementType": fields("a", "A")}],
)
def test_fields_that_duckdb_does_not_tell_apart_are_refused(kind: Any, dialect: Any) -> None:
    with pytest.raises(UnsupportedError, match=r"column .v. cannot be sealed.* differ in case"):
        row_sql([("v", "v", kind)], dialect)


def test_fields_that_duckdb_tells_apart() -> None:
    """It folds the case of ASCII letters alone."""
    connection = duckdb.connect()
    connection.register("t", pa.table({"v": pa.array([{"ä": 1, "Ä": 2}])}))
    sql = row_sql([("v", "v", fields("ä", "Ä"))], "duckdb")
    ((row,),) = connection.execute(f"SELECT {sql} FROM t").fetchall()
    assert row.endswith("i1;i2;")


@pytest.mark.parametrize("kind", ["variant", "geometry", {"type": "unheard"}])
def test_other_types_are_refused(kind: Any) -> None:
    with pytest.raises(UnsupportedError):
        kind_of(kind)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_python_and_duckdb_agree(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4))
    size = data.draw(st.integers(1, 4))
    own = data.draw(st.permutations(NAMES))
    columns = []
    for position, name in enumerate(names):
        kind, arrow, values = TYPES[name]
        drawn = data.draw(st.lists(st.none() | values, min_size=size, max_size=size))
        columns.append((own[position], pa.array(drawn, arrow), kind))
    rows = pa.table({name: array for name, array, _ in columns})
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'Asia/Tokyo'")
    connection.register("rows", rows)
    sql = row_sql([(name, f'"{name}"', kind) for name, _, kind in columns], "duckdb")
    found = connection.execute(f"SELECT {sql} FROM rows").fetchall()
    assert [row.encode() for (row,) in found] == encode_rows(columns)


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_the_first_and_last_times(zone: str | None) -> None:
    """DuckDB takes them for infinite."""
    ends = [2**63 - 1, -(2**63) + 1, 0, None]
    times = pa.array(ends, pa.int64()).cast(pa.timestamp("us", zone))
    connection = duckdb.connect()
    connection.register("t", pa.table({"v": times}))
    kind = "timestamp_ntz" if zone is None else "timestamp"
    found = connection.execute(f"SELECT {row_sql([('v', 'v', kind)], 'duckdb')} FROM t").fetchall()
    assert [row.encode() for (row,) in found] == encode_rows([("v", times, kind)])


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_floats_are_spelled_alike_only_when_equal(a: float, b: float) -> None:
    one, two = encode(pa.array([a, b]), "double")
    assert (one == two) == (a == b)


@given(st.floats())
def test_a_spelling_tells_the_float(value: float) -> None:
    (text,) = encode(pa.array([value]), "double")
    body = text[1:-1].decode()
    if math.isfinite(value):
        assert struct.pack(">d", float.fromhex(body) + 0.0) == struct.pack(">d", value + 0.0)
    else:
        assert body in ("NaN", "Infinity", "-Infinity")


def test_digests_are_sha256_of_the_spelling() -> None:
    columns = [("a", pa.array([7]), "long")]
    assert row_digests(columns) == [hashlib.sha256(encode_rows(columns)[0]).digest()]
