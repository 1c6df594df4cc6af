"""Lists of an explanation: importances, coefficients, votes and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privboost.explanations.plots import MOST_BARS, draw_bars, strongest

INTERCEPT = "(intercept)"
NOISE_IN = "noise is not taken off: features that tell nothing have shares, too"

NO_SIGNAL = "no signal"
NO_ROWS = "no rows"
MISSING_COLUMN = "missing column"
RARE_CLASS = "rare class"
WIDE_BOUNDS = "wide bounds"
LABEL_BOUNDS = "label bounds"
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
