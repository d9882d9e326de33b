"""Text for people: aligned columns when piped, drawn tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TextIO

from whence.present.report import Grid
from whence.present.values import cell, count

_WIDEST = 40  # characters of one cell on a terminal, unless it is the last of its row
_USEFUL = 20


def write_blocks(blocks: Sequence[str | Grid], stream: TextIO) -> None:
    """Paragraphs and tables with an empty line before each paragraph but the first."""
    if stream.isatty():
        _write_rich(blocks, stream)
        return
    for number, block in enumerate(blocks):
        if isinstance(block, Grid):
            stream.write(grid_text(block))
        else:
            stream.write(("\n" if number else "") + block.rstrip("\n") + "\n")


def grid_text(grid: Grid) -> str:
    """A grid as plain text: columns aligned, numbers to the right."""
    texts = [[cell(value) for value in row] for row in grid.rows]
    right = _numeric(grid)
    widths = [
        max(len(name), *(len(row[i]) for row in texts), 0) for i, name in enumerate(grid.columns)
    ]
    lines = [_line(grid.columns, widths, right)]
    lines += [_line(row, widths, right) for row in texts]
    return "".join(f"{line}\n" for line in [*lines, *_rest(grid)])


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        text.rjust(width) if to_right else text.ljust(width)
        for text, width, to_right in zip(texts, widths, right, strict=True)
    ]
    return "  ".join(padded).rstrip()


def _numeric(grid: Grid) -> list[bool]:
    """For each column, whether it holds numbers (a dash stands for one that is not known)."""
    return [_all_numbers([row[i] for row in grid.rows]) for i in range(len(grid.columns))]


def _all_numbers(values: Sequence[Any]) -> bool:
    known = [v for v in values if v is not None and v != "-"]
    return bool(known) and all(_is_number(v) for v in known)


def _is_number(value: Any) -> bool:
    if isinstance(value, Amount):
        return True
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


class Amount(str):
    """Text that stands for a number, such as `7,102` or `272 KiB`; set to the right."""


def _rest(grid: Grid) -> list[str]:
    return [f"… {count(grid.more, 'more row')}"] if grid.more else []


# --- On a terminal --------------------------------------------------------------------------


def _write_rich(blocks: Sequence[str | Grid], stream: TextIO) -> None:
    from rich.console import Console

    console = Console(file=stream, highlight=False, markup=False, soft_wrap=True)
    for number, block in enumerate(blocks):
        if isinstance(block, Grid):
            _print_table(console, block)
        else:
            title, _, rest = block.rstrip("\n").partition("\n")
            console.print(("\n" if number else "") + title, style="bold")
            if rest:
                console.print(rest)


def _print_table(console: Any, grid: Grid) -> None:
    from rich.table import Table
    from rich.text import Text

    texts = [[cell(value) for value in row] for row in grid.rows]
    widths = _fitting(grid.columns, texts, console.width)
    right = _numeric(grid)
    table = Table(box=None, pad_edge=False, header_style="cyan", padding=(0, 2, 0, 0))
    for i in range(len(widths)):
        table.add_column(Text(grid.columns[i]), justify="right" if right[i] else "left")
    for row in texts:
        table.add_row(*(Text(_cut(row[i], width)) for i, width in enumerate(widths)))
    console.print(table, soft_wrap=False)
    rest = _rest(grid)
    if len(widths) < len(grid.columns):
        left_out = count(len(grid.columns) - len(widths), "more column")
        rest.append(f"… {left_out}; --format json has all")
    for line in rest:
        console.print(line, style="dim")


def _fitting(names: Sequence[str], texts: Sequence[Sequence[str]], width: int) -> list[int]:
    """The widths of the first columns that fit beside each other, at least one.

    The last column of all is cut to the room that is left, if that is enough to be of use.
    """
    widths: list[int] = []
    left = width
    for i, name in enumerate(names):
        wanted = max([len(name), *(len(row[i]) for row in texts)])
        if i == len(names) - 1:
            wanted = min(wanted, max(left, _USEFUL))
        else:
            wanted = min(wanted, _WIDEST)
        if widths and wanted > left:
            break
        widths.append(wanted)
        left -= wanted + 2
    return widths


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"
