"""A captured output as a DataFrame again: same columns, types, nullability and order."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from whence.spark.gateway import Gateway
from whence.spark.physical import restored
from whence.spark.stored import Stored


def read_output(
    gateway: Gateway, stored: Stored, folder: str, ordered: bool, session: SparkSession
) -> DataFrame:
    """The rows of an output dataset, without the slots, in the user's session."""
    physical = set(stored.properties["physical"])
    fields = [f for f in stored.properties["stored"]["fields"] if f["name"] in physical]
    schema = json.dumps({"type": "struct", "fields": fields})
    frame = gateway.frame(gateway.read_parquet(folder, schema))
    if ordered:
        names = "_metadata.file_name"
        frame = frame.orderBy(F.length(names), names, "_metadata.row_index")
    plan = frame._jdf.queryExecution().analyzed()
    have = {str(a.name()): a for a in gateway.output(plan)}
    wanted = _wanted(gateway, stored)
    columns = [have[p] for p in stored.properties["physical"]]
    plan = restored(gateway, plan, columns, wanted)
    return gateway.frame_in(plan, session)


def _wanted(gateway: Gateway, stored: Stored) -> list[Any]:
    """Attributes with the names, types and nullability that the pipeline gave."""
    schema = gateway.struct_type(json.dumps(json.loads(stored.schema)))
    return gateway.attributes(schema)
