"""Functions over whole arrays, maps, groups and windows."""

from whence.plan.catalyst import shapes
from whence.plan.catalyst.arguments import Arguments, Rule, looked
from whence.plan.catalyst.nodes import Node, classes
from whence.plan.catalyst.shapes import NOTHING, Array, Copy, Made, Shape, Struct, made, paths_in

_ALL_KEPT = classes("SortArray Shuffle Reverse")
_COMPARED = classes("SortArray ArrayDistinct ArrayRemove")
_RANKS = classes("RowNumber Rank DenseRank PercentRank CumeDist NTile")


def _reordered(a: Arguments) -> Shape:
    if a.type(0) in ("string", "binary"):
        return made(a.shapes())
    item = shapes.unordered(shapes.item(a[0]))
    others = [*a.shapes(1), *([item] if a.node.name in _COMPARED else [])]
    choose = shapes.choose if a.node.name in _ALL_KEPT else shapes.one_of
    return Array((choose(item, looked(others)),))


def _joined(a: Arguments) -> Shape:
    """concat, array_union: the items of all arrays."""
    if a.node.name == "Concat" and not isinstance(a.type(0), dict) and not _made_array(a):
        return made(a.shapes())
    items = [shapes.item(each) for each in a.shapes()]
    by = looked(items) if a.node.name == "ArrayUnion" else ()
    return Array((shapes.unordered(shapes.choice(items or [NOTHING], by)),))


def _made_array(a: Arguments) -> bool:
    return len(a) > 0 and isinstance(a[0], Array)


def _extended(a: Arguments) -> Shape:
    """array_append, array_prepend: one more item."""
    return Array((shapes.unordered(shapes.choice((shapes.item(a[0]), a[1]))),))


def _inserted(a: Arguments) -> Shape:
    item = shapes.choice((shapes.item(a[0]), a[2]), paths_in(a[1]))
    return Array((shapes.unordered(item),))


def _repeated(a: Arguments) -> Shape:
    return Array((shapes.beside(a[0], paths_in(a[1])),))


def _kept(a: Arguments) -> Shape:
    first, second = shapes.item(a[0]), shapes.item(a[1])
    return Array((shapes.one_of(shapes.unordered(first), looked([first, second])),))


def _flatten(a: Arguments) -> Shape:
    return Array((shapes.unordered(shapes.item(shapes.item(a[0]))),))


def _map_keys(a: Arguments) -> Shape:
    return Array((shapes.unordered(shapes.key(a[0])),))


def _map_values(a: Arguments) -> Shape:
    return Array((shapes.unordered(shapes.value(a[0])),))


def _map_entries(a: Arguments) -> Shape:
    entry = Struct((("key", shapes.key(a[0])), ("value", shapes.value(a[0]))))
    return Array((shapes.unordered(entry),))


def _aggregate_expression(a: Arguments) -> Shape:
    return shapes.choose(a[0], looked(a.shapes(1)))


def _by(a: Arguments) -> Shape:
    return shapes.choose(a[0], paths_in(a[1]))


def _extreme(a: Arguments) -> Shape:
    """max, min, mode: the value in some of the rows; all that is in it is compared."""
    nested = isinstance(a.type(0), dict) or not isinstance(a[0], Copy | Made)
    return shapes.choose(a[0], paths_in(a[0])) if nested else a[0]


def _collect_list(a: Arguments) -> Shape:
    return Array((shapes.from_witness(a[0]),))


def _collect_set(a: Arguments) -> Shape:
    return Array((shapes.unordered(a[0]),))


def _pivot_first(a: Arguments) -> Shape:
    return Array((shapes.choose(shapes.unordered(a[1]), paths_in(a[0])),))


def _offset(a: Arguments) -> Shape:
    """lag and lead: the value in another row, or the default."""
    # A constant stands where the frame has no row, which the witness tells.
    return shapes.choice((a[0], *(a[i] for i in range(2, len(a)) if a[i] != NOTHING)))


def _window(a: Arguments) -> Shape:
    function, specification = a.node.children
    parts = _window_parts(a, specification)
    if function.name in _RANKS:
        return made((a[0], *parts))
    return shapes.choose(a[0], looked(parts))


def _window_parts(a: Arguments, specification: Node) -> list[Shape]:
    return [
        a.evaluate(part.children[0] if part.name == "SortOrder" else part, a.variables)
        for part in specification.children
        if not part.name.endswith("Frame")
    ]


RULES: dict[str, Rule] = {
    "Concat": _joined,
    "ArrayUnion": _joined,
    "ArrayAppend": _extended,
    "ArrayPrepend": _extended,
    "ArrayInsert": _inserted,
    "ArrayRepeat": _repeated,
    "Flatten": _flatten,
    "MapKeys": _map_keys,
    "MapValues": _map_values,
    "MapEntries": _map_entries,
    "AggregateExpression": _aggregate_expression,
    "Max": _extreme,
    "Min": _extreme,
    "Mode": _extreme,
    "MaxBy": _by,
    "MinBy": _by,
    "CollectList": _collect_list,
    "CollectSet": _collect_set,
    "PivotFirst": _pivot_first,
    "Lag": _offset,
    "Lead": _offset,
    "WindowExpression": _window,
    "SortArray": _reordered,
    "Shuffle": _reordered,
    "Reverse": _reordered,
    "Slice": _reordered,
    "ArrayDistinct": _reordered,
    "ArrayRemove": _reordered,
    "ArrayCompact": _reordered,
    "ArrayIntersect": _kept,
    "ArrayExcept": _kept,
}
