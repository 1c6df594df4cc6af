"""Effects of features, bin by bin, and joint effects of two features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privboost.explanations.plots import draw_categories, draw_heat_map, draw_steps
from privboost.explanations.spans import Spans
from privboost.forms import listed


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
