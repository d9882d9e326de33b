"""A resolved Spark plan as whence's own `plan`."""

from whence.plan.catalyst import Leaf, read_plan

__all__ = ["Leaf", "read_plan"]
