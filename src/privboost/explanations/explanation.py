"""Explanation of a model as a whole: everything that moves its score."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from privboost.explanations.lists import (
    NOISE_IN,
    WASTED_SHARE,
    Coefficients,
    Finding,
    Importance,
    VoteSummary,
)
from privboost.explanations.plots import draw_panels
from privboost.explanations.shapes import Pair, Shape
from privboost.explanations.tree_cards import TreeSummary
from privboost.files import write_file
from privboost.forms import did_you_mean, in_quotes

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
        return {_JSON_KEYS.get(name, name): value for name, value in asdict(self).items()}

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
            silent = self._silent
            shapes = [shape for shape in self.shapes if shape.spans.feature not in silent]
            parts += _ranges("shapes", shapes)
            parts += _more(len(self.shapes) - len(shapes), "shapes", "without signal")
        pairs = sorted(self._clear_pairs, key=lambda pair: -pair.size)[:_LINES]
        parts += _ranges("pairs", pairs)
        parts += _more(len(self.pairs) - len(pairs), "pairs", "that stand out less, or not at all")
        few = 0 if self.shapes else _FEW  # trees are details where there are shapes
        parts += [tree.to_text() for tree in self.trees[:few]]
        parts += _more(len(self.trees) - few, "trees")
        return "\n\n".join(parts)

    @property
    def _silent(self) -> set[str]:
        """The features without importance once noise is subtracted."""
        own = self.importance
        named = zip(own.features, own.shares, strict=True) if own.noise_removed else ()
        return {feature for feature, share in named if not share}

    @property
    def _clear_pairs(self) -> list[Pair]:
        """The pairs that stand out from the noise."""
        if any(finding.kind == WASTED_SHARE for finding in self.findings):
            return []
        return [pair for pair in self.pairs if pair.strength >= _CLEAR]

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
