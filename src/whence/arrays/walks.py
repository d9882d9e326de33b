"""Questions to the graph of a call: walks that carry cells along edges, and relations of inputs.

Sets of cells go from node to node, so a chain is never composed unless a table is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from whence.arrays import cells as cellset
from whence.arrays.cells import Cells, Shape
from whence.arrays.compose import union
from whence.arrays.forms import Form, identity
from whence.arrays.graph import Node, Role, leading_to, ordered
from whence.arrays.query import forward
from whence.arrays.writes import Written


@dataclass(frozen=True, slots=True)
class Reached:
    """Cells of one input, by role; a cell that contributes is not listed as influencing."""

    contributing: Cells
    influencing: Cells


def walk_backward(node: Node, cells: Cells) -> dict[str, Reached]:
    """The cells of every input that the chosen cells come from."""
    direct: dict[int, list[Cells]] = {id(node): [cells]}
    steering: dict[int, list[Cells]] = {}
    out: dict[str, Reached] = {}
    for current in ordered(node):
        mine = cellset.union(direct.pop(id(current), []), current.shape)
        other = cellset.union(steering.pop(id(current), []), current.shape)
        if current.label is not None:
            known = out.get(current.label)
            if known is not None and known.contributing.shape == current.shape:
                mine = cellset.union([mine, known.contributing], current.shape)
                other = cellset.union([other, known.influencing], current.shape)
            out[current.label] = Reached(mine, other.minus(mine))
        for step in current.back(mine) if not mine.is_empty() else ():
            target = direct if step.contributing else steering
            target.setdefault(id(step.parent), []).append(step.found)
        for step in current.back(other) if not other.is_empty() else ():
            steering.setdefault(id(step.parent), []).append(step.found)
    return out


def walk_forward(node: Node, label: str, cells: Cells) -> Reached:
    """The cells of `node` that the chosen cells of one input go to."""
    direct: dict[int, Cells] = {}
    steered: dict[int, Cells] = {}
    since: dict[int, int] = {}
    nodes = ordered(node)[::-1]
    read = _read(nodes) | {id(node)}
    for current in nodes:
        here = id(current)
        if current.label == label:
            direct[here], steered[here] = cells, cellset.no_cells(current.shape)
        elif not isinstance(current, Written):
            direct[here], steered[here] = _ahead(current, direct, steered)
        elif here in read:  # a version that only the next write looks at needs no answer
            last = since.get(id(current.log), -1)
            direct[here] = current.ahead(last, lambda parent: direct[id(parent)])
            other = [
                current.ahead(last, lambda parent: steered[id(parent)]),
                current.steered(last, lambda key: _any(direct[id(key)], steered[id(key)])),
            ]
            steered[here] = cellset.union(other, current.shape)
            since[id(current.log)] = current.turn
    mine_all = direct[id(node)]
    return Reached(mine_all, steered[id(node)].minus(mine_all))


def _any(*parts: Cells) -> bool:
    return any(not part.is_empty() for part in parts)


def _ahead(node: Node, direct: dict[int, Cells], steered: dict[int, Cells]) -> tuple[Cells, Cells]:
    mine: list[Cells] = []
    other: list[Cells] = []
    for edge in node.edges:
        found = forward(edge.form(), direct[id(edge.parent)])
        (mine if edge.contributing else other).append(found)
        other.append(forward(edge.form(), steered[id(edge.parent)]))
    return cellset.union(mine, node.shape), cellset.union(other, node.shape)


def _read(nodes: list[Node]) -> set[int]:
    """The ids of the nodes that are looked at by more than the write that comes next."""
    found: set[int] = set()
    for node in nodes:
        later = isinstance(node, Written) and node.turn > 0
        found.update(id(edge.parent) for edge in (node.edges[1:] if later else node.edges))
    return found


def relate(node: Node, label: str, role: Role) -> Form | None:
    """The relation of `node` and one input, over all paths of a role; None if there is none."""
    direct: dict[int, list[Form]] = {}
    steering: dict[int, list[Form]] = {}
    useful = leading_to(node, label)
    for current in ordered(node):
        if id(current) not in useful:
            continue
        here = current is node
        mine = _joined(direct.pop(id(current), []), node.shape, current.shape)
        other = _joined(steering.pop(id(current), []), node.shape, current.shape)
        if current.label == label:
            if here:
                return identity(node.shape) if role == "contributing" else None
            return mine if role == "contributing" else other
        if here or mine is not None:
            for step in current.behind(mine, useful, role):
                target = direct if step.contributing else steering
                target.setdefault(id(step.parent), []).append(step.found)
        if other is not None:
            for step in current.behind(other, useful, role):
                steering.setdefault(id(step.parent), []).append(step.found)
    return None


def _joined(forms: list[Form], out_shape: Shape, in_shape: Shape) -> Form | None:
    return union(forms, out_shape, in_shape) if forms else None
