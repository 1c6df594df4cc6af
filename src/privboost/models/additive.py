"""Additive scores: for each feature and code a value; a row's score is their sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from privboost.engine import kernels
from privboost.engine.block import Block
from privboost.engine.layout import Layout
from privboost.models.checks import (
    largest,
    need,
    need_array,
    need_keys,
    need_list,
    need_scores,
)


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
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> AdditiveScores:
        """Read what `to_form` gave: for each feature a value for each output and code."""
        place = "scores.values"
        values = need_list(need_keys(form, "scores", {"values"})["values"], place)
        need(len(values) == len(layout.n_codes), place, "an array for each feature is needed")
        for own, codes in zip(values, layout.n_codes, strict=True):
            need_array(own, place, np.int32, (n_outputs, codes))
        need_scores(np.sum([largest(own, axis=1) for own in values], axis=0), place)
        return cls(tuple(values))
