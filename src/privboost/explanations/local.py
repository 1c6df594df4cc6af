"""Some rows, each by itself: what moved its score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


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
            raise KeyError(of)
        return self.classes.index(of)

    def moves(self, row: int, of: str = "") -> list[tuple[str, float]]:
        """Return each feature of a row with its value in words and its move, the largest first."""
        values = self.shap_values.reshape(len(self), len(self.features), -1)
        own = values[row, :, self.output(of)]
        named = [
            f"{name} = {words[code]}"
            for name, words, code in zip(self.features, self.words, self.codes[row], strict=True)
        ]
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
        output = self.output(of)
        score = self.scores.reshape(len(self), -1)[row, output]
        moves = self.moves(row, of)
        wide = max(len(words) for words, _ in moves)
        name = self.classes[output] if self.classes else self.target
        lines = [f"{name}: {self.scored_in} {score:+.4g}"]
        lines.append(f"  {'baseline':<{wide}}  {self.baseline[output]:+.4g}")
        lines += [f"  {words:<{wide}}  {move:+.4g}" for words, move in moves]
        return "\n".join(lines)

    def plot(self, row: int = 0, of: str = "", ax: Any = None) -> Any:
        """Draw what moved the score of a row, from the baseline to it; return the axes."""
        from privboost.explanations.plots import draw_moves

        return draw_moves(self, row, of, ax)
