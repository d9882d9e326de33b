"""Operators that make new values: projections, generators, groups, windows, Python functions."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whence.plan.catalyst.context import Context
from whence.plan.catalyst.nodes import Node, parse
from whence.plan.catalyst.shapes import unique
from whence.plan.catalyst.sql import deterministic, frame_text
from whence.plan.operators import (
    CHOOSING,
    Aggregate,
    AggregateCall,
    Column,
    Expand,
    Expression,
    Generate,
    MapBatches,
    MapCogroups,
    MapGroups,
    Project,
    Window,
    WindowCall,
)
from whence.plan.paths import Move, Path, quote


def project(context: Context) -> Project:
    """Project."""
    listed = context.node.expressions("projectList")
    output = tuple(context.attributes.column(node) for node in listed)
    moves = context.flow.moves(output, listed)
    return Project(
        **context.common(output, looks=listed, moves=moves),
        projections=context.writer.expressions(listed),
    )


def expand(context: Context) -> Expand:
    """Expand: grouping sets, unpivot."""
    output = context.columns("output")
    found = context.node.fields["projections"]
    if found is None:
        raise context.incomplete("projections")
    lists = tuple(tuple(map(parse, listed)) for listed in found)
    every = tuple(node for listed in lists for node in listed)
    moves = context.flow.alternatives(output, lists)
    return Expand(
        **context.common(output, looks=every, moves=moves),
        projections=tuple(context.writer.expressions(listed) for listed in lists),
    )


def generate(context: Context) -> Generate:
    """Generate: explode and friends."""
    node = context.node
    generator = context.expression("generator")
    outer = bool(node.fields["outer"])
    generated = context.columns("generatorOutput")
    if outer:
        generated = tuple(replace(column, nullable=True) for column in generated)
    dropped = set(node.fields.get("unrequiredChildIndex") or ())
    kept = tuple(column for i, column in enumerate(context.input) if i not in dropped)
    moves = context.flow.generated(generated, generator)
    whole = context.flow.unnested(generated, generator)
    common = context.common(kept + generated, moves=moves, whole=whole)
    return Generate(
        **{**common, "deterministic": deterministic(generator)},
        generator=context.writer.expression(generator),
        function=generator.name,
        outer=outer,
        generated=generated,
    )


def aggregate(context: Context) -> Aggregate:
    """Aggregate, and distinct, which is one without functions."""
    keys = context.node.expressions("groupingExpressions")
    results = context.node.expressions("aggregateExpressions")
    output = tuple(context.attributes.column(node) for node in results)
    calls = tuple(
        _aggregate_call(context, result, part, column)
        for result, column in zip(results, output, strict=True)
        for part in _calls((result,))
    )
    moves = context.flow.moves(output, results)
    return Aggregate(
        **context.common(output, decides=keys, looks=results, reads=_calls(results), moves=moves),
        keys=context.writer.expressions(keys),
        results=context.writer.expressions(results),
        aggregates=calls,
    )


def _calls(results: Sequence[Node]) -> tuple[Node, ...]:
    """The aggregate calls in results: an aggregate looks at its arguments in every row."""
    return tuple(
        part for result in results for part in result.walk() if part.name == "AggregateExpression"
    )


def _aggregate_call(context: Context, result: Node, call: Node, column: Column) -> AggregateCall:
    function, *rest = call.children
    write = context.writer.expression
    text = context.writer.text(call)
    return AggregateCall(
        function=function.name,
        text=text,
        arguments=context.writer.expressions(function.children),
        distinct=bool(call.fields.get("isDistinct")),
        filter=write(rest[0]) if rest else None,
        column=column.number,
        whole=result is call or (bool(result.children) and result.children[0] is call),
        label=context.writer.label(call, text),
    )


def window(context: Context) -> Window:
    """Window."""
    node = context.node
    listed = node.expressions("windowExpressions")
    partition, order = node.expressions("partitionSpec"), node.expressions("orderSpec")
    made = tuple(context.attributes.column(found) for found in listed)
    calls = tuple(
        _window_call(context, part, column)
        for found, column in zip(listed, made, strict=True)
        for part in found.walk()
        if part.name == "WindowExpression"
    )
    moves = context.flow.moves(made, listed)
    return Window(
        **context.common(context.input + made, reads=(*listed, *partition, *order), moves=moves),
        partition=context.writer.expressions(partition),
        order=tuple(map(context.writer.sort_key, order)),
        functions=calls,
    )


def _window_call(context: Context, call: Node, column: Column) -> WindowCall:
    outer, specification = call.children
    function = outer.children[0] if outer.name == "AggregateExpression" else outer
    frames = [c for c in specification.children if c.name.endswith("Frame")]
    text = context.writer.text(outer)
    return WindowCall(
        function=function.name,
        text=text,
        arguments=context.writer.expressions(function.children),
        frame=frame_text(context.writer, frames[-1]) if frames else "",
        column=column.number,
        picks=_picks(outer, function),
        label=context.writer.label(outer, text),
    )


def _picks(call: Node, function: Node) -> bool:
    """Whether a window function's value is not made of all rows of its frame."""
    filtered = call is not function and len(call.children) > 1
    chooses = function.name in CHOOSING or function.name == "NthValue"
    return filtered or chooses or bool(function.fields.get("ignoreNulls"))


def map_batches(context: Context) -> MapBatches:
    """mapInPandas, mapInArrow."""
    return MapBatches(**_python(context), function=_function(context), form=_form(context))


def map_groups(context: Context) -> MapGroups:
    """applyInPandas, applyInArrow."""
    keys = context.node.expressions("groupingAttributes")
    return MapGroups(
        **_python(context),
        function=_function(context),
        keys=context.writer.expressions(keys),
        form=_form(context),
    )


def map_cogroups(context: Context) -> MapCogroups:
    """Cogrouped applyInPandas, applyInArrow; the keys are the first columns of each input."""
    fields = context.node.fields
    left, right = (child.output for child in context.children)
    return MapCogroups(
        **_python(context),
        function=_function(context),
        left_keys=_keys(left[: int(fields["leftGroupingLen"])]),
        right_keys=_keys(right[: int(fields["rightGroupingLen"])]),
        form=_form(context),
    )


def _keys(columns: Sequence[Column]) -> tuple[Expression, ...]:
    return tuple(Expression(quote(column.name)) for column in columns)


def _form(context: Context) -> str:
    return "arrow" if "Arrow" in context.node.name else "pandas"


def _function(context: Context) -> str:
    return str(context.expression("functionExpr").fields.get("name"))


def _python(context: Context) -> dict[str, Any]:
    """A Python function over rows sees all of its input, and nobody sees into it (⊥)."""
    output, reads = context.columns("output"), context.everything
    moves = tuple(Move(Path(c.number, c.name), unique(reads), "undefined") for c in output)
    common = context.common(output, moves=moves, whole=reads)
    return {**common, "deterministic": deterministic(context.expression("functionExpr"))}
