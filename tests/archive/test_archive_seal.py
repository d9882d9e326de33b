"""Sealing on every catalog: one sealer at a time, nothing lost, nothing stored twice."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from archive_kit import Place, change_writer, folders
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sealing_kit import (
    expected_tokens,
    pick_run,
    seal_picked,
    seals,
    stored_tokens,
    write_source,
)
from test_archive_gc import dead_pid

from conftest import NewPlace
from whence.archive import Archive, Run
from whence.archive.ledger import SealSettings
from whence.archive.sealer import Sealer
from whence.archive.verify import verify
from whence.errors import SelectionError
from whence.sealed import Sealed
from whence.trace.tables import Tables

DEAD = dead_pid()
EXAMPLES = int(os.environ.get("WHENCE_SEAL_EXAMPLES", "3"))


def findings(archive: Archive, **options: Any) -> list[str]:
    report, _, _ = verify(archive.location, catalog=archive.catalog.url, **options)
    return [str(finding) for finding in report.findings]


def test_a_chain_of_seals(archive: Archive, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    for number in range(3):
        run = pick_run(archive, source, f"run {number}", [number, number + 1])
        with Sealer(archive) as sealer:
            seal_picked(sealer, run, source)
    chain = seals(archive)
    assert [row.number for row in chain] == [1, 2, 3]
    assert findings(archive, expect=chain[0].id) == []
    assert sorted(stored_tokens(archive)) == sorted(expected_tokens([[0, 1], [1, 2], [2, 3]], 8))


def test_settings_are_fixed_by_the_first_seal(archive: Archive) -> None:
    with Sealer(archive, SealSettings("origin", 64)) as sealer:
        assert sealer.settings.bits == 64
    with Sealer(archive) as sealer:
        assert sealer.settings.scheme == "origin"
    with pytest.raises(SelectionError, match="first seal fixed"):
        Sealer(archive, SealSettings("value", 64))
    with pytest.raises(SelectionError, match="one of"):
        SealSettings("value", 63)


def test_two_sealers_at_once(place: Place, tmp_path: Path) -> None:
    """They run side by side over the same rows: both seals are there, each node once."""
    archive = place.open(create=True)
    source = write_source(tmp_path / "source")
    runs = [pick_run(archive, source, name, [1, 2, 3]) for name in ("one", "two", "three")]
    started, failed = threading.Barrier(3), []

    def work(run: Run) -> None:
        try:
            own = place.open()
            started.wait(20)
            with Sealer(own) as sealer:
                seal_picked(sealer, run, source)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert {row.run for row in seals(archive)} == {run.id for run in runs}
    assert sorted(stored_tokens(archive)) == sorted(expected_tokens([[1, 2, 3]], 8))
    assert findings(archive) == []


def test_a_dead_sealer_is_in_nobodys_way(archive: Archive, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    run = pick_run(archive, source, "late", [1])
    dead = Sealer(archive)
    dead.__enter__()
    dead._lease.stop()
    _, folder = dead.folder()
    Path(folder).mkdir(parents=True)
    change_writer(archive, dead.id, pid=DEAD, process_start="0")
    with Sealer(archive) as sealer:
        seal_picked(sealer, run, source)
    assert findings(archive) == []
    assert archive.gc(grace_seconds=0).count == 1
    assert not Path(folder).exists()


def test_a_sealer_that_gc_took_for_dead_cannot_commit(archive: Archive, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    run = pick_run(archive, source, "late", [1])
    with pytest.raises(OSError, match="took this sealer for dead"), Sealer(archive) as sealer:
        change_writer(archive, sealer.id, dead=True)
        seal_picked(sealer, run, source)
    assert seals(archive) == []


class Machine(RuleBasedStateMachine):
    """Capture, seal, forget, gc, crash, reopen and concurrent writers, in any order."""

    def __init__(self, new_place: NewPlace) -> None:
        super().__init__()
        self.place = new_place()
        self.archive = self.place.open(create=True)
        self.source = write_source(self.place.location.with_name(self.place.location.name + "-in"))
        self.runs: dict[str, tuple[Run, list[int]]] = {}
        self.sealed: set[str] = set()
        self.chain = 0

    @initialize()
    def start(self) -> None:
        self.capture([0, 3])

    @rule(rows=st.lists(st.integers(0, 7), min_size=1, max_size=4))
    def capture(self, rows: list[int]) -> None:
        run = pick_run(self.archive, self.source, f"run{len(self.runs)}", rows)
        self.runs[run.id] = (run, rows)

    def _unsealed(self) -> list[str]:
        return sorted(set(self.runs) - self.sealed)

    @precondition(lambda self: self._unsealed())
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._unsealed()))
        with Sealer(self.archive) as sealer:
            seal_picked(sealer, self.runs[run][0], self.source)
        self.sealed.add(run)
        self.chain += 1

    @precondition(lambda self: self._unsealed())
    @rule(data=st.data())
    def seal_and_fail(self, data: st.DataObject) -> None:
        """Fails before the commit: as if nothing had been tried."""
        run = data.draw(st.sampled_from(self._unsealed()))
        with pytest.raises(ZeroDivisionError), Sealer(self.archive) as sealer:
            sealer.ranges(self.source)
            sealer.numbers([("ab" * 32, "joint", 2, "never used")])
            sealer.reserve(5)
            Path(sealer.folder()[1]).mkdir(parents=True)
            assert run in self.runs
            raise ZeroDivisionError

    @rule()
    def sealer_dies(self) -> None:
        sealer = Sealer(self.archive)
        sealer.__enter__()
        sealer._lease.stop()
        Path(sealer.folder()[1]).mkdir(parents=True)
        change_writer(self.archive, sealer.id, pid=DEAD, process_start="0")

    @precondition(lambda self: self._unsealed())
    @rule(data=st.data())
    def seal_while_others_write(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self._unsealed()))
        with Sealer(self.archive) as sealer:
            self.capture([7])
            self.archive.gc(grace_seconds=0)
            seal_picked(sealer, self.runs[run][0], self.source)
        self.sealed.add(run)
        self.chain += 1

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from(sorted(self.runs)), min_size=1, unique=True))
        sealed = Sealed(self.archive, lambda: Tables(self.archive))
        sealed.forget([self.runs[run][0] for run in gone])
        for run in gone:
            del self.runs[run]
            self.sealed.discard(run)
        self.chain += 1

    @rule()
    def gc(self) -> None:
        self.archive.gc(grace_seconds=0)

    @rule()
    def reopen(self) -> None:
        self.archive = self.place.open()

    @invariant()
    def is_whole(self) -> None:
        assert {run.id for run in self.archive.runs()} == set(self.runs)
        assert len(seals(self.archive)) == self.chain
        assert findings(self.archive) == []
        if self.chain:
            picked = [self.runs[run][1] for run in self.sealed]
            assert sorted(stored_tokens(self.archive)) == sorted(expected_tokens(picked, 8))
        known = {dataset.id for dataset in self.archive.datasets() if dataset.is_own}
        assert known <= folders(self.archive)


def test_any_order_of_things(new_place: NewPlace) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        lambda: Machine(new_place),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=10,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
