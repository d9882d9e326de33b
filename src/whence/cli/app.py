"""The commands: each opens an archive, asks one question and prints the answer."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from whence.cli.errors import Commands
from whence.cli.options import (
    ArchiveOption,
    CatalogOption,
    FormatOption,
    LimitOption,
    PatternOption,
    RunArgument,
    TraceFormatOption,
    WhereOption,
)

if TYPE_CHECKING:
    from whence.api import Archive
    from whence.present import Format, Report
    from whence.trace.patterns import Pattern

app = typer.Typer(
    name="whence",
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line.

    What is registered to be done at exit is done; the interpreter is not taken apart, which would
    take a tenth of a second and do nothing for anyone.
    """
    try:
        app()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(end.code)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        typer.echo(f"whence {metadata.version('whence')}")
        raise typer.Exit


@app.callback()
def whence(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Where did this row come from? Questions about captured PySpark pipelines.

    \b
    Exit codes:
      0  answered
      1  a check found differences
      2  wrong usage, malformed SQL, or a name that does not exist
      3  the archive or a source cannot be read, or has changed
      4  the answer needs Spark, which cannot be had
    """


@app.command()
def runs(
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """List the runs of an archive, newest last.

    \b
    Example:
      whence runs --archive provenance
    """
    from whence.present import runs_report

    store = _open(archive, catalog).store
    _print(runs_report(store, store.runs()), format)


@app.command()
def show(
    run: RunArgument = "latest",
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Show a run: its plan as a tree, with rows and bytes, and what it stored.

    Bytes beside an operator are those of its source, or of what was stored for it.

    \b
    Example:
      whence show late-orders
    """
    from whence.present import show_report

    found = _open(archive, catalog).run(run)
    _print(show_report(found.stored, found.archive.tables), format)


@app.command()
def trace(
    run: RunArgument = "latest",
    where: WhereOption = None,
    pattern: PatternOption = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the rows of this source.")
    ] = None,
    how: Annotated[
        bool, typer.Option("--how", help="Also how they were combined: · together, + added up.")
    ] = False,
    cells: Annotated[
        bool, typer.Option("--cells", help="Also the cells behind cells, where arrays were used.")
    ] = False,
    limit: LimitOption = None,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: TraceFormatOption = "table",
) -> None:
    """Find the input rows behind chosen output rows; without --where, behind all.

    With --pattern, find the input cells behind cells and nested items of the output.

    \b
    Examples:
      whence trace late-orders --where "o_orderkey = 7" --how
      whence trace tweets --pattern "//id_str = 'lp', tweets[text = 'Hello World']"
    """
    from whence.present import cells_report, trace_report

    if where is not None and pattern is not None:
        raise typer.BadParameter("give --where or --pattern, not both")
    found = _open(archive, catalog).run(run)
    if format == "html":
        from whence.present.html import page

        answer = found.trace(where if pattern is None else _pattern(pattern))
        typer.echo(page(answer, f"{found.name}: {pattern or where or 'all rows'}", rows=limit))
        return
    if pattern is not None:
        answer = found.trace(_pattern(pattern))
        shown = _limit(limit, format)
        _print(
            cells_report(found.stored, answer, pattern, source=source, how=how, limit=shown), format
        )
        return
    answer = found.trace(where)
    _print(
        trace_report(
            found.stored,
            answer,
            where=where,
            source=source,
            how=how,
            cells=cells,
            limit=_limit(limit, format),
        ),
        format,
    )


@app.command()
def impact(
    names: Annotated[
        list[str], typer.Argument(metavar="[RUN] SOURCE", help="A run (else the latest), a source.")
    ],
    where: WhereOption = None,
    limit: LimitOption = None,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Find the output rows that chosen rows of a source took part in.

    \b
    Example:
      whence impact late-orders customer --where "c_custkey = 392"
    """
    from whence.present import impact_report

    if len(names) > 2:
        raise typer.BadParameter(f"give a run and a source, not {len(names)} names")
    run = names[0] if len(names) == 2 else "latest"
    found = _open(archive, catalog).run(run)
    answer = found.impact(names[-1], where)
    _print(impact_report(found.stored, answer, where=where, limit=_limit(limit, format)), format)


@app.command()
def check(
    run: RunArgument = "latest",
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many output rows to replay.")
    ] = 20,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Replay sampled output rows on only their traced inputs. Needs Spark.

    Exits with 1 if a row did not come out again.

    \b
    Example:
      whence check late-orders --sample 5
    """
    from whence.present import check_report

    found = _open(archive, catalog).run(run)
    answer = found.check(sample=sample)
    _print(check_report(found.stored, answer), format)
    if not answer.ok:
        raise typer.Exit(1)


@app.command()
def gc(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    grace: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0, help="Spare files of unknown origin changed so recently."
        ),
    ] = 3600,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Remove files that captures which died have left behind. Runs are never touched.

    Exits with 3 if something could not be removed.

    \b
    Example:
      whence gc --dry-run
    """
    from whence.present import gc_report

    found = _open(archive, catalog).gc(grace_seconds=grace, dry_run=dry_run)
    _print(gc_report(found), format)
    if found.failed:
        raise typer.Exit(3)


from whence.cli import sealing  # noqa: E402  its commands join the others

sealing.add_to(app)


def _open(archive: str, catalog: str | None) -> Archive:
    from whence import api

    return api.open(archive, catalog=catalog)


def _pattern(text: str) -> Pattern:
    from whence.trace.patterns import pattern

    return pattern(text)


def _limit(limit: int | None, format: Format) -> int | None:
    """People see a few rows; programs get all of them."""
    return 10 if limit is None and format == "table" else limit


def _print(report: Report, format: Format) -> None:
    from whence.present import write

    write(report, format, sys.stdout)
