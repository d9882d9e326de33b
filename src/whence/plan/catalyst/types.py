"""Spark's data types in their JSON form: as text, by step, and of expressions where it is plain.

The JSON of a plan gives types of attributes, literals and casts only. Other types are found from
the references above, and from the rules here; what is left is `None`, never a guess.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from whence.plan.catalyst.nodes import Node, classes

DataType = Any  # a name, or {"type": "array" | "map" | "struct" | "udt", ...}

_NAMES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "timestamp_ntz": "timestamp_ntz",
    "null": "void",
}
UNKNOWN = "?"


def text(data_type: DataType) -> str:
    """Spark's `simpleString` of a type."""
    match data_type:
        case None:
            return UNKNOWN
        case str():
            return _NAMES.get(data_type, data_type)
        case {"type": "array", "elementType": item}:
            return f"array<{text(item)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{text(key)},{text(value)}>"
        case {"type": "struct", "fields": fields}:
            return "struct<" + ",".join(f"{f['name']}:{text(f['type'])}" for f in fields) + ">"
        case {"type": "udt", "sqlType": inner}:
            return text(inner)
        case _:
            return UNKNOWN


_WIDTH = {"byte": 1, "short": 2, "integer": 3, "long": 4, "decimal": 5, "float": 6, "double": 7}
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_FLOATS = {"float": ("byte", "short"), "double": ("byte", "short", "integer", "float")}


def widens(source: DataType, target: DataType) -> bool:
    """Whether a cast only widens a number, as Spark adds on its own.

    >>> widens("long", "double"), widens("decimal(10,2)", "decimal(10,0)")
    (True, False)
    """
    if not isinstance(source, str) or not isinstance(target, str):
        return False
    old, new = source.split("(")[0], target.split("(")[0]
    if old not in _WIDTH or new not in _WIDTH:
        return False
    return keeps(source, target) if old == new == "decimal" else _WIDTH[old] <= _WIDTH[new]


def keeps(source: str, target: str) -> bool:
    """Whether a number is the same in a wider type, whichever it is.

    >>> keeps("integer", "double"), keeps("long", "double"), keeps("long", "decimal(20,0)")
    (True, False, True)
    """
    if target in _FLOATS:
        return source == target or source in _FLOATS[target]
    whole, fraction = _digits(source)
    new_whole, new_fraction = _digits(target)
    return whole <= new_whole and fraction <= new_fraction


def _digits(number: str) -> tuple[int, int]:
    """How many digits numbers of a type have, before and behind the point."""
    if number in _DIGITS:
        return _DIGITS[number], 0
    precision, scale = map(int, number.removeprefix("decimal(").rstrip(")").split(","))
    return precision - scale, scale


def field_text(found: Mapping[str, Any]) -> str:
    """The type of a schema's field; Spark keeps collations apart, in the field's metadata."""
    collations = found.get("metadata", {}).get("__COLLATIONS")
    if not collations:
        return text(found["type"])
    if found["type"] != "string":
        return UNKNOWN
    return f"string collate {collations[found['name']].rpartition('.')[2]}"


def fields(data_type: DataType) -> tuple[str, ...]:
    """The names of a struct's fields."""
    match data_type:
        case {"type": "struct", "fields": found}:
            return tuple(field["name"] for field in found)
        case _:
            return ()


def field(data_type: DataType, name: str) -> DataType:
    """The type of a struct's field."""
    match data_type:
        case {"type": "struct", "fields": found}:
            return next((f["type"] for f in found if f["name"] == name), None)
        case _:
            return None


def twins(data_type: DataType) -> Iterator[tuple[str, str]]:
    """Fields of one struct, however deep inside, whose names differ in case alone."""
    match data_type:
        case {"type": "struct", "fields": found}:
            first: dict[str, str] = {}
            for each in found:
                other = first.setdefault(each["name"].casefold(), each["name"])
                if other != each["name"]:
                    yield other, each["name"]
                yield from twins(each["type"])
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from twins(key)
            yield from twins(value)
        case {"type": "array", "elementType": inner} | {"type": "udt", "sqlType": inner}:
            yield from twins(inner)


def item(data_type: DataType) -> DataType:
    """The type of an array's items or a map's values."""
    match data_type:
        case {"type": "array", "elementType": found} | {"type": "map", "valueType": found}:
            return found
        case _:
            return None


def array(of: DataType) -> DataType:
    """An array type."""
    return None if of is None else {"type": "array", "elementType": of, "containsNull": True}


def struct(names: Mapping[str, DataType]) -> DataType:
    """A struct type."""
    found = [{"name": n, "type": t, "nullable": True} for n, t in names.items()]
    return None if None in names.values() else {"type": "struct", "fields": found}


_BOOLEAN = classes(
    "And Or Not EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual "
    "IsNull IsNotNull IsNaN In InSet Like RLike LikeAll LikeAny StartsWith EndsWith Contains "
    "ArrayContains ArrayExists ArrayForAll ArraysOverlap Exists"
)
_FIXED = {
    "Count": "long",
    "CountIf": "long",
    "ApproxCountDistinctForIntervals": "long",
    "HyperLogLogPlusPlus": "long",
    "RowNumber": "integer",
    "Rank": "integer",
    "DenseRank": "integer",
    "NTile": "integer",
    "PercentRank": "double",
    "CumeDist": "double",
    "Year": "integer",
    "Month": "integer",
    "DayOfMonth": "integer",
    "Length": "integer",
    "Size": "integer",
    "CurrentDate": "date",
    "CurrentTimestamp": "timestamp",
    "Rand": "double",
    "Randn": "double",
    "Uuid": "string",
    "MonotonicallyIncreasingID": "long",
    "SparkPartitionID": "integer",
    "Upper": "string",
    "Lower": "string",
    "Substring": "string",
    "Concat": "string",
    "StringTrim": "string",
    "StddevSamp": "double",
    "StddevPop": "double",
    "VarianceSamp": "double",
    "VariancePop": "double",
    "Corr": "double",
}
_SAME_AS_FIRST = classes(
    "Alias Min Max First Last AnyValue MaxBy MinBy Mode NthValue Lag Lead Coalesce Greatest Least "
    "Abs UnaryMinus UnaryPositive ArrayFilter ArraySort SortArray ArrayDistinct Slice Reverse "
    "Shuffle AggregateExpression WindowExpression KnownNotNull ArrayUnion ArrayIntersect "
    "ArrayExcept ArrayRepeat ArrayAppend ArrayPrepend MapFilter MapConcat NormalizeNaNAndZero "
    "PromotePrecision KnownFloatingPointNormalized"
)
_INTEGRAL = ("byte", "short", "integer", "long")


def infer(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    """The type of an expression, `None` where it is not plain from the text."""
    name = node.name
    if "dataType" in node.fields and name != "ScalarSubquery":
        return node.fields["dataType"]
    if name in _BOOLEAN:
        return "boolean"
    if name in _FIXED and not (name == "Concat" and _is_nested(node, attributes)):
        return _FIXED[name]
    if name in _SAME_AS_FIRST and node.children:
        return infer(node.children[0], attributes)
    rule = _RULES.get(name)
    return rule(node, attributes) if rule else None


def _is_nested(node: Node, attributes: Mapping[int, DataType]) -> bool:
    return bool(node.children) and infer(node.children[0], attributes) not in ("string", None)


def struct_names(node: Node) -> tuple[str, ...]:
    """The field names of a `CreateNamedStruct`: every other child is a name."""
    return tuple(str(child.fields.get("value")) for child in node.children[::2])


def get_field_name(node: Node, attributes: Mapping[int, DataType]) -> str | None:
    """The name that a `GetStructField` or `GetArrayStructFields` takes, as the struct spells it."""
    taken_from = infer(node.children[0], attributes)
    names = fields(taken_from) or fields(item(taken_from))
    ordinal = node.fields.get("ordinal", -1)
    if 0 <= ordinal < len(names):
        return str(names[ordinal])
    whole = node.fields.get("field")  # these have the query's spelling
    given = whole.get("name") if isinstance(whole, dict) else node.fields.get("name")
    return given if isinstance(given, str) else None


def _get_struct_field(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    name = get_field_name(node, attributes)
    return None if name is None else field(infer(node.children[0], attributes), name)


def _get_array_struct_fields(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    name = get_field_name(node, attributes)
    inner = item(infer(node.children[0], attributes))
    return None if name is None else array(field(inner, name))


def _named_struct(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    values = (infer(child, attributes) for child in node.children[1::2])
    return struct(dict(zip(struct_names(node), values, strict=True)))


def _map(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    if len(node.children) < 2:
        return None
    key, value = (infer(child, attributes) for child in node.children[:2])
    if key is None or value is None:
        return None
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def _other_values(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    whole, value = infer(node.children[0], attributes), infer(node.children[-1], attributes)
    return None if whole is None or value is None else {**whole, "valueType": value}


def _arithmetic(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    left, right = (infer(child, attributes) for child in node.children[:2])
    return left if left == right and not str(left).startswith("decimal") else None


def _sum(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    of = infer(node.children[0], attributes)
    if of in _INTEGRAL:
        return "long"
    if of in ("float", "double"):
        return "double"
    return _decimal(of, 10, 0)


def _average(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    of = infer(node.children[0], attributes)
    return "double" if of in (*_INTEGRAL, "float", "double") else _decimal(of, 4, 4)


def _decimal(of: DataType, precision: int, scale: int) -> DataType:
    if not isinstance(of, str) or not of.startswith("decimal("):
        return None
    old_precision, old_scale = map(int, of[len("decimal(") : -1].split(","))
    if old_precision + precision > 38:
        return None
    return f"decimal({old_precision + precision},{old_scale + scale})"


def _branches(node: Node, attributes: Mapping[int, DataType]) -> DataType:
    return infer(node.children[1], attributes)


_RULES: dict[str, Callable[[Node, Mapping[int, DataType]], DataType]] = {
    "GetStructField": _get_struct_field,
    "GetArrayStructFields": _get_array_struct_fields,
    "GetArrayItem": lambda n, a: item(infer(n.children[0], a)),
    "GetMapValue": lambda n, a: item(infer(n.children[0], a)),
    "ElementAt": lambda n, a: item(infer(n.children[0], a)),
    "CreateNamedStruct": _named_struct,
    "CreateArray": lambda n, a: array(infer(n.children[0], a)) if n.children else None,
    "CreateMap": _map,
    "TransformValues": _other_values,
    "MapZipWith": _other_values,
    "CollectList": lambda n, a: array(infer(n.children[0], a)),
    "CollectSet": lambda n, a: array(infer(n.children[0], a)),
    "ArrayTransform": lambda n, a: array(infer(n.children[1], a)),
    "LambdaFunction": lambda n, a: infer(n.children[0], a),
    "Flatten": lambda n, a: item(infer(n.children[0], a)),
    "If": _branches,
    "CaseWhen": _branches,
    "Add": _arithmetic,
    "Subtract": _arithmetic,
    "Multiply": _arithmetic,
    "Divide": _arithmetic,
    "Remainder": _arithmetic,
    "Sum": _sum,
    "Average": _average,
    "JsonToStructs": lambda n, a: n.fields.get("schema"),
    "Concat": lambda n, a: infer(n.children[0], a) if n.children else None,
}
