"""Every value in the rows of a sealed archive's catalog, changed one by one: which are noticed."""

from pathlib import Path
from typing import Any

import pytest
from sealing_kit import pick_run, seal_picked, write_source
from sqlalchemy import Column, Table, and_, select, update
from sqlalchemy.sql.sqltypes import Text

from whence.archive import Archive, catalog, format_1, ledger
from whence.archive.sealer import Sealer
from whence.archive.verify import verify
from whence.errors import WhenceError

pytestmark = pytest.mark.full

TABLES = [
    table
    for metadata in (catalog.header_metadata, format_1.metadata, ledger.metadata)
    for table in metadata.sorted_tables
]
# Of the two, docs/design/seal.md says that they are not covered where the catalog is on a server;
# in a file, the head knows its bytes.
UNCOVERED = {("format", "created"), ("seal_counters", "value")}


def another(value: Any, column: Column[Any]) -> Any:
    if value is None:
        return "x" if isinstance(column.type, Text) else 7
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, bytes):
        return value + b"x"
    return value[:-1] + ("1" if value.endswith("0") else "0")


def is_noticed(archive: Archive) -> bool:
    """By something else than the bytes of the catalog's file."""
    try:
        report, _, _ = verify(archive.location, catalog=archive.catalog.url)
    except WhenceError:
        return True
    return any("head" not in str(finding) for finding in report.findings)


def change(archive: Archive, table: Table, row: dict[str, Any], name: str, value: Any) -> bool:
    """Change one value of a row; False where the database itself refuses."""
    at = and_(*(key == row[key.name] for key in table.primary_key.columns))
    command = update(table).where(at).values({name: value})
    try:
        count = archive.catalog.write(lambda c: c.execute(command).rowcount)
    except WhenceError:
        return False
    assert count == 1
    return True


def test_changed_values(archive: Archive, tmp_path: Path) -> None:
    source = write_source(tmp_path / "source")
    for number in range(2):
        run = pick_run(archive, source, f"run {number}", [number, number + 1])
        with Sealer(archive) as sealer:
            seal_picked(sealer, run, source)
    assert not is_noticed(archive)
    missed, tried = set(), 0
    for table in TABLES:
        found = archive.catalog.read(lambda c, table=table: c.execute(select(table)).all())
        for row in [dict(entry._mapping) for entry in found[:6]]:
            for column in table.columns:
                value = another(row[column.name], column)
                if change(archive, table, row, column.name, value):
                    tried += 1
                    if not is_noticed(archive):
                        missed.add((table.name, column.name))
                    changed = {**row, column.name: value}
                    assert change(archive, table, changed, column.name, row[column.name])
        assert not is_noticed(archive)
    assert missed == UNCOVERED
    assert tried > 100
