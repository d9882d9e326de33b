"""Tree patterns: which cells and items of a nested result are meant."""

from whence.trace.patterns.build import Ask, anywhere, node, pattern
from whence.trace.patterns.tree import Condition, Node, Pattern

__all__ = ["Ask", "Condition", "Node", "Pattern", "anywhere", "node", "pattern"]
