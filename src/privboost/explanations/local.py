"""Some rows, each by itself: what moved its score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from privboost.forms import did_you_mean


@dataclass(frozen=True, eq=False, repr=False)
class LocalExplanation:
    """Why rows have the scores that they have.

    The rows are the caller's own, and what is said of them is theirs: it is as private as they are.

    Attributes
    ----------
    target, scored_in : str
        As in `Explanation`.
    classes : tuple of str
        As in `Explanation`.
    start : float array of shape (outputs,)
        The score before any feature is looked at.
    terms : tuple of str
        What adds to it: features, pairs of them, and "trees", all that join features.
    contributions : float array of shape (rows, terms), or (rows, terms, classes)
        What each term adds: start and contributions add up to the score.
    baseline : float array of shape (outputs,)
        The mean score of rows whose features are independent, as often as `weights` say.
    features : tuple of str
        The features.
    shap_values : float array of shape (rows, features), or (rows, features, classes)
        Shapley values, exact for such rows: what each feature, with its part of what features do
        together, moves the score by from the baseline. Baseline and values add up to the score.
    weights : str
        As in `Explanation`.
    codes : uint16 array of shape (rows, features)
        What the model reads of the rows.
    words : tuple of tuples of str
        For each feature, its codes in words.
    numbers : float array of shape (rows, features)
        What is a number, or counted like one (dates), as the rows have it, within its bounds; NaN
        where it is missing, or no number.
    writers : tuple of functions, or None
        For each feature how such a number is written; None where its code says all.
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
        """The scores of the rows; of a number, its prediction before it is clipped to bounds."""
        total: np.ndarray = self.contributions.sum(axis=1) + (
            self.start if len(self.start) > 1 else self.start[0]
        )
        return total

    def output(self, of: str = "") -> int:
        """Return the place of a class among the outputs; the first by default.

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
        """Return each feature of a row with its value in words and its move, the largest first.

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
        """Return a form for JSON."""
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
        """Write what moved the score of a row, the largest moves first."""
        output, moves = self.output(of), self.moves(row, of)
        score = self.scores.reshape(len(self), -1)[row, output]
        wide = max(len(words) for words, _ in moves)
        named = f"{self.classes[output]}: {self.scored_in}" if self.classes else self.scored_in
        lines = [f"{named} {score:+.4g}"]
        lines.append(f"  {'baseline':<{wide}}  {self.baseline[output]:+.4g}")
        lines += [f"  {words:<{wide}}  {move:+.4g}" for words, move in moves]
        return "\n".join(lines)

    def to_table(self) -> pa.Table:
        """Return the Shapley values as a table: a line for each row and feature.

        Returns
        -------
        pyarrow.Table
            With columns row, feature, value (in words) and shap_value, and class beyond two.
        """
        rows, features = len(self), len(self.features)
        values = self.shap_values.reshape(rows, features, -1)
        outputs = values.shape[2]
        said = [self._value(row, k) for row in range(rows) for k in range(features)]
        columns: dict[str, Any] = {
            "row": np.repeat(np.arange(rows), features * outputs),
            "feature": np.tile(np.repeat(self.features, outputs), rows),
            "value": pa.array([words for words in said for _ in range(outputs)], pa.string()),
            "shap_value": values.reshape(-1),
        }
        if outputs > 1:
            columns["class"] = np.tile(self.classes, rows * features)
        return pa.table(columns)

    def _value(self, row: int, feature: int) -> str:
        """Write a row's value of a feature: the number itself, or what the model reads of it."""
        write, number = self.writers[feature], self.numbers[row, feature]
        if write is None or np.isnan(number):
            return self.words[feature][int(self.codes[row, feature])]
        return write(float(number))

    def plot(self, row: int = 0, of: str = "", ax: Any = None) -> Any:
        """Draw what moved the score of a row, from the baseline to it; return the axes."""
        from privboost.explanations.plots import draw_moves

        return draw_moves(self, row, of, ax)
