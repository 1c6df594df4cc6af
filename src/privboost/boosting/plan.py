"""What is decided before data are touched: frozen, public, with a hash."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Any, ClassVar

from privboost.accounts.account import BudgetAccount
from privboost.boosting.checks import check_number, check_size, is_number, keep_checked
from privboost.grid import WEIGHT_STEPS, Contribution
from privboost.losses import LossTable, loss_of
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.calibration import LEAST_DELTA
from privboost.privacy.events.event import Planned
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder
from privboost.tables.features import ClassTarget


@dataclass(frozen=True)
class Budget:
    """What may be spent, and what of it is spent already."""

    epsilon: float
    delta: float
    before: tuple[Planned, ...] = ()

    def __post_init__(self) -> None:
        keep_checked(self, epsilon=check_size, delta=_check_delta)


@dataclass(frozen=True)
class PublicRows(Budget):
    """No limit, and no noise: the caller declared the rows public. Its ε is infinite.

    Rules that read ε take their limit; those that follow the noise leave their setting as it is.
    """

    epsilon: float = field(default=math.inf, init=False)

    def __post_init__(self) -> None:
        keep_checked(self, delta=_check_delta)


def leave_some(budget: Budget, account: BudgetAccount) -> Budget:
    """Return what a plan may use where an account adds up a little more than it: nearly all.

    And no more of δ than noise has there.
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
    """What is learned.

    Attributes
    ----------
    target : {"classes", "number"}
        What the target is.
    loss : str
        The loss of trees and histograms, by its name.
    n_outputs : int
        How many outputs it has.
    """

    target: str
    loss: str
    n_outputs: int

    @classmethod
    def of(cls, target: Any, loss: str | None = None) -> Task:
        """Return the task of a target: a class (one-vs-rest beyond two), or a number.

        Parameters
        ----------
        target : ClassTarget or NumberTarget
            The target.
        loss : str, optional
            The loss of classes; logistic by default.
        """
        if isinstance(target, ClassTarget):
            outputs = 1 if len(target.classes) == 2 else len(target.classes)
            return cls("classes", loss or "logistic", outputs)
        return cls("number", "squared", 1)

    def table(self, gradient_clip: float, hessian_clip: float) -> LossTable:
        """Tabulate the loss for what gradients and Hessians are clipped to."""
        return loss_of(self.target, self.loss).table(gradient_clip, hessian_clip)


def plan_digest(plan: Any, parts: Sequence[str]) -> str:
    """Return SHA-256 of a plan: its domain, edges and releases, and the named parts."""
    form: dict[str, Any] = {
        "domain": plan.encoder.domain.to_dict(),
        "edges": [edges.tolist() for edges in plan.encoder.edges],
        "releases": [asdict(planned) for planned in plan.releases],
        "weight_bound": plan.weight_bound,
    }
    if plan.class_weight is not None:
        form["class_weight"] = plan.class_weight
    for part in parts:
        value = getattr(plan, part)
        form[part] = asdict(value) if is_dataclass(value) else value  # type: ignore[arg-type]
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Plan(ABC):
    """Everything about a run that is decided before data are touched.

    Attributes
    ----------
    encoder : Encoder
        The domain and how it is coded.
    task : Task
        What is learned.
    contribution : Contribution
        What one protected unit may add.
    weight_bound : float or None
        The public bound of sample weights, if there are weights.
    budget : Budget
        What may be spent.
    accountant : Accountant
        Who computed the cost.
    releases : tuple of Planned
        What is reserved.
    span : GaussianRelease, LaplaceRelease or None
        One look at where a number's labels lie (see `target_span`).
    class_weight : tuple of float or None
        Public weights of the classes, in the model's order.
    digest : str
        SHA-256 of all that is in the plan. A plan that cannot be hashed cannot be made: it would
        fail once a domain was learned for it.
    """

    _hashed: ClassVar[tuple[str, ...]]
    """What is in the digest beside the domain and the releases."""

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
        """What a row of each class weighs, in steps of the largest weight."""
        if self.class_weight is None:
            return None
        largest = max(self.class_weight)
        return tuple(round(weight / largest * WEIGHT_STEPS) for weight in self.class_weight)

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken to be public beside the domain."""
        return ()

    @property
    def is_exchanged(self) -> bool:
        """Whether a part of it stands for what is chosen later: then all of ε is stated."""
        return False


PUBLIC_CLASS_WEIGHTS = "weights of classes are public, and were not read off the rows"


def listed(settings: Any) -> dict[str, Any]:
    """Return settings as they stand in JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }


def at_most_rows(limit: int) -> str:
    """Say up to which size of a table, a power of two, a guarantee is proved."""
    return f"the table has fewer than 2^{limit.bit_length() - 1} rows"


def contribution_of(domain: Domain, weight_bound: float | None) -> Contribution:
    """Return what one protected unit may add to a sum."""
    rows = 1 if domain.unit is None else domain.unit.max_rows
    return Contribution(weighted=weight_bound is not None, rows=rows)
