"""Any order of begin, write, commit, abandon, die, gc and reopen, against a plain model."""

from dataclasses import dataclass, field
from pathlib import Path

from archive_kit import (
    NewPlace,
    assert_whole,
    change_writer,
    folders,
    source,
    write_dataset,
    writer_ids,
)
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
    run_state_machine_as_test,
)
from test_archive_gc import dead_pid

from whence.archive import Run, RunWriter, Step

DEAD = dead_pid()


@dataclass
class Open:
    """What the model knows of a writer."""

    writer: RunWriter
    folders: set[str] = field(default_factory=set)


class Machine(RuleBasedStateMachine):
    def __init__(self, new_place: NewPlace) -> None:
        super().__init__()
        self.place = new_place()
        self.archive = self.place.open(create=True)
        self.runs: list[Run] = []
        self.live: list[Open] = []
        self.kept: set[str] = set()
        self.left: set[str] = set()  # of dead writers
        self.dead: set[str] = set()

    writers = Bundle("writers")

    @rule(target=writers, name=st.sampled_from([None, "late", "early"]))
    def begin(self, name):
        opened = Open(self.archive.writer(name, "eager"))
        self.live.append(opened)
        return opened

    @rule(opened=writers)
    def write(self, opened):
        dataset = write_dataset(opened.writer)
        opened.writer.add_dataset(dataset)
        number = len(opened.writer._steps)
        inputs = (source().id, *(run.output for run in self.runs[-2:]))
        opened.writer.add_dataset(source(properties={"number": number}))
        opened.writer.add_step(Step(number, dataset.id, inputs, (), {"n": number}, b"x"))
        opened.folders.add(dataset.id)

    @rule(opened=consumes(writers))
    def commit(self, opened):
        self.live.remove(opened)
        if opened.folders:
            self.runs.append(opened.writer.commit(seconds=1, versions={}))
            self.kept |= opened.folders
        opened.writer.abandon()

    @rule(opened=consumes(writers))
    def abandon(self, opened):
        self.live.remove(opened)
        opened.writer.abandon()

    @rule(opened=consumes(writers), elsewhere=st.booleans())
    def die(self, opened, elsewhere):
        opened.writer._close()
        gone = {"host": "elsewhere", "heartbeat": 0} if elsewhere else {"pid": DEAD}
        change_writer(self.archive, opened.writer.run_id, **gone)
        self.live.remove(opened)
        self.left |= opened.folders
        self.dead.add(opened.writer.run_id)

    @rule()
    def gc(self):
        would = self.archive.gc(dry_run=True)
        report = self.archive.gc()
        assert set(report.datasets) == set(would.datasets) == self.left
        assert report.bytes == would.bytes == 101 * len(self.left)
        assert report.writers == len(self.dead)
        assert report.failed == ()
        self.left, self.dead = set(), set()

    @rule()
    def reopen(self):
        self.archive = self.place.open()

    @invariant()
    def runs_are_those_committed(self):
        assert self.archive.runs() == self.runs
        assert_whole(self.archive)

    @invariant()
    def folders_are_those_written(self):
        writing = {folder for opened in self.live for folder in opened.folders}
        assert folders(self.archive) == self.kept | self.left | writing
        assert writer_ids(self.archive) == self.dead | {o.writer.run_id for o in self.live}

    @invariant()
    def every_output_is_found_where_it_lies(self):
        for run in self.runs[-1:]:
            found = self.archive.dataset_at(
                str(Path(self.archive.location, "datasets", run.output))
            )
            assert found is not None
            assert self.archive.producer(found.id) == (run, run.steps[-1])

    def teardown(self):
        for opened in self.live:
            opened.writer.abandon()


def test_any_order_of_events(new_place, request):
    on_server = "postgresql" in request.node.callspec.id
    run_state_machine_as_test(
        lambda: Machine(new_place),
        settings=settings(
            max_examples=5 if on_server else 12,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
