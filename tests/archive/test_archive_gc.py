"""gc removes what is left over, and never what somebody is writing."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from archive_kit import (
    assert_whole,
    change_writer,
    fill,
    folders,
    own_ids,
    write_dataset,
    write_run,
    writer_ids,
)

from whence.archive import writers
from whence.archive.gc import collect
from whence.archive.storage import LocalStorage
from whence.archive.writers import this_process
from whence.errors import ArchiveError


def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_nothing_to_do(archive):
    write_run(archive)
    report = archive.gc(grace_seconds=0)
    assert (report.count, report.bytes, report.writers, report.failed) == (0, 0, 0, ())
    assert_whole(archive)


def test_a_live_writer_of_this_process_is_left_alone(archive):
    with archive.writer("late", "eager") as writer:
        fill(writer)
        assert archive.gc(grace_seconds=0).count == 0
        writer.commit(seconds=1, versions={})
    assert_whole(archive)


def test_a_live_writer_of_another_process_is_left_alone_until_it_dies(place, new_child):
    archive = place.open(create=True)
    run = write_run(archive)
    child = new_child(place)
    pid = child.order("hold")
    _, held = child.line()
    left = folders(archive) - own_ids(archive)
    assert len(left) == 2
    # An old sign of life means nothing while the process is there to see.
    change_writer(archive, held.strip(), heartbeat=0)
    assert archive.gc(grace_seconds=0).count == 0
    assert folders(archive) >= left
    os.kill(pid, signal.SIGKILL)
    child.rest()
    would = archive.gc(dry_run=True)
    assert set(would.datasets) == left
    assert would.dry_run
    assert folders(archive) >= left
    report = archive.gc()
    assert set(report.datasets) == left
    assert (report.count, report.bytes, report.writers) == (2, 2 * 101, 1)
    assert would.bytes == report.bytes
    assert folders(archive) == own_ids(archive)
    assert writer_ids(archive) == set()
    assert archive.runs() == [run]


def test_a_process_that_took_over_the_number_is_not_the_writer(archive):
    writer = archive.writer("late", "eager")
    fill(writer)
    change_writer(archive, writer.run_id, pid=os.getppid(), process_start="1")
    assert archive.gc().writers == 1
    assert folders(archive) == set()


def test_a_process_that_is_dead_but_not_yet_reaped_is_dead(archive):
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    writer = archive.writer("late", "eager")
    fill(writer)
    change_writer(archive, writer.run_id, pid=child.pid, process_start=None)
    assert archive.gc().count == 2
    child.wait()


def test_a_writer_elsewhere_lives_as_long_as_its_lease(archive):
    writer = archive.writer("late", "eager")
    fill(writer)
    change_writer(archive, writer.run_id, host="elsewhere", pid=dead_pid())
    assert archive.gc(grace_seconds=0).count == 0
    change_writer(archive, writer.run_id, heartbeat=0)
    assert writer._lease.renew()
    assert archive.gc(grace_seconds=0).count == 0
    change_writer(archive, writer.run_id, heartbeat=0)
    assert archive.gc(grace_seconds=0).count == 2
    assert not writer._lease.renew()
    with pytest.raises(ArchiveError, match="took its writer for dead"):
        writer._check_files = lambda: None
        writer.commit(seconds=1, versions={})
    assert archive.runs() == []


def test_a_writer_taken_for_dead_cannot_commit_even_with_its_files(archive):
    with archive.writer("late", "eager") as writer:
        fill(writer)
        change_writer(archive, writer.run_id, dead=True)
        with pytest.raises(ArchiveError, match="took its writer for dead"):
            writer.commit(seconds=1, versions={})
    assert archive.runs() == []
    assert folders(archive) == writer_ids(archive) == set()


def test_folders_without_a_writer_wait_for_the_grace_period(archive):
    run = write_run(archive)
    stray = Path(archive.location, "datasets", "00112233445566778899")
    stray.mkdir()
    (stray / "part-0.parquet").write_bytes(b"12345")
    assert archive.gc().count == 0
    os.utime(stray, (0, 0))
    assert archive.gc().count == 0  # a file in it is new
    os.utime(stray / "part-0.parquet", (0, 0))
    report = archive.gc()
    assert (report.datasets, report.bytes) == ((stray.name,), 5)
    assert not stray.exists()
    assert archive.runs() == [run]
    assert_whole(archive)


def test_what_whence_did_not_name_is_left_alone(archive):
    top = Path(archive.location, "datasets")
    (top / "notes").mkdir()
    (top / "0011223344556677889900.txt").write_text("a file")
    os.utime(top / "notes", (0, 0))
    assert archive.gc(grace_seconds=0).count == 0
    assert (top / "notes").exists()


def test_a_folder_that_cannot_be_removed_is_reported_and_tried_again(archive, tmp_path):
    writer = archive.writer("late", "eager")
    dataset_id, folder = writer.new_dataset()
    write_dataset(writer)
    (tmp_path / "target").mkdir()
    Path(folder).symlink_to(tmp_path / "target")  # removal refuses to follow a link
    change_writer(archive, writer.run_id, pid=dead_pid())
    report = archive.gc()
    assert len(report.failed) == 1
    assert dataset_id in report.failed[0]
    assert report.count == 1
    assert writer_ids(archive) == {writer.run_id}
    Path(folder).unlink()
    assert archive.gc().writers == 1
    assert writer_ids(archive) == set()


def test_a_lost_answer_to_a_commit_does_not_cost_the_files(archive):
    """The transaction ended, but the writer never heard of it, and abandons."""
    with archive.writer("late", "eager") as writer:
        fill(writer)
        writer.commit(seconds=1, versions={})
        writer._open = True
    assert len(archive.runs()) == 1
    assert_whole(archive)


def test_this_process_is_told_apart():
    assert this_process() == this_process()
    assert this_process().pid == os.getpid()


def test_a_writer_that_renews_after_gc_looked_is_left_alone(archive, monkeypatch):
    catalog = archive._catalog
    with archive.writer("late", "eager") as writer:
        fill(writer)
        change_writer(archive, writer.run_id, host="elsewhere", heartbeat=0)
        look = catalog.read

        def look_then_renew(work):
            found = look(work)
            writer._lease.renew()
            return found

        with monkeypatch.context() as patch:
            patch.setattr(catalog, "read", look_then_renew)
            assert archive.gc(grace_seconds=0).count == 0
        run = writer.commit(seconds=1, versions={})
    assert archive.runs() == [run]
    assert_whole(archive)


def test_a_lease_is_renewed_in_the_background_until_the_end(archive, monkeypatch):
    monkeypatch.setattr(writers, "RENEW_SECONDS", 0.01)
    with archive.writer("late", "eager") as writer:
        seen: set[int] = set()
        while len(seen) < 3:
            [found] = archive._catalog.read(writers.load_writers)
            seen.add(found.heartbeat)
    named = [thread for thread in threading.enumerate() if writer.run_id in thread.name]
    for thread in named:
        thread.join(20)
        assert not thread.is_alive()


class Meanwhile(LocalStorage):
    """Local files; something else happens just before or just after the folders are listed."""

    def __init__(self, archive, before, after):
        super().__init__(Path(archive.location))
        self.before, self.after = before, after

    def folders(self):
        self.before()
        found = super().folders()
        self.after()
        return found


def test_a_writer_that_begins_or_commits_while_gc_looks_is_left_alone(archive):
    begun = archive.writer("commits", "eager")
    fill(begun)
    late = []

    def begin():
        late.append(archive.writer("begins", "eager"))
        fill(late[0])

    storage = Meanwhile(archive, begin, lambda: begun.commit(seconds=1, versions={}))
    report = collect(archive._catalog, storage, grace_seconds=0, dry_run=False)
    assert report.count == 0
    late[0].commit(seconds=1, versions={})
    assert [run.name for run in archive.runs()] == ["commits", "begins"]
    assert_whole(archive)


def test_a_source_that_two_writers_bring_at_once(archive):
    """The second waits for the first, finds its own insert refused, and does its work again."""
    inserted, waiting = threading.Event(), threading.Event()
    first, second = archive.writer("first", "eager"), archive.writer("second", "eager")
    for writer in (first, second):
        fill(writer)
    insert = first._insert

    def slowly(connection, run):
        insert(connection, run)
        inserted.set()
        waiting.wait(20)
        time.sleep(0.3)  # the other one is in its transaction by now, or soon will be

    first._insert = slowly
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(first.commit, seconds=1, versions={})
        inserted.wait(20)
        waiting.set()
        second.commit(seconds=1, versions={})
        done.result()
    assert [run.name for run in archive.runs()] == ["first", "second"]
    assert_whole(archive)
