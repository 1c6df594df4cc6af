"""Events: immutable descriptions of releases, which accountants compose.

An event states its parameters in every theory: Gaussian DP, pure DP, bounded range, Rényi
divergence, privacy loss distribution. None means that a theory does not cover it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

import numpy as np

from privboost.accounting.formulas import bounded_range_rdp, round_up


class Relation(StrEnum):
    """Neighbouring relation between tables."""

    ADD_REMOVE = "add or remove one protected unit"
    REPLACE_ONE = "replace one protected unit"


@dataclass(frozen=True)
class Event(ABC):
    """A release, as accountants see it.

    Attributes
    ----------
    what : str
        Description of the released values.
    noise : float
        Noise multiplier: the amount of noise relative to the sensitivity, as the mechanism defines
        it (1/ε where it has an ε); calibration multiplies it.
    relation : Relation
        Neighbouring relation.
    """

    kind: ClassVar[str]
    plain_mu_squared: ClassVar[float]
    """Approximate μ² of a release of noise 1, by which calibration divides a budget."""
    sampling_rate = 1.0  # of rows; a field of the events that may be sampled
    what: str
    noise: float
    relation: Relation = field(default=Relation.ADD_REMOVE, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", Relation(self.relation))  # files hold its value
        if not (math.isfinite(self.noise) and self.noise > 0):
            raise ValueError("noise must be a finite number above 0")

    @property
    def unit_rows(self) -> int:
        """Maximum number of rows of one protected unit."""
        return 1

    @property
    def mu(self) -> float | None:
        """Parameter μ of Gaussian DP."""
        return None

    @property
    def pure(self) -> float | None:
        """ε of pure DP."""
        return None

    @property
    def range_epsilon(self) -> float | None:
        """ε₀ of a bounded-range mechanism."""
        return None

    def rdp(self, alpha: int) -> float | None:
        """Return the Rényi divergence of an integer order."""
        return None

    def pld(self, grid: float) -> Any:
        """Return the privacy loss distribution of dp-accounting, on a grid."""
        return None

    @property
    def has_pld(self) -> bool:
        """Whether `pld` returns a distribution."""
        return False

    @property
    def gaussian_grid(self) -> tuple[int, float] | None:
        """Coordinates with discrete Gaussian noise that one unit can change, and their scale."""
        return None

    @property
    def laplace_grid(self) -> tuple[int, float] | None:
        """The same for discrete Laplace noise."""
        return None

    @property
    def scales(self) -> np.ndarray:
        """Noise scale of each statistic, in grid steps; empty unless the event is a noisy sum."""
        return np.zeros(0)

    @property
    def leaf_sigma(self) -> float | None:
        """σ of a Gaussian release of leaves, which has two sums, over the sensitivity of each."""
        return None

    @property
    def parts(self) -> tuple[Event, ...]:
        """The releases that are charged together: the event itself, or the members of a group."""
        return (self,)

    @property
    def extra_delta(self) -> float:
        """Failure probability that adds to δ in every theory."""
        return 0.0

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """Description of the mechanism."""

    def scaled(self, factor: float) -> Self:
        """Return the same release with its noise multiplied by a factor."""
        return replace(self, noise=self.noise * factor)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible dict."""
        return {"kind": self.kind, **asdict(self), "relation": self.relation.value}


@dataclass(frozen=True)
class Selection(Event):
    """Selection of a candidate by the exponential mechanism: P ∝ exp(ε₀ · score / range).

    Attributes
    ----------
    noise : float
        1/ε₀: one unit changes the scores by amounts within the utility's proved range, so the
        selection is ε₀-bounded-range.
    sampling_rate : float
        Sampling rate of rows.
    """

    kind: ClassVar[str] = "selection"
    plain_mu_squared: ClassVar[float] = 1 / 4
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sampling(self)

    @property
    def range_epsilon(self) -> float | None:
        return 1 / self.noise if self.sampling_rate == 1 else None

    @property
    def pure(self) -> float | None:
        return amplified(1 / self.noise, self.sampling_rate)

    def rdp(self, alpha: int) -> float | None:
        """Return the divergence of a bounded range; for a sample, that of any ε-DP mechanism."""
        if self.sampling_rate == 1:
            return bounded_range_rdp(alpha, 1 / self.noise)
        return pure_rdp(alpha, amplified(1 / self.noise, self.sampling_rate))

    def pld(self, grid: float) -> Any:
        """Return the privacy loss distribution of any mechanism with the ε of a sample."""
        return pure_pld(self.pure, grid)

    @property
    def has_pld(self) -> bool:
        return self.sampling_rate < 1

    @property
    def mechanism(self) -> str:
        sampled = describe_sampling(self.sampling_rate)
        return f"the exponential mechanism, {round_up(1 / self.noise)}-DP{sampled}"


@dataclass(frozen=True)
class SampledGroup(Event):
    """Several pure releases on one Poisson sample, amplified together.

    Attributes
    ----------
    noise : float
        1/ε, where ε is the sum of the releases' costs on the sample.
    inner : tuple of Planned
        The releases; each is pure and made on the whole sample.
    sampling_rate : float
        Sampling rate of rows.
    """

    kind: ClassVar[str] = "sampled group"
    plain_mu_squared: ClassVar[float] = 2.0
    inner: tuple[Planned, ...]
    sampling_rate: float

    @classmethod
    def of(cls, what: str, inner: tuple[Planned, ...], sampling_rate: float) -> SampledGroup:
        """Return a group with the total cost of its releases on the sample."""
        parts = [planned.count * (planned.event.pure or math.inf) for planned in inner]
        return cls(what, 1 / math.fsum(parts), inner, sampling_rate)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sampling(self)
        for planned in self.inner:
            event = planned.event
            whole = event.sampling_rate == 1 and event.relation == self.relation
            if not whole or isinstance(event, SampledGroup):
                raise ValueError("releases of a group are of its whole sample and of one relation")
        cost = math.fsum(p.count * (p.event.pure or math.inf) for p in self.inner)
        if not cost * self.noise <= 1 + 5e-10:
            raise ValueError("the noise of a group must cover the cost of its releases")

    @property
    def unit_rows(self) -> int:
        return max(planned.event.unit_rows for planned in self.inner)

    @property
    def pure(self) -> float | None:
        return amplified(1 / self.noise * (1 + 1e-9), self.sampling_rate)

    def rdp(self, alpha: int) -> float | None:
        """Return the Rényi divergence of any mechanism with this ε."""
        return pure_rdp(alpha, self.pure or 0.0)

    def pld(self, grid: float) -> Any:
        """Return the privacy loss distribution of any mechanism with this ε."""
        return pure_pld(self.pure, grid)

    @property
    def has_pld(self) -> bool:
        return True

    @property
    def parts(self) -> tuple[Event, ...]:
        return tuple(planned.event for planned in self.inner)

    def scaled(self, factor: float) -> Self:
        inner = tuple(planned.scaled(factor) for planned in self.inner)
        return replace(self, noise=self.noise * factor, inner=inner)

    @property
    def mechanism(self) -> str:
        made = "; ".join(f"{p.count} × {p.event.what} ({p.event.mechanism})" for p in self.inner)
        return f"each row used with chance {self.sampling_rate:g}: {made}"


@dataclass(frozen=True)
class Exact(Event):
    """A release without noise, of rows that were declared public: no theory covers it.

    No ledger reserves it, and only the curator of public rows accepts it.

    Attributes
    ----------
    statistics : int
        Number of statistics of the noisy sum that it replaces.
    sampling_rate : float
        Sampling rate of rows.
    inner : tuple of Planned
        The releases of one sample, where it replaces a group.
    """

    kind: ClassVar[str] = "exact"
    statistics: int
    sampling_rate: float = 1.0
    inner: tuple[Planned, ...] = ()

    def __post_init__(self) -> None:
        if self.noise != 0:
            raise ValueError("an exact release has no noise")

    @classmethod
    def of(cls, event: Event) -> Exact:
        """Return the exact counterpart of an event."""
        inner = event.inner if isinstance(event, SampledGroup) else ()
        own = tuple(Planned(cls.of(planned.event), planned.count) for planned in inner)
        return cls(event.what, 0.0, len(event.scales), event.sampling_rate, own)

    def for_queries(self, queries: int) -> Exact:
        """Return the event of several queries at once: without noise, the same."""
        return self

    @property
    def scales(self) -> np.ndarray:
        return np.zeros(self.statistics)

    @property
    def deviations(self) -> np.ndarray:
        return self.scales

    @property
    def mechanism(self) -> str:
        return f"no noise: exact, and not private{describe_sampling(self.sampling_rate)}"


@dataclass(frozen=True)
class Planned:
    """An event and the number of times that a plan makes it."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        if not self.count >= 0:
            raise ValueError("the count of a release must be a whole number of at least 0")

    def scaled(self, factor: float) -> Planned:
        return replace(self, event=self.event.scaled(factor))


def amplified(epsilon: float, sampling_rate: float) -> float:
    """Return the ε of an ε-DP mechanism on a Poisson sample: ln(1 + γ(e^ε − 1))."""
    if sampling_rate == 1:
        return epsilon
    if epsilon > 700:  # e^ε overflows; ln(1 + γe^ε) is its logarithm and hardly more
        return epsilon + math.log(sampling_rate) + math.exp(-epsilon) / sampling_rate
    return math.log1p(sampling_rate * math.expm1(epsilon))


def pure_rdp(alpha: int, epsilon: float) -> float:
    """Return a bound on the Rényi divergence of any ε-DP mechanism."""
    return min(epsilon, alpha * epsilon**2 / 2)


def pure_pld(epsilon: float | None, grid: float) -> Any:
    """Return the privacy loss distribution of any ε-DP mechanism, on a grid."""
    from dp_accounting.pld import common, privacy_loss_distribution

    return privacy_loss_distribution.from_privacy_parameters(
        common.DifferentialPrivacyParameters(epsilon, 0.0), value_discretization_interval=grid
    )


def check_sampling(event: Event) -> None:
    """Refuse a sampling rate that is impossible, or for which nothing is proved."""
    if not 0 < event.sampling_rate <= 1:
        raise ValueError("sampling_rate must lie above 0, and be at most 1")
    if event.sampling_rate < 1 and (event.unit_rows > 1 or event.relation != Relation.ADD_REMOVE):
        raise ValueError(
            "sampling is amplified for units of one row, added or removed, only: a unit of several "
            "rows may be sampled in part"
        )


def describe_sampling(rate: float) -> str:
    """Return the suffix of a mechanism's description that names the sampling rate."""
    return f", each row used with chance {rate:g}" if rate < 1 else ""
