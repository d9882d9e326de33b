"""The SQL catalog: opening and making one, short transactions, and errors that people understand.

Every transaction opens a connection of its own and closes it: nothing is left open between calls,
threads and forked processes need no care, and nobody has to close an archive.
"""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    URL,
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    NullPool,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from whence.archive import format_1, layout
from whence.errors import ArchiveError, FormatError, WhenceError

T = TypeVar("T")

# The one table that every format has, so that any version of whence can tell which it faces.
header_metadata = MetaData()
_header = Table(
    "format",
    header_metadata,
    Column("version", Integer, nullable=False, primary_key=True, autoincrement=False),
    Column("archive", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
)

_BUSY_SECONDS = 20
_ATTEMPTS = 5
# The last is PostgreSQL's for a table that another one made just now.
_PASSING = ("SQLITE_BUSY", "SQLITE_LOCKED", "40001", "40P01", "42P07")

# Start of a driver's error code, and what a person needs to know about it.
_MEANING = (
    ("SQLITE_FULL", "no space left on disk; the archive is unchanged: free some space"),
    ("53100", "no space left on the server's disk; the archive is unchanged"),
    ("SQLITE_IOERR", "the disk failed or is full; the archive is unchanged"),
    ("SQLITE_NOTADB", "this is not an SQLite file: the catalog is damaged, or it is another file"),
    ("SQLITE_CORRUPT", "the catalog is damaged; bring back a copy of it"),
    ("SQLITE_BUSY", "another process keeps the catalog locked; try again"),
    ("SQLITE_READONLY", "the catalog can only be read; nothing was written"),
    ("SQLITE_CANTOPEN", "the catalog cannot be opened; look at its folder and permissions"),
)


class Catalog:
    """A catalog of the format that this version of whence writes."""

    def __init__(self, url: URL, shown: str) -> None:
        self._shown = shown
        self.url: str | None = None
        """How a catalog that is not in the archive's folder was given."""
        with self._errors():
            self._engine = _engine(url)
        self.archive_id = ""
        self.is_new = False

    @classmethod
    def open(cls, url: str | Path, *, create: bool) -> "Catalog":
        """Open the catalog at an SQLAlchemy URL or in an SQLite file; make it if asked to."""
        parsed = _parse(url)
        shown = str(url) if isinstance(url, Path) else parsed.render_as_string()
        catalog = cls(parsed, shown)
        catalog.url = None if isinstance(url, Path) else url
        path = _sqlite_path(parsed)
        version = None if path and not path.exists() else catalog._version()
        if version is None and create:
            catalog._create()
            version = catalog._version()
        if version is None:
            raise ArchiveError(
                f"{shown} holds no archive of whence; capturing a run into it makes one"
            )
        if version != format_1.VERSION:
            raise FormatError(
                f"the archive at {shown} is of format {version}; this version of whence reads "
                f"format {format_1.VERSION}: "
                + ("install a newer whence" if version > format_1.VERSION else "use an older one")
            )
        catalog.archive_id = catalog.read(
            lambda connection: connection.execute(select(_header.c.archive)).scalar_one()
        )
        return catalog

    def read(self, work: Callable[[Connection], T]) -> T:
        """What `work` reads, all of it from one state of the catalog."""
        with self._errors(), self._engine.connect() as connection:
            level = {} if self._is_sqlite else {"isolation_level": "REPEATABLE READ"}
            connection.execution_options(**level)
            with connection.begin():
                return work(connection)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in one transaction; done again from its start where another one got between."""
        for attempt in range(_ATTEMPTS):
            try:
                with self._errors(), self._engine.connect() as connection:
                    connection.execution_options(whence_writes=True)
                    with connection.begin():
                        return work(connection)
            except ArchiveError as error:
                if attempt == _ATTEMPTS - 1 or not _is_passing(error.__cause__):
                    raise
                time.sleep(random.uniform(0.01, 0.05) * 2**attempt)
        raise AssertionError("unreachable")

    @property
    def _is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    def _version(self) -> int | None:
        def probe(connection: Connection) -> int | None:
            if not inspect(connection).has_table(_header.name):
                return None
            return connection.execute(select(_header.c.version)).scalar()

        version = self.read(probe)
        if version is not None and not isinstance(version, int):
            raise ArchiveError(f"{self._shown} is damaged: its format is {version!r}")
        return version

    def _create(self) -> None:
        def make(connection: Connection) -> bool:
            header_metadata.create_all(connection)
            if connection.execute(select(_header.c.version)).first():
                return False
            format_1.metadata.create_all(connection)
            row = {
                "version": format_1.VERSION,
                "archive": layout.new_run_id(),
                "created": format_1.now(),
            }
            connection.execute(insert(_header), row)
            return True

        try:
            self.is_new = self.write(make)
        except ArchiveError:
            if self._version() is None:  # else another process made it at the same moment
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what the database raises into an `ArchiveError`."""
        try:
            yield
        except WhenceError:
            raise
        except SQLAlchemyError as error:
            raise ArchiveError(f"catalog {self._shown}: {_explain(error)}") from error
        except ImportError as error:
            raise ArchiveError(
                f"catalog {self._shown} needs the Python package {error.name!r}; for PostgreSQL "
                "install whence[postgresql]"
            ) from error
        except (ValueError, TypeError, LookupError, ArithmeticError, OSError) as error:
            raise ArchiveError(
                f"catalog {self._shown} holds, or was given, a value that it cannot hold: {error}"
            ) from error


def _parse(url: str | Path) -> URL:
    if isinstance(url, Path):
        return URL.create("sqlite", database=str(url))
    try:
        parsed = make_url(url)
    except SQLAlchemyError as error:
        raise ArchiveError(
            f"the catalog must be an SQLAlchemy URL such as postgresql://host/database: {error}"
        ) from error
    if parsed.drivername == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            raise ArchiveError("a catalog in memory is lost at once; give it a file or a server")
        if not str(parsed.database).startswith("file:"):
            return parsed.set(database=str(Path(str(parsed.database)).resolve()))
    return parsed


def _sqlite_path(url: URL) -> Path | None:
    """The SQLite file of a URL: merely connecting would make an empty one."""
    if url.get_backend_name() != "sqlite" or str(url.database).startswith("file:"):
        return None
    return Path(str(url.database))


@lru_cache(maxsize=16)
def _engine(url: URL) -> Engine:
    """The engine of a URL; it has no connections, but the statements that it compiled."""
    if url.get_backend_name() != "sqlite":
        return create_engine(url, poolclass=NullPool, hide_parameters=True)
    engine = create_engine(
        url,
        poolclass=NullPool,
        hide_parameters=True,
        connect_args={"timeout": _BUSY_SECONDS},
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver begins no transactions; `_begin_sqlite` does
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")


def _begin_sqlite(connection: Connection) -> None:
    """Writers lock at once: two that first read and then write would block each other."""
    writes = connection.get_execution_options().get("whence_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _code(error: BaseException | None) -> str:
    original = getattr(error, "orig", None)
    found = getattr(original, "sqlite_errorname", None) or getattr(original, "sqlstate", None)
    return str(found or "")


def _is_passing(error: BaseException | None) -> bool:
    """Whether the same work may well succeed when done again."""
    return isinstance(error, IntegrityError) or _code(error).startswith(_PASSING)


def _explain(error: SQLAlchemyError) -> str:
    reason = str(getattr(error, "orig", None) or error).strip()
    code = _code(error)
    meaning = next((text for start, text in _MEANING if code.startswith(start)), None)
    return f"{meaning} ({reason})" if meaning else reason
