"""Spark expressions as SQL text for people: stable, without expression ids, few parentheses."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whence.plan.catalyst import types
from whence.plan.catalyst.nodes import Node, classes, object_name
from whence.plan.catalyst.scope import Attributes, Names, Places
from whence.plan.operators import Expression, SortKey
from whence.plan.paths import quote

# operator, how strongly it binds
_BINARY = {
    "Or": ("OR", 1),
    "And": ("AND", 2),
    "EqualTo": ("=", 4),
    "EqualNullSafe": ("<=>", 4),
    "LessThan": ("<", 4),
    "LessThanOrEqual": ("<=", 4),
    "GreaterThan": (">", 4),
    "GreaterThanOrEqual": (">=", 4),
    "RLike": ("RLIKE", 4),
    "BitwiseOr": ("|", 5),
    "BitwiseXor": ("^", 5),
    "BitwiseAnd": ("&", 6),
    "Add": ("+", 7),
    "Subtract": ("-", 7),
    "DateAddYMInterval": ("+", 7),
    "DateAddInterval": ("+", 7),
    "TimestampAddInterval": ("+", 7),
    "TimestampAddYMInterval": ("+", 7),
    "SubtractDates": ("-", 7),
    "SubtractTimestamps": ("-", 7),
    "Multiply": ("*", 8),
    "MultiplyYMInterval": ("*", 8),
    "MultiplyDTInterval": ("*", 8),
    "Divide": ("/", 8),
    "IntegralDivide": ("DIV", 8),
    "Remainder": ("%", 8),
}
_COMPARISON, _ATOM = 4, 10
_FUNCTIONS = {
    "Average": "avg",
    "StringTrim": "trim",
    "StringTrimLeft": "ltrim",
    "StringTrimRight": "rtrim",
    "CreateArray": "array",
    "CreateMap": "map",
    "CreateNamedStruct": "named_struct",
    "ArrayTransform": "transform",
    "ArrayFilter": "filter",
    "ArrayExists": "exists",
    "ArrayForAll": "forall",
    "ArrayAggregate": "aggregate",
    "JsonToStructs": "from_json",
    "StructsToJson": "to_json",
    "HyperLogLogPlusPlus": "approx_count_distinct",
    "VarianceSamp": "var_samp",
    "VariancePop": "var_pop",
    "StddevSamp": "stddev",
    "PosExplode": "posexplode",
    "NTile": "ntile",
    "DayOfMonth": "dayofmonth",
    "Rand": "rand",
    "MonotonicallyIncreasingID": "monotonically_increasing_id",
    "SparkPartitionID": "spark_partition_id",
    "XxHash64": "xxhash64",
    "Murmur3Hash": "hash",
}
# Wrappers that say nothing to people.
_TRANSPARENT = classes(
    "Alias AggregateExpression PipeOperator KnownNotNull PromotePrecision CheckOverflow "
    "CheckOverflowInSum NormalizeNaNAndZero KnownFloatingPointNormalized TempResolvedColumn"
)
_NON_DETERMINISTIC = classes(
    "Rand Randn Uuid Shuffle MonotonicallyIncreasingID SparkPartitionID InputFileName "
    "InputFileBlockStart InputFileBlockLength CallMethodViaReflection RandStr Uniform TryReflect"
)
# What makes a function another one and is not among its arguments: where it is not as usual.
_SETTINGS: dict[str, Any] = {
    "ignoreNulls": False,
    "reverse": False,
    "reverseOpt": None,
    "legacySizeOfNull": False,
    "dataType": None,
    "failOnError": True,
    "ansiEnabled": True,
    "relativeSD": 0.05,
    "unit": None,
    "schema": None,
    "targetType": None,
    "timeZoneId": None,
    "options": None,
    "patterns": None,
    "evalMode": None,
    "evalContext": None,
}
# A user's function is another one if it is said to give another type, or is given something else
# than a row's values: whether those go through pickle or Arrow is no difference.
_USER_CODE = classes("PythonUDF PythonUDAF PythonUDTF ScalaUDF ScalaAggregator")
_BY_ROW = frozenset((None, 100, 101))
_TRIED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide"}
_SILENT = frozenset(("Alias", "AttributeReference", "Literal", "NamedLambdaVariable"))


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the expressions of one operator; `subqueries` are the ids of its subplans.

    `labels` writes the same for labels: columns and subqueries by their place, lambda variables by
    number, and what people need not know but what makes an expression another.
    """

    names: Names | Places
    attributes: Attributes
    subqueries: dict[int, str]
    labels: "Writer | None" = None
    variables: tuple[int, ...] = ()

    def expression(self, node: Node) -> Expression:
        """Texts, class names and determinism of an expression; an alias gives its inside."""
        inside = node.children[0] if node.name == "Alias" else node
        used = dict.fromkeys(part.name for part in inside.walk() if part.name not in _SILENT)
        text = self.text(inside)
        return Expression(text, tuple(used), deterministic(inside), self.label(inside, text))

    def expressions(self, nodes: Sequence[Node]) -> tuple[Expression, ...]:
        """Each as an expression."""
        return tuple(self.expression(node) for node in nodes)

    def sort_key(self, node: Node) -> SortKey:
        """A `SortOrder`."""
        return SortKey(
            self.expression(node.children[0]),
            object_name(node.fields["direction"]) == "Ascending",
            object_name(node.fields["nullOrdering"]) == "NullsFirst",
        )

    def text(self, node: Node) -> str:
        """SQL text."""
        return self._write(node)[0]

    @property
    def is_label(self) -> bool:
        """Whether it writes for labels."""
        return isinstance(self.names, Places)

    def label(self, node: Node, text: str) -> str:
        """The text in labels, if that is another."""
        found = "" if self.labels is None else self.labels.text(node)
        return "" if found == text else found

    def variable(self, node: Node) -> str:
        """A lambda variable: people know it by a name, which Spark may count up in every query."""
        if node.id in self.variables:
            return f"${self.variables.index(node.id)}"
        return str(node.fields["name"])

    def inside(self, variables: Sequence[Node]) -> "Writer":
        """The writer of a lambda's body."""
        if not self.is_label:
            return self
        return replace(self, variables=(*self.variables, *(node.id for node in variables)))

    def _at(self, node: Node, strength: int) -> str:
        """Text, in parentheses if it binds less strongly than its surroundings."""
        text, own = self._write(node)
        return text if own >= strength else f"({text})"

    def _write(self, node: Node) -> tuple[str, int]:
        name = node.name
        if name == "AttributeReference":
            return self.names.text(node), _ATOM
        if name in _BINARY and len(node.children) >= 2:
            symbol, strength = _BINARY[name]
            if (mode := _mode(node)) == "TRY" or (mode and self.is_label):
                tried = _TRIED.get(symbol, f"try_{_snake(name)}")
                called = tried if mode == "TRY" else function_name(node)
                return f"{called}({self._arguments(node)})", _ATOM
            left = self._at(node.children[0], strength + (strength == _COMPARISON))
            right = self._at(node.children[1], strength if name in ("And", "Or") else strength + 1)
            return f"{left} {symbol} {right}", strength
        if name in _TRANSPARENT and node.children:
            return self._transparent(node)
        special = _SPECIAL.get(name)
        if special:
            return special(self, node)
        return f"{self._called(node)}({self._arguments(node)})", _ATOM

    def _called(self, function: Node) -> str:
        """What people call a function, in the way in which it is tried.

        In labels user code has no name: its digest stands beside them.
        """
        if self.is_label and function.name in ("PythonUDF", "PythonUDAF"):
            return "udf"
        name = function_name(function)
        return f"try_{name}" if _mode(function) == "TRY" else name

    def _arguments(self, function: Node) -> str:
        """What a function is given; in labels, settings too that are no arguments."""
        texts = [self.text(argument) for argument in function.children]
        if self.is_label:
            texts += _settings(function)
        return ", ".join(texts)

    def _transparent(self, node: Node) -> tuple[str, int]:
        if node.name != "AggregateExpression":
            return self._write(node.children[0])
        function = node.children[0]
        distinct = "DISTINCT " if node.fields.get("isDistinct") else ""
        text = f"{self._called(function)}({distinct}{self._arguments(function)})"
        if len(node.children) > 1:
            text += f" FILTER (WHERE {self.text(node.children[1])})"
        return text, _ATOM


def _settings(function: Node) -> list[str]:
    """Settings of a function that are not its arguments, where they are not as usual."""
    found = {
        name: value
        for name, usual in _SETTINGS.items()
        if (value := function.fields.get(name)) is not None and value != usual
    }
    kind = function.fields.get("evalType")
    if function.name in _USER_CODE and kind not in _BY_ROW:
        found["evalType"] = kind
    return [f"{name} => {_setting(value)}" for name, value in found.items()]


def _setting(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return types.text(value) if isinstance(value, dict) else str(value)


def _mode(node: Node) -> str | None:
    """How an expression takes what it has no value for, if that is told: TRY or LEGACY."""
    found = node.fields.get("evalMode") or node.fields.get("evalContext")
    return found if isinstance(found, str) else None


def deterministic(node: Node) -> bool:
    """Spark's flag: whether the same row always gives the same value."""
    for part in node.walk():
        if part.name in _NON_DETERMINISTIC:
            return False
        if part.fields.get("udfDeterministic") is False:
            return False
        if part.fields.get("isDeterministic") is False:
            return False
    return True


def function_name(node: Node) -> str:
    """What people call a function: Spark's SQL name."""
    if node.name in ("PythonUDF", "ScalaUDF", "PythonUDAF"):
        return str(node.fields.get("name") or node.fields.get("udfName") or "udf").strip("[]")
    if node.name in ("StaticInvoke", "Invoke"):
        return _snake(str(node.fields.get("functionName")))
    return _FUNCTIONS.get(node.name) or _snake(node.name)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _literal(writer: Writer, node: Node) -> tuple[str, int]:
    value, data_type = node.fields.get("value"), node.fields.get("dataType")
    if value is None:
        return "NULL", _ATOM
    value = str(value)
    match data_type:
        case "date" | "timestamp" | "timestamp_ntz":
            return f"{data_type.upper()} '{value}'", _ATOM
        case str() if data_type.startswith(("string", "char", "varchar")):
            return "'" + value.replace("'", "''") + "'", _ATOM
        case str() if data_type.startswith("interval"):
            return _interval(value, data_type), _ATOM
        case "boolean":
            return value.upper(), _ATOM
        case "binary":
            return ("X'…'" if value.startswith("[B@") else f"X'{value}'"), _ATOM
        case _:
            suffix = _SUFFIXES.get(str(data_type), "") if writer.is_label else ""
            return value + suffix, 9 if value.startswith("-") else _ATOM


_SUFFIXES = {"byte": "Y", "short": "S", "long": "L", "float": "F", "double": "D"}


_UNITS = {"year": 12, "month": 1}
_MICROS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}


def _interval(value: str, data_type: str) -> str:
    """An interval literal: Spark keeps months, or microseconds."""
    words = data_type.split()[1:]
    units = _UNITS if words and words[0] in _UNITS else _MICROS
    last = words[-1] if words else ""
    if not re.fullmatch(r"-?\d+", value) or last not in units:
        return f"INTERVAL '{value}'"
    for unit, size in units.items():
        if int(value) % size == 0 and (unit == last or int(value) != 0):
            return f"INTERVAL '{int(value) // size}' {unit.upper()}"
    return f"INTERVAL '{int(value) / units[last]}' {last.upper()}"


def _cast(writer: Writer, node: Node) -> tuple[str, int]:
    child, target = node.children[0], types.infer(node, writer.attributes.types)
    source = types.infer(child, writer.attributes.types)
    if source == target:
        return writer._write(child)
    if types.widens(source, target) and not writer.is_label:
        return writer._write(child)
    mode = _mode(node)
    word = "TRY_CAST" if mode == "TRY" else "CAST"
    text = f"{writer.text(child)} AS {types.text(target)}"
    if writer.is_label:
        text += "" if mode in ("TRY", None) else f", {mode}"
        text += f", {node.fields.get('timeZoneId')}" if _by_clock(source, target) else ""
    return f"{word}({text})", _ATOM


def _by_clock(source: Any, target: Any) -> bool:
    """Whether a cast depends on the session's time zone: one side alone is a moment in time."""
    moments = {str(side) == "timestamp" for side in (source, target)}
    return len(moments) == 2


def _like(writer: Writer, node: Node) -> tuple[str, int]:
    left, right = (writer._at(child, 5) for child in node.children)
    escape = node.fields.get("escapeChar")
    return f"{left} LIKE {right}" + (f" ESCAPE '{escape}'" if escape else ""), 4


def _not(writer: Writer, node: Node) -> tuple[str, int]:
    inner = node.children[0]
    if inner.name == "EqualTo":
        left, right = (writer._at(child, 5) for child in inner.children)
        return f"{left} != {right}", 4
    if inner.name in ("In", "InSet", "Like", "RLike"):
        text, strength = writer._write(inner)
        word = "IN" if inner.name.startswith("In") else inner.name.upper()
        return text.replace(f" {word} ", f" NOT {word} ", 1), strength
    return f"NOT {writer._at(inner, 4)}", 3


def _in(writer: Writer, node: Node) -> tuple[str, int]:
    options = ", ".join(writer.text(child) for child in node.children[1:])
    return f"{writer._at(node.children[0], 5)} IN ({options})", 4


def _case(writer: Writer, node: Node) -> tuple[str, int]:
    parts, children = ["CASE"], list(node.children)
    while len(children) >= 2:
        parts.append(f"WHEN {writer.text(children[0])} THEN {writer.text(children[1])}")
        del children[:2]
    if children:
        parts.append(f"ELSE {writer.text(children[0])}")
    return " ".join([*parts, "END"]), _ATOM


def _struct_field(writer: Writer, node: Node) -> tuple[str, int]:
    name = types.get_field_name(node, writer.attributes.types)
    field = quote(name) if name is not None else str(node.fields.get("ordinal"))
    return f"{writer._at(node.children[0], _ATOM)}.{field}", _ATOM


def _at_index(writer: Writer, node: Node) -> tuple[str, int]:
    if writer.is_label and node.fields.get("failOnError") is False:
        return f"get({writer._arguments(node)})", _ATOM
    return f"{writer._at(node.children[0], _ATOM)}[{writer.text(node.children[1])}]", _ATOM


def _lambda(writer: Writer, node: Node) -> tuple[str, int]:
    body, *arguments = node.children
    inside = writer.inside(arguments)
    names = ", ".join(inside.variable(argument) for argument in arguments)
    return f"{names if len(arguments) == 1 else f'({names})'} -> {inside.text(body)}", 0


def _subquery(writer: Writer, node: Node) -> tuple[str, int]:
    return f"(subquery {writer.subqueries.get(node.id, '?')})", _ATOM


def _with(writer: Writer, node: Node) -> tuple[str, int]:
    body, *definitions = node.children
    if len(definitions) == 1:
        return writer._write(_inlined(body, definitions[0].children[0]))
    shared = ", ".join(writer.text(d.children[0]) for d in definitions)
    return f"with({shared}; {writer.text(body)})", _ATOM


def _inlined(node: Node, definition: Node) -> Node:
    if node.name == "CommonExpressionRef":
        return definition
    return Node(node.name, node.fields, tuple(_inlined(c, definition) for c in node.children))


def _window(writer: Writer, node: Node) -> tuple[str, int]:
    return f"{writer.text(node.children[0])} OVER ({writer.text(node.children[1])})", _ATOM


def _window_spec(writer: Writer, node: Node) -> tuple[str, int]:
    orders = [str(writer.sort_key(c)) for c in node.children if c.name == "SortOrder"]
    last = node.children[-1]
    frame = frame_text(writer, last) if last.name.endswith("Frame") else ""
    keys = [
        writer.text(c) for c in node.children if c.name != "SortOrder" and not (frame and c is last)
    ]
    parts = [f"PARTITION BY {', '.join(keys)}"] if keys else []
    parts += [f"ORDER BY {', '.join(orders)}"] if orders else []
    return " ".join([*parts, frame]).strip(), 0


def frame_text(writer: Writer, node: Node) -> str:
    """A window frame."""
    if node.name != "SpecifiedWindowFrame":
        return ""
    word = "ROWS" if object_name(node.fields["frameType"]) == "RowFrame" else "RANGE"
    lower, upper = (_bound(writer, child, i) for i, child in enumerate(node.children))
    return f"{word} BETWEEN {lower} AND {upper}"


_BOUNDS = {
    "UnboundedPreceding": "UNBOUNDED PRECEDING",
    "UnboundedFollowing": "UNBOUNDED FOLLOWING",
    "CurrentRow": "CURRENT ROW",
}


def _bound(writer: Writer, node: Node, side: int) -> str:
    if node.name in _BOUNDS:
        return _BOUNDS[node.name]
    text = writer.text(node)
    if text.startswith("-"):
        return f"{text[1:]} PRECEDING"
    return f"{text} FOLLOWING"


def _named_lambda(writer: Writer, node: Node) -> tuple[str, int]:
    return writer.variable(node), _ATOM


def _variable(writer: Writer, node: Node) -> tuple[str, int]:
    return str(node.fields.get("originalNameParts")).strip("[]").replace(", ", "."), _ATOM


def _suffix(words: str) -> Callable[[Writer, Node], tuple[str, int]]:
    return lambda writer, node: (f"{writer._at(node.children[0], 5)} {words}", 4)


def _negative(writer: Writer, node: Node) -> tuple[str, int]:
    return f"-{writer._at(node.children[0], 9)}", 9


def _collate(writer: Writer, node: Node) -> tuple[str, int]:
    name = node.children[1].fields.get("collationName", "?")
    return f"{writer._at(node.children[0], _ATOM)} COLLATE {name}", 9


def _sort_order(writer: Writer, node: Node) -> tuple[str, int]:
    return str(writer.sort_key(node)), 0


def _update_fields(writer: Writer, node: Node) -> tuple[str, int]:
    text = writer._at(node.children[0], _ATOM)
    for change in node.children[1:]:
        name = str(change.fields.get("name")).replace("'", "''")
        if change.name == "WithField":
            text += f".withField('{name}', {writer.text(change.children[0])})"
        else:
            text += f".dropFields('{name}')"
    return text, _ATOM


_SPECIAL: dict[str, Callable[[Writer, Node], tuple[str, int]]] = {
    "Literal": _literal,
    "Cast": _cast,
    "Like": _like,
    "Not": _not,
    "In": _in,
    "CaseWhen": _case,
    "GetStructField": _struct_field,
    "GetArrayStructFields": _struct_field,
    "GetArrayItem": _at_index,
    "GetMapValue": _at_index,
    "LambdaFunction": _lambda,
    "NamedLambdaVariable": _named_lambda,
    "ScalarSubquery": _subquery,
    "With": _with,
    "WindowExpression": _window,
    "WindowSpecDefinition": _window_spec,
    "IsNull": _suffix("IS NULL"),
    "IsNotNull": _suffix("IS NOT NULL"),
    "UnaryMinus": _negative,
    "VariableReference": _variable,
    "Collate": _collate,
    "UpdateFields": _update_fields,
    "SortOrder": _sort_order,
}
