"""The examples run, and what the documents show is what comes out."""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from whence.cli import app

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "late_orders" / "late_orders.py"
TWEETS = ROOT / "examples" / "tweets" / "tweets.py"
GAUGES = ROOT / "examples" / "gauges" / "gauges.py"
README = ROOT / "README.md"
# After which example the commands that a document shows are run.
DOCUMENTS = {
    README: EXAMPLE,
    ROOT / "docs" / "command-line.md": EXAMPLE,
    ROOT / "docs" / "cells.md": EXAMPLE,
    ROOT / "docs" / "arrays.md": GAUGES,
}

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    # The scratch folder of an answer goes when the answer does.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@dataclass(frozen=True)
class Demo:
    """The folder in which the examples ran, and what they printed."""

    folder: Path
    printed: str

    def put_back(self, example: Path) -> None:
        """Have the archive as it was right after an example."""
        archive = self.folder / "provenance"
        shutil.rmtree(archive)
        shutil.copytree(self.folder / "after" / example.stem, archive)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The examples, run as programs in a process of their own, into one archive."""
    folder = tmp_path_factory.mktemp("demo")
    examples = (GAUGES, TWEETS, EXAMPLE)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / "run_examples.py"), *map(str, examples)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Demo(folder, done.stdout)


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


def test_the_example_shows_what_it_promises(demo: Demo) -> None:
    for expected in (
        "|       899|Customer#000001085| 1998-04-08|         4|  96248.79|      119|",
        "7 Customer#000000392  1996-01-10           2   63587.48         82",
        "This answer is exact; a replay is guaranteed.",
        "customer[391]·orders[6]·(lineitem[",
        'whence trace late-orders --where "o_orderkey = 7" --how',
    ):
        assert expected in demo.printed
    assert len(re.findall(r"^same ", demo.printed, re.MULTILINE)) == 5
    assert "DIFFERENT" not in demo.printed


def test_the_example_traces_through_numpy(demo: Demo) -> None:
    for expected in (
        "weir    17",
        "The alarm of hour 17, exact: (levels[",
        "levels   57 level",
        "3 of 3 alarms came out again.",
    ):
        assert expected in demo.printed
    # Two readings: the one of hour 17, and the lowest before it.
    told = re.search(r"exact: \((.*)\)·people\[2\]", demo.printed)
    assert told is not None
    assert len(told[1].split(" + ")) == 2
    assert "levels[65]" in told[1]


@pytest.mark.parametrize(
    ("example", "command", "shown"),
    [
        pytest.param(example, command, shown, id=f"{document.stem}-{i}")
        for document, example in DOCUMENTS.items()
        for i, (command, shown) in enumerate(commands(document))
    ],
)
def test_commands_print_what_documents_show(
    demo: Demo,
    example: Path,
    command: str,
    shown: str,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(demo.folder)
    demo.put_back(example)
    program, *arguments = shlex.split(command)
    assert program == ".venv/bin/whence"
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert matches(shown, result.stdout), result.stdout


def test_documents_have_commands() -> None:
    assert all(commands(document) for document in DOCUMENTS)


def test_python_in_the_readme_runs(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo.folder)
    demo.put_back(EXAMPLE)
    text = README.read_text().replace("```", "\n")
    test = doctest.DocTestParser().get_doctest(text, {}, "README", str(README), 0)
    assert test.examples
    flags = doctest.IGNORE_EXCEPTION_DETAIL | doctest.NORMALIZE_WHITESPACE
    results = doctest.DocTestRunner(optionflags=flags).run(test)
    assert results.failed == 0


def test_the_next_steps_work_as_printed(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo.folder)
    demo.put_back(EXAMPLE)
    steps = demo.printed.partition("What to try next")[2].strip().splitlines()
    assert len(steps) == 6
    for step in steps:
        program, *arguments = shlex.split(step, comments=True)
        assert Path(program).name == "whence"
        if arguments[0] != "check":
            assert CliRunner().invoke(app, arguments).exit_code == 0
