"""Plans: everything that is decided before data are touched; frozen, public, with a digest.

A recipe lists its releases; its `PlanBasis` calibrates the noise of all at once, and the plan holds
the result.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from privboost._core.checks import check_number, check_size, is_number, keep_checked
from privboost._core.grid import CLIP_STEPS, MAX_SIGMA, WEIGHT_STEPS, Contribution
from privboost.accounting.accountants import Accountant, choose_accountant
from privboost.accounting.calibration import LEAST_DELTA, by_shares, calibrate
from privboost.accounting.events import Event, Exact, Planned, Relation
from privboost.accounting.noisy_sums import NoisySums
from privboost.accounts.account import BudgetAccount
from privboost.data.encoding import Encoder
from privboost.data.features import CategoricalFeature
from privboost.data.targets import ClassTarget, SurvivalTarget
from privboost.losses.base import Loss, LossTable, loss_of, losses_of
from privboost.recipes.common.parameters import Parameters


@dataclass(frozen=True)
class Budget:
    """Privacy budget of a run, and the releases that are already charged to it."""

    epsilon: float
    delta: float
    before: tuple[Planned, ...] = ()

    def __post_init__(self) -> None:
        keep_checked(self, epsilon=check_size, delta=_check_delta)


@dataclass(frozen=True)
class PublicRows(Budget):
    """Budget of rows that the caller declared public: infinite ε, and no noise.

    Rules that read ε take their limit; rules that follow the noise leave their setting unchanged.
    """

    epsilon: float = field(default=math.inf, init=False)

    def __post_init__(self) -> None:
        keep_checked(self, delta=_check_delta)


def within_account(budget: Budget, account: BudgetAccount) -> Budget:
    """Return the budget of a plan that an account composes a little more loosely: nearly all of it.

    Its δ is at most what the account allows for noise.
    """
    if isinstance(budget, PublicRows):
        return budget
    rules = account.balance().rules
    return replace(
        budget,
        epsilon=rules.filter.kept(budget.epsilon),
        delta=min(budget.delta, rules.noise_delta),
    )


def _check_delta(name: str, value: Any) -> float:
    if is_number(value) and value == 0:
        return 0.0
    return check_number(f"{name}, if not 0,", value, LEAST_DELTA, 1)


@dataclass(frozen=True)
class Task:
    """Learning task: kind of target, loss of trees and histograms, and number of a row's scores."""

    target: str
    loss: str
    n_outputs: int

    @classmethod
    def of(cls, target: Any, loss: str | None = None) -> Task:
        """Return the task of a declared target: classes (one-vs-rest beyond two), or a number.

        The loss is the logistic one of classes, and the squared one of a number, by default; that
        of survival times is log-logistic.
        """
        if isinstance(target, ClassTarget):
            outputs = 1 if len(target.classes) == 2 else len(target.classes)
            return cls("classes", loss or "logistic", outputs)
        if isinstance(target, SurvivalTarget):
            return cls(target.task, "log_logistic", 1)
        own = (loss or "squared").partition(" ")[0]
        return cls("number", loss if loss and own in losses_of("number") else "squared", 1)

    def table(self, gradient_clip: float, hessian_clip: float) -> LossTable:
        """Tabulate the loss for these clips of gradients and Hessians."""
        return self.loss_instance.table(gradient_clip, hessian_clip)

    @property
    def loss_parameters(self) -> dict[str, Any]:
        """Name of the loss, and its parameter if it has one, for reports."""
        name, _, value = self.loss.partition(" ")
        own = {self.loss_instance.parameter: float(value)} if value else {}
        return {"loss": name, **own}

    @property
    def loss_instance(self) -> Loss:
        """The loss."""
        return loss_of(self.target, self.loss)


def grid_step(weight_bound: float | None) -> float:
    """Return the value of one grid step of a sum, in clips and weights."""
    return 1 / CLIP_STEPS if weight_bound is None else weight_bound / (CLIP_STEPS * WEIGHT_STEPS)


@dataclass(frozen=True, eq=False)
class Plan(ABC):
    """Everything about a run that is decided before data are touched.

    Attributes
    ----------
    encoder : Encoder
        Domain and binning.
    task : Task
        Learning task.
    contribution : Contribution
        Bound of one protected unit's contribution.
    weight_bound : float or None
        Public bound of sample weights, if there are weights.
    accountant : Accountant
        Accountant that composed the releases.
    releases : tuple of Planned
        Reserved releases.
    range_release : GaussianRelease, LaplaceRelease or None
        One histogram of labels that finds the target clipping range (see `target_range`).
    conformal_releases : tuple of Parallel
        Two histograms of the nonconformity of units put aside (see `intervals`); empty without any.
    conformal_fraction : float
        Probability with which a unit is put aside.
    class_weight : tuple of float or None
        Public weights of the classes, in the model's order.
    digest : str
        SHA-256 of the plan. A plan that cannot be hashed cannot be made: it would fail once a
        domain was inferred for it.
    """

    _hashed: ClassVar[tuple[str, ...]]
    """Attributes in the digest, besides the domain and the releases."""

    encoder: Encoder
    task: Task
    contribution: Contribution
    weight_bound: float | None
    budget: Budget
    accountant: Accountant
    releases: tuple[Planned, ...]
    range_release: Any = field(default=None, kw_only=True)
    conformal_releases: tuple[Any, ...] = field(default=(), kw_only=True)
    conformal_fraction: float = field(default=0.0, kw_only=True)
    class_weight: tuple[float, ...] | None = field(default=None, kw_only=True)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        payload: dict[str, Any] = {
            "domain": self.encoder.domain.to_dict(),
            "edges": [edges.tolist() for edges in self.encoder.edges],
            "releases": [asdict(planned) for planned in self.releases],
            "weight_bound": self.weight_bound,
        }
        if self.class_weight is not None:
            payload["class_weight"] = self.class_weight
        for name in self._hashed:
            part: Any = getattr(self, name)
            if isinstance(part, Parameters):
                part = part.chosen()
            elif is_dataclass(part) and not isinstance(part, type):
                part = asdict(part)
            payload[name] = part
        digest = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
        object.__setattr__(self, "digest", digest)

    @property
    def count_step(self) -> float:
        """Value of one grid step of a count, in rows of the largest weight."""
        return grid_step(None if self.weight_bound is None else 1.0)

    @property
    def class_steps(self) -> tuple[int, ...] | None:
        """Weight of a row of each class, in steps of the largest."""
        if self.class_weight is None:
            return None
        largest = max(self.class_weight)
        return tuple(round(weight / largest * WEIGHT_STEPS) for weight in self.class_weight)

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Parameters for reports."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Facts that are assumed to be public, besides the domain."""
        return ()

    @property
    def exposure_name(self) -> str | None:
        """Name of the feature in proportion to which labels grow, if there is one."""
        return None

    @property
    def link(self) -> str:
        """The link of the model's scores; see `Model`."""
        return "log" if self.task.loss_instance.log_link else "identity"

    @property
    def is_exchanged(self) -> bool:
        """Whether a reserved release is replaced during training: then all of ε is reported."""
        return False


def check_grid(events: Iterable[Event]) -> None:
    """Refuse noise that does not fit the integer grid."""
    for event in (part for whole in events for part in whole.parts):
        if not all(1 <= scale <= MAX_SIGMA for scale in event.scales):
            raise ValueError(
                "epsilon, or a share of it, is too small or too large: the noise of "
                f"{event.what!r} would not fit the integer grid"
            )


ReleaseShare = tuple[str, Planned, float]
"""Name of a release in the plan, the release, and its share of the whole μ²."""


@dataclass(frozen=True, eq=False)
class PlanBasis:
    """Facts that every plan starts from; `accountant` is a name, and `loss` that of classes."""

    encoder: Encoder
    weight_bound: float | None
    budget: Budget
    accountant: str
    loss: str | None = None

    def __post_init__(self) -> None:
        if self.weight_bound is None and self.contribution.weighted:
            raise ValueError("rows that share the weight of a unit have weights")

    @cached_property
    def task(self) -> Task:
        """Learning task."""
        return Task.of(self.encoder.domain.target, self.loss)

    @cached_property
    def contribution(self) -> Contribution:
        """Bound of one protected unit's contribution."""
        unit, weighted = self.encoder.domain.unit, self.weight_bound is not None
        return Contribution(weighted) if unit is None else unit.contribution(weighted)

    @property
    def bound(self) -> dict[str, Any]:
        """Bound of one protected unit's contribution to sums of clipped rows, as events take it."""
        own = self.contribution
        return {"steps": own.row_steps * own.unit_weight, "rows": own.rows}

    @property
    def n_numbers(self) -> int:
        """Number of numeric features."""
        features: Sequence[Any] = self.encoder.domain.features
        return sum(not isinstance(feature, CategoricalFeature) for feature in features)

    def calibrate_by_shares(self, wanted: Sequence[ReleaseShare]) -> PlannedReleases:
        """Calibrate releases that share μ²; those without a share or a count are left out."""
        noisy = by_shares([(planned, share) for _, planned, share in wanted])
        names = [name for name, planned, share in wanted if share > 0 and planned.count > 0]
        return self.calibrate(list(zip(names, noisy, strict=True)))

    def calibrate(self, wanted: Sequence[tuple[str, Planned]]) -> PlannedReleases:
        """Multiply the noise of all releases by the factor with which they cost the budget.

        Releases of public rows become exact; they are checked as if they had noise.

        Raises
        ------
        ValueError
            If no noise on the grid costs the budget.
        """
        budget, planned = self.budget, [planned for _, planned in wanted]
        chosen = choose_accountant(self.accountant, [*budget.before, *planned], budget.delta)
        names = tuple(name for name, _ in wanted)
        if isinstance(budget, PublicRows):
            exact = tuple(Planned(Exact.of(each.event), each.count) for each in planned)
            return PlannedReleases(self, chosen, names, exact)
        releases = calibrate(planned, budget.epsilon, budget.delta, chosen, budget.before)
        check_grid(planned.event for planned in releases)
        return PlannedReleases(self, chosen, names, releases)


def counts_release(
    kind: type[NoisySums],
    what: str,
    bound: Mapping[str, Any],
    noise: float = 1.0,
    relation: Relation = Relation.ADD_REMOVE,
) -> NoisySums:
    """Return the release of counts of rows by cell; `bound` is `PlanBasis.bound`.

    A unit that is replaced changes two cells: that of the old unit and that of the new one.
    """
    cells = 2 if relation == Relation.REPLACE_ONE else 1
    return kind(what, noise, cells=cells, shares=(1.0,), relation=relation, **bound)


@dataclass(frozen=True, eq=False)
class PlannedReleases:
    """Calibrated releases to reserve, each with its name in the plan."""

    basis: PlanBasis
    accountant: Accountant
    names: tuple[str, ...]
    releases: tuple[Planned, ...]

    def __getitem__(self, name: str) -> Any:
        return self.planned(name).event

    def planned(self, name: str) -> Planned:
        """Return the release of a name, with how often it is made."""
        return self.releases[self.names.index(name)]

    def get(self, name: str) -> Any:
        """Return the release of a name, or None where the plan makes none."""
        return self[name] if name in self.names else None

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of `Plan` that all recipes fill alike."""
        return {
            "encoder": self.basis.encoder,
            "task": self.basis.task,
            "contribution": self.basis.contribution,
            "weight_bound": self.basis.weight_bound,
            "budget": self.basis.budget,
            "accountant": self.accountant,
            "releases": self.releases,
            "range_release": self.get("range_release"),
        }

    def fields_with(self, *names: str) -> dict[str, Any]:
        """Return the same, and a recipe's own releases by name."""
        return self.fields | {name: self.get(name) for name in names}
