"""Additive privacy curves: μ², or Rényi divergences of many orders."""

from __future__ import annotations

import math
import operator
import sys
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

ORDERS = (*range(2, 65), 80, 96, 128, 160, 192, 256, 384, 512, 768, 1024)
"""Rényi orders of a curve."""


@dataclass(frozen=True)
class Curve:
    """Cost of releases in theories with additive costs.

    Attributes
    ----------
    mu_squared : float or None
        Σμ² of Gaussian DP; None unless every release is Gaussian on all rows.
    grid : float
        Σ coordinates/σ², which determines the slack of the integer grid.
    rho : tuple of float or None
        Rényi divergence of each of `ORDERS`, or None.
    extra_delta : float
        Failure probability of thresholds, which adds to δ.
    """

    mu_squared: float | None
    grid: float
    rho: tuple[float | None, ...]
    extra_delta: float = 0.0

    def __add__(self, other: Curve) -> Curve:
        return self._merged(other, operator.add)

    def joined(self, other: Curve) -> Curve:
        """Return the pointwise maximum: the cost for units that are in one of two batches."""
        return self._merged(other, max)

    def _merged(self, other: Curve, merge: Callable[[float, float], float]) -> Curve:
        def optional(one: float | None, two: float | None) -> float | None:
            return None if one is None or two is None else merge(one, two)

        return Curve(
            optional(self.mu_squared, other.mu_squared),
            merge(self.grid, other.grid),
            tuple(map(optional, self.rho, other.rho)),
            merge(self.extra_delta, other.extra_delta),
        )

    def rho_at(self, order: int) -> float:
        """Return a bound on the divergence of an order: that of the next order in `ORDERS`."""
        place = bisect_left(ORDERS, order)
        known = self.rho[place] if place < len(ORDERS) else None
        return math.inf if known is None else known

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible dict."""
        return asdict(self) | {"rho": list(self.rho)}

    @classmethod
    def from_dict(cls, form: Any) -> Curve:
        """Read a dict of `to_dict`; raise ValueError if it is invalid."""
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


def _is_size(value: Any) -> bool:
    if value is None:
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= sys.float_info.max  # integers may be larger
