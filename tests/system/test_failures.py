"""No space on the disk, and sessions that die: a clear error, and the archive stays whole."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from processes import child, script

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LIMIT = 2_000_000


def found_by(command: list[str], log: Path) -> dict[str, Any]:
    """What a script of failures says."""
    with child(command, log) as process:
        lines = [line for line in process.rest() if line.startswith("found ")]
        assert len(lines) == 1, process.complaint()
    return dict(json.loads(lines[0].removeprefix("found ")))


def assert_ours(outcome: dict[str, Any], *words: str) -> None:
    assert "WhenceError" in outcome["kinds"], outcome
    assert all(word in outcome["message"] for word in words), outcome


def may_mount() -> bool:
    if os.geteuid() != 0:
        return False
    probe = ["unshare", "-m", "mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/mnt"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.full
@pytest.mark.skipif(not may_mount(), reason="a small disk takes the right to mount one")
def test_a_full_disk(tmp_path):
    archive = tmp_path / "archive"
    archive.mkdir()
    mount = f"mount -t tmpfs -o size={LIMIT} tmpfs {shlex.quote(str(archive))}"
    inner = shlex.join(script("failures.py", "full", archive))
    command = ["unshare", "-m", "sh", "-c", f"{mount} && exec {inner}"]
    found = found_by(command, tmp_path / "log")
    for kind in ("eager", "lazy", "cached"):
        assert_ours(found[kind], "no space left")
    assert found["archive"] == {"runs": ["before", "after"], "traced": [49, 49], "left": []}


@pytest.mark.full
def test_files_that_may_not_grow(tmp_path):
    archive = tmp_path / "archive"
    found = found_by(script("failures.py", "full", archive, LIMIT), tmp_path / "log")
    for kind in ("eager", "lazy", "cached"):
        assert_ours(found[kind])
    assert found["archive"] == {"runs": ["before", "after"], "traced": [49, 49], "left": []}


@pytest.mark.full
def test_a_session_that_dies(tmp_path):
    found = found_by(script("failures.py", "dying", tmp_path / "archive"), tmp_path / "log")
    for kind in ("stopped", "killed", "dead"):
        assert_ours(found[kind], "Spark session")
    for kind in ("dead trace", "dead check", "dead output"):
        assert_ours(found[kind])
    for kind in ("stopped trace", "new session"):  # a trace finds itself another session
        assert found[kind]["kinds"] == []
    assert found["archive"] == {"runs": ["before", "lazy"], "traced": [49], "left": []}
