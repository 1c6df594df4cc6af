"""Additive scores: for each feature and code a value; a row's score is their sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block


@dataclass(frozen=True, eq=False)
class AdditiveScores:
    """Released values on the score grid.

    Attributes
    ----------
    values : tuple of int32 arrays
        For each feature, of shape (outputs, codes).
    """

    kind = "additive"
    log_odds: ClassVar[bool] = True
    values: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        for array in self.values:
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

    def to_form(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        return {"values": list(self.values)}

    @classmethod
    def from_form(cls, form: dict[str, Any]) -> AdditiveScores:
        """Read what `to_form` gave."""
        return cls(tuple(form["values"]))
