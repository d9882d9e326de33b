"""What memory does not hold is put where temporary files belong, and goes with the connection."""

import gc
from pathlib import Path

import pytest

from whence import archive
from whence.trace.tables import Tables


def test_nothing_is_spilled_into_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, spare = tmp_path / "work", tmp_path / "spare"
    work.mkdir()
    spare.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr("tempfile.tempdir", str(spare))
    tables = Tables(archive.Archive.open(tmp_path / "archive", create=True))
    tables.run("SET memory_limit = '40MB'; SET threads = 1")
    tables.table("x", "SELECT i, sha256(CAST(i AS VARCHAR)) AS h FROM range(1000000) AS t(i)")
    assert [path.name.split("-")[:2] for path in spare.iterdir()] == [["whence", "spill"]]
    del tables
    gc.collect()
    assert [*spare.iterdir(), *work.iterdir()] == []
