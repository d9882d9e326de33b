"""Sealing on every catalog: one sealer at a time, nothing lost, nothing stored twice."""

import dataclasses
import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from archive_kit import NewPlace, Place, change_writer, folders
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
from sqlalchemy import text, update
from test_archive_gc import dead_pid

from whence.archive import Archive, Dataset, Run
from whence.archive.digests import canonical_json
from whence.archive.forget import keeping
from whence.archive.head import read_head, refresh_head
from whence.archive.ledger import SealSettings
from whence.archive.ledger import seals as seal_table
from whence.archive.seal import to_row
from whence.archive.sealer import Sealer
from whence.archive.signing import load_key, new_key, public_hex
from whence.archive.verify import verify
from whence.errors import ArchiveError, SelectionError, SourceChangedError, UnknownNameError
from whence.sealed import Sealed
from whence.trace.tables import Tables
from whence.verifying import verify_archive

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


def test_settings_are_fixed_by_the_first_seal(archive: Archive, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    run = pick_run(archive, source, "run", [0, 1])
    with Sealer(archive, SealSettings("origin", 64)) as sealer:
        assert sealer.settings.bits == 64
    with Sealer(archive, SealSettings("value", 64)) as sealer:  # the one before sealed nothing
        seal_picked(sealer, run, source)
    with Sealer(archive) as sealer:
        assert sealer.settings.scheme == "value"
    with (
        pytest.raises(SelectionError, match="first seal fixed"),
        Sealer(archive, SealSettings("origin", 64)),
    ):
        pass
    with pytest.raises(SelectionError, match="one of"):
        SealSettings("value", 63)


def test_tokens_of_other_formulas_are_told(archive: Archive, tmp_path: Path) -> None:
    """Sealing on would store everything again, and checking would accuse what was not touched."""
    source = write_source(tmp_path / "source")
    run = pick_run(archive, source, "run", [0, 1])
    with Sealer(archive) as sealer:
        seal_picked(sealer, run, source)
    change = text("UPDATE seal_settings SET value = '1' WHERE name = 'formulas'")
    archive.catalog.write(lambda connection: connection.execute(change))
    with pytest.raises(ArchiveError, match="formulas 1"), Sealer(archive):
        pass
    assert any("formulas 1" in found for found in findings(archive))


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


def test_two_processes_seal_at_once(
    place: Place, tmp_path: Path, new_child: Callable[[Place], Any]
) -> None:
    """Each its own half of the runs, over the same rows: a chain without gaps, each node once."""
    archive = place.open(create=True)
    source = write_source(tmp_path / "source")
    runs = [pick_run(archive, source, f"run{i}", [i, i + 1, 3]) for i in range(4)]
    children = [new_child(place), new_child(place)]
    for number, child in enumerate(children):
        child.order(f"seal {number}")
    for child in children:
        assert [words for words in child.rest() if words[0] != "sealed"] == []
    assert [row.number for row in seals(archive)] == [1, 2, 3, 4]
    assert {row.run for row in seals(archive)} == {run.id for run in runs}
    picked = [[i, i + 1, 3] for i in range(4)]
    assert sorted(stored_tokens(archive)) == sorted(expected_tokens(picked, 8))
    assert findings(archive) == []


def test_a_killed_sealer_is_in_nobodys_way(
    place: Place, tmp_path: Path, new_child: Callable[[Place], Any]
) -> None:
    archive = place.open(create=True)
    source = write_source(tmp_path / "source")
    pick_run(archive, source, "late", [1])
    child = new_child(place)
    pid = child.order("seal-and-hold 0")
    assert child.line()[0] == "begun"
    os.kill(pid, signal.SIGKILL)
    assert child.rest() == []
    child.order("seal 0")
    assert [words[0] for words in child.rest()] == ["sealed"]
    assert len(seals(archive)) == 1
    assert archive.gc(grace_seconds=0).count == 1
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


def change(archive: Archive, sql: str) -> None:
    archive.catalog.write(lambda connection: connection.execute(text(sql)))


def sealed_pick(archive: Archive, source: Dataset, name: str, rows: list[int], **key: Any) -> Any:
    run = pick_run(archive, source, name, rows)
    with Sealer(archive) as sealer:
        return seal_picked(sealer, run, source, **key)


def test_an_emptied_chain_is_noticed(archive: Archive, tmp_path: Path) -> None:
    sealed_pick(archive, write_source(tmp_path / "source"), "one", [1])
    change(archive, "DELETE FROM seals")
    assert any("the chain was removed" in found for found in findings(archive))
    (Path(archive.location) / "head.json").unlink()
    assert any("nothing is signed" in found for found in findings(archive, public_key="00" * 32))


def flip(source: Dataset) -> None:
    """Another byte in the same place at the same time."""
    path = Path(source.files[0].path.removeprefix("file://"))
    status, data = path.stat(), bytearray(path.read_bytes())
    data[6] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_a_later_seal_does_not_make_tampering_good(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_source(tmp_path / "source")
    sealed_pick(archive, source, "one", [1])
    flip(source)
    with pytest.raises(SourceChangedError, match="no longer what an earlier seal covers"):
        sealed_pick(archive, source, "two", [2])
    assert any("its content has changed" in found for found in findings(archive))
    monkeypatch.setattr(Sealer, "_check_unchanged", lambda *_: None)
    sealed_pick(archive, source, "three", [3])
    assert any(found.startswith("seal 2: source 'rows' is not") for found in findings(archive))


def test_what_is_said_of_a_source_is_covered(archive: Archive, tmp_path: Path) -> None:
    """A later run may say it anew, and its seal covers that; nobody else may."""
    source = write_source(tmp_path / "source")
    sealed_pick(archive, source, "one", [1])
    for column, value in (("name", "other"), ("schema", "{}"), ("properties", '{"x": 1}')):
        change = f"UPDATE datasets SET {column} = '{value}' WHERE kind = 'source'"
        archive.catalog.write(lambda c, sql=change: c.execute(text(sql)))
        assert any("name, schema or properties" in found for found in findings(archive)), column
    renamed = dataclasses.replace(source, name="renamed")
    run = pick_run(archive, renamed, "two", [2])
    report, _, _ = verify(archive.location, catalog=archive.catalog.url)
    assert report.ok
    assert any("not covered" in note for note in report.notes)
    with Sealer(archive) as sealer:
        seal_picked(sealer, run, renamed)
    assert findings(archive) == []


def test_what_a_forgotten_run_said_of_a_source_is_covered(archive: Archive, tmp_path: Path) -> None:
    """It stays in the catalog; a sealed run that goes had nothing to say that was not covered."""
    source = write_source(tmp_path / "source")
    for name in ("one", "two"):
        sealed_pick(archive, source, name, [1])
    sealed = Sealed(archive, lambda: Tables(archive))
    sealed.forget([pick_run(archive, dataclasses.replace(source, name="renamed"), "three", [2])])
    assert findings(archive) == []
    change(archive, "UPDATE datasets SET name = 'other' WHERE kind = 'source'")
    assert any("name, schema or properties" in found for found in findings(archive))
    sealed.forget([archive.run("two")])
    assert any("name, schema or properties" in found for found in findings(archive))


def test_segments_under_no_seal_are_noticed(archive: Archive, tmp_path: Path) -> None:
    sealed_pick(archive, write_source(tmp_path / "source"), "one", [1])
    (held,) = [d for d in archive.datasets() if d.kind == "edges"]
    columns = "kind, name, location, schema, fingerprint, rows, bytes, properties, version, slots"
    change(
        archive,
        f"INSERT INTO datasets (id, {columns}, run) SELECT 'f00', {columns}, run "
        f"FROM datasets WHERE id = '{held.id}'",
    )
    assert findings(archive) == ["dataset f00: these edges are under no seal: they were added"]


TRAPS = {
    "sqlite": ["CREATE TRIGGER t AFTER INSERT ON seals BEGIN DELETE FROM runs; END"],
    "postgresql": [
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
        "CREATE TRIGGER t BEFORE INSERT ON seals FOR EACH ROW EXECUTE FUNCTION nothing()",
        "CREATE RULE r AS ON INSERT TO seals DO INSTEAD NOTHING",
        "ALTER TABLE runs ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE seal_labels RENAME TO l; CREATE VIEW seal_labels AS SELECT * FROM l",
    ],
}


def test_what_would_change_the_catalog_by_itself_is_noticed(
    archive: Archive, tmp_path: Path
) -> None:
    sealed_pick(archive, write_source(tmp_path / "source"), "one", [0, 1])
    assert findings(archive) == []
    dialect = archive.catalog.read(lambda c: c.dialect.name)
    rows = ["INSERT INTO seal_counters VALUES ('other', 1)"]
    rows.append("INSERT INTO seal_settings VALUES ('other', '1')")
    for number, sql in enumerate((*rows, *TRAPS[dialect]), 1):
        change(archive, sql)
        found = [text for text in findings(archive) if "is none of whence's" in text]
        assert len(found) == number


@pytest.mark.parametrize("name", ["scheme", "bits", "leaf_digests", "formulas"])
def test_settings_have_one_spelling(archive: Archive, tmp_path: Path, name: str) -> None:
    sealed_pick(archive, write_source(tmp_path / "source"), "one", [1])
    change(archive, f"UPDATE seal_settings SET value = value || ' ' WHERE name = '{name}'")
    assert findings(archive) != []


def test_node_ids_are_not_given_out_twice(archive: Archive, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    sealed_pick(archive, source, "one", [1])
    change(archive, "UPDATE seal_counters SET value = 1")
    assert any(found.startswith("counter: ") for found in findings(archive))
    with pytest.raises(OSError, match="give out node ids again"):
        sealed_pick(archive, source, "two", [2])
    change(archive, "UPDATE seal_counters SET value = 1000")
    sealed_pick(archive, source, "three", [2])
    assert findings(archive) == []


def test_a_head_that_was_left_behind_is_written_again(archive: Archive, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    sealed_pick(archive, source, "one", [1])
    head = Path(archive.location) / "head.json"
    old = head.read_text()
    sealed_pick(archive, source, "two", [2])
    head.write_text(old)
    assert any("one of them is older" in found for found in findings(archive))
    refresh_head(archive)
    assert findings(archive) == []
    new = head.read_text()
    change(archive, "UPDATE runs SET seconds = 7")
    refresh_head(archive)
    assert head.read_text() == new


def test_a_seal_that_comes_meanwhile_is_no_finding(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, others = write_source(tmp_path / "source"), ["two"]
    sealed_pick(archive, source, "one", [1])

    def read_later(found: Archive) -> Any:
        while others:
            sealed_pick(archive, source, others.pop(), [2])
        return read_head(found)

    monkeypatch.setattr("whence.archive.verify.read_head", read_later)
    report = verify_archive(archive.location, catalog=archive.catalog.url)
    assert (report.findings, report.seals) == ([], 2)


def test_what_others_forget_meanwhile_is_in_nobodys_way(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_source(tmp_path / "source")
    runs = [sealed_pick(archive, source, name, [1]).run for name in ("one", "two", "three")]
    one, _, three = (archive.run(run) for run in runs)
    others = [three]

    def forget(run: Run) -> None:
        Sealed(archive, lambda: Tables(archive)).forget([run])

    class Late(Sealer):
        def __enter__(self) -> Any:
            while others:
                forget(others.pop())
            return super().__enter__()

    monkeypatch.setattr("whence.sealed.Sealer", Late)
    forget(one)
    assert [run.name for run in archive.runs()] == ["two"]
    assert findings(archive) == []
    others.append(archive.run("two"))
    with pytest.raises(UnknownNameError):
        forget(archive.run("two"))


def test_what_a_run_reads_that_comes_meanwhile_is_not_forgotten(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, others = write_source(tmp_path / "source"), ["late"]
    one = archive.run(sealed_pick(archive, source, "one", [1]).run)

    def capture_later(*given: Any) -> Any:
        while others:
            pick_run(archive, source, others.pop(), [2])
        return keeping(*given)

    def forget() -> None:
        Sealed(archive, lambda: Tables(archive)).forget([one])

    monkeypatch.setattr("whence.sealed.forget.keeping", capture_later)
    with pytest.raises(ArchiveError, match="reading what is to be forgotten: late; nothing was"):
        forget()
    assert [run.name for run in archive.runs()] == ["one", "late"]
    assert findings(archive) == []
    forget()
    assert [run.name for run in archive.runs()] == ["late"]
    assert findings(archive) == []


def test_a_sealer_that_cannot_begin_leaves_its_place(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_source(tmp_path / "source")

    def fail(*_: Any) -> None:
        raise ValueError("damaged")

    with monkeypatch.context() as patched:
        patched.setattr("whence.archive.sealer.expected_of", fail)
        with pytest.raises(ValueError, match="damaged"), Sealer(archive):
            pass
    sealed_pick(archive, source, "one", [1])
    assert len(seals(archive)) == 1


def test_a_signed_chain_stays_signed(archive: Archive, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    public = new_key(tmp_path / "key.pem")
    sealed_pick(archive, source, "one", [1], key=load_key(tmp_path / "key.pem"))
    with pytest.raises(SelectionError, match="give the key"):
        sealed_pick(archive, source, "two", [2])
    sealed_pick(archive, source, "three", [3], key=load_key(tmp_path / "key.pem"))
    assert findings(archive, public_key=public) == []


def test_the_head_of_a_signed_chain_is_signed(archive: Archive, tmp_path: Path) -> None:
    """Without the key nobody can cut the chain and let the head name what is left."""
    source = write_source(tmp_path / "source")
    new_key(tmp_path / "key.pem")
    key, other = load_key(tmp_path / "key.pem"), tmp_path / "other.pem"
    new_key(other)
    sealed_pick(archive, source, "one", [1], key=key)
    sealed_pick(archive, source, "two", [2], key=key)
    head = read_head(archive)
    assert head is not None
    for change, said in (
        ({"signature": head["signature"].upper()}, "its signature is wrong"),
        ({"signature": "00" * 64}, "its signature is wrong"),
        ({"signer": public_hex(load_key(other))}, "another key"),
        ({"signature": None}, "does not say what a head says"),
    ):
        text = canonical_json({**head, **change}).decode() + "\n"
        archive.storage.write_text("head.json", text)
        assert any(said in found for found in findings(archive)), change
    unsigned = {k: v for k, v in head.items() if k not in ("signer", "signature")}
    archive.storage.write_text("head.json", canonical_json(unsigned).decode() + "\n")
    assert any("it is not signed" in found for found in findings(archive))
    (Path(archive.location) / "head.json").unlink()
    refresh_head(archive)  # without the key none is written
    assert read_head(archive) is None
    refresh_head(archive, key)
    assert findings(archive) == []


def test_a_seal_is_asked_for_by_enough_of_its_id(archive: Archive, tmp_path: Path) -> None:
    row = sealed_pick(archive, write_source(tmp_path / "source"), "one", [1])
    assert findings(archive, expect=row.id[:8].upper()) == []
    for short in ("", row.id[:7]):
        with pytest.raises(SelectionError, match="too short"):
            findings(archive, expect=short)


@pytest.mark.parametrize("ledger", ["null", "[]", '{"labels":[],"ranges":1,"next":"x"}'])
def test_a_crafted_seal_is_a_finding(archive: Archive, tmp_path: Path, ledger: str) -> None:
    sealed_pick(archive, write_source(tmp_path / "source"), "one", [1])
    (row,) = seals(archive)
    sections = json.loads(row.content)
    sections["ledger"] = json.loads(ledger)
    made = to_row(sections, None)
    values = {"id": made.id, "content": made.content}
    archive.catalog.write(lambda c: c.execute(update(seal_table).values(values)))
    assert any(found.startswith("seal 1: ") for found in findings(archive))


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
