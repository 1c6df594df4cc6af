"""What a loss is, and its integer table: from a row's fixed-point score to gradient and Hessian.

A table has one line for each kind of row: a row of another class (or any row of a regression), a
row of the output's own class, and a row whose label is unknown, which contributes nothing.
Entries are clipped, then rounded toward zero, so that no entry exceeds `grid.CLIP_STEPS`.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module

import numpy as np

from privboost.grid import CLIP_STEPS, SCORE_STEPS

OTHER_CLASS, OWN_CLASS, UNKNOWN = range(3)
UNKNOWN_LABEL = 255

_SIZE = 4096

Derivative = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class LossTable:
    """One loss on the grid.

    Attributes
    ----------
    gradient, hessian : int32 arrays of shape (3, size)
        In steps, `CLIP_STEPS` a clip; see the module's first lines for the three rows.
    shift : int
        Scores are shifted right by this many bits to give the column of the table.
    taking_part : bool array of shape (3, size), optional
        Which rows count at all; by default all of a known label.
    """

    gradient: np.ndarray
    hessian: np.ndarray
    shift: int
    taking_part: np.ndarray | None = None

    @property
    def count(self) -> np.ndarray:
        """What a row adds to a count, in steps: `CLIP_STEPS`, or nothing."""
        count = np.full_like(self.hessian, CLIP_STEPS)
        count[UNKNOWN] = 0
        return count if self.taking_part is None else count * self.taking_part

    def statistic(self, name: str) -> np.ndarray:
        """Return what a row adds to a statistic, in steps: a gradient, a Hessian, a count."""
        return {"gradient": self.gradient, "hessian": self.hessian, "count": self.count}[name]

    def frozen(self) -> LossTable:
        """Return a copy that nobody can change."""
        copies = [
            None if array is None else array.copy()
            for array in (self.gradient, self.hessian, self.taking_part)
        ]
        for copy in copies:
            if copy is not None:
                copy.flags.writeable = False
        gradient, hessian, taking_part = copies
        assert gradient is not None
        assert hessian is not None
        return LossTable(gradient, hessian, self.shift, taking_part)

    @property
    def size(self) -> int:
        """The number of score cells."""
        return int(self.gradient.shape[1])


@dataclass(frozen=True, eq=False)
class Loss:
    """One loss: its table, where boosting begins, and what its scores mean.

    Attributes
    ----------
    target : {"classes", "number"}
        What it is a loss of. A class is 0 or 1, each against all others; a number lies in [−1, 1],
        and its state is F − y.
    name : str
        Its word in parameters and reports, one for each target.
    limit : int
        Scores (or states) beyond ± this have the derivatives there; a power of two.
    gradients : (callable, callable)
        Of rows of another class (or of all numbers), and of rows of the class itself.
    sizes : (callable, callable)
        The loss itself, of the same rows.
    curvature : float
        How much it bends on an average row: half the most, for rows that are sure do not bend.
    hessian : callable, optional
        The second derivative; without one there are no Newton steps.
    start_clip : float
        The most that a gradient can be at a score of 0.
    start : callable, optional
        From the mean gradient at a score of 0, in parts of `start_clip`, to where boosting begins.
    log_odds : bool
        Whether scores are log-odds.
    """

    target: str
    name: str
    limit: int
    gradients: tuple[Derivative, Derivative]
    sizes: tuple[Derivative, Derivative]
    curvature: float
    hessian: Derivative | None = None
    start_clip: float = 1.0
    start: Callable[[float], float] | None = None
    log_odds: bool = False

    def table(self, gradient_clip: float, hessian_clip: float) -> LossTable:
        """Tabulate gradients and Hessians; all classes of one-vs-rest use the same table."""
        if self.hessian is None:
            raise ValueError(f"the {self.name} loss has no Hessian, and no Newton steps")
        return _tabulate(self.limit, self.gradients, self.hessian, (gradient_clip, hessian_clip))

    def gradient_table(self, gradient_clip: float, weights: tuple[float, float]) -> LossTable:
        """Tabulate gradients alone, those of each class times its weight, with Hessians of 1.

        Parameters
        ----------
        gradient_clip : float
            What gradients are clipped to, after their class's weight.
        weights : (float, float)
            The weights of class 0 and class 1, at most 1.
        """
        if not all(0 <= weight <= 1 for weight in weights):
            raise ValueError("weights of classes must lie between 0 and 1")
        other, own = self.gradients
        weighted = (lambda s: weights[0] * other(s), lambda s: weights[1] * own(s))
        return _tabulate(self.limit, weighted, np.ones_like, (gradient_clip, 1.0))


def loss_of(target: str, name: str) -> Loss:
    """Return the loss of a target with a name."""
    return _all_losses()[target, name]


def newton_losses(target: str) -> tuple[str, ...]:
    """Return the names of the losses of a target that have a Hessian."""
    return tuple(name for name in losses_of(target) if loss_of(target, name).hessian is not None)


def losses_of(target: str) -> tuple[str, ...]:
    """Return the names of all losses of a target."""
    return tuple(sorted(name for kind, name in _all_losses() if kind == target))


@cache
def _all_losses() -> dict[tuple[str, str], Loss]:
    """Every loss that a file of this package holds."""
    package = import_module("privboost.losses")
    found: dict[tuple[str, str], Loss] = {}
    for file in pkgutil.iter_modules(package.__path__):
        held = vars(import_module(f"privboost.losses.{file.name}")).values()
        found |= {(loss.target, loss.name): loss for loss in held if isinstance(loss, Loss)}
    return found


def class_indicator() -> LossTable:
    """Return a table whose "gradient" is the row's own class: 1 for class 1, else 0."""
    one = np.full((1, _SIZE), CLIP_STEPS, dtype=np.int32)
    gradient = np.concatenate([0 * one, one, 0 * one])
    return LossTable(gradient, np.concatenate([one, one, 0 * one]), shift=0)


def within_steps(table: LossTable) -> bool:
    """Whether no entry exceeds one clip, nor a gradient its count, as all sensitivities assume.

    A row counts whole or not at all: for parts of rows a mean's bound is false.
    """
    return (
        int(table.gradient.min()) >= -CLIP_STEPS
        and int(table.gradient.max()) <= CLIP_STEPS
        and int(table.hessian.min()) >= 0
        and int(table.hessian.max()) <= CLIP_STEPS
        and bool(np.isin(table.count, (0, CLIP_STEPS)).all())
        and bool((np.abs(table.gradient) <= table.count).all())
        and not table.hessian[table.count == 0].any()
        and not table.gradient[UNKNOWN].any()
        and not table.hessian[UNKNOWN].any()
    )


def filtered(table: LossTable, limit: float, gradient_clip: float) -> LossTable:
    """Leave out the rows whose gradient is above a limit, which is below its clip.

    Whether a row is left out depends on its own state and label alone.
    """
    inside = np.abs(table.gradient) <= int(limit / gradient_clip * CLIP_STEPS)
    inside[UNKNOWN] = False
    return LossTable(
        table.gradient * inside, table.hessian * inside, table.shift, inside.astype(np.uint8)
    )


def _tabulate(
    limit: int,
    gradients: tuple[Derivative, Derivative],
    hessian: Derivative,
    clips: tuple[float, float],
) -> LossTable:
    """Evaluate a loss at the middle of each score cell and round it onto the grid."""
    width = 2 * limit * SCORE_STEPS // _SIZE
    scores = (np.arange(_SIZE) - _SIZE // 2 + 0.5) * width / SCORE_STEPS
    nothing = np.zeros(_SIZE, dtype=np.int32)
    bend = _round(hessian(scores), clips[1])
    return LossTable(
        gradient=np.stack([_round(g(scores), clips[0]) for g in gradients] + [nothing]),
        hessian=np.stack([bend, bend, nothing]),
        shift=width.bit_length() - 1,
    )


def _round(values: np.ndarray, clip: float) -> np.ndarray:
    """Clip, then round toward zero: the integer sensitivity is exactly `CLIP_STEPS`."""
    if not clip > 0:
        raise ValueError("a clip must be above 0")
    return np.trunc(np.clip(values / clip, -1, 1) * CLIP_STEPS).astype(np.int32)
