"""Both ways to reach files do the same; where an archive lies is spelled in many ways."""

import doctest
from pathlib import Path

import pytest
from archive_kit import Place

from whence.archive import Archive, layout
from whence.archive.storage import ArrowStorage, LocalStorage, storage_at
from whence.errors import ArchiveError


@pytest.fixture(params=["local", "arrow"])
def storage(request, tmp_path):
    if request.param == "local":
        return LocalStorage(tmp_path)
    from pyarrow import fs

    return ArrowStorage(fs.LocalFileSystem(), str(tmp_path))


def test_folders_sizes_usage_remove(storage, tmp_path):
    assert storage.folders() == []
    storage.prepare()
    storage.prepare()
    assert storage.folders() == []
    top = tmp_path / "datasets" / "a"
    (top / "deep").mkdir(parents=True)
    (top / "one").write_bytes(b"1")
    (top / "deep" / "two").write_bytes(b"22")
    (tmp_path / "datasets" / "file").write_bytes(b"x")
    assert storage.folders() == ["a"]
    names = ["datasets/a/one", "datasets/a/deep/two", "datasets/a/none", "datasets/a/deep"]
    assert storage.sizes([*names, "datasets/file/below"]) == [1, 2, None, None, None]
    assert storage.sizes([]) == []
    used = storage.usage("datasets/a")
    assert used.bytes == 3
    newest = max(path.stat().st_mtime for path in (top / "one", top / "deep" / "two"))
    assert used.changed == pytest.approx(newest, abs=1)
    storage.remove("datasets/a")
    storage.remove("datasets/a")
    assert storage.folders() == []
    assert storage.usage("datasets/a").bytes == 0


def test_text(storage, tmp_path):
    assert storage.read_text("note") is None
    storage.write_text("note", "ä\n")
    storage.write_text("note", "ö\n")
    assert storage.read_text("note") == "ö\n"
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_failures_are_archive_errors(storage, tmp_path):
    (tmp_path / "datasets").write_text("a file")
    for work in (
        storage.prepare,
        lambda: storage.write_text("datasets/x", "x"),
        lambda: storage.read_text(""),
        lambda: storage.remove("datasets"),
    ):
        with pytest.raises(ArchiveError):
            work()


def test_a_url_that_nobody_knows():
    with pytest.raises(ArchiveError, match="reaching unknown://host/path"):
        storage_at("unknown://host/path")


def test_an_archive_at_a_url_nobody_knows_opens_but_cannot_be_written(tmp_path):
    url = f"sqlite:///{tmp_path}/catalog.sqlite"
    Place(tmp_path, url).open(create=True)
    opened = Archive.open("unknown://host/path", catalog=url)
    assert opened.runs() == []
    with pytest.raises(ArchiveError, match="reaching"):
        opened.writer("x", "eager")
    with pytest.raises(ArchiveError, match="reaching"):
        opened.gc()


def test_places_are_compared_in_one_spelling():
    same = {layout.canonical(f"{scheme}://b/a/c") for scheme in ("s3", "s3a", "S3N")}
    assert same == {"s3://b/a/c"}
    assert layout.canonical("s3a://b/a/x/../c/") == "s3://b/a/c"
    assert layout.absolute("s3a://b/a/") == "s3a://b/a"
    assert layout.absolute("file:/a/b") == layout.absolute("file:///a/b/") == "/a/b"
    assert layout.absolute("~") == str(Path.home().resolve())


def test_examples_in_docstrings():
    assert doctest.testmod(layout) == (0, 4)
