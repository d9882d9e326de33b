"""What goes wrong ends in one line on stderr and a useful exit code."""

import os
import sqlite3
from pathlib import Path

import pytest
from cli_kit import Home
from typer.testing import CliRunner

from whence.cli import app
from whence.cli.errors import exit_code
from whence.errors import (
    ArchiveError,
    ArrayError,
    CaptureError,
    EngineError,
    FormatError,
    SelectionError,
    SourceChangedError,
    SourceError,
    UnknownNameError,
    UnsupportedError,
    WhenceError,
)

spark = pytest.mark.spark


def failed(home: Home, code: int, *arguments: str) -> str:
    """The one line that a failing command prints."""
    result = home.run(*arguments)
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    assert result.stderr.startswith("whence: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@spark
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("trace", "lat"), "no run named 'lat'; did you mean 'late'"),
        (("show", "zzz"), "no run named 'zzz'; there is 'late', 'late-auto', 'above', 'odd'"),
        (
            ("trace", "late", "--where", "o_kye = 1"),
            "no column named 'o_kye'; did you mean 'o_key'",
        ),
        (("trace", "late", "--source", "item"), "no source named 'item'; did you mean 'items'?"),
        (("impact", "late", "itms"), "no source named 'itms'; did you mean 'items'?"),
        (("impact", "late", "items", "--where", "prize = 1"), "did you mean 'price'?"),
        (("trace", "late", "--where", "o_key = = 1"), "cannot read the selection 'o_key = = 1'"),
        (("trace", "late", "--where", "o_key = 'x"), "cannot read the selection"),
        (("trace", "late", "--where", "(SELECT 1) = 1"), "holds a subquery"),
        (("trace", "late", "--where", "c_name > 7"), "cannot select by 'c_name > 7'"),
    ],
)
def test_unknown_names_and_bad_selections(
    home: Home, arguments: tuple[str, ...], said: str
) -> None:
    assert said in failed(home, 2, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("show", "--format", "html"),
        ("trace", "--where", "a", "--pattern", "b"),
        ("trace", "--limit", "0"),
        ("check", "--sample", "x"),
        ("impact",),
        ("impact", "run", "source", "more"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


@pytest.mark.parametrize("command", ["runs", "show", "trace", "gc", "check"])
def test_no_archive(command: str, tmp_path: Path) -> None:
    assert "there is no archive at" in failed(Home(tmp_path), 3, command)


def test_not_an_archive(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.archive.mkdir()
    assert "is not an archive" in failed(home, 3, "runs")
    (home.archive / "catalog.sqlite").write_text("this is not a database, by any means\n" * 9)
    assert "not an SQLite file" in failed(home, 3, "runs")


def test_bad_catalog_url(tmp_path: Path) -> None:
    assert "SQLAlchemy URL" in failed(Home(tmp_path), 3, "runs", "--catalog", "nonsense")


@spark
def test_archive_of_a_newer_format(broken: Home) -> None:
    with sqlite3.connect(broken.archive / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE format SET version = 99")
    catalog.close()
    assert "is of format 99" in failed(broken, 3, "runs")


@spark
@pytest.mark.parametrize("keep", [0, 100])
@pytest.mark.parametrize("command", ["trace", "show"])
def test_truncated_output(broken: Home, keep: int, command: str) -> None:
    for file in broken.archive.glob("datasets/*/*.parquet"):
        os.truncate(file, keep)
    assert "a Parquet file cannot be read" in failed(broken, 3, command, "late")


@spark
def test_missing_output(broken: Home) -> None:
    for file in broken.archive.glob("datasets/*/*.parquet"):
        file.unlink()
    failed(broken, 3, "trace", "late")


@spark
def test_changed_source(home: Home) -> None:
    file = home.source("items")
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 5_000_000_000))
    try:
        text = failed(home, 3, "trace", "late", "--where", "o_key = 1")
        assert "'items'" in text
        assert "has changed since the run was captured" in text
        failed(home, 3, "impact", "late", "items")
        shown = home.run("show", "late")
        assert shown.exit_code == 0
        assert "has changed since the run was captured" in shown.stdout
        alone = home.run("trace", "late", "--where", "o_key = 1", "--source", "orders")
        assert alone.exit_code == 0
    finally:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@spark
def test_missing_source(home: Home) -> None:
    file = home.source("orders")
    away = file.with_suffix(".away")
    file.rename(away)
    try:
        assert "cannot be read now" in failed(home, 3, "trace", "late")
    finally:
        away.rename(file)


def test_every_error_has_a_code() -> None:
    codes = {
        SelectionError: 2,
        UnsupportedError: 2,
        ArchiveError: 3,
        FormatError: 3,
        SourceError: 3,
        SourceChangedError: 3,
        EngineError: 4,
        CaptureError: 4,
        ArrayError: 3,
        WhenceError: 3,
    }
    assert {kind: exit_code(kind("x")) for kind in codes} == codes
    assert exit_code(UnknownNameError("run", "x", [])) == 2
