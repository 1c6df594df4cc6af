"""Losses as integer tables: from a row's fixed-point score to its gradient and Hessian.

A table has one line for each kind of row: a row of another class (or any row of a regression), a
row of the output's own class, and a row whose label is unknown, which contributes nothing.
Entries are clipped, then rounded toward zero, so that no entry exceeds `grid.UNIT`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from privboost.grid import SCORE_UNITS, UNIT

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
        In units of the clips, `UNIT` units each; see the module's first lines for the three rows.
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
        """What a row adds to a count, in units: `UNIT`, or nothing."""
        count = np.full_like(self.hessian, UNIT)
        count[UNKNOWN] = 0
        return count if self.taking_part is None else count * self.taking_part

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
        return self.gradient.shape[1]


def logistic(gradient_clip: float, hessian_clip: float) -> LossTable:
    """Tabulate the logistic loss: g = p − y, h = p(1 − p), for scores within ±8.

    One-vs-rest classification of K classes uses the same table for every class.
    """
    return _tabulate(
        limit=8,
        gradients=(expit, lambda score: expit(score) - 1),
        hessian=lambda score: expit(score) * expit(-score),
        clips=(gradient_clip, hessian_clip),
    )


def squared(gradient_clip: float, hessian_clip: float) -> LossTable:
    """Tabulate the squared loss of labels in [−1, 1]: the state is F − y, so g = state and h = 1.

    States beyond ±2 have the gradient of ±2.
    """
    return _tabulate(
        limit=2,
        gradients=(lambda state: state, lambda state: state),
        hessian=np.ones_like,
        clips=(gradient_clip, hessian_clip),
    )


def linear_loss(name: str, gradient_clip: float, weights: tuple[float, float]) -> LossTable:
    """Tabulate a loss of which only gradients are used, those of each class times its weight.

    Parameters
    ----------
    name : {"logistic", "hinge", "squared", "number"}
        The loss. Classes are 0 and 1 for "logistic", −1 and 1 for "hinge" and "squared"; "number"
        is the squared loss of a number, whose state is F − y.
    gradient_clip : float
        What gradients are clipped to, after their class's weight.
    weights : (float, float)
        The weights of class 0 and class 1, at most 1.
    """
    limit, other, own = {
        "logistic": (8, expit, lambda score: expit(score) - 1),
        "hinge": (8, lambda s: (s > -1).astype(float), lambda s: -(s < 1).astype(float)),
        "squared": (8, lambda score: score + 1, lambda score: score - 1),
        "number": (2, lambda state: state, lambda state: state),
    }[name]
    if not all(0 <= weight <= 1 for weight in weights):
        raise ValueError("weights of classes must lie between 0 and 1")
    return _tabulate(
        limit=limit,
        gradients=(lambda s: weights[0] * other(s), lambda s: weights[1] * own(s)),
        hessian=np.ones_like,
        clips=(gradient_clip, 1.0),
    )


def class_indicator() -> LossTable:
    """Return a table whose "gradient" is the row's own class: 1 for class 1, else 0."""
    one = np.full((1, _SIZE), UNIT, dtype=np.int32)
    gradient = np.concatenate([0 * one, one, 0 * one])
    return LossTable(gradient, np.concatenate([one, one, 0 * one]), shift=0)


def within_units(table: LossTable) -> bool:
    """Whether no entry exceeds one unit, nor a gradient its count, as all sensitivities assume."""
    return (
        int(table.gradient.min()) >= -UNIT
        and int(table.gradient.max()) <= UNIT
        and int(table.hessian.min()) >= 0
        and int(table.hessian.max()) <= UNIT
        and int(table.count.min()) >= 0
        and int(table.count.max()) <= UNIT
        and bool((np.abs(table.gradient) <= table.count).all())
        and not table.hessian[table.count == 0].any()
        and not table.gradient[UNKNOWN].any()
        and not table.hessian[UNKNOWN].any()
    )


def filtered(table: LossTable, limit: float, gradient_clip: float) -> LossTable:
    """Leave out the rows whose gradient is above a limit, which is at most its clip.

    Whether a row is left out depends on its own state and label alone.
    """
    inside = np.abs(table.gradient) <= int(limit / gradient_clip * UNIT)
    inside[UNKNOWN] = False
    return LossTable(
        table.gradient * inside, table.hessian * inside, table.shift, inside.astype(np.uint8)
    )


LOSSES: dict[str, Callable[[float, float], LossTable]] = {"logistic": logistic, "squared": squared}


def _tabulate(
    limit: int,
    gradients: tuple[Derivative, Derivative],
    hessian: Derivative,
    clips: tuple[float, float],
) -> LossTable:
    """Evaluate a loss at the middle of each score cell and round it onto the grid."""
    width = 2 * limit * SCORE_UNITS // _SIZE
    scores = (np.arange(_SIZE) - _SIZE // 2 + 0.5) * width / SCORE_UNITS
    nothing = np.zeros(_SIZE, dtype=np.int32)
    bend = _round(hessian(scores), clips[1])
    return LossTable(
        gradient=np.stack([_round(g(scores), clips[0]) for g in gradients] + [nothing]),
        hessian=np.stack([bend, bend, nothing]),
        shift=width.bit_length() - 1,
    )


def _round(values: np.ndarray, clip: float) -> np.ndarray:
    """Clip, then round toward zero: the integer sensitivity is exactly `UNIT`."""
    if not clip > 0:
        raise ValueError("a clip must be above 0")
    return np.trunc(np.clip(values / clip, -1, 1) * UNIT).astype(np.int32)
