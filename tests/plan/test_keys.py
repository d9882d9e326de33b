"""Constant keys of maps in the type of the map's keys."""

import pytest

from whence.plan.catalyst.keys import converted


@pytest.mark.parametrize(
    ("text", "source", "target", "found"),
    [
        ("1", "integer", "long", "1"),
        ("1", "integer", "double", "1.0"),
        ("1.0E20", "double", "double", "1e+20"),
        ("-0.0", "double", "double", "0.0"),
        ("0.5", "float", "double", "0.5"),
        ("0.1", "float", "float", "0.1"),
        ("0.1", "float", "double", None),
        ("0.1", "decimal(1,1)", "float", None),
        ("2", "integer", "decimal(5,2)", "2.00"),
        ("1.25", "decimal(3,2)", "decimal(2,1)", None),
        ("7", "integer", "string", "7"),
        ("07", "string", "integer", "7"),
        ("2024-1-2", "string", "date", None),
        ("2024-01-02", "string", "date", "2024-01-02"),
        ("2024-01-02", "date", "timestamp", None),
        ("a", "string collate UNICODE_CI", "string collate UNICODE_CI", None),
        ("6162", "binary", "binary", None),
    ],
)
def test_converted(text: str, source: str, target: str, found: str | None) -> None:
    assert converted(text, source, target) == found
