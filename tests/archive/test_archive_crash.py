"""Killed writers, writers at the same time, full disks: each run is whole or absent."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from archive_kit import Place, assert_whole, folders, own_ids, write_run, writer_ids
from sqlalchemy import Engine, event

import whence
from whence.archive import Archive
from whence.errors import ArchiveError

KILLS = 20


def check_after_kill(place, earlier, told):
    """The archive opens; earlier and reported runs are whole; gc leaves nothing but them."""
    archive = place.open()
    seen = archive.runs()
    assert_whole(archive)
    report = archive.gc()
    found = archive.runs()  # a server may end a commit just after its client was killed
    assert found[: len(seen)] == seen
    assert found[: len(earlier)] == earlier
    fresh = [run.id for run in found[len(earlier) :]]
    assert fresh[: len(told)] == told
    assert len(fresh) <= len(told) + 1  # the last one may be committed but not reported
    assert writer_ids(archive) == set()
    assert folders(archive) == own_ids(archive)
    assert_whole(archive)
    return found, report.count


def test_killed_at_random_moments(place, new_child):
    chance = random.Random(2)
    runs = [write_run(place.open(create=True), "before")]
    child = new_child(place)
    removed = 0
    for _ in range(KILLS):
        pid = child.order("loop")
        first = child.line()  # from here on it is at work
        time.sleep(chance.uniform(0, 0.06))
        os.kill(pid, signal.SIGKILL)
        told = [identifier.strip() for _, identifier in (first, *child.rest())]
        runs, count = check_after_kill(place, runs, told)
        removed += count
    assert removed  # some kills did hit a writer that had files
    assert write_run(place.open(), "after")


def test_killed_before_any_line(place, new_child):
    chance = random.Random(3)
    write_run(place.open(create=True), "before")
    child = new_child(place)
    child.order("count")
    total = int(child.rest()[0][1])
    runs, removed = place.open().runs(), 0
    kills = KILLS // 2 if place.catalog else KILLS
    for line in sorted(chance.sample(range(1, total + 1), kills)):
        child.order(f"lines {line}")
        assert child.rest() == []
        runs, count = check_after_kill(place, runs, [])
        removed += count
    assert removed
    assert write_run(place.open(), "after")


def test_killed_while_the_archive_is_made(new_place, new_child):
    for line in (20, 60, 100, 140):
        place = new_place()
        child = new_child(place)
        child.order(f"lines {line}")
        child.rest()
        archive = place.open(create=True)
        assert write_run(archive) in archive.runs()


def test_two_processes_commit_at_once(place, new_child):
    children = [new_child(place), new_child(place)]  # both also make the archive
    for child in children:
        child.order("many 10")
    told = [child.rest() for child in children]
    assert [len(lines) for lines in told] == [10, 10], told
    archive = place.open()
    ids = {line[1].strip() for lines in told for line in lines}
    assert {run.id for run in archive.runs()} == ids
    assert len(ids) == 20
    assert_whole(archive)
    assert archive.gc(grace_seconds=0).count == 0
    assert folders(archive) == own_ids(archive)


def test_gc_beside_a_writer(place, new_child):
    archive = place.open(create=True)
    child = new_child(place)
    child.order("many 10")
    for _ in range(15):
        archive.gc(grace_seconds=0)
    assert [word for word, _ in child.rest()] == ["commit"] * 10
    assert len(archive.runs()) == 10
    assert_whole(archive)


def test_no_room_for_the_catalog(tmp_path):
    """SQLite itself says that it is full."""

    def limit(connection, _record):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")

    archive = Archive.open(tmp_path, create=True)
    run = write_run(archive)
    event.listen(Engine, "connect", limit)
    try:
        with pytest.raises(ArchiveError, match="no space left on disk"):
            for _ in range(50):
                write_run(archive)
    finally:
        event.remove(Engine, "connect", limit)
    assert archive.runs()[0] == run
    assert_whole(archive)
    archive.gc(grace_seconds=0)
    assert folders(archive) == own_ids(archive)
    write_run(archive)


@pytest.mark.parametrize("size", [200_000, 1_000_000])
def test_files_may_not_grow(new_child, tmp_path, size):
    """The operating system refuses to let the catalog grow in the middle of a commit."""
    place = Place(tmp_path, None)
    run = write_run(place.open(create=True))
    child = new_child(place)
    child.order(f"full {size}")
    [[word, message]] = child.rest()
    assert word == "error"
    assert message.startswith("ArchiveError catalog")
    assert "full" in message
    archive = place.open()
    assert archive.runs() == [run]
    assert_whole(archive)
    archive.gc()
    assert folders(archive) == own_ids(archive)
    write_run(archive)


FULL = """
import sys
from pathlib import Path
from archive_child import big_run
from archive_kit import Place, assert_whole, folders, own_ids, write_run
from whence.archive import Archive
from whence.errors import ArchiveError
archive = Archive.open(sys.argv[1], create=True)
run = write_run(archive)
try:
    big_run(archive, 2_000_000)
except ArchiveError as error:
    assert "no space left on disk" in str(error), error
else:
    raise AssertionError("there was room")
filler = Path(sys.argv[1], "filler").open("wb", buffering=0)
try:
    while True:
        filler.write(bytes(4096))
except OSError:
    pass
try:
    Archive.open(Path(sys.argv[1], "inner"), create=True)
except ArchiveError as error:
    assert "no space left on disk" in str(error), error
else:
    raise AssertionError("there was room")
filler.truncate(0)
filler.close()
archive = Archive.open(sys.argv[1])
assert archive.runs() == [run]
assert_whole(archive)
archive.gc()
assert folders(archive) == own_ids(archive)
write_run(archive)
print("held")
"""


def test_a_disk_that_is_full(tmp_path):
    """A real small disk, in a mount namespace of its own, where this machine allows that."""
    unshare = shutil.which("unshare")
    mount = f"mount -t tmpfs -o size=1m none '{tmp_path}'"
    possible = unshare and subprocess.run(
        [unshare, "-m", "sh", "-c", mount], capture_output=True, check=False
    )
    if not possible or possible.returncode:
        pytest.skip("this machine lets us mount no small disk")
    path = os.pathsep.join([str(Path(whence.__file__).parents[1]), str(Path(__file__).parent)])
    script = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(
        [unshare, "-m", "sh", "-c", f'{mount} && exec "$0" "$@"', *script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "held\n", done.stderr
