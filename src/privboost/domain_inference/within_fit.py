"""Private domain inference as part of a fit: with a share of μ², or with a guarantee of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from privboost._core.checks import check_share, did_you_mean
from privboost._core.errors import DomainError, SchemaError
from privboost._core.grid import CLIP_STEPS
from privboost._core.unit import Unit
from privboost._core.warnings import warn
from privboost.accounting.accountants import GdpAccountant
from privboost.accounting.calibration import calibrate
from privboost.accounting.events import Planned, Relation
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease
from privboost.accounts.account import PendingCharge
from privboost.data.domain import Domain, inferences_of
from privboost.data.features import Feature
from privboost.data.sources import attach_columns, check_columns_present, check_weight_column
from privboost.data.table import Table
from privboost.data.targets import ClassTarget
from privboost.data.values import holds_floats, holds_text
from privboost.domain_inference.inference import (
    InferencePlan,
    learn,
    open_without_domain,
    plan_inference,
    report_inference,
)
from privboost.domain_inference.partial_domain import read_partial_domain
from privboost.engine.backend import OpenBackend
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget, check_grid

_HOW_TO_WRITE_A_DOMAIN = """learning a domain requires y to be passed, but the target y is None.
Pass y (labels, or the name of their column), or write a domain: what is public about the table.
For example

    from privboost import Domain
    domain = Domain.from_dict({
        "version": 1,
        "features": {
            "age": {"kind": "numeric", "bounds": [17, 90]},
            "job": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
        },
        "target": {"name": "income", "classes": ["<=50K", ">50K"]},
    })

Bounds and categories must be public knowledge, never read off the private rows.
For a number to predict, the target gives "bounds" instead of "classes"."""


_MOST_EPSILON = 1e4
"""Beyond it the integer grid is a large part of a release's cost."""
_SPARE_UNIT = "(unit)"
_ROUGH_STEPS, _ROUGH_ROWS = 2**12, 2**6


@dataclass(frozen=True, eq=False)
class DomainInference:
    """A table without a domain, and the budget for inferring one.

    Attributes
    ----------
    X, y, weights
        The arguments of `fit`.
    task : str
        What the target is: "classes" or "number".
    share : float
        The fraction of the whole budget for inference.
    part : mapping
        The public part of the domain's JSON payload.
    threshold_delta : float
        The largest δ of thresholds.
    """

    X: Any
    y: Any
    task: str
    share: float
    budget: Budget
    weights: Any
    seeded: bool
    open_backend: OpenBackend
    part: Mapping[str, Any]
    threshold_delta: float = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", check_share("domain_share", self.share))
        if self.budget.epsilon > _MOST_EPSILON:
            raise ValueError(
                f"epsilon above {_MOST_EPSILON:g} protects nobody, and its noise is too fine to "
                "be divided between a domain and training: lower it, or write a domain"
            )

    def own(self, relation: str) -> tuple[float, float]:
        """Return ε and δ of an inference with a guarantee of its own.

        Inference is about adding or removing a row. If training is about replacing one, inference
        has half of the ε and a smaller δ, so that its cost after conversion is the share.
        """
        epsilon, delta = self.share * self.budget.epsilon, self.share * self.budget.delta
        if relation == Relation.ADD_REMOVE:
            return epsilon, delta
        half = epsilon / 2 * (1 - 1e-12)
        grown = 1 + math.exp(half) if half < 700 else math.inf  # beyond that it is no number
        return half, delta / grown * (1 - 1e-12)

    @property
    def rest(self) -> Budget:
        """The budget that such a guarantee leaves for training."""
        part = 1 - self.share
        return Budget(self.budget.epsilon * part, self.budget.delta * part)

    @property
    def labels(self) -> Any:
        """The labels, if they are no column of the table."""
        return None if isinstance(self.y, str) else self.y

    def check_features(self, names: Sequence[str]) -> None:
        """Raise ValueError for names that are no features of the table; its columns are public."""
        features = self.plan(self.budget.delta).features if names else ()
        for name in names:
            if name not in features:
                # The first line of a text file may be a record.
                hint = "" if self.table.is_text else did_you_mean(name, features)
                end = f"; {hint}" if hint else ""
                raise ValueError(
                    f"there is no feature {name!r} among the columns of the table{end}"
                )

    def check_numbers(self, parameter: str, names: Sequence[str]) -> None:
        """Raise ValueError for features that will be categorical; types of columns are public."""
        plan = self.plan(self.budget.delta)
        for name in names:
            if name in plan.strings or (name in plan.known and not plan.known[name].ordered):
                raise ValueError(f"{parameter}: {name!r} is a category, and has no order")

    def given_feature(self, parameter: str, name: str) -> tuple[Feature, int]:
        """Return a given feature, and the number of all; raise ValueError if it is not given."""
        plan = self.plan(self.budget.delta)
        if name not in plan.known:
            example = {"features": {name: {"kind": "numeric", "bounds": [0.01, 1]}}}
            raise ValueError(
                f"{parameter}: {name!r} needs bounds above 0 from public knowledge, since learned "
                f"ones may reach 0; for example domain_given={json.dumps(example)}, and the rest "
                "of the domain is learned"
            )
        return plan.known[name], len(plan.features)

    def check_two_classes(self, parameter: str) -> None:
        """Raise ValueError if the number of classes must be inferred."""
        if self.task == "classes" and isinstance(self.plan(self.budget.delta).target, str):
            raise ValueError(
                f"{parameter} is for two classes or a number: say in classes which there are"
            )

    def given_classes(self, parameter: str) -> ClassTarget:
        """Return the target if its classes are given, else raise ValueError."""
        target = self.plan(self.budget.delta).target
        if not isinstance(target, ClassTarget):
            raise ValueError(
                f"{parameter} names classes: say in classes which there are, so that it can be "
                "checked before anything is spent"
            )
        return target

    def check_label_type(self, counterpart: str) -> None:
        """Raise SchemaError if the labels' type is that of the other task; nothing is spent.

        Floats are no classes, and strings no numbers, unless the target is given. A text file, and
        a column of Python objects, have no type. The error names the estimator for such labels.
        """
        if self.y is None or self.table.is_text or self.target not in self.table.columns:
            return
        if read_partial_domain(self.part, self.target).target is not None:
            return
        # Attached labels are read together with at least one column of the table.
        read = dict.fromkeys([self.table.columns[0], self.target])
        column = self.table.no_rows([*read]).get(self.target)
        if column is None:
            return
        what, classes = f"column {self.target!r} of the target holds", self.task == "classes"
        if classes and holds_floats(column):
            raise SchemaError(
                f"Unknown label type: {what} floats, and classes are not learned from those. Use "
                f"{counterpart} for a number; or give the classes: classes=[0, 1] (--classes 0,1), "
                "domain_given, or a domain"
            )
        if not classes and holds_text(column):
            raise SchemaError(
                f"{what} text, and a regressor needs a number: use {counterpart} for classes; or "
                "give the bounds (domain_given, or a domain), and texts are read as numbers"
            )

    def check_weights(self) -> None:
        """Check that weights fit the table, before anything is spent."""
        weights = self.weights
        if self.y is None:
            raise DomainError(_HOW_TO_WRITE_A_DOMAIN)
        if weights is None:
            return
        table, name = self.table, weights if isinstance(weights, str) else "sample_weight"
        if not isinstance(weights, str):
            table = attach_columns(table, {name: weights}, {name: name})
        elif name not in table.columns:
            raise SchemaError(f"the table has no column {name!r}, which sample_weight names")
        check_weight_column(table, name)

    def plan(self, delta: float) -> InferencePlan:
        """Return the plan, for a δ of thresholds."""
        if self.y is None:
            raise DomainError(_HOW_TO_WRITE_A_DOMAIN)
        check_columns_present(self.table, [self.target])
        weights = self.weights if isinstance(self.weights, str) else None
        own = (self.task, self.part, delta, weights, self.threshold_delta)
        return plan_inference(self.table, self.target, *own)

    def stand_in(self, spare: Domain) -> Domain:
        """Return a placeholder domain to check parameters with, with the given target and unit."""
        if not self.part:  # the table is not opened
            return spare
        known = read_partial_domain(self.part, self.target)
        target, unit = known.target, known.unit
        parts = [*known.features.values(), *([target] if target else []), *([unit] if unit else [])]
        if "privacy" in self.part or inferences_of(parts):
            raise DomainError(
                "domain_given: a part was learned privately, which costs these rows more than this "
                "fit says: learn the rest with Domain.learn, and pass the domain that it returns"
            )
        if target is not None:
            spare = replace(spare, target=replace(target, name=spare.target.name))
        return spare if unit is None else replace(spare, unit=replace(unit, column=_SPARE_UNIT))

    @property
    def unit(self) -> Unit | None:
        """The protected unit, if it is given."""
        return self.plan(self.budget.delta).unit

    @property
    def target(self) -> str:
        """The name of the target."""
        name = self.y if isinstance(self.y, str) else getattr(self.y, "name", None)
        return name if isinstance(name, str) and name else "y"

    @cached_property
    def table(self) -> Table:
        """The rows."""
        return open_without_domain(self.X, self.labels, self.target)


@dataclass(frozen=True, eq=False)
class InferredDomain:
    """A domain that was inferred as part of a fit, with the report of its cost.

    Attributes
    ----------
    budget : Budget
        The budget left for training, or the whole budget with the releases spent within it.
    ledger : Ledger or None
        The ledger to continue, with a placeholder for training; None if training needs its own.
    """

    domain: Domain
    budget: Budget
    ledger: Ledger | None = None
    placeholder: Planned | None = None


def infer_jointly(
    inference: DomainInference,
    path: Path | None,
    pending_charge: PendingCharge | None,
    keys: KeyStream,
) -> InferredDomain:
    """Infer a domain with a share of μ²; the rest is reserved for training."""
    budget, share = inference.budget, inference.share
    plan = inference.plan(budget.delta)
    ledger = Ledger(budget.epsilon, budget.delta, GdpAccountant(), path, pending_charge)
    # Where an account adds up grids, the placeholder's grid is coarser than that of most plans that
    # may replace it: individual privacy filters have many coordinates.
    steps, rows = (CLIP_STEPS, 1) if pending_charge is None else (_ROUGH_STEPS, _ROUGH_ROWS)
    rest = GaussianRelease("training", math.sqrt(1 / (1 - share)), steps, 1, rows, (1.0,))
    wanted = [*(p.scaled(math.sqrt(1 / share)) for p in plan.releases), Planned(rest, 1)]
    made = calibrate(wanted, budget.epsilon, budget.delta, ledger.accountant)
    plan, placeholder = replace(plan, releases=tuple(made[:-1])), made[-1]
    check_grid(planned.event for planned in plan.releases)
    ledger.reserve(made)
    part = Ledger(budget.epsilon, budget.delta, ledger.accountant)
    part.reserve(plan.releases)  # the cost of the inference alone, for later uses of the domain
    domain = _learn(plan, inference, ledger, part, keys)
    return InferredDomain(domain, replace(budget, before=plan.releases), ledger, placeholder)


def infer_separately(
    inference: DomainInference,
    relation: str,
    path: Path | None,
    pending_charge: PendingCharge | None,
    after: Sequence[Planned],
    keys: KeyStream,
) -> InferredDomain:
    """Infer a domain with a share of ε and δ, which add up with those of training.

    This is for training that is not all Gaussian: its plan is made after the domain is known, and
    basic composition holds whatever the second guarantee is. An account is charged with both; it
    must have enough left for a plan like the one that follows.
    """
    epsilon, delta = inference.own(relation)
    plan = inference.plan(delta)
    ledger = Ledger(epsilon, delta, plan.accountant, path, pending_charge)
    made = calibrate(plan.releases, epsilon, delta, ledger.accountant)
    check_grid(planned.event for planned in made)
    if pending_charge is not None:
        pending_charge.check(made, after)
    ledger.reserve(made)
    plan = replace(plan, releases=tuple(made))
    return InferredDomain(_learn(plan, inference, ledger, ledger, keys), inference.rest)


def _learn(
    plan: InferencePlan, inference: DomainInference, ledger: Ledger, own: Ledger, keys: KeyStream
) -> Domain:
    """Infer a domain with the report of its cost; `own` holds the inference's releases alone."""
    domain, rows = learn(
        plan, inference.table, inference.open_backend, ledger, keys.child("domain")
    )
    if rows is not None and inference.budget.delta > 1 / max(rows, 1.0):
        warn(
            "delta exceeds one over the (noisy) number of rows: it allows a mechanism that "
            "publishes a whole record; choose a smaller one"
        )
    report = report_inference(own, plan, domain, inference.seeded)
    # Inference within a fit is part of the fit's entry in the account.
    return replace(domain, privacy=replace(report, rows=ledger.rows, entry=ledger.entry))
