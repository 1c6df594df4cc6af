"""Explanations of what moves scores: of a model as a whole, and of single rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from privboost._core.checks import did_you_mean, in_quotes
from privboost._core.files import write_file
from privboost.explanations.plots import draw_panels, draw_waterfall
from privboost.explanations.terms import (
    NOISE_IN,
    WASTED_SHARE,
    Coefficients,
    Finding,
    Importance,
    Pair,
    Shape,
    TreeSummary,
    VoteSummary,
)

_FEW = 2
"""The number of trees in the text."""

_LINES = 20
"""The number of coefficients, rules or pairs in the text."""

_CLEAR = 3.0
"""The least `Pair.strength` of pairs in the text."""

_JSON_KEYS = {"votes": "card"}
"""Keys of `to_dict` that differ from attributes: they have been in use since version 0.1."""


@dataclass(frozen=True)
class Explanation:
    """What a model has learned. A row's score is start + shapes + pairs + trees.

    An explanation follows from released and public values: it costs no privacy, and a model file
    suffices.

    Attributes
    ----------
    target : str
        The name of the target.
    scored_in : str
        The unit of scores: "log-odds", "votes", "score", or the target itself for a number.
    classes : tuple of str
        The classes of the scores: each beyond two, or the second of two; none for a number.
    start : tuple of float
        The constant term of each output. Where weights are released, and the model is not linear,
        shapes and pairs have a mean of 0, and the start is the mean score without trees.
    weights : str
        The weights of values: "released" mass, or "even" where no mass was released.
    importance : Importance
        The share of each feature in the movement of the score.
    shapes : tuple of Shape
        The effects of features, for each output, without features that have none of their own.
    pairs : tuple of Pair
        The joint effects of two features.
    trees : tuple of TreeSummary
        Trees of several features; trees of one feature are in its shape.
    coefficients : Coefficients or None
        For linear models: all coefficients. Products of features are listed only here.
    votes : VoteSummary or None
        For a vote of rules: the votes of each rule, which the shapes show as effects.
    findings : tuple of Finding
        Findings that follow from released values.
    time_scale : float or None
        For survival times: the scale of log times around their median, as `Model.scale_`.
    """

    target: str
    scored_in: str
    classes: tuple[str, ...]
    start: tuple[float, ...]
    weights: str
    importance: Importance
    shapes: tuple[Shape, ...]
    pairs: tuple[Pair, ...]
    trees: tuple[TreeSummary, ...]
    coefficients: Coefficients | None
    votes: VoteSummary | None
    findings: tuple[Finding, ...]
    time_scale: float | None = None

    def shape(self, feature: str, of: str = "") -> Shape:
        """Return the shape of a feature, beyond two classes for one of them.

        Raises
        ------
        KeyError
            If there is no such shape.
        """
        for shape in self.shapes:
            if shape.spans.feature == feature and of in ("", shape.of):
                return shape
        names = sorted({shape.spans.feature for shape in self.shapes})
        if feature not in names:
            known = feature in self.importance.features
            why = f"{feature!r} has no shape of its own" if known else f"no feature {feature!r}"
            raise KeyError(f"{why}; {did_you_mean(feature, names) or _list(names)}")
        classes = [shape.of for shape in self.shapes if shape.spans.feature == feature]
        raise KeyError(f"no class {of!r}; {did_you_mean(of, classes) or _list(classes)}")

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the JSON."""
        named = {_JSON_KEYS.get(name, name): value for name, value in asdict(self).items()}
        if self.time_scale is None:
            del named["time_scale"]
        return named

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the explanation as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        if path is not None:
            write_file(path, text.encode())
        return text

    def to_text(self) -> str:
        """Return a short text; the `to_text` of each part is complete."""
        of = self.classes or (None,)
        begins = ", ".join(
            f"{v:+.4g}" if name is None else f"{in_quotes(name)} {v:+.4g}"
            for name, v in zip(of, self.start, strict=True)
        )
        named = f"{self.target}: {self.scored_in}" if self.classes else self.scored_in
        parts = [f"{named} at the start: {begins}"]
        if self.time_scale is not None:
            parts.append(
                "survival at t: 1/(1 + (t/median)^(1/s)), with the scale "
                f"s = {self.time_scale:.4g} of all rows"
            )
        if self.findings:
            lines = [f"  {finding}" for finding in self.findings]
            parts.append("\n".join(["what to look at", *lines]))
        parts.append(self.importance.to_text())
        # Coefficients and votes are shorter than the same effects as shapes.
        if self.coefficients is not None:
            parts += self.coefficients.levels
            parts.append(self.coefficients.strongest(_LINES).to_text())
            parts += _more(len(self.coefficients.lines) - _LINES, "coefficients")
        elif self.votes is not None:
            parts.append(VoteSummary(self.votes.rules[:_LINES]).to_text())
            parts += _more(len(self.votes.rules) - _LINES, "rules")
        else:
            shares = dict(zip(self.importance.features, self.importance.shares, strict=True))
            silent = {own for own in shares if self.importance.noise_removed and not shares[own]}
            shapes = [shape for shape in self.shapes if shape.spans.feature not in silent]
            parts += _ranges("shapes", shapes)
            parts += _more(len(self.shapes) - len(shapes), "shapes", "without signal")
        wasted = any(finding.kind == WASTED_SHARE for finding in self.findings)
        clear = [pair for pair in self.pairs if pair.strength >= _CLEAR and not wasted]
        pairs = sorted(clear, key=lambda pair: -pair.size)[:_LINES]
        parts += _ranges("pairs", pairs)
        parts += _more(len(self.pairs) - len(pairs), "pairs", "that stand out less, or not at all")
        few = 0 if self.shapes else _FEW  # trees are details where there are shapes
        parts += [tree.to_text() for tree in self.trees[:few]]
        parts += _more(len(self.trees) - few, "trees")
        return "\n\n".join(parts)

    def plot(self, most: int = 8) -> Any:
        """Draw the importances and the most important parts; return the axes, as an array.

        Parameters
        ----------
        most : int
            The largest number of shapes, pairs and trees; each has a `plot` of its own.
        """
        lists = [part for part in (self.votes, self.coefficients) if part is not None]
        share = dict(zip(self.importance.features, self.importance.shares, strict=True))
        shapes = sorted(self.shapes, key=lambda shape: -share[shape.spans.feature])
        pairs = sorted(self.pairs, key=lambda pair: -pair.size)
        parts = [*lists, *shapes, *pairs, *self.trees][:most]
        return draw_panels([self.importance, *parts], f"{self.target}: {self.scored_in}")

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        counts = f"{len(self.shapes)} shapes, {len(self.pairs)} pairs, {len(self.trees)} trees"
        return f"<Explanation of {self.target}: {counts}, {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        own, found = self.importance, "".join(f"<li>{escape(str(f))}</li>" for f in self.findings)
        lines = "".join(
            f"<tr><td>{escape(own.features[k])}</td><td>{own.shares[k]:.3f}"
            + ("" if own.stds is None else f" ± {own.stds[k]:.3f}")
            + "</td></tr>"
            for k in own.ranked
        )
        head = "<tr><th>feature</th><th>importance</th></tr>"
        caveat = "" if own.noise_removed else f"<p>{NOISE_IN}</p>"
        return f"<p>{escape(repr(self))}</p>{caveat}<table>{head}{lines}</table><ul>{found}</ul>"


def _ranges(what: str, parts: Sequence[Shape | Pair]) -> list[str]:
    """Return a heading with one line a part, if there are any."""
    lines = [f"  {part.name}  {part.range}" for part in parts]
    return ["\n".join([what, *lines])] if lines else []


def _more(left: int, what: str, which: str = "more") -> list[str]:
    return [f"… and {left} {what} {which}"] if left > 0 else []


def _list(names: Sequence[str]) -> str:
    return f"there are {', '.join(map(repr, names)) or 'none'}"


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
