"""One tree, as its splits and leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Leaf:
    """What a leaf adds to the score.

    Attributes
    ----------
    effect : float
        What it adds.
    std : float or None
        The standard error that noise gives to it; None where it cannot be told.
    mass : float or None
        How many rows it has, as far as was released; see `Shape`.
    """

    effect: float
    std: float | None = None
    mass: float | None = None


@dataclass(frozen=True)
class Split:
    """Where rows part.

    Attributes
    ----------
    feature : str
        What is looked at.
    left, right : str
        Which rows go there, in words.
    below : tuple of two
        What is found on the left and on the right: splits or leaves.
    """

    feature: str
    left: str
    right: str
    below: tuple[Split | Leaf, Split | Leaf]


@dataclass(frozen=True)
class TreeCard:
    """A tree that looks at several features.

    Attributes
    ----------
    number : int
        Its place among all trees of the model, from 1 on.
    root : Split or Leaf
        Where rows come in.
    of : str
        The class whose score it adds to, beyond two.
    """

    number: int
    root: Split | Leaf
    of: str = ""

    @property
    def name(self) -> str:
        """Its number, and the class beyond two."""
        return f"tree {self.number}" + (f" for {self.of}" if self.of else "")

    def to_text(self) -> str:
        """Write it as conditions, and what each leaf adds."""
        return "\n".join([self.name, *_lines(self.root, 1)])

    def plot(self, ax: Any = None) -> Any:
        """Draw it; return the axes."""
        from privboost.explanations.tree_plot import draw_tree

        return draw_tree(self, ax)


def _lines(node: Split | Leaf, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(node, Leaf):
        error = "" if node.std is None else f" ± {node.std:.2g}"
        yield f"{indent}{node.effect:+.4g}{error}"
        return
    for words, below in zip((node.left, node.right), node.below, strict=True):
        yield f"{indent}{words}"
        yield from _lines(below, depth + 1)
