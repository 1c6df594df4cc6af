"""Stages from parameters and a table to a run: nothing is read off the rows before it is reserved.

`Preparation.run` leads through the stages: the domain, the plan with its noise, the table's schema,
and the reservation of the whole plan in the ledger. Without a domain, its inference is reserved and
made first; training is planned after it. A `Run` is what comes out: ready to train.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sklearn.exceptions import DataConversionWarning

from privboost._core.errors import DeviceError
from privboost._core.pickling import fresh_copy
from privboost._core.progress import counting_charges
from privboost._core.unit import Unit, column_of, unit_assumptions
from privboost._core.warnings import warn_of_parameters
from privboost.accounting.ledger import Ledger
from privboost.accounts.account import PendingCharge
from privboost.data.contribution_bound import UnitRule
from privboost.data.domain import Domain, inferences_of
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, Loader, RowLoader, check_schema, open_source
from privboost.data.sources import is_column_vector
from privboost.data.table import RemoteTable, Table
from privboost.distributed.frames import open_remote
from privboost.domain_inference.within_fit import (
    DomainInference,
    InferredDomain,
    infer_jointly,
    infer_separately,
)
from privboost.engine.backend import Backend
from privboost.estimators.class_weights import weights_in_order
from privboost.estimators.run_settings import RunSettings
from privboost.estimators.sklearn_wrappers import warn_of_wrappers
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget, Plan
from privboost.reports.report import PUBLIC_CLASS_WEIGHTS, WEIGHTED, PrivacyReport
from privboost.reports.writing import add_domain_inference, check_domain_inference, write_report

MakePlan = Callable[[Encoder, float | None, Budget], Any]
"""Function of an encoder, the largest weight of a row and a budget that returns a plan."""


def open_table(data: Any, backend: Any) -> Any:
    """Return a table, perhaps one of a cluster; refuse a backend that it cannot use."""
    table = open_remote(data)
    if isinstance(table, RemoteTable) and isinstance(backend, str) and backend == "cuda":
        raise DeviceError('rows of a cluster stay there: leave backend="auto"')
    return table


@dataclass(frozen=True)
class FitArguments:
    """Arguments of `fit`, with the bound of weights, class weights and classes."""

    X: Any
    y: Any
    sample_weight: Any
    weight_bound: float | None
    class_weight: Mapping[Any, float] | None = None
    classes: tuple[Any, ...] | None = None

    def row_bound(self, domain: Domain) -> float | None:
        """Return the largest weight of a row; None if all rows weigh the same."""
        shared = domain.unit is not None and domain.unit.shares_weight
        bound = 1.0 if shared and self.weight_bound is None else self.weight_bound
        if self.class_weight is None:
            return bound
        largest = max(self.class_weight.values())
        return largest if bound is None else largest * bound


@dataclass(frozen=True, eq=False)
class DomainAndBudget:
    """Domain and budget of a plan.

    `earlier_inference` is the report of a domain inference whose price adds to the plan's,
    `learned` the domain inference of this very fit.
    """

    domain: Domain
    budget: Budget
    earlier_inference: PrivacyReport | None = None
    learned: InferredDomain | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """A prepared run: all of training is reserved, and no row was read for it."""

    run_settings: RunSettings
    plan: Plan
    ledger: Ledger
    earlier_inference: PrivacyReport | None
    keys: KeyStream
    load: Load
    unit_kind: str
    assumptions: tuple[str, ...]

    def curator(self, backend: Backend) -> Curator:
        """Return the curator of these rows."""
        return Curator(backend, self.ledger, self.keys.child("releases"), self.plan.contribution)

    def public_choices(self) -> KeyStream:
        """Return the randomness of public choices."""
        return self.keys.child("structures")

    def report(self) -> PrivacyReport:
        """Return the privacy report of the run."""
        report = write_run_report(self.run_settings, self.plan, self.ledger, self.assumptions)
        if self.earlier_inference is None:
            return report
        return add_domain_inference(self.earlier_inference, report, "training")


def write_run_report(
    run_settings: RunSettings, plan: Plan, ledger: Ledger, assumptions: tuple[str, ...]
) -> PrivacyReport:
    """Return the report of a run, without the price of a domain that was learned before."""
    parameters, unit = reported_parameters(plan), plan.encoder.domain.unit
    about = (run_settings.seeded, parameters, plan.digest, run_settings.what)
    return write_report(ledger, unit, assumptions, *about)


def reported_parameters(plan: Plan) -> dict[str, Any]:
    """Return the parameters of a plan that its report lists."""
    weights = plan.class_weight
    own = {} if weights is None else {"class_weight": list(weights)}
    return plan.parameters | own


class Preparation:
    """Leads from parameters and a table to a run, stage by stage.

    `inference` is a function of a budget that returns the domain inference, where there is no
    domain, and a plan of training on a stand-in domain.
    """

    _run_type: type[Run] = Run

    def __init__(
        self,
        run_settings: RunSettings,
        given: FitArguments,
        make_plan: MakePlan,
        inference: Callable[[Budget], tuple[DomainInference, Plan]],
    ) -> None:
        self.run_settings, self.given = run_settings, given
        self._make_plan, self._inference = make_plan, inference

    def run(self) -> Run:
        """Check everything, and reserve the whole plan; return the run, which is yet to train."""
        self.warn()
        domain_and_budget = self.domain_and_budget()
        plan = self.plan(domain_and_budget)
        loader, table = self.rows(plan)
        unit_kind = self.check_table(plan, loader, table)
        for name in ("y", "sample_weight"):
            if is_column_vector(getattr(self.given, name)):
                message = f"A column-vector {name} was passed when a 1d array was expected"
                warnings.warn(message, DataConversionWarning, stacklevel=3)
        ledger = self.reserve(domain_and_budget, plan)
        own, load = self.assumptions(domain_and_budget, plan), Load(loader, table)
        return self._run_type(
            self.run_settings,
            plan,
            ledger,
            domain_and_budget.earlier_inference,
            self.keys,
            load,
            unit_kind,
            own,
        )

    def warn(self) -> None:
        """Warn of a seed, of a weak budget, and of scikit-learn's wrappers around `fit`."""
        run_settings = self.run_settings
        warn_of_parameters(
            run_settings.budget.epsilon, run_settings.budget.delta, run_settings.random_state
        )
        if not run_settings.seeded:  # else there is no guarantee to lose
            warn_of_wrappers(run_settings.account is not None)

    @cached_property
    def keys(self) -> KeyStream:
        """The randomness of this run."""
        return self.run_settings.keys

    def domain_and_budget(self) -> DomainAndBudget:
        """Return the domain, learned if there is none, with the budget that is left."""
        run_settings = self.run_settings
        if run_settings.domain is not None:
            return DomainAndBudget(
                run_settings.domain, run_settings.budget, self.inference_before(run_settings.domain)
            )
        inference, stand_in = self._inference(run_settings.budget)
        releases, pending_charge = stand_in.releases, self.pending_charge(inference.unit)
        if all(planned.event.mu is not None for planned in releases):
            learned = infer_jointly(inference, run_settings.ledger, pending_charge, self.keys)
            return DomainAndBudget(learned.domain, learned.budget, None, learned)
        relation = releases[0].event.relation
        learned = infer_separately(
            inference, relation, run_settings.ledger, pending_charge, releases, self.keys
        )
        return DomainAndBudget(learned.domain, learned.budget, learned.domain.privacy, learned)

    def inference_before(self, domain: Domain) -> PrivacyReport | None:
        """Return the report of the domain inference, if it used these rows."""
        if self.run_settings.domain_rows == "other":
            return None
        domain.check_price()
        if domain.privacy is None:
            return None
        check_domain_inference(domain.privacy, domain.unit)
        return domain.privacy

    def plan(self, domain_and_budget: DomainAndBudget) -> Plan:
        """Plan all releases, and calibrate the noise."""
        encoder = Encoder.of(domain_and_budget.domain)
        try:
            bound = self.given.row_bound(encoder.domain)
            plan: Plan = self._make_plan(encoder, bound, domain_and_budget.budget)
            if self.given.class_weight is not None:
                weights = weights_in_order(self.given.class_weight, domain_and_budget.domain.target)
                plan = replace(plan, class_weight=weights)
        except ValueError as error:
            if domain_and_budget.learned is None:
                raise
            raise ValueError(
                f"{error} (the domain was learned, and its price is spent: write a domain, or "
                "learn it once with Domain.learn)"
            ) from None
        return plan

    def rows(self, plan: Plan) -> tuple[Any, Table]:
        """Return the loader of rows, and the table; no row is read."""
        encoder, given = plan.encoder, self.given
        source, roles = open_source(encoder.domain, given.X, given.y, given.sample_weight)
        rule = UnitRule.of(encoder.domain.unit, self.keys.child("units"))
        own = fresh_copy(encoder)  # the model keeps the plan's encoder, which never sees a row
        loader = RowLoader(own, roles, given.weight_bound, rule, class_steps=plan.class_steps)
        return loader, source

    def check_table(self, plan: Plan, loader: Loader, table: Table) -> str:
        """Refuse a table that does not fit the domain; return the kind of its unit column."""
        return check_schema(loader, table)

    def pending_charge(
        self, unit: Unit | None, inference: PrivacyReport | None = None
    ) -> PendingCharge | None:
        """Return this run's charge to the account; None without one."""
        account = self.run_settings.account
        if account is None:
            return None
        return PendingCharge(account, self.run_settings.what, column_of(unit), inference)

    def reserve(self, domain_and_budget: DomainAndBudget, plan: Plan) -> Ledger:
        """Reserve the whole plan in a ledger."""
        learned = domain_and_budget.learned
        if learned is not None and learned.ledger is not None:
            assert learned.placeholder is not None
            learned.ledger.exchange(learned.placeholder, plan.releases, plan.accountant)
            return learned.ledger
        budget = domain_and_budget.budget
        pending_charge = self.pending_charge(
            domain_and_budget.domain.unit, domain_and_budget.earlier_inference
        )
        path = self.run_settings.ledger
        ledger = Ledger(budget.epsilon, budget.delta, plan.accountant, path, pending_charge)
        ledger.reserve(plan.releases)
        return ledger

    def alone(self) -> str:
        """Return the assumption whether this run is alone: about other releases of these rows."""
        account = self.run_settings.account
        if account is None:
            return (
                "these rows were used in no other release; another one adds to the epsilon stated "
                "here"
            )
        return (
            "this epsilon is of this run alone: what all runs on these rows cost together is in "
            f"the account of {account.dataset!r}"
        )

    def assumptions(self, domain_and_budget: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
        """Return the assumptions of the guarantee."""
        domain, bound = domain_and_budget.domain, self.given.weight_bound
        texts = [
            _origin(domain_and_budget),
            "all parameters of the estimator were chosen, and all that came before it was fitted, "
            "without these rows or exact scores on them",
            self.alone(),
            *map(failure_assumption, self.run_settings.unfinished),
        ]
        if domain.unit is not None:
            texts += unit_assumptions(domain.unit)
        if bound is not None:
            texts.append(f"{WEIGHTED} [0, {bound:g}], a public bound")
        if plan.class_weight is not None:
            texts.append(PUBLIC_CLASS_WEIGHTS)
        parts = (*domain.features, domain.target)
        named = {part.name: part.reason for part in parts if not inferences_of([part])}
        if domain.unit is not None and not inferences_of([domain.unit]):
            named[domain.unit.column] = domain.unit.reason
        texts += [f"public about {name!r}: {reason}" for name, reason in named.items() if reason]
        if inferences_of([domain.target]):
            texts.append(f"learned about {domain.target.name!r}: {domain.target.describe()}")
        if domain.unit is not None and inferences_of([domain.unit]):
            texts.append(f"learned about {domain.unit.column!r}: max_rows {domain.unit.max_rows}")
        return (*texts, *plan.assumptions)


@contextmanager
def remembering_failure(estimator: Any) -> Iterator[None]:
    """Record a run that fails after its reservation, in the estimator or search that made it.

    Reports of its later runs name that one too.
    """
    epsilon, delta = estimator.epsilon, estimator.delta  # they may be set meanwhile
    with counting_charges() as charges:
        try:
            yield
        except BaseException:
            if charges.count:
                spent = f"epsilon {float(epsilon):g} and delta {float(delta):g}"
                estimator._unfinished = (*failures_of(estimator), spent)
            raise


def failures_of(estimator: Any) -> tuple[str, ...]:
    """Return the reservations of earlier runs of an estimator that failed."""
    found: tuple[str, ...] = estimator.__dict__.get("_unfinished", ())
    return found


def failure_assumption(spent: str) -> str:
    """Return the assumption of a report about an earlier run that failed."""
    return (
        f"an earlier run of this estimator reserved {spent} and failed: it has no report, and adds "
        "to the epsilon stated here if it was given any of these rows"
    )


def _origin(domain_and_budget: DomainAndBudget) -> str:
    """Return the assumption about the origin of the domain."""
    domain = domain_and_budget.domain
    if domain.privacy is None:
        return (
            "the domain is public: names, bounds, categories, classes and edges were not read "
            "off the rows"
        )
    if domain_and_budget.learned is not None or domain_and_budget.earlier_inference is not None:
        parts = (*domain.features, domain.target)
        if all(inferences_of([part]) for part in parts):
            return (
                "the columns of the table and their types are public; bounds, categories and "
                "classes were learned privately, within this epsilon"
            )
        return (
            "the columns of the table and their types are public, and so is what was given of the "
            "domain; its other bounds, categories and classes were learned privately, within this "
            "epsilon"
        )
    return (
        f"the domain was learned privately ({domain.privacy.guarantee}) from other rows: no "
        "protected unit is among both"
    )
