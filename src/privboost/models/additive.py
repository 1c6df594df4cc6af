"""Additive scores: for each feature and code a value; a row's score is their sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block
from privboost.models.importance import NO_MASS, even


@dataclass(frozen=True, eq=False)
class AdditiveScores:
    """Released values on the score grid.

    Attributes
    ----------
    values : tuple of int32 arrays
        For each feature, of shape (outputs, codes).
    mass : tuple of float64 arrays, or None
        What was released about how many rows have each code, of the same shapes; noise may leave
        less than 0.
    noise : tuple of float64 arrays, or None
        The standard deviation that noise alone gives to each value, in score units.
    """

    kind = "additive"
    log_odds: ClassVar[bool] = True
    values: tuple[np.ndarray, ...]
    mass: tuple[np.ndarray, ...] | None = None
    noise: tuple[np.ndarray, ...] | None = None

    def __post_init__(self) -> None:
        for array in (*self.values, *(self.mass or ()), *(self.noise or ())):
            array.flags.writeable = False

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return len(self.values[0])

    def scores(self, block: Block) -> np.ndarray:
        """Return the exact scores of a block's rows: int32 of shape (outputs, rows)."""
        scores = np.zeros((self.n_outputs, len(block)), dtype=np.int32)
        for feature, values in enumerate(self.values):
            for output in range(self.n_outputs):
                kernels.add_values(block.column(feature), values[output], scores[output])
        return scores

    def feature_values(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the score of its codes."""
        return self.values

    def chances(self) -> tuple[np.ndarray, ...]:
        """Return for each feature how likely its codes are, from released Hessians."""
        if self.mass is None or self.noise is None:
            raise AttributeError(NO_MASS)
        return tuple(even(np.maximum(mass.sum(axis=0), 0.0)) for mass in self.mass)

    def changes(self, rows: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what other codes change; see `importance.Explainable`."""
        assert self.noise is not None
        change = np.zeros((len(rows), self.n_outputs, rows.shape[1]))
        doubt = np.zeros_like(change)
        for feature, (values, noise) in enumerate(zip(self.values, self.noise, strict=True)):
            before, after = rows[feature], others[feature]
            change[feature] = values[:, after].astype(np.float64) - values[:, before]
            # Codes of one cell have one value, and its noise is the same.
            apart = change[feature] != 0
            doubt[feature] = apart * (noise[:, after] ** 2 + noise[:, before] ** 2)
        return change, doubt

    def to_form(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        form: dict[str, Any] = {"values": list(self.values)}
        if self.mass is not None and self.noise is not None:
            form |= {"mass": list(self.mass), "noise": list(self.noise)}
        return form

    @classmethod
    def from_form(cls, form: dict[str, Any]) -> AdditiveScores:
        """Read what `to_form` gave."""
        mass, noise = (tuple(form[name]) if name in form else None for name in ("mass", "noise"))
        return cls(tuple(form["values"]), mass, noise)
