"""What is told in one list: importances, coefficients, the card of a vote, and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

INTERCEPT = "(intercept)"
NOISE_IN = "noise is not taken off: features that tell nothing have shares, too"


@dataclass(frozen=True)
class Importance:
    """How much each feature moves the score.

    Attributes
    ----------
    features : tuple of str
        Their names.
    shares : tuple of float
        Parts of the movement; they add up to 1, or are all 0.
    stds : tuple of float, or None
        The standard errors that noise gives to them; None where they cannot be told.
    noise_removed : bool
        Whether what noise alone would move was taken off, or there was no noise.
    """

    features: tuple[str, ...]
    shares: tuple[float, ...]
    stds: tuple[float, ...] | None
    noise_removed: bool

    @property
    def ranked(self) -> list[int]:
        """The places of features, the largest share first."""
        return sorted(range(len(self.shares)), key=lambda k: -self.shares[k])

    def to_text(self) -> str:
        """Write it as a list, the largest share first."""
        wide = max(map(len, self.features))
        lines = [f"importance{'' if self.noise_removed else f' ({NOISE_IN})'}"]
        for k in self.ranked:
            error = "" if self.stds is None else f" ± {self.stds[k]:.3f}"
            lines.append(f"  {self.features[k]:<{wide}}  {self.shares[k]:.3f}{error}")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw it as bars, with one standard error where it is known; return the axes."""
        from privboost.explanations.plots import draw_importance

        return draw_importance(self, ax)


@dataclass(frozen=True)
class Coefficient:
    """A line of a linear model, on the scale of the table: see `Model.coefficients`.

    Attributes
    ----------
    feature, value : str
        What it stands for.
    coefficient : float
        What it adds.
    std : float or None
        The standard error that noise gives to it; None where it is made of several.
    of : str
        The class whose score it is, beyond two.
    per : str
        Of a number, a date, a rank: for how much of it the coefficient is.
    """

    feature: str
    value: str
    coefficient: float
    std: float | None
    of: str = ""
    per: str = ""

    @property
    def name(self) -> str:
        """What it stands for, in words."""
        own = f"{self.feature} {self.per or self.value}".strip()
        return own + (f" for {self.of}" if self.of else "")

    @property
    def strength(self) -> float:
        """How many errors it is away from 0; its size where its error cannot be told."""
        return abs(self.coefficient) / (self.std or 1.0)


@dataclass(frozen=True)
class Coefficients:
    """A linear model as a list."""

    lines: tuple[Coefficient, ...]

    @property
    def levels(self) -> list[str]:
        """Tell the intercept from a model's start, where both are there and differ."""
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
        """Return so many of them, that stand out most (from their errors, if told), in order."""
        ranked = sorted(range(len(self.lines)), key=lambda k: -self.lines[k].strength)
        return Coefficients(tuple(self.lines[k] for k in sorted(ranked[:most])))

    def to_text(self) -> str:
        """Write it as a list."""
        said = [
            f"  {line.coefficient:+12.5g}  {line.name}"
            + ("" if line.std is None else f"  (± {line.std:.2g})")
            for line in self.lines
        ]
        return "\n".join(["coefficients", *said])

    def plot(self, ax: Any = None) -> Any:
        """Draw those that stand out most from their errors as bars; return the axes."""
        from privboost.explanations.plots import draw_coefficients

        return draw_coefficients(self, ax)


@dataclass(frozen=True)
class Rule:
    """A line of a vote's card: how many votes a value has, for the second class or its own."""

    votes: int
    feature: str
    value: str
    of: str = ""

    @property
    def name(self) -> str:
        """The rule in words."""
        return f"{self.feature} {self.value}".strip() + (f" for {self.of}" if self.of else "")


@dataclass(frozen=True)
class Card:
    """A vote of rules as a card, from the most votes to the fewest; those that cancel are out."""

    rules: tuple[Rule, ...]

    def to_text(self) -> str:
        """Write it as a list; votes count against where a rule does not hold."""
        return "\n".join(["votes", *(f"  {rule.votes:+5d}  {rule.name}" for rule in self.rules)])

    def plot(self, ax: Any = None) -> Any:
        """Draw it as bars; return the axes."""
        from privboost.explanations.plots import draw_card

        return draw_card(self, ax)


@dataclass(frozen=True)
class Finding:
    """Something worth a look, as released values tell.

    Attributes
    ----------
    kind : str
        What kind of thing it is; these words stay.
    text : str
        A sentence for people.
    """

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"
