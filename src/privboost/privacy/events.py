"""Frozen descriptions of releases: what was done, for accountants to interpret."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class GaussianRelease:
    """A vector of integer sums with discrete Gaussian noise, leaf-balanced between statistics.

    Each statistic of the vector has a share of the release; its noise has the scale
    z · units · √cells / √share, so that one protected unit moves the whitened vector by at most
    1/z: the release is (1/z)-Gaussian-DP but for the slack of the integer grid.

    Attributes
    ----------
    what : str
        What is released, in words.
    noise_multiplier : float
        z: the noise's standard deviation over the L2 sensitivity.
    units : int
        The most by which one protected unit changes one cell, in grid units, if all its rows lie
        there.
    cells : int
        The number of cells of each statistic that one row touches.
    rows : int
        The number of rows of one protected unit.
    shares : tuple of float
        The share of each statistic; they add up to 1.
    """

    what: str
    noise_multiplier: float
    units: int
    cells: int
    rows: int
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise_multiplier) and self.noise_multiplier > 0):
            raise ValueError("noise_multiplier must be a finite number above 0")
        if not all(share > 0 for share in self.shares):
            raise ValueError("every share must be above 0")
        if not math.isclose(sum(self.shares), 1.0, rel_tol=0, abs_tol=1e-12):
            raise ValueError("shares must add up to 1")

    @property
    def mu(self) -> float:
        """The Gaussian-DP parameter of the release."""
        return 1 / self.noise_multiplier

    @property
    def sigmas(self) -> np.ndarray:
        """The noise scale of each statistic, in grid units."""
        sensitivity = self.units * math.sqrt(self.cells)
        scales: np.ndarray = self.noise_multiplier * sensitivity / np.sqrt(self.shares)
        return scales

    @property
    def touched(self) -> int:
        """The number of coordinates that one protected unit can change."""
        return self.rows * self.cells * len(self.shares)

    def scaled(self, factor: float) -> GaussianRelease:
        """Return the same release with more (or less) noise."""
        return replace(self, noise_multiplier=self.noise_multiplier * factor)

    @property
    def mechanism(self) -> str:
        """How the release is made, in words."""
        shares = " : ".join(f"{share:g}" for share in self.shares)
        return (
            f"discrete Gaussian noise, {self.noise_multiplier:.6g} times the sensitivity "
            f"(statistics share the sensitivity {shares})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        return {"kind": "gaussian", **asdict(self), "shares": list(self.shares)}


Event = GaussianRelease


@dataclass(frozen=True)
class Planned:
    """An event that a plan makes a fixed number of times."""

    event: Event
    count: int

    def scaled(self, factor: float) -> Planned:
        """Return the same with more (or less) noise."""
        return replace(self, event=self.event.scaled(factor))
