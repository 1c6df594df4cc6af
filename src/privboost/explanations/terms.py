"""Parts of an explanation: shapes, pairs, trees, importances, coefficients, votes, findings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from privboost._core.checks import listed
from privboost.explanations.plots import (
    MOST_BARS,
    draw_bars,
    draw_categories,
    draw_heat_map,
    draw_steps,
    draw_tree,
    strongest,
)
from privboost.explanations.spans import Spans


@dataclass(frozen=True)
class Shape:
    """The effect of a feature on the score.

    Attributes
    ----------
    spans : Spans
        The bins or categories of the feature.
    effects : tuple of float
        The effect of each.
    stds : tuple of float, or None
        The standard error that noise gives to each, the feature's level aside; None where it is
        unknown.
    masses : tuple of float, or None
        The noisy count of each: noise may leave it below 0, and a row may count for less than 1.
    of : str
        The class whose score it is, beyond two.
    """

    spans: Spans
    effects: tuple[float, ...]
    stds: tuple[float, ...] | None = None
    masses: tuple[float, ...] | None = None
    of: str = ""

    @property
    def name(self) -> str:
        """The feature, and the class beyond two."""
        return self.spans.feature + (f" for {self.of}" if self.of else "")

    @property
    def range(self) -> str:
        """The smallest and largest effect of declared values, as text."""
        few = self.spans.declared
        return _range(self.effects[:few], self.spans.words[:few], self.stds)

    def to_text(self) -> str:
        """Return a list of values and effects."""
        stds = self.stds or (None,) * len(self.effects)
        wide = max(map(len, self.spans.words))
        lines = [
            f"  {words:<{wide}}  {effect:+.4g}" + ("" if std is None else f" ± {std:.2g}")
            for words, effect, std in zip(self.spans.words, self.effects, stds, strict=True)
        ]
        return "\n".join([self.name, *lines])

    def plot(self, ax: Any = None) -> Any:
        """Draw the shape, with a band of two standard errors where known; return the axes."""
        if self.spans.edges is None:
            return draw_categories(self.spans.words, self.effects, self.stds, self.name, ax)
        return draw_steps(self.spans, self.effects, self.stds, self.name, ax)


@dataclass(frozen=True)
class Pair:
    """The joint effect of two features on the score, in addition to their shapes.

    Attributes
    ----------
    first, second : Spans
        The bins or categories of the features.
    effects, stds : tuple of tuples of float
        For each bin of the first and the second, as in `Shape`.
    of : str
        The class whose score it is, beyond two.
    """

    first: Spans
    second: Spans
    effects: tuple[tuple[float, ...], ...]
    stds: tuple[tuple[float, ...], ...]
    of: str = ""

    @property
    def name(self) -> str:
        """Both features, and the class beyond two."""
        own = f"{self.first.feature} × {self.second.feature}"
        return own + (f" for {self.of}" if self.of else "")

    @property
    def range(self) -> str:
        """The smallest and largest effect of declared values, as text."""
        few, fewer = self.first.declared, self.second.declared
        words = [
            listed((a, b), "; ", ";")
            for a in self.first.words[:few]
            for b in self.second.words[:fewer]
        ]
        effects, stds = (
            [own for line in table[:few] for own in line[:fewer]]
            for table in (self.effects, self.stds)
        )
        return _range(effects, words, stds)

    @property
    def strength(self) -> float:
        """The largest ratio of an effect to its standard error, among declared values."""
        few, fewer = self.first.declared, self.second.declared
        return max(
            (abs(effect) / std if std else math.inf * bool(effect))
            for effects, stds in zip(self.effects[:few], self.stds[:few], strict=True)
            for effect, std in zip(effects[:fewer], stds[:fewer], strict=True)
        )

    @property
    def size(self) -> float:
        """The largest absolute effect."""
        return max(abs(effect) for line in self.effects for effect in line)

    def to_text(self) -> str:
        """Return a list of values and effects."""
        lines = [
            f"  {listed((own, other), '; ', ';')}: {effect:+.4g} ± {std:.2g}"
            for own, effects, stds in zip(self.first.words, self.effects, self.stds, strict=True)
            for other, effect, std in zip(self.second.words, effects, stds, strict=True)
        ]
        return "\n".join([self.name, *lines])

    def plot(self, ax: Any = None) -> Any:
        """Draw the pair as a heat map; return the axes."""
        return draw_heat_map(self.first, self.second, self.effects, self.name, ax)


def _range(effects: Sequence[float], words: Sequence[str], stds: Sequence[float] | None) -> str:
    ends = [find(range(len(effects)), key=effects.__getitem__) for find in (min, max)]
    errors = ["" if stds is None else f" ± {stds[k]:.2g}" for k in ends]
    own = (f"{effects[k]:+.3g}{std} ({words[k]})" for k, std in zip(ends, errors, strict=True))
    return " to ".join(own)


@dataclass(frozen=True)
class Leaf:
    """A leaf of a tree.

    Attributes
    ----------
    effect : float
        The value that the leaf adds to the score.
    std : float or None
        The standard error that noise gives to the effect; None where it is unknown.
    mass : float or None
        The noisy count of the leaf; see `Shape`.
    """

    effect: float
    std: float | None = None
    mass: float | None = None
    below: ClassVar[tuple[()]] = ()


@dataclass(frozen=True)
class Split:
    """A split of a tree.

    Attributes
    ----------
    feature : str
        The feature of the split.
    left, right : str
        The conditions of the two sides.
    below : tuple of two
        The left and right child: splits or leaves.
    """

    feature: str
    left: str
    right: str
    below: tuple[Split | Leaf, Split | Leaf]


@dataclass(frozen=True)
class TreeSummary:
    """A tree of several features.

    Attributes
    ----------
    number : int
        The number of the tree in the model, from 1 on.
    root : Split or Leaf
        The root.
    of : str
        The class whose score it is, beyond two.
    """

    number: int
    root: Split | Leaf
    of: str = ""

    @property
    def name(self) -> str:
        """The number, and the class beyond two."""
        return f"tree {self.number}" + (f" for {self.of}" if self.of else "")

    def to_text(self) -> str:
        """Return the conditions and leaf values."""
        return "\n".join([self.name, *_lines(self.root, 1)])

    def plot(self, ax: Any = None) -> Any:
        """Draw the tree; return the axes."""
        return draw_tree(self.root, self.name, ax)


def _lines(node: Split | Leaf, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if isinstance(node, Leaf):
        error = "" if node.std is None else f" ± {node.std:.2g}"
        yield f"{indent}{node.effect:+.4g}{error}"
        return
    for condition, below in zip((node.left, node.right), node.below, strict=True):
        yield f"{indent}{condition}"
        yield from _lines(below, depth + 1)


INTERCEPT = "(intercept)"
NOISE_IN = "noise is not taken off: features that tell nothing have shares, too"

NO_SIGNAL = "no signal"
NO_ROWS = "no rows"
MISSING_COLUMN = "missing column"
RARE_CLASS = "rare class"
WIDE_BOUNDS = "wide bounds"
WIDE_INTERVALS = "wide intervals"
LABEL_BOUNDS = "label bounds"
EVENTS = "events"
UNCERTAIN_MEAN = "uncertain mean"
MOVED_MEAN = "moved mean"
LARGE_DELTA = "large delta"
WASTED_SHARE = "wasted share"


@dataclass(frozen=True)
class Importance:
    """The share of each feature in the movement of the score.

    Attributes
    ----------
    features : tuple of str
        The names of the features.
    shares : tuple of float
        The shares; they add up to 1, or are all 0.
    stds : tuple of float, or None
        The standard errors that noise gives to them; None where they are unknown.
    noise_removed : bool
        Whether the part due to noise was subtracted, or there was no noise.
    """

    features: tuple[str, ...]
    shares: tuple[float, ...]
    stds: tuple[float, ...] | None
    noise_removed: bool

    @property
    def ranked(self) -> list[int]:
        """The indices of features, the largest share first."""
        return sorted(range(len(self.shares)), key=lambda k: -self.shares[k])

    def to_text(self) -> str:
        """Return a list, the largest share first."""
        wide = max(map(len, self.features))
        lines = [f"importance{'' if self.noise_removed else f' ({NOISE_IN})'}"]
        for k in self.ranked:
            error = "" if self.stds is None else f" ± {self.stds[k]:.3f}"
            lines.append(f"  {self.features[k]:<{wide}}  {self.shares[k]:.3f}{error}")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw the shares as bars, with one standard error where known; return the axes."""
        chosen = self.ranked[:MOST_BARS]
        return draw_bars(
            [self.features[k] for k in chosen],
            [self.shares[k] for k in chosen],
            None if self.stds is None else [self.stds[k] for k in chosen],
            "share of what moves the score",
            "importance",
            ax,
            6.0,
        )


@dataclass(frozen=True)
class Coefficient:
    """A coefficient of a linear model, on the scale of the table; see `Model.coefficients`.

    Attributes
    ----------
    feature, value : str
        The feature, and the category or bin of an indicator.
    coefficient : float
        The coefficient.
    std : float or None
        The standard error that noise gives to it; None for a sum of several coefficients.
    of : str
        The class whose score it is, beyond two.
    per : str
        For a number, a date or an ordinal: the unit of the coefficient.
    """

    feature: str
    value: str
    coefficient: float
    std: float | None
    of: str = ""
    per: str = ""

    @property
    def name(self) -> str:
        """The feature with the value or unit, and the class beyond two."""
        own = f"{self.feature} {self.per or self.value}".strip()
        return own + (f" for {self.of}" if self.of else "")

    @property
    def strength(self) -> float:
        """The absolute coefficient in standard errors, or as it is where no error is known."""
        return abs(self.coefficient) / (self.std or 1.0)


@dataclass(frozen=True)
class Coefficients:
    """The coefficients of a linear model."""

    lines: tuple[Coefficient, ...]

    @property
    def levels(self) -> list[str]:
        """A note on intercept and start, where a model has both and they differ."""
        lines = self.lines
        if not (
            any(line.per for line in lines) and any(line.feature == INTERCEPT for line in lines)
        ):
            return []
        return [
            f"the start is the score where all numbers are in the middle of their bounds, the "
            f"{INTERCEPT} where all are 0"
        ]

    def strongest(self, most: int) -> Coefficients:
        """Return the coefficients of the greatest `strength`, in order."""
        ranked = sorted(range(len(self.lines)), key=lambda k: -self.lines[k].strength)
        return Coefficients(tuple(self.lines[k] for k in sorted(ranked[:most])))

    def to_text(self) -> str:
        """Return a list of coefficients."""
        lines = [
            f"  {line.coefficient:+12.5g}  {line.name}"
            + ("" if line.std is None else f"  (± {line.std:.2g})")
            for line in self.lines
        ]
        return "\n".join(["coefficients", *lines])

    def plot(self, ax: Any = None) -> Any:
        """Draw the strongest coefficients as bars; return the axes.

        They are drawn in standard errors, since their units differ; where no error is known, they
        are drawn as they are.
        """
        known = Coefficients(tuple(line for line in self.lines if line.std))
        if known.lines:
            lines = known.strongest(MOST_BARS).lines
            values = [line.coefficient / (line.std or 1.0) for line in lines]
            label = "coefficient, in standard errors of the noise"
        else:
            chosen = strongest([line.coefficient for line in self.lines])
            lines = tuple(self.lines[k] for k in chosen)
            values, label = [line.coefficient for line in lines], "coefficient"
        return draw_bars([line.name for line in lines], values, None, label, "coefficients", ax)


@dataclass(frozen=True)
class Rule:
    """A rule with its number of votes, for the second class or its own."""

    votes: int
    feature: str
    value: str
    of: str = ""

    @property
    def name(self) -> str:
        """The condition, and the class beyond two."""
        return f"{self.feature} {self.value}".strip() + (f" for {self.of}" if self.of else "")


@dataclass(frozen=True)
class VoteSummary:
    """The rules of a vote, from the most votes to the fewest, without those that cancel."""

    rules: tuple[Rule, ...]

    def to_text(self) -> str:
        """Return a list of rules; votes count against where a rule does not hold."""
        return "\n".join(["votes", *(f"  {rule.votes:+5d}  {rule.name}" for rule in self.rules)])

    def plot(self, ax: Any = None) -> Any:
        """Draw the votes as bars; return the axes."""
        rules = self.rules[:MOST_BARS]
        label = "votes where it holds; as many against where it does not"
        votes = [rule.votes for rule in rules]
        return draw_bars([rule.name for rule in rules], votes, None, label, "votes", ax)


@dataclass(frozen=True)
class Finding:
    """A possible problem that follows from released values.

    Attributes
    ----------
    kind : str
        The kind of finding, a fixed string.
    text : str
        A sentence for users.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"
