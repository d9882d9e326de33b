"""Text for people: aligned columns when piped, drawn tables on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TextIO

from whence.present.report import Grid
from whence.present.values import cell, count

_WIDEST = 60  # characters of one cell on a terminal


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

    shown, left_out = _fitting(grid, console.width)
    table = Table(box=None, pad_edge=False, header_style="cyan", padding=(0, 2, 0, 0))
    right = _numeric(grid)
    for i in shown:
        table.add_column(
            Text(grid.columns[i]), justify="right" if right[i] else "left", overflow="ellipsis",
            no_wrap=True,
        )  # fmt: skip
    for row in grid.rows:
        table.add_row(*(Text(_cut(cell(row[i]))) for i in shown))
    console.print(table, soft_wrap=False)
    rest = _rest(grid)
    if left_out:
        rest.append(f"… {count(left_out, 'more column')}; see --format json")
    for line in rest:
        console.print(line, style="dim")


def _fitting(grid: Grid, width: int) -> tuple[list[int], int]:
    """The first columns that fit beside each other, at least one, and how many do not."""
    shown: list[int] = []
    used = 0
    for i, name in enumerate(grid.columns):
        cells = [len(_cut(cell(row[i]))) for row in grid.rows]
        used += max([len(name), *cells]) + 2
        last = i == len(grid.columns) - 1
        if shown and used - 2 > width and not (last and len(grid.columns) <= 3):
            break
        shown.append(i)
    return shown, len(grid.columns) - len(shown)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
