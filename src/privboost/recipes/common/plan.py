"""Plans: everything that is decided before data are touched; frozen, public, with a digest.

Calibration of a plan: its releases first, then the noise of all of them at once.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from privboost._core.checks import check_number, check_size, is_number, keep_checked
from privboost._core.grid import WEIGHT_STEPS, Contribution
from privboost.accounting.accountant import Accountant
from privboost.accounting.accountants import choose_accountant
from privboost.accounting.calibration import LEAST_DELTA, by_shares, calibrate
from privboost.accounting.events import Exact, Planned
from privboost.accounts.account import BudgetAccount
from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.features import CategoricalFeature
from privboost.data.targets import ClassTarget
from privboost.losses.base import LossTable, loss_of
from privboost.recipes.common.limits import check_grid
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


def task_of(target: Any) -> str:
    """Return the task of a declared target: "classes" or "number"."""
    return "classes" if isinstance(target, ClassTarget) else "number"


@dataclass(frozen=True)
class Task:
    """Learning task.

    Attributes
    ----------
    target : {"classes", "number"}
        Kind of target.
    loss : str
        Name of the loss of trees and histograms.
    n_outputs : int
        Number of scores of a row.
    """

    target: str
    loss: str
    n_outputs: int

    @classmethod
    def of(cls, target: Any, loss: str | None = None) -> Task:
        """Return the task of a target: classes (one-vs-rest beyond two), or a number.

        Parameters
        ----------
        target : ClassTarget or NumberTarget
            Declared target.
        loss : str, optional
            Loss of classes; logistic by default.
        """
        if isinstance(target, ClassTarget):
            outputs = 1 if len(target.classes) == 2 else len(target.classes)
            return cls("classes", loss or "logistic", outputs)
        return cls("number", "squared", 1)

    def table(self, gradient_clip: float, hessian_clip: float) -> LossTable:
        """Tabulate the loss for these clips of gradients and Hessians."""
        return loss_of(self.target, self.loss).table(gradient_clip, hessian_clip)


def plan_digest(plan: Any, parts: Sequence[str]) -> str:
    """Return SHA-256 of a plan: its domain, edges and releases, and the named parts."""
    payload: dict[str, Any] = {
        "domain": plan.encoder.domain.to_dict(),
        "edges": [edges.tolist() for edges in plan.encoder.edges],
        "releases": [asdict(planned) for planned in plan.releases],
        "weight_bound": plan.weight_bound,
    }
    if plan.class_weight is not None:
        payload["class_weight"] = plan.class_weight
    for part in parts:
        payload[part] = _as_plain(getattr(plan, part))
    return hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()


def _as_plain(value: Any) -> Any:
    if isinstance(value, Parameters):
        return value.chosen()
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


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
    budget : Budget
        Privacy budget.
    accountant : Accountant
        Accountant that composed the releases.
    releases : tuple of Planned
        Reserved releases.
    span : GaussianRelease, LaplaceRelease or None
        One histogram of labels that finds the target clipping range (see `target_span`).
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
    span: Any = field(default=None, kw_only=True)
    class_weight: tuple[float, ...] | None = field(default=None, kw_only=True)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", plan_digest(self, self._hashed))

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
    def is_exchanged(self) -> bool:
        """Whether a reserved release is replaced during training: then all of ε is reported."""
        return False


PUBLIC_CLASS_WEIGHTS = "weights of classes are public, and were not read off the rows"


def at_most_rows(limit: int) -> str:
    """Return the assumption that a table has fewer rows than a power of two."""
    return f"the table has fewer than 2^{limit.bit_length() - 1} rows"


def contribution_of(domain: Domain, weight_bound: float | None) -> Contribution:
    """Return the bound of one protected unit's contribution to a sum."""
    rows = 1 if domain.unit is None else domain.unit.max_rows
    return Contribution(weighted=weight_bound is not None, rows=rows)


Shared = tuple[str, Planned, float]
"""Name of a release in the plan, the release, and its share of the whole μ²."""


@dataclass(frozen=True, eq=False)
class Draft:
    """Facts that every plan starts from.

    Attributes
    ----------
    encoder : Encoder
        Domain and binning.
    weight_bound : float or None
        Public bound of sample weights, if there are weights.
    budget : Budget
        Privacy budget.
    accountant : str
        Name of the accountant: see `accountants.choice.choose_accountant`.
    loss : str, optional
        Loss of classes; logistic by default.
    """

    encoder: Encoder
    weight_bound: float | None
    budget: Budget
    accountant: str
    loss: str | None = None

    @cached_property
    def task(self) -> Task:
        """Learning task."""
        return Task.of(self.encoder.domain.target, self.loss)

    @cached_property
    def contribution(self) -> Contribution:
        """Bound of one protected unit's contribution."""
        return contribution_of(self.encoder.domain, self.weight_bound)

    @property
    def bound(self) -> dict[str, Any]:
        """Bound of one protected unit's contribution to sums of clipped rows, as events take it."""
        rows = self.contribution.rows
        return {"steps": self.contribution.row_steps * rows, "rows": rows}

    @property
    def n_numbers(self) -> int:
        """Number of numeric features."""
        features: Sequence[Any] = self.encoder.domain.features
        return sum(not isinstance(feature, CategoricalFeature) for feature in features)

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of `Plan` that are known already."""
        return {
            "encoder": self.encoder,
            "task": self.task,
            "contribution": self.contribution,
            "weight_bound": self.weight_bound,
            "budget": self.budget,
        }

    def share(self, wanted: Sequence[Shared]) -> Made:
        """Calibrate releases that share μ²; those without a share or a count are left out."""
        noisy = by_shares([(planned, share) for _, planned, share in wanted])
        names = [name for name, planned, share in wanted if share > 0 and planned.count > 0]
        return self.scale(list(zip(names, noisy, strict=True)))

    def scale(self, wanted: Sequence[tuple[str, Planned]]) -> Made:
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
            return Made(self, chosen, names, exact)
        releases = calibrate(planned, budget.epsilon, budget.delta, chosen, budget.before)
        check_grid(planned.event for planned in releases)
        return Made(self, chosen, names, releases)


@dataclass(frozen=True, eq=False)
class Made:
    """Calibrated releases.

    Attributes
    ----------
    draft : Draft
        Facts that the plan starts from.
    accountant : Accountant
        Accountant that composed the releases.
    names : tuple of str
        Name of each release in the plan.
    releases : tuple of Planned
        Releases to reserve.
    """

    draft: Draft
    accountant: Accountant
    names: tuple[str, ...]
    releases: tuple[Planned, ...]

    def __getitem__(self, name: str) -> Any:
        return self.releases[self.names.index(name)].event

    def get(self, name: str) -> Any:
        """Return the release of a name, or None where the plan makes none."""
        return self[name] if name in self.names else None

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of `Plan` that all recipes fill alike."""
        made = {
            "accountant": self.accountant,
            "releases": self.releases,
            "span": self.get("span"),
        }
        return self.draft.fields | made
