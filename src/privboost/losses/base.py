"""Losses, and their integer tables from a row's fixed-point score to gradient and Hessian.

A table of classes has one line for each kind of row: a row of another class, a row of the output's
own class, and a row whose label is unknown, which contributes nothing. A table of numbers has the
same lines, of which it needs the first alone where the state of a row is its score less its label;
other losses have a line for each bin of labels instead, before that of unknown labels. Entries
are clipped, then rounded toward zero, so that no entry exceeds `grid.CLIP_STEPS`.
"""

from __future__ import annotations

import math
import pkgutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import ClassVar, Self, TypeAlias

import numpy as np
from scipy.special import expit, log_expit

from privboost._core.grid import CLIP_STEPS, SCORE_STEPS

OTHER_CLASS, OWN_CLASS, UNKNOWN = range(3)
"""The kinds of rows for one output, each of which is also the number of its line in a table."""
KINDS_OF_ROWS = 3
"""The lines of a table without bins of labels."""
MOST_LINES = 254
"""The most lines of a table: that of unknown labels, and one for each bin of labels."""
UNKNOWN_LABEL = 255
"""The code of a label that is missing, or not among the classes: its row is UNKNOWN."""

_SIZE = 4096
_BINNED_SIZE = 1024

Values: TypeAlias = float | np.ndarray
"""One number for all rows, or one for each."""


@dataclass(frozen=True, eq=False)
class LossTable:
    """One loss on the grid.

    Attributes
    ----------
    gradient, hessian : int32 arrays of shape (lines, size)
        In steps, `CLIP_STEPS` a clip; see the module's docstring for the lines, of which the last
        is that of unknown labels.
    shift : int
        Bits by which scores are shifted right to give the score bin, a column of the table.
    taking_part : bool array of shape (lines, size), optional
        Rows that count; by default all of a known label.
    """

    gradient: np.ndarray
    hessian: np.ndarray
    shift: int
    taking_part: np.ndarray | None = None

    @property
    def count(self) -> np.ndarray:
        """Contribution of a row to a count, in steps: `CLIP_STEPS` or 0."""
        count = np.full_like(self.hessian, CLIP_STEPS)
        count[-1] = 0
        return count if self.taking_part is None else count * self.taking_part

    def statistic(self, name: str) -> np.ndarray:
        """Return the contribution of a row to a statistic, in steps: gradient, Hessian or count."""
        return {"gradient": self.gradient, "hessian": self.hessian, "count": self.count}[name]

    def frozen(self) -> LossTable:
        """Return a read-only copy."""
        gradient, hessian = self.gradient.copy(), self.hessian.copy()
        counted = None if self.taking_part is None else self.taking_part.copy()
        for copy in (gradient, hessian, counted):
            if copy is not None:
                copy.flags.writeable = False
        return LossTable(gradient, hessian, self.shift, counted)

    @property
    def size(self) -> int:
        """The number of score bins: the columns of the table, each of an interval of scores."""
        return int(self.gradient.shape[1])

    @property
    def lines(self) -> int:
        """The lines of the table, that of unknown labels included."""
        return int(self.gradient.shape[0])


class Loss(ABC):
    """One loss: its value and derivatives, its link, and its table on the grid.

    Scores are float arrays of shape (outputs, rows); a loss of single outputs, as all are whose
    classes are one-vs-rest, works elementwise and takes any shape. The label of a class is 1 in
    the rows of the class and 0 in others; the label of a number lies in [−1, 1]. The offset is
    added to the scores before anything is computed, such as a log exposure; it is 0 unless the
    caller has one, and no trainer passes one.

    Attributes
    ----------
    target : {"classes", "number", "survival"}
        Kind of target.
    name : str
        Name in parameters and reports, unique for each target.
    limit : int
        Scores are clipped to ± this before look-up; a power of two.
    curvature : float
        Half the largest second derivative (for one without, a like number): a guess of its mean
        over rows, by which BoostedAdaSSP estimates how much noise of earlier rounds is left.
    label_clip : float
        Largest gradient at a score of 0.
    log_odds : bool
        Whether scores are log-odds.
    log_link : bool
        Whether scores are logarithms of means of a number; see `LogLink`.
    own_scale : bool
        Whether it needs more than a clipping range of labels: a unit, or a width.
    parameter : str
        Name of its parameter, if it has one.
    """

    target: ClassVar[str]
    name: ClassVar[str]
    limit: ClassVar[int]
    curvature: ClassVar[float]
    label_clip: ClassVar[float] = 1.0
    log_odds: ClassVar[bool] = False
    log_link: ClassVar[bool] = False
    own_scale: ClassVar[bool] = False
    parameter: ClassVar[str] = ""

    def with_parameter(self, value: float) -> Loss:
        """Return the loss with a value of its parameter."""
        raise ValueError(f"the {self.name} loss has no parameter")

    @abstractmethod
    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return the loss of each row."""

    @abstractmethod
    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return the derivative with respect to the scores."""

    def hessian(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return the second derivative; a loss without one has no Newton steps."""
        raise ValueError(f"the {self.name} loss has no Hessian, and no Newton steps")

    @property
    def has_hessian(self) -> bool:
        """Whether there is a second derivative."""
        return type(self).hessian is not Loss.hessian

    def inverse_link(self, score: float) -> float:
        """Return the mean label of a score; here the score, of labels from −1 to 1."""
        return score

    def link(self, mean: float) -> float:
        """Return the score of a mean label, kept within the range of useful scores."""
        return float(np.clip(mean, -1, 1))

    def initial_score(self, gradient: float) -> float:
        """Return the initial score, from the mean gradient at a score of 0 in parts of its clip."""
        return self.link(self.inverse_link(0.0) - gradient * self.label_clip)

    @property
    def labels(self) -> tuple[float, float]:
        """Labels of the first two lines of a table.

        The state of a number is its score minus its label, so that tables need the label 0 alone.
        """
        return (0.0, 1.0) if self.target == "classes" else (0.0, 0.0)

    def table(self, gradient_clip: float, hessian_clip: float) -> LossTable:
        """Tabulate gradients and Hessians; all classes of one-vs-rest use the same table."""
        scores = self._scores()
        return self._tabulate(
            [_round(self.gradient(scores, label), gradient_clip) for label in self.labels],
            [_round(self.hessian(scores, label), hessian_clip) for label in self.labels],
        )

    def gradient_table(self, gradient_clip: float, weights: tuple[float, float]) -> LossTable:
        """Tabulate gradients alone, those of each class times its weight, with Hessians of 1.

        Parameters
        ----------
        gradient_clip : float
            Bound of gradients, after their class's weight.
        weights : (float, float)
            Weights of class 0 and class 1, at most 1.
        """
        if not all(0 <= weight <= 1 for weight in weights):
            raise ValueError("weights of classes must lie between 0 and 1")
        scores = self._scores()
        lines = zip(weights, self.labels, strict=True)
        return self._tabulate(
            [_round(weight * self.gradient(scores, own), gradient_clip) for weight, own in lines],
            [_round(np.ones_like(scores), 1.0)] * 2,
        )

    @property
    def _width(self) -> int:
        """The width of a score bin, in score steps; a power of two."""
        return 2 * self.limit * SCORE_STEPS // _SIZE

    def _scores(self) -> np.ndarray:
        """Return the score in the middle of each bin."""
        return (np.arange(_SIZE) - _SIZE // 2 + 0.5) * self._width / SCORE_STEPS

    def _tabulate(self, gradient: list[np.ndarray], hessian: list[np.ndarray]) -> LossTable:
        """Return the table of two lines of each statistic, and zeros for unknown labels."""
        nothing = np.zeros(_SIZE, dtype=np.int32)
        shift = self._width.bit_length() - 1
        return LossTable(np.stack([*gradient, nothing]), np.stack([*hessian, nothing]), shift)


class Pinball(Loss):
    """The smoothed pinball loss of a number: its least mean is at a quantile of the labels.

    The step of the gradient is a logistic curve of a public width: g = σ(r/w) − τ with r = F − y,
    and h = σ′(r/w)/w, the density of labels around the score. A row's state is r.

    Parameters
    ----------
    quantile : float
        The share τ of labels below.
    width : float
        The width w, in units of scores.
    """

    target = "number"
    limit, curvature = 2, 1 / 2
    own_scale = True

    def __init__(self, quantile: float = 0.5, width: float = 0.05) -> None:
        self.quantile, self.width = quantile, width

    def with_width(self, width: float) -> Self:
        """Return the loss with another width."""
        return type(self)(self.quantile, width)

    @property
    def largest_gradient(self) -> float:
        """Bound of gradients."""
        return max(self.quantile, 1 - self.quantile)

    @property
    def largest_hessian(self) -> float:
        """Bound of Hessians."""
        return 1 / (4 * self.width)

    def value(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return the smoothed pinball loss of each row."""
        apart = scores + offset - label
        loss: np.ndarray = -self.width * log_expit(-apart / self.width) - self.quantile * apart
        return loss

    def gradient(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return σ((F − y)/w) − τ."""
        gradient: np.ndarray = expit((scores + offset - label) / self.width) - self.quantile
        return gradient

    def hessian(self, scores: np.ndarray, label: Values, offset: Values = 0.0) -> np.ndarray:
        """Return σ′((F − y)/w)/w."""
        scaled = (scores + offset - label) / self.width
        hessian: np.ndarray = expit(scaled) * expit(-scaled) / self.width
        return hessian


class LogLink(Loss):
    """A loss of numbers from 0 on, whose score is the logarithm of the mean.

    Its gradient is A(F) − y·B(F), with A and B positive. Labels are in a public unit, such as a
    released mean, and its table has a line for each of some labels: `label_table`.
    """

    target = "number"
    limit, curvature = 8, 1 / 2
    log_link = own_scale = True
    least_label: ClassVar[float] = 0.0
    """Least label, in parts of its unit: one of 0 has no likelihood under some losses."""
    whole: ClassVar[bool] = False
    """Whether labels are counts."""
    variance_power: float = 1.0
    """Power of the mean to which the variance of labels is taken to be proportional."""

    @property
    def labels(self) -> tuple[float, float]:
        """Two labels, such as those of a table of two lines."""
        return (max(self.least_label, 0.5), 1.0)

    def inverse_link(self, score: float) -> float:
        """Return the mean label of a score."""
        return math.exp(score)

    def link(self, mean: float) -> float:
        """Return the score of a mean label, kept within the range of useful scores."""
        least = math.exp(-self.limit)
        return math.log(min(max(mean, least), 1 / least))

    def label_table(
        self, labels: np.ndarray, gradient_clip: float, hessian_clip: float
    ) -> LossTable:
        """Tabulate gradients and Hessians, with a line for each label and one for unknown labels.

        Parameters
        ----------
        labels : float array
            The labels, in parts of their unit; see `engine.updates.SetLabelBins`.
        gradient_clip, hessian_clip : float
            The clips, in the unit of gradients and Hessians.
        """
        scores, shift = self._columns()
        each = np.maximum(labels, self.least_label)[:, None]
        nothing = np.zeros((1, len(scores)), dtype=np.int32)
        gradient = _round(self.gradient(scores[None, :], each), gradient_clip)
        hessian = _round(self.hessian(scores[None, :], each), hessian_clip)
        hessian = np.broadcast_to(hessian, gradient.shape)
        return LossTable(
            np.concatenate([gradient, nothing]), np.concatenate([hessian, nothing]), shift
        )

    def line_table(self, labels: np.ndarray) -> LossTable:
        """Tabulate labels from 0 to 1 as "gradients", and e^score as "Hessians" of at most 1.

        Where scores start at logarithms of exposures of at most 1, their sums are those of labels
        and of exposures.
        """
        scores, shift = self._columns()
        shape = (len(labels), len(scores))
        gradient = np.broadcast_to(_round(np.clip(labels, 0, 1), 1.0)[:, None], shape)
        hessian = np.broadcast_to(_round(np.exp(scores), 1.0), shape)
        nothing = np.zeros((1, len(scores)), dtype=np.int32)
        return LossTable(
            np.concatenate([gradient, nothing]), np.concatenate([hessian, nothing]), shift
        )

    def _columns(self) -> tuple[np.ndarray, int]:
        """Return the score in the middle of each column, and the bits of a column's width.

        Fewer columns than elsewhere: all lines should stay in a processor's cache.
        """
        width = 2 * self.limit * SCORE_STEPS // _BINNED_SIZE
        scores = (np.arange(_BINNED_SIZE) - _BINNED_SIZE // 2 + 0.5) * width / SCORE_STEPS
        return scores, width.bit_length() - 1


def loss_of(target: str, name: str) -> Loss:
    """Return the loss of a target with a name, which a value of its parameter may follow."""
    own, _, value = name.partition(" ")
    loss = _all_losses()[target, own]
    return loss.with_parameter(float(value)) if value else loss


def newton_losses(target: str) -> tuple[str, ...]:
    """Return the names of the losses of a target that need a Hessian, and no scale of their own."""
    known = {name: loss_of(target, name) for name in losses_of(target)}
    return tuple(name for name, loss in known.items() if loss.has_hessian and not loss.own_scale)


def scaled_losses(target: str) -> tuple[str, ...]:
    """Return the names of the losses of a target that have a scale of their own."""
    return tuple(name for name in losses_of(target) if loss_of(target, name).own_scale)


def losses_of(target: str) -> tuple[str, ...]:
    """Return the names of all losses of a target."""
    return tuple(sorted(name for kind, name in _all_losses() if kind == target))


@cache
def _all_losses() -> dict[tuple[str, str], Loss]:
    """Return the losses of all modules of this package."""
    package = import_module("privboost.losses")
    found: dict[tuple[str, str], Loss] = {}
    for file in pkgutil.iter_modules(package.__path__):
        held = vars(import_module(f"privboost.losses.{file.name}")).values()
        found |= {(loss.target, loss.name): loss for loss in held if isinstance(loss, Loss)}
    return found


def class_indicator() -> LossTable:
    """Return a table whose "gradient" is 1 for rows of class 1, else 0."""
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
        and not table.gradient[-1].any()
        and not table.hessian[-1].any()
    )


def filtered(table: LossTable, limit: float, gradient_clip: float) -> LossTable:
    """Return a table without the rows whose gradient is above a limit, which is below its clip.

    Whether a row is left out depends on its own state and label alone.
    """
    inside = np.abs(table.gradient) <= int(limit / gradient_clip * CLIP_STEPS)
    inside[-1] = False
    return LossTable(
        table.gradient * inside, table.hessian * inside, table.shift, inside.astype(np.uint8)
    )


def _round(values: np.ndarray, clip: float) -> np.ndarray:
    """Clip, then round toward zero: the integer sensitivity is exactly `CLIP_STEPS`."""
    if not clip > 0:
        raise ValueError("a clip must be above 0")
    return np.trunc(np.clip(values / clip, -1, 1) * CLIP_STEPS).astype(np.int32)
