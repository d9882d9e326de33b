"""The command as a process of its own: what it imports, what it prints, how it ends."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cli_kit import Home

HEAVY = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "rich")


def whence(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "whence.cli", *arguments]
    environment = {**os.environ, **env}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.spark
def test_a_trace_imports_neither_spark_nor_other_heavy_things(home: Home) -> None:
    code = (
        "import sys\nfrom whence.cli import app\n"
        "app(sys.argv[1:], standalone_mode=False)\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    arguments = ["trace", "late", "--where", "o_key = 1", "--archive", str(home.archive)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == "[]\n"
    assert "items: 2 rows" in done.stdout


@pytest.mark.spark
@pytest.mark.parametrize(
    "arguments", [("runs",), ("show", "late"), ("impact", "late", "items"), ("gc", "--dry-run")]
)
def test_commands_that_need_no_spark_do_not_import_it(
    home: Home, arguments: tuple[str, ...]
) -> None:
    code = (
        "import sys\nfrom whence.cli import app\n"
        "app(sys.argv[1:], standalone_mode=False)\nassert 'pyspark' not in sys.modules\n"
    )
    command = [sys.executable, "-c", code, *arguments, "--archive", str(home.archive)]
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=60, check=True)


@pytest.mark.spark
def test_archive_from_the_environment(home: Home) -> None:
    done = whence("runs", "-f", "csv", WHENCE_ARCHIVE=str(home.archive))
    assert done.returncode == 0
    assert done.stdout.startswith("id,name,created,mode,seconds,bytes\n")


@pytest.mark.spark
def test_no_java_exits_with_4(home: Home, tmp_path: Path) -> None:
    arguments = ("trace", "late-auto", "--where", "o_key = 1", "--archive", str(home.archive))
    done = whence(*arguments, PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 4
    assert done.stdout == ""
    assert done.stderr.startswith("whence: this needs Spark, and Spark needs Java 17")
    assert done.stderr.count("\n") == 1


def test_errors_have_no_traceback(tmp_path: Path) -> None:
    done = whence("runs", "--archive", str(tmp_path / "none"))
    assert done.returncode == 3
    assert done.stderr.startswith("whence: there is no archive at")
    assert "Traceback" not in done.stderr


def test_version() -> None:
    done = whence("--version")
    assert (done.returncode, done.stdout) == (0, "whence 0.1.0\n")


def test_help_has_an_example_for_each_command() -> None:
    from typer.testing import CliRunner

    from whence.cli import app

    overview = CliRunner().invoke(app, ["--help"]).stdout
    for command in ("runs", "show", "trace", "impact", "check", "gc"):
        assert f"\n  {command} " in overview
        shown = CliRunner().invoke(app, [command, "-h"]).stdout
        assert re.search(rf"Examples?:\n    whence {command}", shown)
