"""A process for tests to kill: forks one writer per order that it reads from its input.

    lines N   the writer kills itself with SIGKILL before the N-th line of whence.archive
    count     the writer says how many such lines one run takes
    loop      the writer commits one run after another until somebody kills it
    hold      the writer writes files and then waits for ever
    full N    the writer may write files of at most N bytes, and tries a run with more
    many N    the writer commits N runs
    seal N    the writer seals every second run, from the N-th on
    seal-and-hold N   the writer takes the sealer's place, writes a file and waits for ever

Answers, one per line: start PID, commit ID, sealed ID, begun ID, lines N, error TYPE MESSAGE, end.
"""

import importlib
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

from archive_kit import Place, fill, write_run

from whence.archive import Archive
from whence.errors import WhenceError


def say(*words: object) -> None:
    os.write(1, (" ".join(str(word) for word in words).replace("\n", " ") + "\n").encode())


def trace_lines(kill_at: int | None) -> list[int]:
    """Count lines run in whence.archive; SIGKILL this process at the given one."""
    count = [0]

    def local(_frame: Any, event: str, _argument: Any) -> Any:
        if event == "line":
            count[0] += 1
            if count[0] == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return local

    def start(frame: Any, _event: str, _argument: Any) -> Any:
        return local if "/whence/archive/" in frame.f_code.co_filename else None

    sys.settrace(start)
    return count


def big_run(archive: Archive, size: int) -> None:
    with archive.writer("big", "eager") as writer:
        output = fill(writer)
        step = writer._steps.pop()
        writer.add_step(type(step)(0, output.id, (), (), {}, os.urandom(size)))
        writer.commit(seconds=1, versions={})


def obey(archive: Archive, order: str, number: int) -> None:
    match order:
        case "lines":
            trace_lines(number)
            say("commit", write_run(archive).id)
        case "count":
            count = trace_lines(None)
            write_run(archive)
            sys.settrace(None)
            say("lines", count[0])
        case "loop":
            while True:
                say("commit", write_run(archive).id)
        case "hold":
            writer = archive.writer("held", "eager")
            fill(writer)
            say("begun", writer.run_id)
            time.sleep(3600)
        case "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))
            big_run(archive, 2 * number)
        case "many":
            for _ in range(number):
                say("commit", write_run(archive).id)
        case "seal" | "seal-and-hold":
            seal_some(archive, number, order != "seal")


def seal_some(archive: Archive, number: int, hold: bool) -> None:
    from sealing_kit import seal_picked  # here, since most writers seal nothing

    from whence.archive.sealer import Sealer

    for run in archive.runs()[number::2]:
        (source,) = (archive.dataset(found) for found in run.steps[0].inputs)
        with Sealer(archive) as sealer:
            if hold:
                Path(sealer.folder()[1]).mkdir(parents=True)
                say("begun", sealer.id)
                time.sleep(3600)
            say("sealed", seal_picked(sealer, run, source).id)


def writer_process(place: Place, order: str, number: int) -> None:
    say("start", os.getpid())
    try:
        obey(place.open(create=True), order, number)
    except WhenceError as error:
        say("error", type(error).__name__, error)


def main() -> None:
    place = Place(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
    if place.catalog:
        importlib.import_module("psycopg")  # once, not in every fork
    for line in sys.stdin:
        order, _, number = line.strip().partition(" ")
        child = os.fork()
        if child == 0:
            writer_process(place, order, int(number or 0))
            os._exit(0)
        os.waitpid(child, 0)
        say("end")


if __name__ == "__main__":
    main()
