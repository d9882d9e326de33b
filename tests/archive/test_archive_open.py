"""Opening: what is not an archive, what is damaged, what is too new; and what opening costs."""

import json
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from archive_kit import Place, fill, write_run
from sqlalchemy import text

import whence
from whence.archive import Archive, GcReport, RunWriter, archive, catalog, layout
from whence.archive.storage import LocalStorage
from whence.errors import ArchiveError, FormatError, WhenceError


def test_missing_archive_says_how_to_make_one(new_place):
    place = new_place()
    with pytest.raises(ArchiveError, match=r"no archive.*captur"):
        place.open()
    assert not place.location.exists()


def test_opening_twice_with_create_keeps_what_is_there(place):
    run = write_run(place.open(create=True))
    assert place.open(create=True).runs() == [run]


def test_a_newer_format_is_refused_and_both_versions_named(place):
    opened = place.open(create=True)
    opened._catalog.write(lambda c: c.execute(text("UPDATE format SET version = 7")))
    for create in (False, True):
        with pytest.raises(FormatError, match=r"format 7.*reads format 1: install a newer whence"):
            place.open(create=create)


def test_a_newer_format_may_have_changed_everything_else(tmp_path):
    (tmp_path / "datasets").mkdir()
    with sqlite3.connect(tmp_path / layout.CATALOG) as connection:
        connection.execute("CREATE TABLE format (version INTEGER, other TEXT)")
        connection.execute("INSERT INTO format VALUES (2, 'x')")
    connection.close()
    with pytest.raises(FormatError, match="format 2"):
        Archive.open(tmp_path)


def test_a_folder_that_is_no_archive(tmp_path):
    with pytest.raises(ArchiveError, match=r"holds no catalog\.sqlite"):
        Archive.open(tmp_path)
    (tmp_path / layout.CATALOG).touch()
    with pytest.raises(ArchiveError, match="holds no archive"):
        Archive.open(tmp_path)
    assert Archive.open(tmp_path, create=True).runs() == []


def test_another_sqlite_file(tmp_path):
    with sqlite3.connect(tmp_path / layout.CATALOG) as connection:
        connection.execute("CREATE TABLE other (a)")
    connection.close()
    with pytest.raises(ArchiveError, match="holds no archive"):
        Archive.open(tmp_path)


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "file").write_text("x")
    for create in (False, True):
        with pytest.raises(ArchiveError, match="is a file"):
            Archive.open(tmp_path / "file", create=create)
        with pytest.raises(ArchiveError):
            Archive.open(tmp_path / "file" / "below", create=create)


@pytest.mark.parametrize("location", ["a\0b", "x" * 5000, "~nobody-has-this-name/a", None, 3])
def test_what_cannot_be_a_place(location):
    for create in (False, True):
        with pytest.raises(ArchiveError, match="opening the archive at"):
            Archive.open(location, create=create)


def test_a_file_where_datasets_should_be(tmp_path):
    (tmp_path / "datasets").write_text("x")
    with pytest.raises(ArchiveError, match="failed"):
        Archive.open(tmp_path, create=True)


def test_a_folder_where_the_catalog_should_be(tmp_path):
    (tmp_path / layout.CATALOG).mkdir()
    with pytest.raises(ArchiveError, match="cannot be opened"):
        Archive.open(tmp_path)


def test_a_catalog_that_is_not_sqlite(tmp_path):
    (tmp_path / layout.CATALOG).write_text("this is not a database " * 100)
    for create in (False, True):
        with pytest.raises(ArchiveError, match="damaged"):
            Archive.open(tmp_path, create=create)


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
def test_a_truncated_catalog(tmp_path, kept):
    write_run(Archive.open(tmp_path, create=True))
    path = tmp_path / layout.CATALOG
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    with pytest.raises(ArchiveError):
        Archive.open(tmp_path).runs()


def read_everything(location):
    opened = Archive.open(location)
    for run in opened.runs():
        opened.run(run.id)
        opened.producer(run.output)
        opened.attachment(run.id, 0)
    opened.datasets()
    opened.snapshot("key")
    opened.gc(grace_seconds=0, dry_run=True)


def test_changed_bytes_never_raise_anything_but_our_errors(tmp_path):
    chance = random.Random(4)
    write_run(Archive.open(tmp_path, create=True))
    path = tmp_path / layout.CATALOG
    good = path.read_bytes()
    used = [position for position, byte in enumerate(good) if byte]
    for _ in range(300):
        bad = bytearray(good)
        for position in chance.sample(used, 3):
            bad[position] = chance.randrange(256)
        path.write_bytes(bad)
        with suppress(WhenceError):
            read_everything(tmp_path)


def test_text_that_is_not_json_is_reported_as_damage(place):
    opened = place.open(create=True)
    write_run(opened)
    opened._catalog.write(lambda c: c.execute(text("UPDATE steps SET document = 'x'")))
    with pytest.raises(ArchiveError, match="catalog"):
        opened.runs()


def test_a_url_needs_a_catalog_elsewhere():
    with pytest.raises(ArchiveError, match="give catalog= an SQLAlchemy URL"):
        Archive.open("s3a://bucket/archive", create=True)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "must be an SQLAlchemy URL"),
        ("nodialect://host/db", "nodialect"),
        ("sqlite://", "in memory"),
        ("mysql+nodriver://host/db", "nodriver"),
        ("postgresql://whence:secret@localhost:1/none", "onnection"),
    ],
)
def test_catalogs_that_cannot_be_had(tmp_path, url, message):
    for create in (False, True):
        with pytest.raises(ArchiveError, match=message) as caught:
            Archive.open(tmp_path, catalog=url, create=create)
        assert "secret" not in str(caught.value)


def test_a_catalog_file_elsewhere(tmp_path):
    url = f"sqlite:///{tmp_path}/elsewhere.sqlite"
    with pytest.raises(ArchiveError, match="holds no archive"):
        Archive.open(tmp_path / "a", catalog=url)
    assert not (tmp_path / "elsewhere.sqlite").exists()
    run = write_run(Archive.open(tmp_path / "a", catalog=url, create=True))
    assert Archive.open(tmp_path / "a", catalog=url).runs() == [run]


@pytest.mark.parametrize("create", [False, True])
def test_a_catalog_elsewhere_that_is_not_given(tmp_path, create):
    """A second catalog in the folder would know nothing of the first one's files."""
    Archive.open(tmp_path / "files", catalog=f"sqlite:///{tmp_path}/c.sqlite", create=True)
    with pytest.raises(ArchiveError, match="has its catalog elsewhere"):
        Archive.open(tmp_path / "files", create=create)


def test_two_that_make_an_archive_at_once(new_place, tmp_path, monkeypatch):
    """The other one marks the place and commits a run just after this one found no mark."""
    place = new_place()
    place = Place(place.location, place.catalog or f"sqlite:///{tmp_path}/elsewhere.sqlite")
    Archive.open(tmp_path / "made", catalog=place.catalog, create=True)  # so the catalog is not new
    (tmp_path / "made" / layout.MARKER).unlink()
    read_text, made = LocalStorage.read_text, []

    def late(storage, name):
        found = read_text(storage, name)
        if not made:
            made.append(None)
            made[0] = write_run(place.open(create=True))
        return found

    monkeypatch.setattr(LocalStorage, "read_text", late)
    assert place.open(create=True).runs() == made


def test_a_catalog_serves_one_place_only(new_place, tmp_path):
    place = new_place()
    url = place.catalog or f"sqlite:///{tmp_path}/elsewhere.sqlite"
    first = Place(place.location, url)
    write_run(first.open(create=True))
    other = Place(tmp_path / "other", url)
    with pytest.raises(ArchiveError, match="no archive at"):
        other.open()
    with pytest.raises(ArchiveError, match="belongs to an archive at another place"):
        other.open(create=True)
    Archive.open(other.location, catalog=f"sqlite:///{tmp_path}/b.sqlite", create=True)
    for create in (False, True):
        with pytest.raises(ArchiveError, match="belongs to another archive"):
            other.open(create=create)
    (other.location / layout.MARKER).write_text("{}")
    with pytest.raises(ArchiveError, match="is damaged"):
        other.open()


def test_places_that_are_spelled_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = write_run(Archive.open("my archive?#%20", create=True))
    where = tmp_path / "my archive?#%20"
    assert Archive.open(where).location == str(where)
    for spelling in (f"{where}/", f"file:{tmp_path}/my%20archive%3F%23%2520"):
        assert Archive.open(spelling).runs() == [run]


def test_opening_and_listing_load_nothing_heavy(tmp_path):
    write_run(Archive.open(tmp_path, create=True))
    code = (
        "import sys; from whence.archive import Archive; a = Archive.open(sys.argv[1]); "
        "a.dataset(a.run('latest').output); a.gc(); "
        "print(sorted({'pyspark', 'py4j', 'duckdb', 'pandas', 'pyarrow', 'numpy', 'psycopg'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path],
        env={**os.environ, "PYTHONPATH": str(Path(whence.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[]\n", done.stderr


def test_a_read_only_catalog_can_be_read(tmp_path):
    """Permission bits do not bind root, so SQLite is asked to open the file for reading only."""
    run = write_run(Archive.open(tmp_path, create=True))
    url = f"sqlite:///file:{tmp_path}/{layout.CATALOG}?mode=ro&uri=true"
    marker = {"archive": Archive.open(tmp_path)._catalog.archive_id}
    (tmp_path / layout.MARKER).write_text(json.dumps(marker))
    opened = Archive.open(tmp_path, catalog=url)
    assert opened.runs() == [run]
    with (
        pytest.raises(ArchiveError, match="can only be read"),
        opened.writer("x", "eager") as writer,
    ):
        fill(writer)


def test_public_names():
    import whence.archive as package

    for name in package.__all__:
        assert getattr(package, name)
    assert isinstance(GcReport((), 0, 0), GcReport)
    assert archive.RunWriter is RunWriter
    assert catalog.Catalog
