"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

RunArgument = Annotated[
    str, typer.Argument(metavar="[RUN]", help="Name, id or start of an id; else the latest.")
]
ArchiveOption = Annotated[
    str, typer.Option(metavar="DIR", envvar="WHENCE_ARCHIVE", help="Folder or URL of the archive.")
]
CatalogOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar="WHENCE_CATALOG", help="SQLAlchemy URL, if it is not in the folder."
    ),
]
FormatOption = Annotated[
    Literal["table", "json", "csv"], typer.Option("--format", "-f", help="How to print.")
]
TraceFormatOption = Annotated[
    Literal["table", "json", "csv", "html"],
    typer.Option("--format", "-f", help="How to print; html shows cells in nested tables."),
]
PatternOption = Annotated[
    str | None,
    typer.Option(metavar="PATTERN", help="Which cells and nested items: //id = 7, tags[name]."),
]
WhereOption = Annotated[
    str | None,
    typer.Option(metavar="SQL", help="Which rows: a predicate in Spark's SQL."),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Rows of each table; else 10 in tables, all in json and csv."
    ),
]
