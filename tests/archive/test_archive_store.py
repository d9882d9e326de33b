"""What every archive must do, whatever its catalog: the conformance suite of the store."""

import string
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from archive_kit import (
    NewPlace,
    Place,
    assert_whole,
    fill,
    folders,
    own_ids,
    source,
    write_dataset,
    write_run,
    writer_ids,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.archive import Archive, DataFile, Dataset, Step
from whence.errors import ArchiveError, SelectionError, UnknownNameError

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
whole = st.integers(0, 2**62)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
mappings = st.dictionaries(st.text(max_size=8), json_values, max_size=4)
data_files = st.lists(
    st.builds(DataFile, text, st.integers(0, 2**23 - 1), whole, whole, st.none() | whole),
    max_size=5,
    unique_by=lambda file: file.slot,
).map(tuple)
sources = st.builds(
    Dataset,
    id=st.text(string.hexdigits, min_size=1).map("s".__add__),
    kind=st.sampled_from(["source", "range"]),
    name=text,
    location=text,
    schema=text,
    fingerprint=text,
    files=data_files,
    rows=st.none() | whole,
    bytes=whole,
    properties=mappings,
)


@pytest.fixture(scope="module")
def shared(new_place: NewPlace) -> Archive:
    return new_place().open(create=True)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(sources, max_size=3, unique_by=lambda dataset: dataset.id),
    text.filter(lambda name: name not in ("", "latest")),
    mappings,
    st.none() | st.binary(max_size=100),
    st.floats(0, 1e9),
    st.dictionaries(text, text, max_size=3),
)
def test_what_is_written_is_read(
    shared, given_sources, name, document, attachment, seconds, versions
):
    with shared.writer(name, "auto") as writer:
        known = {dataset.id for dataset in shared.datasets()}
        fresh = [dataset for dataset in given_sources if dataset.id not in known]
        output = write_dataset(writer, properties=document, name=name)
        for dataset in (*fresh, output):
            writer.add_dataset(dataset)
        inputs = tuple(dataset.id for dataset in fresh) * 2  # a self join reads one source twice
        writer.add_step(Step(0, output.id, inputs, (), document, attachment))
        run = writer.commit(seconds=seconds, versions=versions)
    assert shared.run(run.id) == run == shared.runs()[-1]
    assert (run.name, run.mode, run.seconds, run.versions) == (name, "auto", seconds, versions)
    assert run.steps == (Step(0, output.id, inputs, (), document, None),)
    assert shared.attachment(run.id, 0) == attachment
    assert [shared.dataset(dataset.id) for dataset in (*fresh, output)] == [*fresh, output]


def test_many_steps(archive):
    with archive.writer("workflow", "lazy") as writer:
        outputs = [write_dataset(writer, name=f"step {number}") for number in range(3)]
        before: tuple[str, ...] = ()
        for number, output in enumerate(outputs):
            writer.add_dataset(output)
            writer.add_step(Step(number, output.id, before, (), {"n": number}, bytes([number])))
            before += (output.id,)
        run = writer.commit(seconds=1, versions={})
    assert archive.run("workflow") == run
    assert run.output == outputs[2].id
    assert [step.inputs for step in run.steps] == [before[:0], before[:1], before[:2]]
    assert [archive.attachment(run.id, n) for n in range(4)] == [b"\0", b"\1", b"\2", None]
    found = archive.producer(outputs[1].id)
    assert found == (run, run.steps[1])
    assert archive.producer("nothing") is None


def test_a_run_is_seen_only_after_its_commit(place):
    archive = place.open(create=True)
    other = place.open()
    with archive.writer("late", "eager") as writer:
        output = fill(writer)
        assert other.runs() == other.datasets() == []
        assert other.dataset_at(other.location + "/datasets/" + output.id) is None
        run = writer.commit(seconds=1, versions={})
        assert other.runs() == [run]
    assert other.runs() == [run]
    assert writer_ids(archive) == set()
    assert_whole(other)


def test_created_is_the_time_of_the_commit_in_utc(archive):
    before = datetime.now(UTC)
    run = write_run(archive)
    assert before - timedelta(seconds=1) <= run.created <= datetime.now(UTC)
    assert archive.run(run.id).created == run.created
    assert run.created.tzinfo == UTC


def test_a_run_is_found_by_id_prefix_name_and_latest(archive):
    first, second = write_run(archive, "late"), write_run(archive, "late")
    other = write_run(archive, None)
    assert archive.run(first.id) == first
    assert archive.run("late") == second
    assert archive.run("latest") == other == archive.run(other.name)
    assert archive.run(first.id[:12]) == first
    assert [run.id for run in archive.runs()] == [first.id, second.id, other.id]


def test_a_name_that_looks_like_an_id_does_not_hide_the_id(archive):
    first = write_run(archive)
    named = write_run(archive, first.id)
    assert archive.run(first.id) == first
    assert archive.run(named.id) == named


def test_unknown_run_offers_the_nearest(archive):
    with pytest.raises(UnknownNameError, match="there are none"):
        archive.run("latest")
    write_run(archive, "late-orders")
    with pytest.raises(UnknownNameError, match="did you mean 'late-orders'"):
        archive.run("late-order")
    with pytest.raises(UnknownNameError, match="no run named '%'"):
        archive.run("%")


def test_ambiguous_prefix_lists_the_runs(archive):
    seen: dict[str, str] = {}
    for _ in range(17):  # of 17 ids two start with the same digit
        run = write_run(archive)
        if run.id[0] in seen:
            break
        seen[run.id[0]] = run.id
    with pytest.raises(SelectionError, match=f"{run.id}") as caught:
        archive.run(run.id[0])
    assert seen[run.id[0]] in str(caught.value)


@pytest.mark.parametrize("name", ["latest", ""])
def test_names_that_no_run_can_have(archive, name):
    with pytest.raises(SelectionError):
        archive.writer(name, "eager")
    assert writer_ids(archive) == set()


def test_unknown_dataset(archive):
    with pytest.raises(UnknownNameError, match="no dataset named 'x'"):
        archive.dataset("x")


def test_chained_runs_link_by_location(archive):
    first = write_run(archive)
    path = archive.path(archive.dataset(first.output))
    for spelling in (
        path,
        path + "/",
        f"file:{path}",
        f"file://{path}/",
        f"{path}/../{first.output}",
    ):
        found = archive.dataset_at(spelling)
        assert found is not None
        assert found.id == first.output
    second = write_run(archive, "next", [first.output])
    assert archive.run("next").steps[0].inputs[-1] == first.output
    assert archive.producer(second.steps[0].inputs[-1]) == (first, first.steps[0])


def test_nothing_else_is_at_a_location(archive, tmp_path):
    run = write_run(archive)
    top = Path(archive.location)
    for path in (
        top,
        top / "datasets",
        top / "datasets" / "00",
        tmp_path / "datasets" / run.output,
    ):
        assert archive.dataset_at(str(path)) is None
    assert archive.dataset_at(f"s3a://bucket/datasets/{run.output}") is None


def test_an_archive_is_found_through_a_link(archive, tmp_path, place):
    run = write_run(archive)
    link = tmp_path / "link to it"
    link.symlink_to(archive.location)
    linked = Archive.open(link, catalog=place.catalog)
    assert linked.runs() == [run]
    for opened in (archive, linked):
        found = opened.dataset_at(f"file://{tmp_path}/link%20to%20it/datasets/{run.output}")
        assert found is not None


def test_an_archive_can_be_moved(place, tmp_path):
    run = write_run(place.open(create=True))
    place.location.rename(tmp_path / "elsewhere")
    moved = Place(tmp_path / "elsewhere", place.catalog).open()
    assert moved.runs() == [run]
    assert_whole(moved)


def test_a_snapshot_is_used_again(archive):
    assert archive.snapshot("key") is None
    with archive.writer("first", "eager") as writer:
        snapshot = write_dataset(writer, "snapshot", properties={"version": "key"})
        output = fill(writer)
        writer.add_dataset(snapshot)
        assert archive.snapshot("key") is None
        writer.commit(seconds=1, versions={})
    assert archive.snapshot("key") == snapshot
    with archive.writer("second", "eager") as writer:
        writer.add_dataset(snapshot)
        fill(writer, [snapshot.id, output.id])
        run = writer.commit(seconds=1, versions={})
    assert archive.run("second") == run
    assert archive.snapshot("key") == snapshot
    assert archive.snapshot("other") is None
    assert_whole(archive)


def test_of_two_equal_snapshots_the_first_committed_is_used(archive):
    written = []
    for _ in range(2):
        with archive.writer("run", "eager") as writer:
            fill(writer)
            written.append(write_dataset(writer, "snapshot", properties={"version": "key"}))
            writer.add_dataset(written[-1])
            writer.commit(seconds=1, versions={})
    assert archive.snapshot("key") == written[0]


def test_a_known_source_is_renewed_but_keeps_its_slots(archive):
    write_run(archive)
    with archive.writer("renewed", "eager") as writer:
        fill(writer)
        writer.add_dataset(source(name="orders", properties={"new": 1}))
        writer.commit(seconds=1, versions={})
    assert archive.dataset("source-orders").properties == {"new": 1}
    assert archive.dataset("source-orders").files == source().files
    swapped = tuple(
        DataFile(file.path, 1 - file.slot, file.size, file.modified) for file in source().files
    )
    with (
        pytest.raises(ArchiveError, match="other slots"),
        archive.writer("swapped", "eager") as writer,
    ):
        fill(writer)
        writer.add_dataset(source(files=swapped))
        writer.commit(seconds=1, versions={})
    assert archive.dataset("source-orders").files == source().files
    assert [run.name for run in archive.runs()] == ["late", "renewed"]
    assert folders(archive) == own_ids(archive)


def test_paths_of_files(archive):
    run = write_run(archive)
    output = archive.dataset(run.output)
    folder = f"{archive.location}/datasets/{output.id}"
    assert archive.path(output) == folder
    assert archive.file_paths(output) == [
        f"{folder}/part-0.parquet",
        f"{folder}/day=1/part-1.parquet",
    ]
    orders = archive.dataset("source-orders")
    assert archive.path(orders) == orders.location
    assert archive.file_paths(orders) == [file.path for file in orders.files]


def test_without_commit_nothing_is_left(archive):
    with archive.writer("idle", "eager") as writer:
        fill(writer)
    with pytest.raises(ZeroDivisionError), archive.writer("failing", "eager") as writer:
        fill(writer)
        raise ZeroDivisionError
    assert archive.runs() == []
    assert folders(archive) == writer_ids(archive) == set()


def test_folders_that_were_not_added_go_with_the_commit(archive):
    with archive.writer("late", "eager") as writer:
        fill(writer)
        spare = write_dataset(writer)
        run = writer.commit(seconds=1, versions={})
    assert spare.id not in folders(archive)
    assert folders(archive) == own_ids(archive)
    assert archive.run("late") == run


def test_new_dataset_names_a_folder_that_is_not_there(archive):
    with archive.writer("late", "eager") as writer:
        issued = [writer.new_dataset() for _ in range(300)]
    assert len({dataset_id for dataset_id, _ in issued}) == 300
    for dataset_id, folder in issued:
        assert folder == f"{archive.location}/datasets/{dataset_id}"
        assert not Path(folder).exists()


def test_a_missing_or_shortened_file_is_noticed_at_commit(archive):
    for change, message in (
        (lambda path: path.unlink(), "should have 50 bytes, but it is not there"),
        (lambda path: path.write_bytes(b"x"), "should have 50 bytes, but it has 1 bytes"),
    ):
        with pytest.raises(ArchiveError, match=message), archive.writer("a", "eager") as writer:
            output = fill(writer)
            change(Path(archive.file_paths(output)[0]))
            writer.commit(seconds=1, versions={})
    assert archive.runs() == []
    assert folders(archive) == set()


def test_a_commit_that_failed_can_be_tried_again(archive):
    with archive.writer("late", "eager") as writer:
        path = Path(archive.file_paths(fill(writer))[0])
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(ArchiveError):
            writer.commit(seconds=1, versions={})
        path.write_bytes(content)
        run = writer.commit(seconds=1, versions={})
    assert archive.runs() == [run]
    assert_whole(archive)


def test_a_run_that_does_not_hold_together_is_refused(archive):
    def refused(message, work):
        with pytest.raises(ArchiveError, match=message), archive.writer("bad", "eager") as writer:
            work(writer)
            writer.commit(seconds=1, versions={})
        assert archive.runs() == []
        assert folders(archive) == set()

    refused("no steps", lambda w: w.new_dataset())
    refused("expected 0", lambda w: w.add_step(Step(1, "x", (), (), {}, None)))
    refused("step 0 was not added", lambda w: w.add_step(Step(0, "x", (), (), {}, None)))
    refused("refers to dataset x", lambda w: fill(w, ["x"]))
    refused("must lie in", lambda w: w.add_dataset(write_dataset(w, location="/elsewhere")))
    refused("as JSON", lambda w: w.add_dataset(source(properties={"a": object()})))
    twice = (DataFile("a", 0, 1, 1), DataFile("b", 0, 1, 1))
    refused("same slot", lambda w: w.add_dataset(source(files=twice)))
    outside = (DataFile("../x", 0, 1, 1),)
    refused("inside its folder", lambda w: w.add_dataset(write_dataset(w, files=outside)))
    refused("catalog", lambda w: (fill(w), w.add_dataset(source(bytes=2**70))))


def test_after_commit_a_writer_is_closed(archive):
    with archive.writer("late", "eager") as writer:
        output = fill(writer)
        writer.commit(seconds=1, versions={})
        for again in (
            lambda: writer.commit(seconds=1, versions={}),
            writer.new_dataset,
            lambda: writer.add_dataset(output),
            lambda: writer.add_step(Step(1, output.id, (), (), {}, None)),
        ):
            with pytest.raises(ArchiveError, match="committed or abandoned"):
                again()
        writer.abandon()
    assert_whole(archive)
