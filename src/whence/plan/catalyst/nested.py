"""Functions over parts of values: fields and items taken, structs and arrays made, lambdas."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from whence.plan.catalyst import shapes, types
from whence.plan.catalyst.arguments import Arguments, Rule, looked
from whence.plan.catalyst.nodes import parse
from whence.plan.catalyst.shapes import (
    NOTHING,
    Array,
    At,
    Copy,
    Map,
    Shape,
    Struct,
    fresh,
    made,
    paths_in,
    unique,
)
from whence.plan.catalyst.types import DataType
from whence.plan.paths import Key, Path, Value, named

COMMON = -1  # among lambda variables, the shared expression of a WITH


def _struct_field(a: Arguments) -> Shape:
    name = types.get_field_name(a.node, a.types)
    return made((a[0],)) if name is None else shapes.field(a[0], name)


def _array_of_fields(a: Arguments) -> Shape:
    name = types.get_field_name(a.node, a.types)
    if name is None:
        return made((a[0],))
    index = fresh()
    return Array((shapes.field(shapes.item(a[0], index=index), name),), index=index)


def _array_item(a: Arguments) -> Shape:
    return _item_at(a, a.literal(1), 0)


def _item_at(a: Arguments, index: str | None, first: int) -> Shape:
    if index is not None and index.isdigit() and int(index) >= first:
        return shapes.item(a[0], int(index) - first)
    return shapes.one_of(shapes.unordered(shapes.item(a[0])), paths_in(a[1]))


def _map_value(a: Arguments) -> Shape:
    of = a.key(1)
    if of is None:
        return shapes.one_of(shapes.value(a[0]), paths_in(a[1]))
    return shapes.value(a[0], of)


def _element_at(a: Arguments) -> Shape:
    match a.type(0):
        case {"type": "map"}:
            return _map_value(a)
        case None if isinstance(a[0], Map):
            return _map_value(a)
        case _:
            return _item_at(a, a.literal(1), 1)


def _named_struct(a: Arguments) -> Shape:
    names = types.struct_names(a.node)
    return Struct(tuple((name, a[2 * i + 1]) for i, name in enumerate(names)))


def _update_fields(a: Arguments) -> Shape:
    """withField and dropFields, one after the other."""
    whole = a[0]
    names = shapes.names(whole) or types.fields(a.type(0))
    if not names:
        return made(a.shapes())
    parts = {name: shapes.field(whole, name) for name in names}
    first = a.node.children[0]
    while first.name == "UpdateFields":
        first = first.children[0]
    written = first.name == "CreateNamedStruct"  # which is never null
    there = () if written else unique(paths_in(a.evaluate(first, a.variables)))
    for change in a.node.children[1:]:
        name = str(change.fields.get("name"))
        found = named(parts, name) or name
        if change.name == "WithField":
            made_of = a.evaluate(change.children[0], a.variables)
            parts[found] = shapes.beside(made_of, there)
        else:
            parts.pop(found, None)
    return Struct(tuple(parts.items()))


def _array(a: Arguments) -> Shape:
    return Array(tuple(a.shapes()), listed=True)


def _map(a: Arguments) -> Shape:
    every = a.shapes()
    keys, values = every[::2], every[1::2]
    names = [a.key(i) for i in range(0, len(a), 2)]
    found = shapes.choice(values or (NOTHING,))
    if all(name is not None for name in names):
        listed = tuple((str(name), value) for name, value in zip(names, values, strict=True))
        return Map(shapes.choice(keys or (NOTHING,)), found, listed)
    return _entries(shapes.choice(keys), found)


def _entries(key: Shape, value: Shape) -> Map:
    """A map whose keys are data: they say under which one a value is found."""
    return Map(key, shapes.choose(value, paths_in(key)))


def _map_from_arrays(a: Arguments) -> Shape:
    key, value = (shapes.unordered(shapes.item(a[i])) for i in (0, 1))
    return _entries(shapes.beside(key, _present(a[1], value)), value)


def _map_from_entries(a: Arguments) -> Shape:
    entry = shapes.unordered(shapes.item(a[0]))
    names = shapes.names(entry) or types.fields(types.item(a.type(0)))
    if len(names) != 2:
        return made(a.shapes())
    key, value = (shapes.field(entry, name) for name in names)
    return _entries(key, value)


def _present(whole: Shape, item: Shape, index: int | None = None) -> tuple[Path, ...]:
    """What says that an item of a list, or a value of a map, is there; none if it is written."""
    if (isinstance(whole, Array) and whole.listed) or (isinstance(whole, Map) and whole.listed):
        return ()
    found = tuple(_by_keys(unique(paths_in(item))))
    depths = [(path, _depth(path, index)) for path in found]
    at = unique(replace(path, steps=path.steps[:depth]) for path, depth in depths if depth)
    return at or found


def _by_keys(paths: tuple[Path, ...]) -> Iterator[Path]:
    """The paths without those to values of maps whose keys are among them: an entry has both."""
    keys = {path for path in paths if path.steps[-1:] == (Key(),)}
    for path in paths:
        ends = [i for i, step in enumerate(path.steps) if step == Value()]
        maps = (replace(path, steps=path.steps[:end]) for end in ends)
        if not any(found.then(Key()) in keys for found in maps):
            yield path


def _depth(path: Path, index: int | None) -> int:
    """How many steps of a path lead to an item at the position of an index; 0 if none does."""
    own = [n for n, s in enumerate(path.steps, 1) if isinstance(s, At) and s.index == index]
    return own[-1] if own else 0


def _with_each(a: Arguments, shape: Shape, items: Sequence[Shape], index: int) -> Shape:
    """What is made of the items of the first arguments at one position, or only beside them."""
    for i, item in enumerate(items):
        shape = shapes.beside(shape, _present(a[i], item, index))
    return shape


def _arrays_zip(a: Arguments) -> Shape:
    names = [str(parse(n).fields.get("value")) for n in a.node.fields.get("names") or ()]
    if len(names) != len(a):
        return made(a.shapes())
    index = fresh()
    items = [shapes.item(each, index=index) for each in a.shapes()]
    parts = Struct(tuple(zip(names, items, strict=True)))
    return Array((_with_each(a, parts, items, index),), index=index)


def _cast(a: Arguments) -> Shape:
    return _converted(a[0], a.type(0), a.node.fields.get("dataType"))


def _converted(shape: Shape, source: DataType, target: DataType) -> Shape:
    """A cast keeps structure: fields by position, items by index; scalars are computed."""
    if source == target:
        return shape
    match source, target:
        case {"type": "struct", "fields": old}, {"type": "struct", "fields": new}:
            pairs = zip(old, new, strict=False)
            return Struct(
                tuple(
                    (n["name"], _converted(shapes.field(shape, o["name"]), o["type"], n["type"]))
                    for o, n in pairs
                )
            )
        case {"type": "array", "elementType": old}, {"type": "array", "elementType": new}:
            index = fresh()
            return Array((_converted(shapes.item(shape, index=index), old, new),), index=index)
        case {"type": "map", "valueType": old}, {"type": "map", "valueType": new}:
            index = fresh()
            value = _converted(shapes.value(shape, index=index), old, new)
            if source["keyType"] == target["keyType"]:
                return Map(shapes.key(shape), value, index=index)
            return _entries(made((shapes.key(shape),)), shapes.unordered(value))
        case _:
            return made((shape,))


def _if(a: Arguments) -> Shape:
    return shapes.choice((a[1], a[2]), paths_in(a[0]))


def _elt(a: Arguments) -> Shape:
    index = a.literal(0)
    if index is None or not index.isdecimal():
        return shapes.choice(a.shapes(1), paths_in(a[0]))
    return a[int(index)] if 0 < int(index) < len(a) else NOTHING


def _case(a: Arguments) -> Shape:
    every = a.shapes()
    otherwise: list[Shape] = [every[-1] if len(every) % 2 else NOTHING]
    pairs = len(every) // 2
    conditions = [every[2 * i] for i in range(pairs)]
    return shapes.choice([every[2 * i + 1] for i in range(pairs)] + otherwise, looked(conditions))


def _with(a: Arguments) -> Shape:
    """Common expressions; the text does not say which reference means which definition."""
    body, *definitions = a.node.children
    found = [a.evaluate(d, a.variables) for d in definitions]
    shared = found[0] if len(found) == 1 else made(found)
    return a.evaluate(body, {**a.variables, COMMON: shared})


def _transform(a: Arguments) -> Shape:
    index = fresh()
    item = shapes.item(a[0], index=index)
    return Array((_with_each(a, a.call(1, item, NOTHING), (item,), index),), index=index)


def _filter(a: Arguments) -> Shape:
    item = shapes.item(a[0])
    return Array((shapes.one_of(shapes.unordered(item), paths_in(a.call(1, item, NOTHING))),))


def _exists(a: Arguments) -> Shape:
    item = shapes.item(a[0])
    return made((Array((shapes.beside(a.call(1, item), _present(a[0], item)),)),))


def _array_sort(a: Arguments) -> Shape:
    item = shapes.item(a[0])
    by = paths_in(a.call(1, item, item)) if len(a) > 1 else paths_in(item)
    return Array((shapes.choose(shapes.unordered(item), by),))


def _aggregate(a: Arguments) -> Shape:
    """The parts of a struct are followed one by one, through as many items as change them."""
    item = shapes.item(a[0])
    present = _present(a[0], item)
    marks = Struct(tuple((n, Copy(Path(-1 - i, n))) for i, n in enumerate(shapes.names(a[1]))))
    whole = Copy(Path(-1, ""))
    again = a.call(2, marks if marks.parts else whole, item)

    def added(mark: Shape, old: Shape, each: Shape, new: Shape) -> Shape:
        """A value with what items add; one that does not go on from the last is that of a few."""
        found = made((old, Array((new,))))
        return found if set(paths_in(mark)) <= set(paths_in(each)) else shapes.one_of(found, ())

    def after(before: Shape) -> Shape:
        each = shapes.beside(a.call(2, before, item), present)
        names = shapes.names(each)
        if not (isinstance(before, Struct) and len(names) == len(before.parts)):
            return added(whole, before, again, each) if not marks.parts else made((before, each))
        parts = []
        for (name, old), own, (_, mark) in zip(before.parts, names, marks.parts, strict=True):
            new = shapes.field(each, own)
            parts.append((name, added(mark, old, shapes.field(again, own), new)))
        return Struct(tuple(parts))

    accumulated = after(a[1])
    for _ in marks.parts:
        accumulated = after(accumulated)
    return a.call(3, accumulated) if len(a) > 3 else accumulated


def _zip_with(a: Arguments) -> Shape:
    index = fresh()
    both = [shapes.item(a[i], index=index) for i in (0, 1)]
    return Array((_with_each(a, a.call(2, *both), both, index),), index=index)


def _transform_keys(a: Arguments) -> Shape:
    key, value = shapes.key(a[0]), shapes.value(a[0])
    made_of = shapes.beside(a.call(1, key, value), _present(a[0], key))
    return _entries(made_of, shapes.unordered(value))


def _transform_values(a: Arguments) -> Shape:
    index, key = fresh(), shapes.key(a[0])
    value = shapes.value(a[0], index=index)
    return Map(key, _with_each(a, a.call(1, key, value), (value,), index), index=index)


def _map_filter(a: Arguments) -> Shape:
    index, key = fresh(), shapes.key(a[0])
    value = shapes.value(a[0], index=index, by_key=True)
    by = tuple(paths_in(a.call(1, key, value)))
    looked_at = (shapes.opened(path, index) for path in by)
    return Map(shapes.choose(key, looked_at), shapes.choose(value, by), index=index)


def _map_zip_with(a: Arguments) -> Shape:
    index = fresh()
    key = shapes.choice((shapes.key(a[0]), shapes.key(a[1])))
    both = [shapes.value(a[i], index=index, by_key=True) for i in (0, 1)]
    return Map(key, _with_each(a, a.call(2, key, *both), both, index), index=index)


def _map_concat(a: Arguments) -> Shape:
    index = fresh()
    keys = [shapes.key(each) for each in a.shapes()]
    values = [shapes.value(each, index=index, by_key=True) for each in a.shapes()]
    return Map(shapes.choice(keys or [NOTHING]), shapes.choice(values or [NOTHING]), index=index)


def _extreme(a: Arguments) -> Shape:
    """greatest, least: one of the arguments, chosen by looking at all."""
    return shapes.choice(a.shapes(), looked(a.shapes()))


RULES: dict[str, Rule] = {
    "GetStructField": _struct_field,
    "GetArrayStructFields": _array_of_fields,
    "GetArrayItem": _array_item,
    "GetMapValue": _map_value,
    "ElementAt": _element_at,
    "CreateNamedStruct": _named_struct,
    "UpdateFields": _update_fields,
    "CreateArray": _array,
    "CreateMap": _map,
    "MapFromArrays": _map_from_arrays,
    "MapFromEntries": _map_from_entries,
    "ArraysZip": _arrays_zip,
    "Cast": _cast,
    "If": _if,
    "CaseWhen": _case,
    "With": _with,
    "ArrayTransform": _transform,
    "ArrayFilter": _filter,
    "ArrayExists": _exists,
    "ArrayForAll": _exists,
    "ArraySort": _array_sort,
    "ArrayAggregate": _aggregate,
    "ZipWith": _zip_with,
    "TransformKeys": _transform_keys,
    "TransformValues": _transform_values,
    "MapFilter": _map_filter,
    "MapZipWith": _map_zip_with,
    "MapConcat": _map_concat,
    "Elt": _elt,
    "Coalesce": lambda a: shapes.choice(a.shapes()),
    "Greatest": _extreme,
    "Least": _extreme,
}
