"""A model as a whole: everything that moves its score."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from privboost.explanations.lists import NOISE_IN, Card, Coefficients, Finding, Importance
from privboost.explanations.shapes import Pair, Shape
from privboost.explanations.tree_cards import TreeCard
from privboost.files import write_file
from privboost.forms import did_you_mean, in_quotes

_FEW = 2
"""How many trees the text form writes out."""

_LINES = 20
"""How many coefficients, rules, or pairs."""

_CLEAR = 3.0
"""So many errors from 0 the clearest effect of a pair must be to be written out."""

_WASTED = "wasted share"
"""The finding that no pair stands out."""


@dataclass(frozen=True)
class Explanation:
    """What a model has learned. A row's score is start + shapes + pairs + trees.

    Everything follows from released values and public ones: it costs no privacy, and a model file
    is enough for it.

    Attributes
    ----------
    target : str
        What is predicted.
    scored_in : str
        What scores are: "log-odds", "votes", "score", or the target itself of a number.
    classes : tuple of str
        Whose scores they are: each class beyond two, or the second of two; of a number none.
    start : tuple of float
        The score of each output before any feature is looked at. Where weights are released, and
        the model is not linear, shapes and pairs add nothing on average, and it is the mean score
        but for what trees add.
    weights : str
        By what values are weighted: "released" masses, or "even" where nothing was released about
        how many rows have them.
    importance : Importance
        How much each feature moves the score.
    shapes : tuple of Shape
        What features add by themselves: each, for each output; without those that no part of the
        model looks at alone.
    pairs : tuple of Pair
        What two features add together.
    trees : tuple of TreeCard
        Trees that join features; those that look at one feature alone are in its shape.
    coefficients : Coefficients or None
        Of linear models: their list. Products of features are told here alone.
    card : Card or None
        Of a vote of rules: its card, which the shapes say in another way.
    findings : tuple of Finding
        What is worth a look.
    """

    target: str
    scored_in: str
    classes: tuple[str, ...]
    start: tuple[float, ...]
    weights: str
    importance: Importance
    shapes: tuple[Shape, ...]
    pairs: tuple[Pair, ...]
    trees: tuple[TreeCard, ...]
    coefficients: Coefficients | None
    card: Card | None
    findings: tuple[Finding, ...]

    def shape(self, feature: str, of: str = "") -> Shape:
        """Return the shape of a feature; beyond two classes, of one of them.

        Raises
        ------
        KeyError
            If there is none.
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
        """Return a form for JSON."""
        return asdict(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the explanation as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        if path is not None:
            write_file(path, text.encode())
        return text

    def to_text(self) -> str:
        """Write it in words, in short: each part has a `to_text` that leaves nothing out."""
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
        # A linear model and a vote have shorter words for the same.
        if self.coefficients is not None:
            parts += self.coefficients.levels
            parts.append(self.coefficients.strongest(_LINES).to_text())
            parts += _more(len(self.coefficients.lines) - _LINES, "coefficients")
        elif self.card is not None:
            parts.append(Card(self.card.rules[:_LINES]).to_text())
            parts += _more(len(self.card.rules) - _LINES, "rules")
        else:
            silent = self._silent
            shapes = [shape for shape in self.shapes if shape.spans.feature not in silent]
            parts += _ranges("shapes", shapes)
            parts += _more(len(self.shapes) - len(shapes), "shapes", "without signal")
        pairs = sorted(self._clear_pairs, key=lambda pair: -pair.size)[:_LINES]
        parts += _ranges("pairs", pairs)
        parts += _more(len(self.pairs) - len(pairs), "pairs", "that stand out less, or not at all")
        few = 0 if self.shapes else _FEW  # beside shapes, trees are details
        parts += [tree.to_text() for tree in self.trees[:few]]
        parts += _more(len(self.trees) - few, "trees")
        return "\n\n".join(parts)

    @property
    def _silent(self) -> set[str]:
        """The features of which nothing is left once noise is taken off."""
        own = self.importance
        named = zip(own.features, own.shares, strict=True) if own.noise_removed else ()
        return {feature for feature, share in named if not share}

    @property
    def _clear_pairs(self) -> list[Pair]:
        """The pairs that stand out from the noise."""
        if any(finding.kind == _WASTED for finding in self.findings):
            return []
        return [pair for pair in self.pairs if pair.strength >= _CLEAR]

    def plot(self, most: int = 8) -> Any:
        """Draw the importances, and what moves the score most; return the axes, as an array.

        Parameters
        ----------
        most : int
            How many shapes, pairs and trees are drawn at most; every one has a `plot` of its own.
        """
        from privboost.explanations.plots import draw_explanation

        return draw_explanation(self, most)

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
    """Write each in a line, under a heading, if there are any."""
    lines = [f"  {part.name}  {part.range}" for part in parts]
    return ["\n".join([what, *lines])] if lines else []


def _more(left: int, what: str, which: str = "more") -> list[str]:
    return [f"… and {left} {what} {which}"] if left > 0 else []


def _list(names: Sequence[str]) -> str:
    return f"there are {', '.join(map(repr, names)) or 'none'}"
