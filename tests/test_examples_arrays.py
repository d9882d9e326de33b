"""The example that goes through NumPy runs, and docs/arrays.md shows what comes out."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from test_examples import ROOT, commands, matches
from whence.cli import app

EXAMPLE = ROOT / "examples" / "gauges" / "gauges.py"
DOCUMENT = ROOT / "docs" / "arrays.md"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the example ran, and what it printed."""
    folder = tmp_path_factory.mktemp("gauges")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_the_example_traces_through_numpy(demo: tuple[Path, str]) -> None:
    _, printed = demo
    for expected in (
        "weir    17",
        "The alarm of hour 17, exact: (levels[",
        "3 of 3 alarms came out again.",
    ):
        assert expected in printed
    # Two readings: the one of hour 17, and the lowest before it.
    told = re.search(r"exact: \((.*)\)·people\[2\]", printed)
    assert told is not None
    assert len(told[1].split(" + ")) == 2
    assert "levels[65]" in told[1]


@pytest.mark.parametrize(
    ("command", "shown"), commands(DOCUMENT), ids=lambda value: value.split("\n", 1)[0][:60]
)
def test_commands_print_what_the_document_shows(
    command: str,
    shown: str,
    demo: tuple[Path, str],
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(demo[0])
    program, *arguments = shlex.split(command)
    assert program == ".venv/bin/whence"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert matches(shown, result.stdout), result.stdout


def test_the_document_has_commands() -> None:
    assert len(commands(DOCUMENT)) >= 3
