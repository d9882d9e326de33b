"""The table of supported operators is current, and the tests that it names are there."""

import subprocess
import sys
from pathlib import Path

import pytest

from whence.spark.instrument.supported import SECTIONS, render

ROOT = Path(__file__).parents[2]
# Python functions over many rows have tests of their own.
ELSEWHERE = "test_opaque.py"


def test_the_committed_table_is_current() -> None:
    page = ROOT / "docs" / "operators.md"
    assert page.read_text(encoding="utf-8") == render(), (
        "run python -m whence.spark.instrument.supported > docs/operators.md"
    )


@pytest.mark.full
def test_each_named_test_is_there() -> None:
    named = {t for entries in SECTIONS.values() for entry in entries for t in entry.tests}
    files = sorted({name.partition("::")[0] for name in named} - {ELSEWHERE})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    listed = subprocess.run(
        [*command, *(f"tests/spark/{name}" for name in files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {line.removeprefix("tests/spark/") for line in listed.splitlines() if "::" in line}
    whole = found | {name.partition("[")[0] for name in found}
    missing = {name for name in named if not name.startswith(ELSEWHERE)} - whole
    assert not missing
