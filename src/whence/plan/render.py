"""A plan as a text tree for people and golden files; the same plan always gives the same text."""

from collections.abc import Callable
from typing import assert_never

from whence.plan import operators as plan
from whence.plan.operators import Operator
from whence.plan.paths import Path, move_text, quote, step_text

_MANY = 8  # columns that are only handed on, in one line


def render(
    root: Operator,
    annotate: Callable[[Operator], str] | None = None,
    *,
    paths: bool = False,
) -> str:
    """The tree, one line per operator; `annotate` adds to a line, `paths` shows reads, moves."""
    lines: list[str] = []
    pending: list[tuple[Operator, str, str, str]] = [(root, "", "", "")]
    while pending:
        operator, first, rest, label = pending.pop()
        below = operator.subqueries + operator.children
        lines.append(_line(operator, first + label, annotate))
        if paths:
            lines += [rest + ("│  " if below else "   ") + text for text in _paths(operator)]
        for i, each in reversed(list(enumerate(below))):
            last = i == len(below) - 1
            mark = "subquery " if i < len(operator.subqueries) else ""
            pending.append(
                (each, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), mark)
            )
    return "\n".join(lines) + "\n"


def _line(operator: Operator, before: str, annotate: Callable[[Operator], str] | None) -> str:
    text = f"{before}{operator.id}  {describe(operator)}".rstrip()
    note = annotate(operator) if annotate else ""
    return f"{text}  {note}" if note else text


def _paths(operator: Operator) -> list[str]:
    numbers: dict[str, set[tuple[int, int]]] = {}
    for i, each in enumerate(operator.inputs):
        for column in each.output:
            numbers.setdefault(column.name, set()).add((i, column.number))
    clashing = {name for name, found in numbers.items() if len(found) > 1}

    def text(path: Path) -> str:
        """Columns of inputs that share a name are told apart by their numbers."""
        if path.input is None or path.name not in clashing:
            return str(path)
        return quote(path.name) + f"#{path.column}" + "".join(map(step_text, path.steps))

    reads = ", ".join(map(text, operator.reads))
    return ([f"  reads {reads}"] if reads else []) + [
        "  " + move_text(move, text) for move in operator.moves
    ]


def describe(operator: Operator) -> str:
    """What an operator does, in one line."""
    match operator:
        case plan.Source(name=name, format=form):
            return f"{name} ({form})"
        case plan.OneRow():
            return ""
        case plan.View(name=name):
            return name
        case plan.Project():
            return _project(operator)
        case plan.Filter(predicate=predicate):
            return predicate.text
        case plan.Join():
            return _join(operator)
        case plan.Aggregate():
            return _aggregate(operator)
        case plan.Window():
            return _window(operator)
        case plan.Generate():
            return _generate(operator)
        case plan.Expand(projections=lists):
            return "; ".join("(" + ", ".join(map(str, listed)) + ")" for listed in lists)
        case plan.Number(column=column):
            return column.name
        case plan.Observe(name=name, metrics=metrics):
            return f"{name}: " + ", ".join(map(str, metrics))
        case plan.MapBatches() | plan.MapGroups() | plan.MapCogroups() | plan.ArrayFunction():
            return _python(operator)
        case _:
            return _plain(operator)


def _plain(
    operator: plan.Union
    | plan.Sort
    | plan.Limit
    | plan.Offset
    | plan.Tail
    | plan.Sample
    | plan.Repartition
    | plan.Hint
    | plan.Except
    | plan.Intersect,
) -> str:
    match operator:
        case plan.Union() | plan.Hint():
            return ""
        case plan.Sort(order=order, whole=whole):
            return ", ".join(map(str, order)) + ("" if whole else " (in each partition)")
        case plan.Limit(limit=limit, local=local):
            return limit.text + (" (in each partition)" if local else "")
        case plan.Offset(offset=offset):
            return offset.text
        case plan.Tail(limit=limit):
            return limit.text
        case plan.Sample(lower=lower, upper=upper, replacement=replacement):
            return f"{lower} to {upper}" + (" with replacement" if replacement else "")
        case plan.Repartition(how=how, partitions=partitions, keys=keys):
            by = f" by {', '.join(map(str, keys))}" if keys else ""
            return how + by + (f" into {partitions}" if partitions is not None else "")
        case plan.Except(all=every) | plan.Intersect(all=every):
            return "all" if every else ""
        case _:
            assert_never(operator)


def _project(operator: plan.Project) -> str:
    texts, kept = [], 0
    for expression, column in zip(operator.projections, operator.output, strict=True):
        text = _named(expression, column)
        kept += text == quote(column.name)
        if kept <= _MANY or text != quote(column.name):
            texts.append(text)
    return ", ".join(texts + ([f"… {kept - _MANY} more"] if kept > _MANY else []))


def _named(expression: plan.Expression, column: plan.Column) -> str:
    return expression.text if _is_named(expression, column) else f"{expression} AS {column.name}"


def _is_named(expression: plan.Expression, column: plan.Column) -> bool:
    """Whether an expression is a column under its own name, or is named by its own text."""
    name = quote(column.name)
    return expression.text in (name, column.name) or expression.text.endswith("." + name)


def _join(operator: plan.Join) -> str:
    text: str = operator.type
    if operator.existence:
        text += f" AS {operator.existence.name}"
    if operator.single:
        text += " (at most one match)"
    return f"{text} on {operator.predicate}" if operator.predicate else text


def _aggregate(operator: plan.Aggregate) -> str:
    keys = ", ".join(map(str, operator.keys))
    known = {key.text for key in operator.keys}
    made = ", ".join(
        _named(result, column)
        for result, column in zip(operator.results, operator.output, strict=True)
        if result.text not in known or not _is_named(result, column)
    )
    by = f"by {keys}" if keys else ""
    return ": ".join(part for part in (by, made) if part)


def _window(operator: plan.Window) -> str:
    names = {column.number: column.name for column in operator.output}
    calls = ", ".join(
        f"{call.text}{f' {call.frame}' if call.frame else ''} AS {names[call.column]}"
        for call in operator.functions
    )
    by = ", ".join(map(str, operator.partition))
    order = ", ".join(map(str, operator.order))
    where = " ".join(
        part for part in (f"by {by}" if by else "", f"order {order}" if order else "") if part
    )
    return f"{where}: {calls}" if where else calls


def _generate(operator: plan.Generate) -> str:
    names = ", ".join(column.name for column in operator.generated)
    return f"{operator.generator}{' outer' if operator.outer else ''} AS {names}"


def _python(
    operator: plan.MapBatches | plan.MapGroups | plan.MapCogroups | plan.ArrayFunction,
) -> str:
    match operator:
        case plan.MapBatches(function=function) | plan.ArrayFunction(function=function):
            return function
        case plan.MapGroups(function=function, keys=keys):
            return f"by {', '.join(map(str, keys))}: {function}"
        case plan.MapCogroups(function=function, left_keys=left, right_keys=right):
            return f"by {', '.join(map(str, left))} | {', '.join(map(str, right))}: {function}"
        case _:
            assert_never(operator)
