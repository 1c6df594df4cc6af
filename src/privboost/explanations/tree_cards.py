"""Summary of a tree: its splits and leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from privboost.explanations.plots import draw_tree


@dataclass(frozen=True)
class Leaf:
    """A leaf of a tree.

    Attributes
    ----------
    effect : float
        The value that the leaf adds to the score.
    std : float or None
        The standard error that noise gives to the effect; None where it is unknown.
    mass : float or None
        The noisy count of the leaf; see `Shape`.
    """

    effect: float
    std: float | None = None
    mass: float | None = None
    below: ClassVar[tuple[()]] = ()


@dataclass(frozen=True)
class Split:
    """A split of a tree.

    Attributes
    ----------
    feature : str
        The feature of the split.
    left, right : str
        The conditions of the two sides.
    below : tuple of two
        The left and right child: splits or leaves.
    """

    feature: str
    left: str
    right: str
    below: tuple[Split | Leaf, Split | Leaf]


@dataclass(frozen=True)
class TreeSummary:
    """A tree of several features.

    Attributes
    ----------
    number : int
        The number of the tree in the model, from 1 on.
    root : Split or Leaf
        The root.
    of : str
        The class whose score it is, beyond two.
    """

    number: int
    root: Split | Leaf
    of: str = ""

    @property
    def name(self) -> str:
        """The number, and the class beyond two."""
        return f"tree {self.number}" + (f" for {self.of}" if self.of else "")

    def to_text(self) -> str:
        """Return the conditions and leaf values."""
        return "\n".join([self.name, *_lines(self.root, 1)])

    def plot(self, ax: Any = None) -> Any:
        """Draw the tree; return the axes."""
        return draw_tree(self.root, self.name, ax)


def _lines(node: Split | Leaf, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(node, Leaf):
        error = "" if node.std is None else f" ± {node.std:.2g}"
        yield f"{indent}{node.effect:+.4g}{error}"
        return
    for condition, below in zip((node.left, node.right), node.below, strict=True):
        yield f"{indent}{condition}"
        yield from _lines(below, depth + 1)
