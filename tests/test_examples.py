"""The example runs, twice, and what the documents show is what comes out."""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from whence.cli import app

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "late_orders" / "late_orders.py"
TWEETS = ROOT / "examples" / "tweets" / "tweets.py"
DOCUMENTS = [ROOT / "README.md", ROOT / "docs" / "command-line.md", ROOT / "docs" / "cells.md"]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    # The scratch folder of an answer goes when the answer does.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def run_example(folder: Path, example: Path = EXAMPLE) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(example)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the examples ran, and what the first one printed."""
    folder = tmp_path_factory.mktemp("demo")
    for example in (TWEETS, EXAMPLE):
        done = run_example(folder, example)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def commands(document: Path) -> list[tuple[str, str]]:
    """The commands in a document's console blocks, each with the output shown below it."""
    blocks = re.findall(r"```console\n(.*?)```", document.read_text(), re.DOTALL)
    found = [block.split("\n", 1) for block in blocks]
    return [(first.removeprefix("$ "), shown) for first, shown in found]


def matches(shown: str, printed: str) -> bool:
    """Whether output is as shown; `...` stands for anything."""
    parts = [re.escape(part) for part in shown.removeprefix("...\n").split("...")]
    start = "(?s:.*)" if shown.startswith("...\n") else ""
    return re.fullmatch(start + ".*?".join(parts), printed) is not None


def test_the_example_shows_what_it_promises(demo: tuple[Path, str]) -> None:
    _, printed = demo
    for expected in (
        "|       899|Customer#000001085| 1998-04-08|         4|  96248.79|      119|",
        "7 Customer#000000392  1996-01-10           2   63587.48         82",
        "This answer is exact; a replay is guaranteed.",
        "customer[391]·orders[6]·(lineitem[",
        'whence trace late-orders --where "o_orderkey = 7" --how',
    ):
        assert expected in printed
    assert len(re.findall(r"^same ", printed, re.MULTILINE)) == 5
    assert "DIFFERENT" not in printed


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        pytest.param(command, shown, id=f"{document.stem}-{i}")
        for document in DOCUMENTS
        for i, (command, shown) in enumerate(commands(document))
    ],
)
def test_commands_print_what_documents_show(
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


def test_python_in_the_readme_runs(demo: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo[0])
    text = DOCUMENTS[0].read_text().replace("```", "\n")
    test = doctest.DocTestParser().get_doctest(text, {}, "README", str(DOCUMENTS[0]), 0)
    assert test.examples
    flags = doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
    results = doctest.DocTestRunner(optionflags=flags).run(test)
    assert results.failed == 0


def test_the_next_steps_work_as_printed(
    demo: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, printed = demo
    monkeypatch.chdir(folder)
    steps = printed.partition("What to try next")[2].strip().splitlines()
    assert len(steps) == 6
    for step in steps:
        program, *arguments = shlex.split(step, comments=True)
        assert Path(program).name == "whence"
        if arguments[0] != "check":
            assert CliRunner().invoke(app, arguments).exit_code == 0


def test_the_example_runs_twice(demo: tuple[Path, str]) -> None:
    folder, first = demo
    again = run_example(folder)
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stdout == first
