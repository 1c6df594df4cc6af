"""Preparation of a run: domain, plan, schema check and reservation, before a row is read.

Public weights of classes, by which rows weigh according to their labels.

Parameters of every run: the table, the backend and the ledger's file.

Guarantee and price of a fit, before a row is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sklearn.exceptions import DataConversionWarning

from privboost._core.checks import check_count, check_file, check_size
from privboost._core.errors import BudgetError, DeviceError, DomainError
from privboost._core.grid import WEIGHT_STEPS
from privboost._core.pickling import fresh_copy
from privboost._core.progress import counting_charges
from privboost._core.unit import Unit, column_of, unit_assumptions
from privboost._core.warnings import warn_of_parameters
from privboost.accounting.ledger import Ledger, checked_ledger
from privboost.accounts.account import BudgetAccount, PendingCharge
from privboost.accounts.balance import Balance, format_share, round_down
from privboost.cuda.backend import open_cuda
from privboost.data.contribution_bound import UnitRule
from privboost.data.domain import Domain, inferences_of
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, Loader, RowLoader, check_schema, open_source
from privboost.data.sources import is_column_vector
from privboost.data.table import RemoteTable, Table
from privboost.distributed.frames import open_backend_of, open_remote
from privboost.domain_inference.within_fit import (
    DomainInference,
    InferredDomain,
    infer_jointly,
    infer_separately,
)
from privboost.engine.backend import Backend, OpenBackend
from privboost.estimators.sklearn_wrappers import warn_of_wrappers
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import PUBLIC_CLASS_WEIGHTS, Budget, Plan, PublicRows
from privboost.reports.report import WEIGHTED, PrivacyReport
from privboost.reports.writing import add_domain_inference, check_domain_inference, write_report


class WeighedClasses:
    """Adds `class_weight`."""

    class_weight: Any
    _task: str

    def _class_weight(self) -> Mapping[Any, float] | None:
        return check_class_weight(self.class_weight, self._task)


def check_class_weight(given: Any, task: str) -> dict[Any, float] | None:
    """Return checked weights of classes, or raise.

    Parameters
    ----------
    given : mapping or None
        Value of `class_weight`.
    task : {"classes", "number"}
        Kind of target.
    """
    if given is None:
        return None
    if task != "classes":
        raise ValueError("class_weight is for classes, and the target is a number")
    if isinstance(given, str):
        raise ValueError(
            f"class_weight={given!r} needs the counts of classes, which are private. Give public "
            'weights, such as {"no": 1, "yes": 5}; BoostedAdaSSPClassifier releases counts for '
            '"balanced", out of its budget'
        )
    if not isinstance(given, Mapping) or len(given) < 2:
        raise ValueError("class_weight must be a mapping from all classes to public weights")
    if len({str(name) for name in given}) < len(given):
        raise ValueError("class_weight: two of its classes are the same string")
    checked = {name: check_size("each of class_weight", part) for name, part in given.items()}
    if min(checked.values()) * WEIGHT_STEPS < max(checked.values()):
        raise ValueError(
            f"class_weight: each weight must be at least 1/{WEIGHT_STEPS} of the largest; smaller "
            "ones are rounded to 0"
        )
    return checked


def weights_in_order(given: Mapping[Any, float], target: Any) -> tuple[float, ...]:
    """Return the weight of each class in the model's order; classes match by their string."""
    by_text = {str(name): value for name, value in given.items()}
    classes = [str(name) for name in target.ordered]
    if set(by_text) != set(classes):
        raise ValueError(f"class_weight must give a weight for each of {', '.join(classes)}")
    return tuple(by_text[name] for name in classes)


def open_table(data: Any, backend: Any) -> Any:
    """Return a table, perhaps one of a cluster; refuse a backend that it cannot use."""
    table = open_remote(data)
    if isinstance(table, RemoteTable) and isinstance(backend, str) and backend == "cuda":
        raise DeviceError('rows of a cluster stay there: leave backend="auto"')
    return table


def choose_backend(backend: Any, threads: int) -> OpenBackend:
    """Return the function that opens a backend on loads of rows."""
    if backend == "auto":
        return open_backend_of(threads)
    if backend == "cuda":
        return open_cuda(threads)
    if callable(backend):
        opened: OpenBackend = backend
        return opened
    raise ValueError('backend must be "auto", "cuda" or a callable that takes loads of rows')


def ledger_path(ledger: Any) -> Path | None:
    """Return the path of the ledger's file, or None."""
    if ledger is not None and not isinstance(ledger, str | Path):
        raise TypeError("ledger must be the path of a file, or None")
    if ledger is None:
        return None
    check_file("ledger", ledger)
    return Path(ledger)


MakePlan = Callable[[Encoder, float | None, Budget], Any]


@dataclass(frozen=True)
class FitArguments:
    """Arguments of `fit`, with the bound of weights, class weights and classes."""

    X: Any
    y: Any
    sample_weight: Any
    weight_bound: float | None
    class_weight: Mapping[Any, float] | None = None
    classes: tuple[Any, ...] | None = None

    @property
    def row_bound(self) -> float | None:
        """Largest weight of a row; None if all rows weigh the same."""
        if self.class_weight is None:
            return self.weight_bound
        largest = max(self.class_weight.values())
        return largest if self.weight_bound is None else largest * self.weight_bound


@dataclass(frozen=True)
class RunSettings:
    """Checked parameters of a run.

    Attributes
    ----------
    budget : Budget
        The privacy budget.
    random_state : int or None
        The seed.
    keys : KeyStream
        The randomness.
    open_backend : OpenBackend
        Opens the backend that holds the rows.
    ledger : Path or None
        File of the ledger.
    account : BudgetAccount or None
        Account that the plan is charged to.
    what : str
        Name of the estimator or function, for reports and accounts.
    domain : Domain or None
        The domain; None if it is to be learned.
    domain_rows : str
        Rows that a learned domain was learned from: "same" or "other".
    unfinished : tuple of str
        Reservations of earlier runs of the estimator that failed.
    """

    budget: Budget
    random_state: int | None
    keys: KeyStream
    open_backend: OpenBackend
    ledger: Path | None
    account: BudgetAccount | None
    what: str
    domain: Domain | None
    domain_rows: str
    unfinished: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class DomainAndBudget:
    """Domain and budget of a plan.

    Attributes
    ----------
    domain : Domain
        The domain, declared or learned.
    budget : Budget
        Budget of the plan.
    paid : PrivacyReport or None
        Report of a domain inference whose price adds to the plan's.
    learned : Learned or None
        Result of the domain inference of this fit.
    """

    domain: Domain
    budget: Budget
    paid: PrivacyReport | None = None
    learned: InferredDomain | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """A prepared run: everything is reserved, and no row has been read."""

    plan: Plan
    digest: str
    ledger: Ledger
    inference: PrivacyReport | None
    keys: KeyStream
    load: Load
    unit_kind: str
    open_backend: OpenBackend
    assumptions: tuple[str, ...]
    seeded: bool
    what: str

    def curator(self, backend: Backend) -> Curator:
        """Return the curator of these rows."""
        return Curator(backend, self.ledger, self.keys.child("releases"), self.plan.contribution)

    def structures(self) -> KeyStream:
        """Return the randomness of public choices."""
        return self.keys.child("structures")

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that the report lists."""
        return parameters_of(self.plan)

    def report(self) -> PrivacyReport:
        """Return the privacy report of the run."""
        report = write_report(
            self.ledger,
            self.plan.encoder.domain.unit,
            self.assumptions,
            self.seeded,
            self.parameters,
            self.digest,
            self.what,
        )
        return (
            report
            if self.inference is None
            else add_domain_inference(self.inference, report, "training")
        )


def parameters_of(plan: Plan) -> dict[str, Any]:
    """Return the parameters of a plan that its report lists."""
    weights = plan.class_weight
    own = {} if weights is None else {"class_weight": list(weights)}
    return plan.parameters | own


class Preparation:
    """Leads from parameters and a table to a run, stage by stage.

    Parameters
    ----------
    setting : Setting
        Checked parameters of the run.
    given : Given
        Arguments of `fit`.
    make_plan : callable
        Function of an encoder, the bound of weights and a budget that returns a plan.
    inference : callable
        Function of a budget that returns the domain inference, where there is no domain, and a
        plan of training on a stand-in domain.
    """

    _run: type[Run] = Run

    def __init__(
        self,
        setting: RunSettings,
        given: FitArguments,
        make_plan: MakePlan,
        inference: Callable[[Budget], tuple[DomainInference, Plan]],
    ) -> None:
        self.setting, self.given, self._make_plan, self._inference = (
            setting,
            given,
            make_plan,
            inference,
        )

    def run(self) -> Run:
        """Check everything, and reserve the whole plan; return the run, which may read rows."""
        self.warn()
        ground = self.ground()
        plan = self.plan(ground)
        digest = plan.digest
        loader, table = self.rows(plan)
        unit_kind = self.judge_schema(loader, table)
        self.check(plan, unit_kind)
        self._warn_of_column_vectors()
        ledger = self.reserve(ground, plan)
        return self._run(
            plan,
            digest,
            ledger,
            ground.paid,
            self.keys,
            Load(loader, table),
            unit_kind,
            self.setting.open_backend,
            self.assumptions(ground, plan),
            self.setting.random_state is not None,
            self.setting.what,
        )

    def warn(self) -> None:
        """Warn of a seed, of a weak budget, and of scikit-learn's wrappers around `fit`."""
        setting = self.setting
        warn_of_parameters(setting.budget.epsilon, setting.budget.delta, setting.random_state)
        if setting.random_state is None:  # else there is no guarantee to lose
            warn_of_wrappers(setting.account is not None)

    @cached_property
    def keys(self) -> KeyStream:
        """The randomness of this run."""
        return self.setting.keys

    def ground(self) -> DomainAndBudget:
        """Return the domain, learned if there is none, with the budget that is left."""
        setting = self.setting
        if setting.domain is not None:
            return DomainAndBudget(setting.domain, setting.budget, self.paid_before(setting.domain))
        inference, stand_in = self._inference(setting.budget)
        if all(planned.event.mu is not None for planned in stand_in.releases):
            learned = infer_jointly(
                inference, setting.ledger, self.pending_charge(inference.unit), self.keys
            )
            return DomainAndBudget(learned.domain, learned.budget, None, learned)
        relation = stand_in.releases[0].event.relation
        pending_charge = self.pending_charge(inference.unit)
        after = stand_in.releases
        learned = infer_separately(
            inference, relation, setting.ledger, pending_charge, after, self.keys
        )
        return DomainAndBudget(learned.domain, learned.budget, learned.domain.privacy, learned)

    def paid_before(self, domain: Domain) -> PrivacyReport | None:
        """Return the report of the domain inference, if it used these rows."""
        if self.setting.domain_rows == "other":
            return None
        domain.check_price()
        if domain.privacy is None:
            return None
        check_domain_inference(domain.privacy, domain.unit)
        return domain.privacy

    def plan(self, ground: DomainAndBudget) -> Plan:
        """Plan all releases, and calibrate the noise."""
        encoder = Encoder.of(ground.domain)
        try:
            plan: Plan = self._make_plan(encoder, self.given.row_bound, ground.budget)
            if self.given.class_weight is not None:
                weights = weights_in_order(self.given.class_weight, ground.domain.target)
                plan = replace(plan, class_weight=weights)
        except ValueError as error:
            if ground.learned is None:
                raise
            raise ValueError(
                f"{error} (the domain was learned, and its price is spent: write a domain, or "
                "learn it once with Domain.learn)"
            ) from None
        return plan

    def rows(self, plan: Plan) -> tuple[Any, Table]:
        """Return the loader of rows, and the table."""
        encoder, given = plan.encoder, self.given
        source, roles = open_source(encoder.domain, given.X, given.y, given.sample_weight)
        rule = UnitRule.of(encoder.domain.unit, self.keys.child("units"))
        own = fresh_copy(encoder)  # the model keeps the plan's encoder, which never sees a row
        loader = RowLoader(own, roles, given.weight_bound, rule, class_steps=plan.class_steps)
        return loader, source

    def judge_schema(self, loader: Loader, table: Table) -> str:
        """Refuse a table that does not fit the domain; return the kind of its unit column."""
        return check_schema(loader, table)

    def check(self, plan: Plan, unit_kind: str) -> None:
        """Refuse a plan that cannot run, before anything more is spent."""

    def pending_charge(
        self, unit: Unit | None, inference: PrivacyReport | None = None
    ) -> PendingCharge | None:
        """Return this run's charge to the account; None without one."""
        account = self.setting.account
        if account is None:
            return None
        return PendingCharge(account, self.setting.what, column_of(unit), inference)

    def reserve(self, ground: DomainAndBudget, plan: Plan) -> Ledger:
        """Reserve the whole plan in a ledger."""
        learned = ground.learned
        if learned is not None and learned.ledger is not None:
            assert learned.placeholder is not None
            learned.ledger.exchange(learned.placeholder, plan.releases, plan.accountant)
            return learned.ledger
        budget = ground.budget
        pending_charge = self.pending_charge(ground.domain.unit, ground.paid)
        path = self.setting.ledger
        ledger = Ledger(budget.epsilon, budget.delta, plan.accountant, path, pending_charge)
        ledger.reserve(plan.releases)
        return ledger

    def alone(self) -> str:
        """Return the assumption about other releases of the same rows."""
        account = self.setting.account
        if account is None:
            return (
                "these rows were used in no other release; another one adds to the epsilon stated "
                "here"
            )
        return (
            "this epsilon is of this run alone: what all runs on these rows cost together is in "
            f"the account of {account.dataset!r}"
        )

    def assumptions(self, ground: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
        """Return the assumptions of the guarantee."""
        domain, bound = ground.domain, self.given.weight_bound
        texts = [
            _origin(ground),
            "all parameters of the estimator were chosen, and all that came before it was fitted, "
            "without these rows or exact scores on them",
            self.alone(),
            *map(failure_assumption, self.setting.unfinished),
        ]
        if domain.unit is not None:
            texts += unit_assumptions(domain.unit)
        if bound is not None:
            texts.append(f"{WEIGHTED} [0, {bound:g}], a public bound")
        if plan.class_weight is not None:
            texts.append(PUBLIC_CLASS_WEIGHTS)
        parts = (*domain.features, domain.target)
        named = {part.name: part.reason for part in parts if not inferences_of([part])}
        if domain.unit is not None:
            named[domain.unit.column] = domain.unit.reason
        texts += [f"public about {name!r}: {reason}" for name, reason in named.items() if reason]
        if inferences_of([domain.target]):
            texts.append(f"learned about {domain.target.name!r}: {domain.target.describe()}")
        return (*texts, *plan.assumptions)

    def _warn_of_column_vectors(self) -> None:
        for name in ("y", "sample_weight"):
            if is_column_vector(getattr(self.given, name)):
                message = f"A column-vector {name} was passed when a 1d array was expected"
                warnings.warn(message, DataConversionWarning, stacklevel=4)


@contextmanager
def remembering_failure(estimator: Any) -> Iterator[None]:
    """Record a run that fails after its reservation: reports of later runs name it.

    Parameters
    ----------
    estimator : estimator or search
        Owner of the run's `epsilon` and `delta`; it keeps the record as `_unfinished`.
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


def _origin(ground: DomainAndBudget) -> str:
    """Return the assumption about the origin of the domain."""
    if ground.domain.privacy is None:
        return (
            "the domain is public: names, bounds, categories, classes and edges were not read "
            "off the rows"
        )
    if ground.learned is not None or ground.paid is not None:
        parts = (*ground.domain.features, ground.domain.target)
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
        f"the domain was learned privately ({ground.domain.privacy.guarantee}) from other rows: no "
        "protected unit is among both"
    )


@dataclass(frozen=True)
class Preview:
    """Guarantee and price of a fit.

    Attributes
    ----------
    privacy : PrivacyReport
        The report that `privacy_` would be: ε and δ, every release with its noise and share, the
        assumptions. Releases that a recipe chooses during training appear as one.
    before, after : Balance or None
        Balance of the account before and after the fit; None without one.
    """

    privacy: PrivacyReport
    before: Balance | None = None
    after: Balance | None = None

    @property
    def left(self) -> float | None:
        """ε that the account would have left for one more run of Gaussian noise."""
        return None if self.after is None else self.after.left

    def __str__(self) -> str:
        lines = ["Nothing was spent, and no row was read: this is what a fit would be.", ""]
        lines.append(str(self.privacy))
        if self.before is not None and self.after is not None:
            taken = self.after.share_of(self.after.entries[-1].price)
            lines.append(
                f"  account     {self.after.dataset}: {format_share(taken)} of it would be taken; "
                f"epsilon {round_down(self.after.left)} would be left for one more run of Gaussian "
                f"noise ({round_down(self.before.left)} now)"
            )
        return "\n".join(lines)

    __repr__ = __str__


def price_preview(preparation: Preparation) -> Preview:
    """Return the price of a run without spending anything; refuses what the run would refuse."""
    setting = preparation.setting
    if isinstance(setting.budget, PublicRows):
        raise BudgetError("public_rows: rows that are public have no price")
    if setting.domain is None:
        raise DomainError(
            "a preview needs the whole domain: the part that is to be learned, and the noise that "
            "is left for training, depend on rows (Domain.learn learns a domain separately)"
        )
    if setting.ledger is not None:
        checked_ledger(setting.ledger)
    preparation.warn()
    ground = preparation.ground()
    plan = preparation.plan(ground)
    ledger = Ledger(ground.budget.epsilon, ground.budget.delta, plan.accountant)
    ledger.reserve(plan.releases)
    report = write_report(
        ledger,
        ground.domain.unit,
        preparation.assumptions(ground, plan),
        setting.random_state is not None,
        parameters_of(plan),
        plan.digest,
        setting.what,
    )
    if plan.is_exchanged:  # a fit reports a bound of all its choices
        report = replace(report, epsilon=ledger.epsilon)
    whole = report if ground.paid is None else add_domain_inference(ground.paid, report, "training")
    pending_charge = preparation.pending_charge(ground.domain.unit, ground.paid)
    if pending_charge is None:
        return Preview(whole)
    after = pending_charge.after(plan.releases, ledger.cost, ledger.delta)
    return Preview(whole, pending_charge.account.balance(), after)


def stated_rows(n_rows: Any) -> int:
    """Return the number of rows, on which the defaults of a recipe depend."""
    if n_rows is None:
        raise ValueError("n_rows (--rows) must be given: the defaults of this recipe depend on it")
    return check_count("n_rows", n_rows)
