"""What somebody added to the catalog that changes or hides rows by itself, or that nothing reads.

An SQLite file is whence's alone, so nothing else may be in it. On a server only whence's own tables
are looked at: others may keep theirs beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, select, text

from whence.archive import catalog, format_1, ledger
from whence.archive.ledger import SealSettings

_SQLITE = text("SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')")
_POSTGRESQL = text(
    "WITH own AS (SELECT CAST(to_regclass(n) AS oid) AS id FROM unnest(CAST(:own AS text[])) AS n) "
    "SELECT 'trigger', tgname FROM pg_trigger JOIN own ON id = tgrelid WHERE NOT tgisinternal "
    "UNION ALL SELECT 'rule', rulename FROM pg_rewrite JOIN own ON id = ev_class "
    "WHERE rulename <> '_RETURN' "
    "UNION ALL SELECT 'row security of', relname FROM pg_class JOIN own ON id = oid "
    "WHERE relrowsecurity "
    "UNION ALL SELECT 'view', relname FROM pg_class JOIN own ON id = oid "
    "WHERE relkind IN ('v', 'm', 'f')"
)


def added(connection: Connection) -> Iterator[tuple[str, str]]:
    """Kind and name of each addition."""
    for kind, name in _made(connection):
        yield str(kind), str(name)
    if not ledger.is_sealed(connection):
        return
    for table, names in ((ledger.settings, SealSettings().section), (ledger.counters, ["node"])):
        found = connection.execute(select(table.c.name).where(table.c.name.not_in(list(names))))
        for name in found.scalars():
            yield f"row of {table.name}", str(name)


def _made(connection: Connection) -> Iterable[Any]:
    """What changes or hides rows by itself."""
    match connection.dialect.name:
        case "sqlite":
            return connection.execute(_SQLITE)
        case "postgresql":
            parts = (catalog.header_metadata, format_1.metadata, ledger.metadata)
            own = [name for part in parts for name in part.tables]
            return connection.execute(_POSTGRESQL, {"own": own})
        case _:
            return ()
