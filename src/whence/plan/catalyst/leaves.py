"""Leaves and views; and the refusal of what whence does not know."""

from typing import Any

from whence.errors import UnsupportedError
from whence.plan.catalyst.context import Context
from whence.plan.catalyst.nodes import Node, classes
from whence.plan.operators import OneRow, Source, View

# Spark's leaf classes, and the format when nobody says better.
FORMATS = {
    "LogicalRelation": "relation",
    "LogicalRelationWithTable": "relation",
    "HiveTableRelation": "hive",
    "DataSourceV2Relation": "v2",
    "DataSourceV2ScanRelation": "v2",
    "LogicalRDD": "rdd",
    "ExternalRDD": "rdd",
    "LocalRelation": "local",
    "Range": "range",
    "InMemoryRelation": "cached",
    "EmptyRelation": "empty",
}

# A frame that `spark.sql` was given by name becomes a view of a name that nobody chose.
_UNNAMED = "View:_pyspark_"


def source(context: Context) -> Source:
    """A leaf with rows."""
    node, parent = context.node, context.trail[-2] if len(context.trail) > 1 else ""
    kind = FORMATS[node.name]
    if kind == "rdd" and node.fields.get("fromCheckpoint") is True:
        kind = "checkpoint"
    name = table_name(node.fields.get("catalogTable"))
    if not name and parent.startswith("View:") and not parent.startswith(_UNNAMED):
        name = parent.removeprefix("View:")
    output = context.columns("output")
    return Source(**context.common(output), name=name or context.id, format=kind)


def one_row(context: Context) -> OneRow:
    """The empty row under a SELECT without FROM."""
    return OneRow(**context.common(()))


def view(context: Context) -> View:
    """A named plan."""
    return View(
        **context.common(context.input),
        name=view_name(context.node),
        temporary=context.node.fields.get("isTempView") is True,
    )


def view_name(node: Node) -> str:
    """The name of a `View` node."""
    return table_name(node.fields.get("desc")) or "view"


def table_name(table: Any) -> str:
    """The name in a `CatalogTable`, without catalog and database."""
    match table:
        case {"identifier": {"table": str(name)}}:
            return name
        case _:
            return ""


_ADVICE = {
    "UnionLoop": "recursive queries have no plan of fixed depth; write the rounds as steps, each "
    "captured on its own",
    "UnionLoopRef": "recursive queries have no plan of fixed depth; write the rounds as steps",
    "LateralJoin": "write the lateral subquery as a join",
    "ScriptTransformation": "write TRANSFORM as mapInPandas or a UDF",
    "DomainJoin": "write the correlated subquery as a join",
    "DeserializeToObject": "write the typed function as a DataFrame operation or a UDF",
    "SerializeFromObject": "write the typed function as a DataFrame operation or a UDF",
    "BatchEvalPythonUDTF": "call the Python table function in mapInPandas instead",
    "PythonUDTF": "call the Python table function in mapInPandas instead",
}
_STREAMING = classes(
    "StreamingRelation StreamingRelationV2 StreamingExecutionRelation EventTimeWatermark "
    "DeduplicateWithinWatermark FlatMapGroupsInPandasWithState TransformWithStateInPySpark "
    "FlatMapGroupsWithState TransformWithState StreamingDataSourceV2Relation"
)


def unsupported(node: Node, trail: tuple[str, ...]) -> UnsupportedError:
    """The error for a node that whence does not know: its name, its place, what to do."""
    where = " > ".join(name.partition(":")[0] for name in trail)
    if node.name in _STREAMING or node.fields.get("isStreaming") is True:
        return UnsupportedError(
            f"{node.name} is a stream (at {where}); capture each batch inside foreachBatch, or "
            "read the same data with spark.read"
        )
    advice = _ADVICE.get(
        node.name,
        "write its result to Parquet and read that, so that the trace ends there, or leave it out",
    )
    return UnsupportedError(f"whence does not know the operator {node.name} (at {where}); {advice}")
