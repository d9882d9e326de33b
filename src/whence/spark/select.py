"""Rows of a dataset chosen by a predicate, as Spark understands it."""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException

from whence.errors import SelectionError, UnknownNameError
from whence.spark.gateway import Gateway, Plan
from whence.spark.physical import restored
from whence.spark.rerun import Input, range_rows
from whence.spark.sources import located


def matching_rows(gateway: Gateway, found: Input, predicate: Any) -> Any:
    """The locators of the rows for which SQL text or a Column is true, as an Arrow table."""
    plan, slot = _named(gateway, found)
    try:
        text = isinstance(predicate, str)
        test = gateway.parse(predicate) if text else gateway.by_name(predicate)
        chosen = gateway.resolve(gateway.filter(test, plan))
        locator = gateway.alias(gateway.attribute(chosen, slot), "locator")
        return gateway.frame(gateway.project([locator], chosen)).toArrow()
    except AnalysisException as error:
        names = [str(a.name()) for a in gateway.output(plan) if a.name() != slot]
        if str(error.getCondition()).startswith("UNRESOLVED_COLUMN"):
            wanted = str((error.getMessageParameters() or {}).get("objectName", "")).strip("`")
            raise UnknownNameError("column", wanted, names) from error
        first = str(error).strip().splitlines()[0]
        raise SelectionError(f"cannot select by {predicate!r}: {first}") from error


def _named(gateway: Gateway, found: Input) -> tuple[Plan, str]:
    """The dataset's columns under the names that people know, and the name of the locators."""
    stored = found.stored
    if stored.kind == "range":
        return range_rows(gateway, stored)
    relation = gateway.read_files(list(found.paths), stored)
    traced = located(gateway, relation, stored, "selection")
    (slot,) = traced.slots
    have = {str(a.name()): a for a in gateway.output(relation)}
    if "physical" not in stored.properties:
        return traced.plan, slot
    columns = [have[name] for name in stored.properties["physical"]]
    if stored.kind == "snapshot":
        names = stored.properties["columns"]
        named = [gateway.alias(a, n) for a, n in zip(columns, names, strict=True)]
    else:
        wanted = gateway.attributes(gateway.struct_type(stored.schema))
        named = gateway.items(restored(gateway, traced.plan, columns, wanted).projectList())
    return gateway.project([*named, traced.slots[slot]], traced.plan), slot
