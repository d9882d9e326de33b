"""Operators that choose, order or combine rows and leave the values in them alone."""

from dataclasses import replace

from whence.plan.catalyst.context import Context
from whence.plan.catalyst.leaves import unsupported
from whence.plan.catalyst.nodes import is_tree, object_name, parse
from whence.plan.operators import (
    Column,
    Except,
    Filter,
    Hint,
    Intersect,
    Join,
    JoinType,
    Limit,
    Number,
    Observe,
    Offset,
    Repartition,
    Sample,
    Sort,
    Tail,
    Union,
)
from whence.plan.paths import Move, Path

_JOINS: dict[str, JoinType] = {
    "Inner": "inner",
    "Cross": "cross",
    "LeftOuter": "left",
    "LeftSingle": "left",
    "RightOuter": "right",
    "FullOuter": "full",
    "LeftSemi": "semi",
    "LeftAnti": "anti",
    "ExistenceJoin": "existence",
}


def filter_rows(context: Context) -> Filter:
    """Filter."""
    condition = context.expression("condition")
    return Filter(
        **context.common(context.input, decides=(condition,)),
        predicate=context.writer.expression(condition),
    )


def join(context: Context) -> Join:
    """Join, of any type."""
    found = context.node.fields["joinType"]
    name = object_name(found)
    if name in ("NaturalJoin", "UsingJoin"):
        name = object_name(found.get("tpe"))
    if name not in _JOINS:
        raise unsupported(context.node, (*context.trail, name))
    condition = context.node.expression("condition")
    existence = None
    if name == "ExistenceJoin" and is_tree(found.get("exists")):
        existence = context.attributes.column(parse(found["exists"]))
    used = (condition,) if condition else ()
    moves: tuple[Move, ...] = ()
    if existence:
        reads = context.flow.paths(used)
        moves = (Move(Path(existence.number, existence.name), reads, "computed"),)
    return Join(
        **context.common(_joined(context, _JOINS[name], existence), decides=used, moves=moves),
        type=_JOINS[name],
        predicate=context.writer.expression(condition) if condition else None,
        existence=existence,
        single=name == "LeftSingle",
    )


def _joined(context: Context, kind: JoinType, existence: Column | None) -> tuple[Column, ...]:
    left, right = (child.output for child in context.children)
    match kind:
        case "semi" | "anti":
            return left
        case "existence":
            return (*left, existence) if existence else left
        case "left":
            return left + _nullable(right)
        case "right":
            return _nullable(left) + right
        case "full":
            return _nullable(left) + _nullable(right)
        case "inner" | "cross":
            return left + right


def _nullable(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(
        column if column.nullable else replace(column, nullable=True) for column in columns
    )


def union(context: Context) -> Union:
    """Union: the columns of the first input name the result, those of the others move into it."""
    outputs = [child.output for child in context.children]
    output = tuple(
        replace(columns[0], nullable=any(column.nullable for column in columns))
        for columns in zip(*outputs, strict=True)
    )
    moves = tuple(
        Move(
            Path(columns[0].number, columns[0].name),
            tuple(Path(c.number, c.name, (), i) for i, c in enumerate(columns)),
            "copied",
        )
        for columns in zip(*outputs, strict=True)
    )
    return Union(**context.common(output, moves=moves))


def except_all(context: Context) -> Except:
    """EXCEPT ALL compares whole rows."""
    return Except(
        **context.common(context.input, whole=context.everything),
        all=bool(context.node.fields["isAll"]),
    )


def intersect_all(context: Context) -> Intersect:
    """INTERSECT ALL compares whole rows."""
    return Intersect(
        **context.common(context.input, whole=context.everything),
        all=bool(context.node.fields["isAll"]),
    )


def sort(context: Context) -> Sort:
    """Sort, of the whole result or within partitions."""
    orders = context.node.expressions("order")
    return Sort(
        **context.common(context.input, decides=orders),
        order=tuple(map(context.writer.sort_key, orders)),
        whole=bool(context.node.fields["global"]),
    )


def limit(context: Context) -> Limit:
    """GlobalLimit and LocalLimit."""
    expression = context.expression("limitExpr")
    return Limit(
        **context.common(context.input, decides=(expression,)),
        limit=context.writer.expression(expression),
        local=context.node.name == "LocalLimit",
    )


def offset(context: Context) -> Offset:
    """Offset."""
    expression = context.expression("offsetExpr")
    return Offset(
        **context.common(context.input, decides=(expression,)),
        offset=context.writer.expression(expression),
    )


def tail(context: Context) -> Tail:
    """Tail."""
    expression = context.expression("limitExpr")
    return Tail(
        **context.common(context.input, decides=(expression,)),
        limit=context.writer.expression(expression),
    )


def sample(context: Context) -> Sample:
    """Sample; Spark fixes the seed when the frame is made, but for TABLESAMPLE not REPEATABLE."""
    fields = context.node.fields
    return Sample(
        **context.common(context.input),
        lower=float(fields["lowerBound"]),
        upper=float(fields["upperBound"]),
        replacement=bool(fields["withReplacement"]),
        seed=None if fields.get("seed") is None else int(fields["seed"]),
    )


def number(context: Context) -> Number:
    """AttachDistributedSequence, of `zipWithIndex` and of the index of pandas on Spark."""
    column = context.attributes.column(context.expression("sequenceAttr"))
    about = {**context.common((column, *context.input)), "deterministic": False}
    return Number(**about, column=column)


def repartition(context: Context) -> Repartition:
    """Repartition, coalesce, repartition by hash or range, rebalance."""
    node = context.node
    keys = node.expressions("partitionExpressions")
    match node.name:
        case "Repartition":
            how = "repartition" if node.fields["shuffle"] else "coalesce"
        case "RebalancePartitions":
            how = "rebalance"
        case _:
            how = "range" if any(key.name == "SortOrder" for key in keys) else "hash"
    partitions = node.fields.get("numPartitions", node.fields.get("optNumPartitions"))
    plain = tuple(key.children[0] if key.name == "SortOrder" else key for key in keys)
    return Repartition(
        **context.common(context.input, looks=keys),
        how=how,
        partitions=partitions if isinstance(partitions, int) else None,
        keys=context.writer.expressions(plain),
    )


def hint(context: Context) -> Hint:
    """ResolvedHint."""
    return Hint(**context.common(context.input))


def observe(context: Context) -> Observe:
    """`df.observe`."""
    metrics = context.node.expressions("metrics")
    return Observe(
        **context.common(context.input, looks=metrics),
        name=str(context.node.fields.get("name")),
        metrics=context.writer.expressions(metrics),
    )
