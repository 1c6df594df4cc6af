"""Events of noisy sums: a class for each noise distribution, with its formulas and sampler."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from privboost.accounting.events import (
    Event,
    Relation,
    amplified,
    check_sampling,
    describe_sampling,
    pure_rdp,
)
from privboost.accounting.formulas import laplace_rdp, round_up, subsampled_gaussian_rdp


@dataclass(frozen=True)
class NoisySums(Event):
    """A vector of integer sums with noise, whose statistics share one release.

    Attributes
    ----------
    steps : int
        Maximum change of one cell by one protected unit, in grid steps, if all its rows lie there.
    cells : int
        Number of cells of each statistic that one row touches.
    rows : int
        Number of rows of one protected unit.
    shares : tuple of float
        Share of each statistic in the release; they add up to 1.
    sampling_rate : float
        Sampling rate of rows (Poisson sampling).

    Notes
    -----
    What states the size of the noise:

    ========================== ==================================================================
    `noise`                    multiplier of the sensitivity: 1/noise is μ (Gaussian) or ε (Laplace)
    `scales`                   parameter of the distribution, by statistic, in grid steps
    `sampler_scales`           the same as the sampler takes it: Laplace scales are rounded up
    `deviations`               standard deviation, by statistic, in grid steps
    `deviation_of_unit_scale`  standard deviation of noise of scale 1: 1 (Gaussian), √2 (Laplace)
    ========================== ==================================================================
    """

    sampler: ClassVar[str]
    """Name of the noise distribution in `randomness.noise.SAMPLERS`."""
    deviation_of_unit_scale: ClassVar[float] = 1.0
    steps: int
    cells: int
    rows: int
    shares: tuple[float, ...]
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(share > 0 for share in self.shares):
            raise ValueError("every share must be above 0")
        if not abs(math.fsum(self.shares) - 1) <= 2**-48:  # accountants round up by more
            raise ValueError("shares must add up to 1")
        check_sampling(self)

    @property
    def unit_rows(self) -> int:
        return self.rows

    @property
    def has_pld(self) -> bool:
        return True

    @property
    def touched(self) -> int:
        """Number of coordinates that one protected unit can change."""
        return self.rows * self.cells * len(self.shares)

    @property
    def sampler_scales(self) -> np.ndarray:
        """Noise scale of each statistic, as the sampler takes it."""
        return self.scales

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviation of each statistic's noise, in grid steps."""
        return self.deviation_of_unit_scale * self.scales

    def for_queries(self, queries: int) -> Self:
        """Return the event of several queries at once: a row touches the cells of each."""
        return replace(self, cells=queries * self.cells)

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"shares": list(self.shares)}


@dataclass(frozen=True)
class GaussianRelease(NoisySums):
    """A vector of integer sums with discrete Gaussian noise.

    Its statistics divide the sensitivity by `shares`: the noise of each has the scale
    z · steps · √cells / √share, so that one protected unit moves the whitened vector by at most
    1/z: the release is (1/z)-Gaussian-DP but for the slack of the integer grid.

    Attributes
    ----------
    noise : float
        z, the noise multiplier: the noise's standard deviation over the L2 sensitivity.
    """

    kind: ClassVar[str] = "gaussian"
    sampler: ClassVar[str] = "discrete_gaussian"
    plain_mu_squared: ClassVar[float] = 1.0

    @property
    def mu(self) -> float | None:
        return 1 / self.noise if self.sampling_rate == 1 else None

    def rdp(self, alpha: int) -> float | None:
        """Return the Rényi divergence; it holds for discrete noise without slack."""
        return subsampled_gaussian_rdp(alpha, self.sampling_rate, self.noise)

    def pld(self, grid: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_gaussian_mechanism(
            self.noise, sampling_prob=self.sampling_rate, value_discretization_interval=grid
        )

    @property
    def gaussian_grid(self) -> tuple[int, float] | None:
        return self.touched, float(self.scales.min())

    @property
    def leaf_sigma(self) -> float | None:
        return math.sqrt(2) * self.noise

    @cached_property
    def scales(self) -> np.ndarray:
        sensitivity = self.steps * math.sqrt(self.cells)
        scales: np.ndarray = self.noise * sensitivity / np.sqrt(self.shares)
        return scales

    @property
    def mechanism(self) -> str:
        shares = " : ".join(f"{share:g}" for share in self.shares)
        among = f" (statistics share the sensitivity {shares})" if len(self.shares) > 1 else ""
        sampled = describe_sampling(self.sampling_rate)
        return f"discrete Gaussian noise, {self.noise:.6g} times the sensitivity{among}{sampled}"


@dataclass(frozen=True)
class VectorRelease(GaussianRelease):
    """A vector of bounded L2 sensitivity with discrete Gaussian noise.

    Attributes
    ----------
    steps : int
        L2 sensitivity of the whole vector.
    coordinates : int
        Number of coordinates that one row can change.
    """

    kind: ClassVar[str] = "gaussian vector"
    coordinates: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cells != 1 or len(self.shares) != 1 or self.sampling_rate != 1:
            raise ValueError("a vector is one statistic, of all rows")

    @property
    def touched(self) -> int:
        """Number of coordinates that one protected unit can change."""
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
        return self.touched, float(self.scales[0]) / math.sqrt(2)

    @property
    def mechanism(self) -> str:
        return f"{super().mechanism} (off the diagonal less by a factor of √2)"


@dataclass(frozen=True)
class ThresholdRelease(GaussianRelease):
    """Values whose counts, with Gaussian noise, exceed a threshold.

    A value that only one unit has is released with probability at most `delta_of_threshold`.
    """

    kind: ClassVar[str] = "threshold"
    delta_of_threshold: float = 0.0

    @property
    def extra_delta(self) -> float:
        """Probability that a value of one unit alone exceeds the threshold."""
        return self.delta_of_threshold

    @property
    def mechanism(self) -> str:
        return f"{super().mechanism}, told above a threshold (delta {self.delta_of_threshold:g})"


class Parallel(NoisySums):
    """A release over units put aside, in parallel to others that cover its cost.

    Attributes
    ----------
    fraction : float
        Probability with which a unit is put aside.
    covered_by : NoisySums
        The release over all other units.
    part : float
        Part of what covers it that it spends at most.
    copies : int
        How often the plan makes `covered_by`, all of which cover it.
    """

    fraction: float
    covered_by: NoisySums
    part: float
    copies: int


@dataclass(frozen=True)
class ParallelRelease(GaussianRelease, Parallel):
    """A Gaussian release over units put aside, in parallel to a release over all other units.

    A secret coin of its own puts each unit aside, before either release, so a unit takes part in
    one of the two. Units put aside pay with the part of `covered_by` that they do not spend, so the
    event adds nothing to the cost of a plan that has `covered_by`: docs/guarantees/intervals.md.

    Attributes
    ----------
    fraction : float
        Probability with which a unit is put aside.
    covered_by : GaussianRelease
        The release over all other units; reserved in the same plan, and not made before units are
        put aside.
    part : float
        Part of the μ² of `covered_by` that this release has at most. All parallel releases that one
        covers have at most all of it, and touch at most as many coordinates: ledgers check that.
    """

    kind: ClassVar[str] = "gaussian, parallel"
    copies = 1
    fraction: float = field(kw_only=True)
    covered_by: GaussianRelease = field(kw_only=True)
    part: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 < self.fraction < 1 and 0 < self.part <= 1):
            raise ValueError("a fraction of the units and a part of a release are needed")
        if type(self.covered_by) is not GaussianRelease or self.covered_by.sampling_rate != 1:
            raise ValueError("a Gaussian release of all other units must cover a parallel one")
        own, whole = float(self.scales.min()), float(self.covered_by.scales.min())
        covered = (
            self.sampling_rate == 1
            and self.relation == self.covered_by.relation == Relation.ADD_REMOVE
            and self.rows == 1
            and self.covered_by.noise <= self.noise * math.sqrt(self.part)
            and self.touched * whole**2 <= self.part * self.covered_by.touched * own**2
        )
        if not covered:
            raise ValueError(f"the release of all other units does not cover: {self.what}")

    @classmethod
    def of(
        cls, what: str, covered_by: GaussianRelease, part: float, fraction: float, steps: int
    ) -> ParallelRelease:
        """Return the release of counts by cell that a part of a release pays for."""
        noise = covered_by.noise / math.sqrt(part) * (1 + 1e-12)
        return cls(
            what, noise, steps, 1, 1, (1.0,), fraction=fraction, covered_by=covered_by, part=part
        )

    @property
    def mu(self) -> float | None:
        """0: what the release costs is a part of `covered_by`."""
        return 0.0

    def rdp(self, alpha: int) -> float | None:
        """Return 0: what the release costs is a part of `covered_by`."""
        return 0.0

    @property
    def gaussian_grid(self) -> tuple[int, float] | None:
        """None: the slack of its grid is a part of that of `covered_by`."""
        return None

    def scaled(self, factor: float) -> Self:
        return replace(self, noise=self.noise * factor, covered_by=self.covered_by.scaled(factor))

    @property
    def mechanism(self) -> str:
        return f"{super().mechanism}; {_of_units_put_aside(self)}"


def _of_units_put_aside(event: Parallel) -> str:
    return (
        f"of units that a secret coin puts aside, each with chance {event.fraction:g}, and which "
        "take no part in training: no cost of its own"
    )


@dataclass(frozen=True)
class LaplaceRelease(NoisySums):
    """A vector of integer sums with discrete Laplace noise.

    Each statistic c has the scale noise · steps · cells / share_c, so that one protected unit
    moves the vector by at most 1/noise in the weighted L1 norm: the release is (1/noise)-DP.
    """

    kind: ClassVar[str] = "laplace"
    sampler: ClassVar[str] = "discrete_laplace"
    deviation_of_unit_scale: ClassVar[float] = math.sqrt(2)
    plain_mu_squared: ClassVar[float] = 2.0

    @property
    def pure(self) -> float | None:
        return amplified(1 / self.noise, self.sampling_rate)

    def rdp(self, alpha: int) -> float | None:
        """Return the Rényi divergence of the noise, with the slack of the grid.

        It never exceeds the bound for any ε-DP mechanism, which is used with sampling.
        """
        epsilon = amplified(1 / self.noise, self.sampling_rate)
        general = pure_rdp(alpha, epsilon)
        if self.sampling_rate < 1:
            return general
        # P_d ≤ e^a P_r and P_r ≤ e^b P_d in each touched coordinate: see `discretisation_slack`.
        scale = float(self.scales.min())
        slack = alpha / (alpha - 1) / (2 * scale) + 1 / (8 * scale * scale)
        return min(laplace_rdp(alpha, epsilon) + self.touched * slack, general)

    def pld(self, grid: float) -> Any:
        from dp_accounting.pld import privacy_loss_distribution

        return privacy_loss_distribution.from_laplace_mechanism(
            self.noise, sampling_prob=self.sampling_rate, value_discretization_interval=grid
        )

    @property
    def laplace_grid(self) -> tuple[int, float] | None:
        return self.touched, float(self.scales.min())

    @property
    def scales(self) -> np.ndarray:
        scales: np.ndarray = self.noise * self.steps * self.cells / np.array(self.shares)
        return scales

    @property
    def sampler_scales(self) -> np.ndarray:
        """Noise scale of each statistic, rounded up to integers."""
        scales: np.ndarray = np.ceil(self.scales).astype(np.int64)
        return scales

    @property
    def mechanism(self) -> str:
        sampled = describe_sampling(self.sampling_rate)
        return f"discrete Laplace noise, {round_up(1 / self.noise)}-DP{sampled}"


@dataclass(frozen=True)
class ParallelLaplaceRelease(LaplaceRelease, Parallel):
    """A Laplace release over units put aside, in parallel to releases over all other units.

    As `ParallelRelease`, for pure DP: it costs at most a part of what all copies of the covering
    release cost together, as their ε add up. No other theory covers it, since one release of a
    large ε can cost more by it than many of small ones with the same sum.

    Attributes
    ----------
    fraction : float
        Probability with which a unit is put aside.
    covered_by : LaplaceRelease
        The release over all other units; reserved in the same plan, and not made before units are
        put aside.
    part : float
        Part of the ε of all copies of `covered_by` that this release has at most.
    copies : int
        How often the plan makes `covered_by`.
    """

    kind: ClassVar[str] = "laplace, parallel"
    fraction: float = field(kw_only=True)
    covered_by: LaplaceRelease = field(kw_only=True)
    part: float = field(kw_only=True)
    copies: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (0 < self.fraction < 1 and 0 < self.part <= 1 and self.copies >= 1):
            raise ValueError("a fraction of the units and a part of a release are needed")
        if type(self.covered_by) is not LaplaceRelease or self.covered_by.sampling_rate != 1:
            raise ValueError("a Laplace release of all other units must cover a parallel one")
        covered = (
            self.sampling_rate == 1
            and self.relation == self.covered_by.relation == Relation.ADD_REMOVE
            and self.rows == 1
            and self.covered_by.noise <= self.part * self.copies * self.noise
        )
        if not covered:
            raise ValueError(f"the release of all other units does not cover: {self.what}")

    @classmethod
    def of(
        cls,
        what: str,
        covered_by: LaplaceRelease,
        copies: int,
        part: float,
        fraction: float,
        steps: int,
    ) -> ParallelLaplaceRelease:
        """Return the release of counts by cell that a part of some releases pays for."""
        noise = covered_by.noise / (part * copies) * (1 + 1e-12)
        return cls(
            *(what, noise, steps, 1, 1, (1.0,)),
            fraction=fraction,
            covered_by=covered_by,
            part=part,
            copies=copies,
        )

    @property
    def pure(self) -> float | None:
        """0: what the release costs is a part of `covered_by`."""
        return 0.0

    def rdp(self, alpha: int) -> float | None:
        """Return None: Rényi divergences of what covers the release may be smaller."""
        return None

    @property
    def has_pld(self) -> bool:
        """False, for the same reason."""
        return False

    @property
    def laplace_grid(self) -> tuple[int, float] | None:
        """None: under pure DP the grid has no slack."""
        return None

    def scaled(self, factor: float) -> Self:
        return replace(self, noise=self.noise * factor, covered_by=self.covered_by.scaled(factor))

    @property
    def mechanism(self) -> str:
        return (
            f"discrete Laplace noise, {round_up(1 / self.noise)}-DP for units put aside; "
            f"{_of_units_put_aside(self)}"
        )
