"""What a report carries so that it adds up with others: μ², or divergences of many orders."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from dataclasses import asdict, dataclass
from typing import Any

ORDERS = (*range(2, 65), 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024)
"""The Rényi orders that a report tells."""


@dataclass(frozen=True)
class Curve:
    """What was spent, in theories that add up.

    Attributes
    ----------
    mu_squared : float or None
        Σμ² of Gaussian DP; None where not every release is Gaussian on all rows.
    grid : float
        The coordinates over σ² that the price of the integer grid follows.
    rho : tuple of float or None
        The Rényi divergence of each of `ORDERS`, None where there is none.
    extra_delta : float
        What is added to δ beside all noise.
    """

    mu_squared: float | None
    grid: float
    rho: tuple[float | None, ...]
    extra_delta: float = 0.0

    def __add__(self, other: Curve) -> Curve:
        both = None not in (self.mu_squared, other.mu_squared)
        return Curve(
            self.mu_squared + other.mu_squared if both else None,  # type: ignore[operator]
            self.grid + other.grid,
            tuple(_sum(one, two) for one, two in zip(self.rho, other.rho, strict=True)),
            self.extra_delta + other.extra_delta,
        )

    def joined(self, other: Curve) -> Curve:
        """Return what covers either: of units that are in one of two batches."""
        both = None not in (self.mu_squared, other.mu_squared)
        return Curve(
            max(self.mu_squared, other.mu_squared) if both else None,  # type: ignore[type-var]
            max(self.grid, other.grid),
            tuple(_most(one, two) for one, two in zip(self.rho, other.rho, strict=True)),
            max(self.extra_delta, other.extra_delta),
        )

    def rho_at(self, order: int) -> float:
        """Return a bound of the divergence of an order: that of the next one told."""
        place = bisect_left(ORDERS, order)
        known = self.rho[place] if place < len(ORDERS) else None
        return math.inf if known is None else known

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        return asdict(self) | {"rho": list(self.rho)}

    @classmethod
    def from_dict(cls, form: Any) -> Curve:
        """Read what `to_dict` gave; raise ValueError for what is none."""
        if not isinstance(form, dict) or set(form) != _PARTS:
            raise ValueError(f"curve: {', '.join(sorted(_PARTS))} are needed")
        if not isinstance(form["rho"], list) or len(form["rho"]) != len(ORDERS):
            raise ValueError("curve: rho has a number or null for each order")
        numbers = [form["mu_squared"], *form["rho"]]
        sizes = [form["grid"], form["extra_delta"]]
        if None in sizes or not all(map(_is_size, [*sizes, *numbers])):
            raise ValueError("curve: numbers of at least 0 are needed")
        return cls(**form | {"rho": tuple(form["rho"])})


_PARTS = {"mu_squared", "grid", "rho", "extra_delta"}


def _sum(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else one + two


def _most(one: float | None, two: float | None) -> float | None:
    return None if one is None or two is None else max(one, two)


def _is_size(value: Any) -> bool:
    if value is None:
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= sys.float_info.max  # whole numbers may be larger
