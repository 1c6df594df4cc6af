"""Frozen descriptions of releases: what was done, for accountants to interpret.

An event answers the questions that theories ask: what is it in Gaussian DP, in pure DP, as a
bounded range, in Rényi divergence, as a privacy loss? None means that a theory does not cover it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from privboost.privacy.formulas import (
    bounded_range_rdp,
    laplace_rdp,
    subsampled_gaussian_rdp,
)

ADD_REMOVE = "add or remove one protected unit"
REPLACE_ONE = "replace one protected unit"


@dataclass(frozen=True)
class Event(ABC):
    """What every release says of itself.

    Attributes
    ----------
    what : str
        What is released, in words.
    noise : float
        How much randomness there is, relative to what one unit can change; calibration multiplies
        it. Its meaning is the mechanism's.
    relation : str
        Which tables are neighbours: `ADD_REMOVE` or `REPLACE_ONE`.
    """

    kind: ClassVar[str]
    what: str
    noise: float
    relation: str = field(default=ADD_REMOVE, kw_only=True)

    def __post_init__(self) -> None:
        if not (math.isfinite(self.noise) and self.noise > 0):
            raise ValueError("noise must be a finite number above 0")

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter."""
        return None

    @property
    def pure(self) -> float | None:
        """The ε of pure DP."""
        return None

    @property
    def range_epsilon(self) -> float | None:
        """The ε₀ of a bounded range."""
        return None

    def rdp(self, alpha: int) -> float | None:
        """The Rényi divergence of a whole order."""
        return None

    def pld(self, grid: float) -> Any:
        """The privacy loss distribution of dp-accounting, on a grid."""
        return None

    @property
    def has_pld(self) -> bool:
        """Whether `pld` gives a distribution."""
        return False

    @property
    def gaussian_grid(self) -> tuple[int, float] | None:
        """The coordinates of discrete Gaussian noise that one unit can change, and their scale."""
        return None

    @property
    def laplace_grid(self) -> tuple[int, float] | None:
        """The same for discrete Laplace noise."""
        return None

    @property
    def extra_delta(self) -> float:
        """A chance of failure that no theory of noise covers; it is added to δ."""
        return 0.0

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """How the release is made, in words."""

    def scaled(self, factor: float) -> Self:
        """Return the same release with more (or less) noise."""
        return replace(self, noise=self.noise * factor)

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class NoisySums(Event):
    """A vector of integer sums with noise, shared out between its statistics.

    Attributes
    ----------
    units : int
        The most by which one protected unit changes one cell, in grid units, if all its rows lie
        there.
    cells : int
        The number of cells of each statistic that one row touches.
    rows : int
        The number of rows of one protected unit.
    shares : tuple of float
        The share of each statistic; they add up to 1.
    sampling_rate : float
        The chance of a row to take part (Poisson sampling).
    """

    units: int
    cells: int
    rows: int
    shares: tuple[float, ...]
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(share > 0 for share in self.shares):
            raise ValueError("every share must be above 0")
        if not math.isclose(sum(self.shares), 1.0, rel_tol=0, abs_tol=1e-12):
            raise ValueError("shares must add up to 1")
        _check_sampling(self, self.rows)

    @property
    def has_pld(self) -> bool:
        """Whether `pld` gives a distribution."""
        return True

    @property
    def touched(self) -> int:
        """The number of coordinates that one protected unit can change."""
        return self.rows * self.cells * len(self.shares)

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        return super().to_dict() | {"shares": list(self.shares)}


@dataclass(frozen=True)
class GaussianRelease(NoisySums):
    """A vector of integer sums with discrete Gaussian noise, leaf-balanced between statistics.

    Each statistic of the vector has a share of the release; its noise has the scale
    z · units · √cells / √share, so that one protected unit moves the whitened vector by at most
    1/z: the release is (1/z)-Gaussian-DP but for the slack of the integer grid.

    Attributes
    ----------
    noise : float
        z, the noise multiplier: the noise's standard deviation over the L2 sensitivity.
    """

    kind: ClassVar[str] = "gaussian"

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter; samples have none that composes exactly."""
        return 1 / self.noise if self.sampling_rate == 1 else None

    def rdp(self, alpha: int) -> float | None:
        """The Rényi divergence; it holds for discrete noise as it is."""
        return subsampled_gaussian_rdp(alpha, self.sampling_rate, self.noise)

    def pld(self, grid: float) -> Any:
        """The privacy loss distribution."""
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(
            self.noise, sampling_prob=self.sampling_rate, value_discretization_interval=grid
        )

    @property
    def gaussian_grid(self) -> tuple[int, float] | None:
        """The coordinates that one unit can change, and the smallest noise scale."""
        return self.touched, float(self.sigmas.min())

    @cached_property
    def sigmas(self) -> np.ndarray:
        """The noise scale of each statistic, in grid units."""
        sensitivity = self.units * math.sqrt(self.cells)
        scales: np.ndarray = self.noise * sensitivity / np.sqrt(self.shares)
        return scales

    @property
    def mechanism(self) -> str:
        """How the release is made, in words."""
        shares = " : ".join(f"{share:g}" for share in self.shares)
        among = f" (statistics share the sensitivity {shares})" if len(self.shares) > 1 else ""
        return f"discrete Gaussian noise, {self.noise:.6g} times the sensitivity{among}" + _sampled(
            self.sampling_rate
        )


@dataclass(frozen=True)
class VectorRelease(GaussianRelease):
    """A vector with discrete Gaussian noise, whose change by one unit is bounded in length.

    Attributes
    ----------
    units : int
        The L2 sensitivity: the most by which one protected unit moves the whole vector.
    coordinates : int
        How many coordinates one row can change.
    """

    kind: ClassVar[str] = "gaussian vector"
    coordinates: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cells != 1 or len(self.shares) != 1 or self.sampling_rate != 1:
            raise ValueError("a vector is one statistic, of all rows")

    @property
    def touched(self) -> int:
        """The number of coordinates that one protected unit can change."""
        return self.rows * self.coordinates


@dataclass(frozen=True)
class GramRelease(VectorRelease):
    """The matrix Σ x·xᵀ with symmetric noise; x·xᵀ moves it by ‖x‖² at most.

    Entries off the diagonal stand twice in the matrix and are drawn once. With each of them times
    √2 the triangle has the length ‖x‖² exactly, so their noise is smaller by √2.
    """

    kind: ClassVar[str] = "gram"

    @property
    def gaussian_grid(self) -> tuple[int, float] | None:
        """The coordinates that one unit can change, and the smallest noise scale."""
        return self.touched, float(self.sigmas[0]) / math.sqrt(2)

    @property
    def mechanism(self) -> str:
        """How the release is made, in words."""
        return f"{super().mechanism} (off the diagonal less by a factor of √2)"


@dataclass(frozen=True)
class ThresholdRelease(GaussianRelease):
    """Counts of values that occur, with Gaussian noise, of which those above a threshold are told.

    A value that only one unit has is told with a chance of at most `delta_of_threshold`.
    """

    kind: ClassVar[str] = "threshold"
    delta_of_threshold: float = 0.0

    @property
    def extra_delta(self) -> float:
        """The chance that a value of one unit alone passes the threshold."""
        return self.delta_of_threshold

    @property
    def mechanism(self) -> str:
        """How the release is made, in words."""
        return f"{super().mechanism}, told above a threshold (delta {self.delta_of_threshold:g})"


@dataclass(frozen=True)
class LaplaceRelease(NoisySums):
    """A vector of integer sums with discrete Laplace noise.

    Each statistic c has the scale noise · units · cells / share_c, so that one protected unit
    moves the vector by at most 1/noise in the weighted L1 norm: the release is (1/noise)-DP.
    """

    kind: ClassVar[str] = "laplace"

    @property
    def pure(self) -> float | None:
        """The ε of pure DP, amplified by sampling."""
        return amplified(1 / self.noise, self.sampling_rate)

    def rdp(self, alpha: int) -> float | None:
        """The Rényi divergence of the noise, with what the grid adds to it.

        Never above that of any ε-DP mechanism, which is all that is known of a sample.
        """
        epsilon = amplified(1 / self.noise, self.sampling_rate)
        general = min(epsilon, alpha * epsilon**2 / 2)
        if self.sampling_rate < 1:
            return general
        # P_d ≤ e^a P_r and P_r ≤ e^b P_d in each touched coordinate: accountants.discretisation.
        scale = float(self.scales.min())
        slack = alpha / (alpha - 1) / (2 * scale) + 1 / (8 * scale * scale)
        return min(laplace_rdp(alpha, epsilon) + self.touched * slack, general)

    def pld(self, grid: float) -> Any:
        """The privacy loss distribution."""
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_laplace_mechanism(
            self.noise, sampling_prob=self.sampling_rate, value_discretization_interval=grid
        )

    @property
    def laplace_grid(self) -> tuple[int, float] | None:
        """The coordinates that one unit can change, and the smallest noise scale."""
        return self.touched, float(self.scales.min())

    @property
    def scales(self) -> np.ndarray:
        """The noise scale of each statistic, in grid units."""
        scales: np.ndarray = self.noise * self.units * self.cells / np.array(self.shares)
        return scales

    @property
    def mechanism(self) -> str:
        """How the release is made, in words."""
        return f"discrete Laplace noise, {1 / self.noise:.6g}-DP" + _sampled(self.sampling_rate)


@dataclass(frozen=True)
class Selection(Event):
    """A candidate chosen by the exponential mechanism: P ∝ exp(ε₀ · score / range).

    Attributes
    ----------
    noise : float
        1/ε₀: one unit changes the scores by a range of at most the utility's proved range, so the
        choice is ε₀-bounded-range.
    sampling_rate : float
        The chance of a row to take part.
    """

    kind: ClassVar[str] = "selection"
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_sampling(self, 1)

    @property
    def range_epsilon(self) -> float | None:
        """ε₀; a sample has no bounded range."""
        return 1 / self.noise if self.sampling_rate == 1 else None

    @property
    def pure(self) -> float | None:
        """The ε of pure DP."""
        return amplified(1 / self.noise, self.sampling_rate)

    def rdp(self, alpha: int) -> float | None:
        """The Rényi divergence of a bounded range; of a sample, that of any ε-DP mechanism."""
        if self.sampling_rate == 1:
            return bounded_range_rdp(alpha, 1 / self.noise)
        epsilon = amplified(1 / self.noise, self.sampling_rate)
        return min(epsilon, alpha * epsilon**2 / 2)

    def pld(self, grid: float) -> Any:
        """The privacy loss of any mechanism with the ε of a sample."""
        from dp_accounting.pld import common, privacy_loss_distribution

        return privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(self.pure, 0.0), value_discretization_interval=grid
        )

    @property
    def has_pld(self) -> bool:
        """Whether `pld` gives a distribution: of a sample; else the game is exact."""
        return self.sampling_rate < 1

    @property
    def mechanism(self) -> str:
        """How the release is made, in words."""
        return f"the exponential mechanism, {1 / self.noise:.6g}-DP" + _sampled(self.sampling_rate)


@dataclass(frozen=True)
class SampledGroup(Event):
    """Several pure releases on one Poisson sample: amplified together, not one by one.

    Attributes
    ----------
    noise : float
        1/ε, ε the sum of what the releases cost on the sample.
    inner : tuple of Planned
        The releases; each is pure, and made on the sample as if there were no other row.
    sampling_rate : float
        The chance of a row to be in the sample.
    """

    kind: ClassVar[str] = "sampled group"
    inner: tuple[Planned, ...]
    sampling_rate: float

    @classmethod
    def of(cls, what: str, inner: tuple[Planned, ...], sampling_rate: float) -> SampledGroup:
        """Add up what the releases cost on the sample."""
        parts = [planned.count * (planned.event.pure or math.inf) for planned in inner]
        return cls(what, 1 / math.fsum(parts), inner, sampling_rate)

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_sampling(self, max(getattr(p.event, "rows", 1) for p in self.inner))
        for planned in self.inner:
            event = planned.event
            whole = getattr(event, "sampling_rate", 1.0) == 1 and event.relation == self.relation
            if not whole or isinstance(event, SampledGroup):
                raise ValueError("a group's releases are of the whole sample, and of one relation")
        cost = math.fsum(p.count * (p.event.pure or math.inf) for p in self.inner)
        if not cost * self.noise <= 1 + 1e-9:
            raise ValueError("a group costs what its releases cost together")

    @property
    def pure(self) -> float | None:
        """The ε of pure DP, amplified by sampling."""
        return amplified(1 / self.noise * (1 + 1e-9), self.sampling_rate)

    def rdp(self, alpha: int) -> float | None:
        """The Rényi divergence of any mechanism with this ε."""
        epsilon = self.pure or 0.0
        return min(epsilon, alpha * epsilon**2 / 2)

    def pld(self, grid: float) -> Any:
        """The privacy loss of any mechanism with this ε."""
        from dp_accounting.pld import common, privacy_loss_distribution

        return privacy_loss_distribution.from_privacy_parameters(
            common.DifferentialPrivacyParameters(self.pure, 0.0), value_discretization_interval=grid
        )

    @property
    def has_pld(self) -> bool:
        """Whether `pld` gives a distribution."""
        return True

    def scaled(self, factor: float) -> Self:
        """Return the same with more (or less) noise in each release."""
        inner = tuple(planned.scaled(factor) for planned in self.inner)
        return replace(self, noise=self.noise * factor, inner=inner)

    @property
    def mechanism(self) -> str:
        """How the releases are made, in words."""
        made = "; ".join(f"{p.count} × {p.event.what} ({p.event.mechanism})" for p in self.inner)
        return f"each row used with chance {self.sampling_rate:g}: {made}"


@dataclass(frozen=True)
class Planned:
    """An event that a plan makes a fixed number of times."""

    event: Event
    count: int

    def scaled(self, factor: float) -> Planned:
        """Return the same with more (or less) noise."""
        return replace(self, event=self.event.scaled(factor))


def amplified(epsilon: float, sampling_rate: float) -> float:
    """Return the ε of an ε-DP mechanism on a Poisson sample: ln(1 + γ(e^ε − 1))."""
    if sampling_rate == 1:
        return epsilon
    if epsilon > 700:  # e^ε is too large a number; ln(1 + γe^ε) is its logarithm and hardly more
        return epsilon + math.log(sampling_rate) + math.exp(-epsilon) / sampling_rate
    return math.log1p(sampling_rate * math.expm1(epsilon))


def _check_sampling(event: Any, rows: int) -> None:
    if not 0 < event.sampling_rate <= 1:
        raise ValueError("sampling_rate must lie above 0, and be at most 1")
    if event.sampling_rate < 1 and (rows > 1 or event.relation != ADD_REMOVE):
        raise ValueError(
            "sampling is amplified for units of one row, added or removed, only: a unit of several "
            "rows may be sampled in part"
        )


def _sampled(rate: float) -> str:
    return f", each row used with chance {rate:g}" if rate < 1 else ""
