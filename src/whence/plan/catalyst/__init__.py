"""The text of Spark's `plan.toJSON()` read into a `plan`; pure Python, no Spark needed."""

from whence.plan.catalyst.operators import Leaf, read_plan

__all__ = ["Leaf", "read_plan"]
