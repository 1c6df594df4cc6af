"""Frozen descriptions of releases: what was done, for accountants to interpret.

An event answers the questions that theories ask: what is it in Gaussian DP, in pure DP, as a
bounded range, in Rényi divergence, as a privacy loss? None means that a theory does not cover it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

import numpy as np

from privboost.privacy.formulas import bounded_range_rdp
from privboost.reports.report import round_up


class Relation(StrEnum):
    """Which tables are neighbours."""

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
    relation : Relation
        Which tables are neighbours.
    """

    kind: ClassVar[str]
    plain_mu_squared: ClassVar[float]
    """About what a release of noise 1 counts of μ²: how calibration shares a budget out."""
    what: str
    noise: float
    relation: Relation = field(default=Relation.ADD_REMOVE, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "relation", Relation(self.relation))  # its words come from files
        if not (math.isfinite(self.noise) and self.noise > 0):
            raise ValueError("noise must be a finite number above 0")

    @property
    def rate(self) -> float:
        """The chance of a row to take part."""
        return 1.0

    @property
    def unit_rows(self) -> int:
        """How many rows of one protected unit may be in it."""
        return 1

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
    def scales(self) -> np.ndarray:
        """The scale of each statistic's noise, in grid steps; none of what is no noisy sum."""
        return np.zeros(0)

    @property
    def parts(self) -> tuple[Event, ...]:
        """What is released: itself, or several releases that are charged together."""
        return (self,)

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
        return {"kind": self.kind, **asdict(self), "relation": self.relation.value}


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
    plain_mu_squared: ClassVar[float] = 1 / 4
    sampling_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sampling(self)

    @property
    def rate(self) -> float:
        """The chance of a row to take part."""
        return self.sampling_rate

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
        sampled = sampled_words(self.sampling_rate)
        return f"the exponential mechanism, {round_up(1 / self.noise)}-DP{sampled}"


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
    plain_mu_squared: ClassVar[float] = 2.0
    inner: tuple[Planned, ...]
    sampling_rate: float

    @classmethod
    def of(cls, what: str, inner: tuple[Planned, ...], sampling_rate: float) -> SampledGroup:
        """Add up what the releases cost on the sample."""
        parts = [planned.count * (planned.event.pure or math.inf) for planned in inner]
        return cls(what, 1 / math.fsum(parts), inner, sampling_rate)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sampling(self)
        for planned in self.inner:
            event = planned.event
            whole = event.rate == 1 and event.relation == self.relation
            if not whole or isinstance(event, SampledGroup):
                raise ValueError("a group's releases are of the whole sample, and of one relation")
        cost = math.fsum(p.count * (p.event.pure or math.inf) for p in self.inner)
        if not cost * self.noise <= 1 + 5e-10:
            raise ValueError("a group costs what its releases cost together")

    @property
    def rate(self) -> float:
        """The chance of a row to be in the sample."""
        return self.sampling_rate

    @property
    def unit_rows(self) -> int:
        """The most rows of one protected unit in any of the releases."""
        return max(planned.event.unit_rows for planned in self.inner)

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

    @property
    def parts(self) -> tuple[Event, ...]:
        """The releases."""
        return tuple(planned.event for planned in self.inner)

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
class Exact(Event):
    """What is told without noise, of rows that were declared public: no theory covers it.

    No ledger reserves it, and of all curators only that of public rows takes it.

    Attributes
    ----------
    statistics : int
        How many statistics a noisy sum in its place would have.
    sampling_rate : float
        The chance of a row to be used.
    inner : tuple of Planned
        What is told of one sample, where it stands for a group.
    """

    kind: ClassVar[str] = "exact"
    statistics: int
    sampling_rate: float = 1.0
    inner: tuple[Planned, ...] = ()

    def __post_init__(self) -> None:
        if self.noise != 0:
            raise ValueError("what is told exactly has no noise")

    @classmethod
    def of(cls, event: Event) -> Exact:
        """Return what stands in the place of a release."""
        inner = event.inner if isinstance(event, SampledGroup) else ()
        own = tuple(Planned(cls.of(planned.event), planned.count) for planned in inner)
        return cls(event.what, 0.0, len(event.scales), event.rate, own)

    def asking(self, questions: int) -> Exact:
        """Return what several questions at once cost: without noise, the same."""
        return self

    @property
    def rate(self) -> float:
        """The chance of a row to be used."""
        return self.sampling_rate

    @property
    def scales(self) -> np.ndarray:
        """The scale of each statistic's noise: none."""
        return np.zeros(self.statistics)

    @property
    def sigmas(self) -> np.ndarray:
        """The same, as Gaussian releases call it."""
        return self.scales

    @property
    def deviations(self) -> np.ndarray:
        """The standard deviation of each statistic's noise: none."""
        return self.scales

    @property
    def mechanism(self) -> str:
        """How it is told, in words."""
        return f"no noise: exact, and not private{sampled_words(self.sampling_rate)}"


@dataclass(frozen=True)
class Planned:
    """An event that a plan makes a fixed number of times."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        if not self.count >= 0:
            raise ValueError("a release is made a whole number of times, or never")

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


def check_sampling(event: Event) -> None:
    """Refuse a sampling rate that is none, or that nothing is proved for."""
    if not 0 < event.rate <= 1:
        raise ValueError("sampling_rate must lie above 0, and be at most 1")
    if event.rate < 1 and (event.unit_rows > 1 or event.relation != Relation.ADD_REMOVE):
        raise ValueError(
            "sampling is amplified for units of one row, added or removed, only: a unit of several "
            "rows may be sampled in part"
        )


def sampled_words(rate: float) -> str:
    """Say that rows are sampled, if they are."""
    return f", each row used with chance {rate:g}" if rate < 1 else ""
