"""A resolved Spark plan as whence's own `plan`.

    plan = normalise(session, frame._jdf.queryExecution().withCachedData())
    read_plan(plan_text(session, plan), leaves, plan.schema().json())

Reading is pure: it needs the plan's text only, and lives in `whence.plan.catalyst`.
"""

from whence.plan import Operator, sources
from whence.plan.catalyst import Leaf, read_plan

__all__ = ["Leaf", "read_plan", "source_names"]


def source_names(root: Operator) -> tuple[str | None, ...]:
    """For each source, in the order of `walk`, the view or table that names it, if one does."""
    return tuple(None if found.name == found.id else found.name for found in sources(root))
