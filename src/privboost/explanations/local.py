"""Explanation of single rows: what moved the score of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from privboost.explanations.plots import draw_waterfall
from privboost.forms import did_you_mean


@dataclass(frozen=True, eq=False, repr=False)
class LocalExplanation:
    """The contributions to the scores of rows.

    The rows are the caller's own, and the explanation is as private as they are.

    Attributes
    ----------
    target, scored_in : str
        As in `Explanation`.
    classes : tuple of str
        As in `Explanation`.
    start : float array of shape (outputs,)
        The constant term.
    terms : tuple of str
        The terms of the score: features, pairs of features, and "trees" for all trees.
    contributions : float array of shape (rows, terms), or (rows, terms, classes)
        The value of each term: start and contributions add up to the score.
    baseline : float array of shape (outputs,)
        The mean score of rows with independent features, weighted by `weights`.
    features : tuple of str
        The features.
    shap_values : float array of shape (rows, features), or (rows, features, classes)
        Shapley values, exact for such rows: each feature's share of the difference between score
        and baseline. Baseline and values add up to the score.
    weights : str
        As in `Explanation`.
    codes : uint16 array of shape (rows, features)
        The codes of the rows.
    words : tuple of tuples of str
        For each feature, the text of each code.
    numbers : float array of shape (rows, features)
        Numbers and dates of the rows, clipped to their bounds; NaN where missing, and for other
        features.
    writers : tuple of functions, or None
        For each feature the format of such a number; None where the code is enough.
    """

    target: str
    scored_in: str
    classes: tuple[str, ...]
    start: np.ndarray
    terms: tuple[str, ...]
    contributions: np.ndarray
    baseline: np.ndarray
    features: tuple[str, ...]
    shap_values: np.ndarray
    weights: str
    codes: np.ndarray
    words: tuple[tuple[str, ...], ...]
    numbers: np.ndarray
    writers: tuple[Callable[[float], str] | None, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"<LocalExplanation of {self.target}: {len(self)} rows>"

    @property
    def scores(self) -> np.ndarray:
        """The scores of the rows; for a number, the prediction before clipping to bounds."""
        total: np.ndarray = self.contributions.sum(axis=1) + (
            self.start if len(self.start) > 1 else self.start[0]
        )
        return total

    def output(self, of: str = "") -> int:
        """Return the index of a class among the outputs; the first by default.

        Raises
        ------
        KeyError
            If there is no such class.
        """
        if not of:
            return 0
        if of not in self.classes:
            hint = did_you_mean(of, self.classes)
            there = f"there are {', '.join(map(repr, self.classes)) or 'none'}"
            raise KeyError(f"no class {of!r} has a score of its own; {hint or there}")
        return self.classes.index(of)

    def moves(self, row: int, of: str = "") -> list[tuple[str, float]]:
        """Return each feature and value of a row with its Shapley value, the largest first.

        Raises
        ------
        IndexError
            If there is no such row.
        """
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row}: {len(self)} rows were explained, counted from 0")
        values = self.shap_values.reshape(len(self), len(self.features), -1)
        own = values[row, :, self.output(of)]
        named = [f"{name} = {self._value(row, k)}" for k, name in enumerate(self.features)]
        return [(named[k], float(own[k])) for k in np.argsort(-np.abs(own), kind="stable")]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of a JSON file."""
        return {
            "target": self.target,
            "scored_in": self.scored_in,
            "classes": list(self.classes),
            "start": self.start.tolist(),
            "terms": list(self.terms),
            "contributions": self.contributions.tolist(),
            "baseline": self.baseline.tolist(),
            "features": list(self.features),
            "shap_values": self.shap_values.tolist(),
            "weights": self.weights,
            "scores": self.scores.tolist(),
        }

    def to_text(self, row: int = 0, of: str = "") -> str:
        """Return a list of the Shapley values of a row, the largest first."""
        output, moves = self.output(of), self.moves(row, of)
        score = self.scores.reshape(len(self), -1)[row, output]
        wide = max(len(text) for text, _ in moves)
        named = f"{self.classes[output]}: {self.scored_in}" if self.classes else self.scored_in
        lines = [f"{named} {score:+.4g}"]
        lines.append(f"  {'baseline':<{wide}}  {self.baseline[output]:+.4g}")
        lines += [f"  {text:<{wide}}  {move:+.4g}" for text, move in moves]
        return "\n".join(lines)

    def to_table(self) -> pa.Table:
        """Return the Shapley values as a table: a line for each row and feature.

        Returns
        -------
        pyarrow.Table
            With columns row, feature, value (as text) and shap_value, and class beyond two.
        """
        rows, features = len(self), len(self.features)
        values = self.shap_values.reshape(rows, features, -1)
        outputs = values.shape[2]
        texts = [self._value(row, k) for row in range(rows) for k in range(features)]
        columns: dict[str, Any] = {
            "row": np.repeat(np.arange(rows), features * outputs),
            "feature": np.tile(np.repeat(self.features, outputs), rows),
            "value": pa.array([text for text in texts for _ in range(outputs)], pa.string()),
            "shap_value": values.reshape(-1),
        }
        if outputs > 1:
            columns["class"] = np.tile(self.classes, rows * features)
        return pa.table(columns)

    def _value(self, row: int, feature: int) -> str:
        """Return the text of a row's value: the number itself, or the text of its code."""
        write, number = self.writers[feature], self.numbers[row, feature]
        if write is None or np.isnan(number):
            return self.words[feature][int(self.codes[row, feature])]
        return write(float(number))

    def plot(self, row: int = 0, of: str = "", ax: Any = None) -> Any:
        """Draw the Shapley values of a row from the baseline to its score; return the axes."""
        output = self.output(of)
        name = self.classes[output] if self.classes else self.target
        baseline = float(self.baseline[output])
        return draw_waterfall(self.moves(row, of), baseline, name, self.scored_in, ax)
