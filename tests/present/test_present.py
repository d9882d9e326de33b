"""Forms of answers that need no archive."""

import io
import json
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from whence.archive import GcReport
from whence.present import Format, Grid, Report, gc_report, grid_text, write
from whence.present.report import distinct_names
from whence.present.text import Amount, write_blocks
from whence.present.values import cell, count, place, plain, size


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(report: Report, format: Format) -> str:
    stream = io.StringIO()
    write(report, format, stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**70, 2**70),
        (1.5, 1.5),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (Decimal("1.10"), "1.10"),
        (date(2024, 1, 2), "2024-01-02"),
        (datetime(2024, 1, 2, 3, 4, tzinfo=UTC), "2024-01-02T03:04:00+00:00"),
        (time(3, 4), "03:04:00"),
        (timedelta(hours=25), "1 day, 1:00:00"),
        (b"\x01\xab", "01ab"),
        ({"a": [Decimal(1), (b"", None)]}, {"a": ["1", ["", None]]}),
        ({date(2024, 1, 2): 1}, {"2024-01-02": 1}),
    ],
)
def test_values_as_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    json.dumps(plain(value), allow_nan=False)


def test_cells_are_one_line() -> None:
    assert cell("a\tb\x1b[31m") == "a\\tb\\x1b[31m"
    assert cell({"k": [1, "é"]}) == '{"k": [1, "é"]}'
    assert cell(datetime(2024, 1, 2, 3, 4)) == "2024-01-02 03:04:00"


def test_numbers_for_people() -> None:
    assert [count(n, "row") for n in (0, 1, 1234)] == ["0 rows", "1 row", "1,234 rows"]
    assert [size(n) for n in (0, 1023, 1024, 10 * 1024, 3 * 1024**5)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "10 KiB",
        "3072 TiB",
    ]


def test_places(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place(f"file:{tmp_path}/a/b") == "a/b"
    assert place("/elsewhere/a") == place("file:///elsewhere/a") == "/elsewhere/a"
    assert place("s3://bucket/a") == "s3://bucket/a"


def test_names_that_stand_twice() -> None:
    assert distinct_names(["a", "a", "a_2", "a"]) == ("a", "a_2", "a_2_2", "a_3")


def test_plain_tables_are_aligned() -> None:
    grid = Grid(("n", "name", "size"), [(1, "x", Amount("1 KiB")), (None, None, Amount("-"))], 2)
    assert grid_text(grid) == (
        "   n  name   size\n"
        "   1  x     1 KiB\n"
        "null  null      -\n"
        "… 2 more rows\n"
    )  # fmt: skip
    assert grid_text(Grid((), [])) == "\n"
    assert grid_text(Grid(("a",), [])) == "a\n"


def test_csv_and_json() -> None:
    grid = Grid(("a", "b"), [(True, None), (Decimal("1.0"), [1, 'x"'])])
    report = Report(("text",), {"rows": [Decimal("1.0")]}, grid)
    assert written(report, "csv") == 'a,b\ntrue,\n1.0,"[1, ""x\\""""]"\n'
    assert json.loads(written(report, "json")) == {"rows": ["1.0"]}
    assert written(report, "table") == "text\n"


def test_a_terminal_cuts_what_is_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    screen = Terminal()
    wide = Grid(("n", "text", "more", "last"), [(1, "x" * 99, "[bold]y[/bold]", "z" * 99)])
    tree = Grid(("n", "tree"), [(1, "t" * 99)])
    write_blocks(("title\nbody", wide, "next", tree), screen)
    text = re.sub(r"\x1b\[[0-9;]*m", "", screen.getvalue())
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[:2] == ["title", "body"]
    assert lines[3] == "1  " + "x" * 39 + "…  [bold]y[/bold]"
    assert lines[4] == "… 1 more column; --format json has all"
    assert lines[-1] == "1  " + "t" * 56 + "…"


def test_gc_says_what_failed() -> None:
    found = GcReport(datasets=("a", "b"), bytes=4096, writers=1, failed=("c: busy",), dry_run=True)
    report = gc_report(found)
    assert written(report, "table") == (
        "would remove 2 datasets, 4.0 KiB; 1 writer had died\ncould not remove c: busy\n"
    )
    assert written(report, "csv") == "dataset,removed\na,false\nb,false\n"
