"""Pictures of provenance: the chosen output cells, and the input cells behind them."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.arrays.cells import select
from whence.errors import ArrayError

if TYPE_CHECKING:
    from whence.arrays.graph import Role
    from whence.arrays.provenance import Provenance
    from whence.arrays.relation import Relation

PANEL_LIMIT = 16
GRID_LIMIT = 40
ROWS_SHOWN = 12


def picture(found: Provenance, selector: Any = ..., role: Role = "contributing") -> Any:
    """A matplotlib figure with one panel for the output and one per input, for 1 to 3 axes."""
    from matplotlib.figure import Figure

    chosen = select(found.shape, selector).mask()
    masks = {found.name or "output": chosen}
    for name, cells in found.cells(selector, role).items():
        masks[name] = cells.mask()
    panels = [(title, part) for name, mask in masks.items() for title, part in _panels(name, mask)]
    if len(panels) > PANEL_LIMIT:
        raise ArrayError(f"{len(panels)} panels would be needed, at most {PANEL_LIMIT} are drawn")
    figure = Figure(figsize=(3.2 * len(panels), 3.4), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, part) in zip(axes, panels, strict=True):
        _draw(axis, title, part, first=title.startswith(next(iter(masks))))
    return figure


def _panels(name: str, mask: Any) -> list[tuple[str, Any]]:
    """Two-dimensional pictures of an array: a row, a table, or one table per first index."""
    if mask.ndim <= 1:
        return [(f"{name} {mask.shape}", mask.reshape(1, -1))]
    if mask.ndim == 2:
        return [(f"{name} {mask.shape}", mask)]
    if mask.ndim == 3:
        shown = [i for i in range(len(mask)) if mask[i].any()] or [0]
        return [(f"{name}[{i}] of {mask.shape}", mask[i]) for i in shown]
    raise ArrayError(f"{name} has {mask.ndim} axes; pictures show one to three")


def _draw(axis: Any, title: str, mask: Any, first: bool) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import MaxNLocator

    colours = ListedColormap(["#eef1f4", "#b5541c" if first else "#1f6f8b"])
    axis.imshow(mask.astype(int), cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="none")
    axis.set_title(title, fontsize=9)
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_locator(MaxNLocator(integer=True))
    rows, columns = mask.shape
    if max(rows, columns) <= GRID_LIMIT:
        axis.set_xticks(np.arange(-0.5, columns), minor=True)
        axis.set_yticks(np.arange(-0.5, rows), minor=True)
        axis.grid(which="minor", color="white", linewidth=1)
        axis.tick_params(which="minor", length=0)
    if rows == 1:
        axis.set_yticks([])


def relation_html(relation: Relation) -> str:
    """The first rows of the compressed table, for notebooks."""
    table = relation.table
    outputs = [f"b{i + 1}" for i in range(len(table.out_shape))]
    inputs = [f"a{i + 1}" for i in range(len(table.in_shape))]
    head = "".join(f"<th>{name}</th>" for name in [*outputs, *inputs])
    body = "".join(
        "<tr>"
        + "".join(f"<td>{a if a == b else f'[{a}, {b}]'}</td>" for a, b in row.outputs)
        + "".join(f"<td>{html.escape(str(axis))}</td>" for axis in row.inputs)
        + "</tr>"
        for row in relation.rows()[:ROWS_SHOWN]
    )
    more = len(table) - ROWS_SHOWN
    tail = f"<p>… and {more} more rows</p>" if more > 0 else ""
    return (
        f"<p>{relation.out_shape} ← {relation.in_shape}: {len(table)} rows, "
        f"{relation.nbytes} bytes</p><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{tail}"
    )


def provenance_html(found: Provenance) -> str:
    """What is known about an output, for notebooks."""
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{shape}</td></tr>"
        for name, shape in found.inputs.items()
    )
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in found.notes)
    listed = f"<ul>{notes}</ul>" if notes else ""
    view = f", by a {html.escape(found.view)} view" if found.view else ""
    return (
        f"<p><b>{html.escape(found.name)}</b> {found.shape}: {found.grade}{view}</p>{listed}"
        f"<table><thead><tr><th>input</th><th>shape</th></tr></thead><tbody>{rows}</tbody></table>"
    )
