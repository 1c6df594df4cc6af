"""A table or figure of a paper: its points, how each is measured, and what was published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

X = float | str
"""Where a point stands: an ε, a number of trees, a data set."""


@dataclass(frozen=True)
class Point:
    """One cell of a table, or one point of a curve.

    Attributes
    ----------
    arm : str
        The curve, or the column.
    x : float or str
        Where on it.
    measure : callable
        Returns the figure of one run, or several by name, given its `how` and a `seed`. A function
        of a module, since runs are shared out to processes.
    how : dict
        What it is called with, plain values all.
    published : float, optional
        The paper's figure.
    panel : str
        Which of several plots, or tables, of one figure.
    of : str
        Which of a run's figures, where it has several: points that differ in this alone share runs.
    """

    arm: str
    x: X
    measure: Callable[..., float | dict[str, float]]
    how: dict[str, Any] = field(default_factory=dict)
    published: float | None = None
    panel: str = ""
    of: str = ""


@dataclass(frozen=True)
class Figure:
    """One table or figure.

    Attributes
    ----------
    name : str
        The paper's word and its number: `sbdt.figure3`.
    title : str
        What it shows.
    points : tuple of Point
        All of its points.
    x, y : str
        What the axes mean.
    log : bool
        Whether x is drawn on a log scale.
    runs : int
        How many runs a point has.
    best : bool
        Whether points of one arm, panel and x are settings of which the best mean is told, as the
        paper chose; that favours all arms alike.
    average : bool
        Whether points of one arm, panel and x are data sets of which the mean is told.
    """

    name: str
    title: str
    points: tuple[Point, ...]
    x: str = "ε"
    y: str = "AUC"
    log: bool = False
    runs: int = 10
    best: bool = False
    average: bool = False

    @property
    def more_is_better(self) -> bool:
        """Whether larger figures are better ones."""
        return self.y in ("AUC", "accuracy", "F1")
