"""Commands of the sealed archive."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from whence.cli.options import (
    ArchiveOption,
    CatalogOption,
    FormatOption,
    RunArgument,
    WhereOption,
)

if TYPE_CHECKING:
    from whence.api import Archive
    from whence.present.report import Format, Report

KeyOption = Annotated[
    str | None,
    typer.Option(metavar="FILE", envvar="WHENCE_KEY", help="Ed25519 private key that signs."),
]
PublicOption = Annotated[
    str | None, typer.Option("--public-key", metavar="HEX", help="Key that must have signed.")
]
ExpectOption = Annotated[
    str | None, typer.Option(metavar="SEAL", help="A seal that must be there, by its id.")
]


def add_to(app: typer.Typer) -> None:
    """Make the commands known."""
    for command in (seal, verify, prove, nodes, compare, uses, du, forget, key, seals):
        app.command()(command)
    app.command("verify-proof")(verify_proof)


def seal(
    run: RunArgument = "latest",
    every: Annotated[bool, typer.Option("--all", help="All runs that are not sealed.")] = False,
    key: KeyOption = None,
    scheme: Annotated[
        Literal["value", "origin", "content"] | None,
        typer.Option(help="What names a source row; fixed by an archive's first seal."),
    ] = None,
    bits: Annotated[
        int | None, typer.Option(metavar="N", help="Bits of a token: 32, 64, 128 or 256.")
    ] = None,
    leaf_digests: Annotated[
        bool | None,
        typer.Option(help="Whether digests of source rows are stored, or recomputed when needed."),
    ] = None,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Seal a run: every node named by its hash, stored once, under one hash. Needs Spark.

    \b
    Example:
      whence seal late-orders --key signing.pem
    """
    from whence.present.sealed import seals_report

    opened = _open(archive, catalog)
    chosen = opened.runs() if every else [opened.run(run)]
    made = [
        found.seal(key=key, scheme=scheme, bits=bits, leaf_digests=leaf_digests) for found in chosen
    ]
    _print(seals_report(made), format)


def seals(
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """List the chain of seals, oldest first."""
    from whence.present.sealed import seals_report

    _print(seals_report(_open(archive, catalog).sealed.seals()), format)


def verify(
    public_key: PublicOption = None,
    expect: ExpectOption = None,
    sources: Annotated[bool, typer.Option(help="Whether sources are checked as well.")] = True,
    tokens: Annotated[
        bool, typer.Option("--tokens", help="Also compute every token again, from the sources up.")
    ] = False,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Check that every byte that seals cover is what it was. Exits with 1 if it is not.

    \b
    Example:
      whence verify --expect 5a8f8f7948c4
    """
    from whence.present.sealed import verify_report
    from whence.verifying import verify_archive

    found = verify_archive(
        archive,
        catalog=catalog,
        public_key=public_key,
        expect=expect,
        sources=sources,
        tokens=tokens,
    )
    _print(verify_report(found), format)
    if not found.ok:
        raise typer.Exit(1)


def prove(
    run: RunArgument = "latest",
    where: WhereOption = None,
    hide: Annotated[bool, typer.Option("--hide", help="Show only hashes of the values.")] = False,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Else standard output.")
    ] = None,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
) -> None:
    """Write a proof that one row of a sealed run was derived that way from its inputs.

    \b
    Example:
      whence prove late-orders --where "o_orderkey = 7" -o proof.json
    """
    text = _open(archive, catalog).run(run).prove(where, hide=hide)
    if output is None:
        sys.stdout.write(text)
    else:
        try:
            Path(output).write_text(text, encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(f"{output} cannot be written: {error.strerror}") from error


def verify_proof(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The proof; - for standard input.")],
    public_key: PublicOption = None,
    expect: ExpectOption = None,
    format: FormatOption = "table",
) -> None:
    """Check a proof, with nothing else at hand. Exits with 1 if it does not hold.

    \b
    Example:
      whence verify-proof proof.json --expect 5a8f8f7948c4
    """
    from whence.archive.proof import verify_proof as check
    from whence.errors import ProofError
    from whence.present.sealed import proof_report

    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        found = check(data.decode(), public_key=public_key, expect=expect)
    except (ProofError, UnicodeDecodeError) as error:
        typer.echo(f"whence: the proof does not hold: {error}", err=True)
        raise typer.Exit(1) from error
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be read: {error.strerror}") from error
    known = expect is not None or public_key is not None
    _print(proof_report(found, known=known), format)


def nodes(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Nodes behind its rows.")
    ] = None,
    where: WhereOption = None,
    depth: Annotated[int | None, typer.Option(metavar="N", min=0, help="How far to go.")] = None,
    token: Annotated[str | None, typer.Option(metavar="HEX", help="Start of the token.")] = None,
    label: Annotated[str | None, typer.Option(metavar="TEXT", help="Part of the label.")] = None,
    form: Annotated[
        Literal["source", "joint", "one", "bag"] | None, typer.Option(help="Kind of node.")
    ] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Rows of this source.")] = None,
    forward: Annotated[
        bool, typer.Option("--forward", help="What was derived from the nodes that are found.")
    ] = False,
    limit: Annotated[int, typer.Option(metavar="N", min=1)] = 100,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Look nodes up: behind a run's rows, or by attributes; with --forward, what they went into.

    \b
    Example:
      whence nodes late-orders --where "o_orderkey = 7" --depth 2
    """
    from whence.present.sealed import nodes_report

    attributes = {"token": token, "label": label, "form": form, "source": source}
    given = [f"--{name}" for name, value in attributes.items() if value is not None]
    given += ["--forward"] if forward else []
    if run is not None and given:
        raise typer.BadParameter(f"{', '.join(given)}: for nodes by attributes, without a RUN")
    if run is None and where is not None:
        raise typer.BadParameter("--where chooses rows of a RUN: name one")
    opened = _open(archive, catalog)
    if run is not None:
        found = opened.sealed.closure(opened.run(run).nodes(where), "inputs", depth)
        _print(nodes_report([(n, {"depth": d}) for n, d in found[:limit]]), format)
        return
    hits = opened.sealed.find(**attributes, limit=limit)
    if forward:
        reached = opened.sealed.closure([node.id for node in hits], "derived", depth)
        _print(nodes_report([(n, {"depth": d}) for n, d in reached[:limit]]), format)
    else:
        _print(nodes_report([(node, {}) for node in hits]), format)


def compare(
    left: Annotated[str, typer.Argument(metavar="RUN")],
    right: Annotated[str, typer.Argument(metavar="RUN")],
    where: WhereOption = None,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Common and divergent derivations of two sealed runs, and the earliest point they part at.

    Derived are rows: what a projection computes of them is no part of it. Exits with 1 if they were
    not derived in the same way.

    \b
    Example:
      whence compare monday tuesday --where "o_orderkey = 7"
    """
    from whence.present.sealed import nodes_report

    opened = _open(archive, catalog)
    found = opened.run(left).compare(opened.run(right), where, where)
    parted = {node.id for node in found.parted}
    rows = [
        (node, {"side": side, "parts here": node.id in parted})
        for side, group in (("common", found.common), ("left", found.left), ("right", found.right))
        for node in group
    ]
    _print(nodes_report(rows, found.unseen), format)
    if not found.same:
        raise typer.Exit(1)


def uses(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The source with the record.")],
    where: WhereOption = None,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Which stored results use a record? Looks at all sealed runs and versions of the source.

    Exits with 3 if none was found and something could not be looked at.

    \b
    Example:
      whence uses customer --where "c_custkey = 392"
    """
    from whence.present.sealed import uses_report

    found = _open(archive, catalog).uses(source, where)
    _print(uses_report(found), format)
    if found.unseen and not found.results:
        raise typer.Exit(3)


def du(
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Bytes by run: its own, and those that it shares with others."""
    from whence.present.sealed import usage_report

    _print(usage_report(_open(archive, catalog).sealed.usage()), format)


def forget(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs to remove.")],
    key: KeyOption = None,
    archive: ArchiveOption = "provenance",
    catalog: CatalogOption = None,
    format: FormatOption = "table",
) -> None:
    """Remove runs and what only they used. The chain of seals stays verifiable.

    \b
    Example:
      whence forget late-orders
    """
    from whence.present.sealed import forget_report

    _print(forget_report(_open(archive, catalog).forget(runs, key=key)), format)


def key(
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where the private key is written.")],
) -> None:
    """Make an Ed25519 key for signing seals, and print its public key."""
    from whence.archive.signing import new_key

    typer.echo(new_key(file))


def _open(archive: str, catalog: str | None) -> Archive:
    from whence import api

    return api.open(archive, catalog=catalog)


def _print(report: Report, format: Format) -> None:
    from whence.present import write

    write(report, format, sys.stdout)
