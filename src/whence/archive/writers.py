"""Who is writing: writers register in the catalog before their first file, and keep a lease.

A writer is dead when its process on this machine is gone, or when it runs elsewhere and has not
renewed its lease. Once marked dead it cannot commit, so its files can be removed safely.
"""

import os
import re
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select, update

from whence.archive.catalog import Catalog
from whence.archive.format_1 import now, writers
from whence.errors import ArchiveError

LEASE_SECONDS = 600
RENEW_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Process:
    """A process that cannot be taken for another one, not even for a later one with its number."""

    host: str
    pid: int
    start: str | None


@dataclass(frozen=True, slots=True)
class Writer:
    """A registered writer, as the catalog shows it."""

    id: str
    process: Process
    heartbeat: int
    dead: bool

    def is_live(self) -> bool:
        """Whether it may still write and commit."""
        if self.dead:
            return False
        here = this_process()
        if self.process == here:
            return True
        if self.process.host == here.host and os.name == "posix":
            return _runs(self.process)
        return now() - self.heartbeat < LEASE_SECONDS * 1_000_000


def this_process() -> Process:
    """The process that asks."""
    return Process(_host(), os.getpid(), _start(os.getpid()))


def _host() -> str:
    """Names the machine, its boot and the container: in these, process numbers mean the same."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()} {boot} {space}"


def _status(pid: int) -> list[str] | None:
    """State and what follows in /proc/PID/stat; None where that cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return re.sub(r"^.*\)", "", text, flags=re.DOTALL).split()


def _start(pid: int) -> str | None:
    status = _status(pid)
    return status[19] if status and len(status) > 19 else None


def _runs(process: Process) -> bool:
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is there and belongs to somebody else
        pass
    status = _status(process.pid)
    if status is None or len(status) < 20:
        return True
    return status[0] not in ("Z", "X") and process.start in (None, status[19])


def load_writers(connection: Connection) -> list[Writer]:
    """All registered writers."""
    return [
        Writer(row.id, Process(row.host, row.pid, row.process_start), row.heartbeat, row.dead)
        for row in connection.execute(select(writers).order_by(writers.c.started))
    ]


def mark_dead(catalog: Catalog, writer_id: str, heartbeat: int | None = None) -> bool:
    """Make sure that a writer never commits; False if it is no longer there or has renewed.

    With `heartbeat` it is marked only if it gave no sign of life since that one.
    """
    chosen = writers.c.id == writer_id
    if heartbeat is not None:
        chosen &= writers.c.heartbeat == heartbeat
    change = update(writers).where(chosen).values(dead=True)
    return catalog.write(lambda connection: connection.execute(change).rowcount) == 1


def forget_writer(catalog: Catalog, writer_id: str) -> None:
    """Remove a writer that is marked dead, when none of its files are left."""
    removed = delete(writers).where(writers.c.id == writer_id, writers.c.dead)
    catalog.write(lambda connection: connection.execute(removed))


def release(connection: Connection, writer_id: str) -> bool:
    """Take a writer out in the transaction that commits its run; False if it was marked dead."""
    removed = delete(writers).where(writers.c.id == writer_id, writers.c.dead.is_(False))
    return connection.execute(removed).rowcount == 1


class Lease:
    """Registers a writer, and renews its heartbeat in the background until it is stopped."""

    def __init__(self, catalog: Catalog, writer_id: str) -> None:
        self._catalog, self._id = catalog, writer_id
        self._stopped = threading.Event()
        process, moment = this_process(), now()
        row = {
            "id": writer_id,
            "host": process.host,
            "pid": process.pid,
            "process_start": process.start,
            "started": moment,
            "heartbeat": moment,
            "dead": False,
        }
        catalog.write(lambda connection: connection.execute(insert(writers), row))
        threading.Thread(target=self._keep, name=f"whence-{writer_id}", daemon=True).start()

    def renew(self) -> bool:
        """Show a sign of life; False if the writer was marked dead meanwhile."""
        chosen = (writers.c.id == self._id) & writers.c.dead.is_(False)
        change = update(writers).where(chosen).values(heartbeat=now())
        return self._catalog.write(lambda connection: connection.execute(change).rowcount) == 1

    def stop(self) -> None:
        """End the renewals."""
        self._stopped.set()

    def _keep(self) -> None:
        while not self._stopped.wait(RENEW_SECONDS):
            try:
                if not self.renew():
                    return
            except ArchiveError:  # the catalog is out of reach for now; the lease outlasts many
                continue
