"""`evaluate`: measures of a model on private rows, with a budget, ledger and report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privboost._core.pickling import fresh_copy
from privboost._core.threads import count_threads
from privboost._core.unit import unit_assumptions
from privboost.accounts.account import BudgetAccount, check_account
from privboost.data.contribution_bound import UnitRule
from privboost.data.loading import Loader, open_source
from privboost.data.sources import check_columns_present
from privboost.data.table import Table
from privboost.estimators.base import PrivateEstimator
from privboost.estimators.preparation import (
    DomainAndBudget,
    FitArguments,
    Preparation,
    Run,
    open_table,
)
from privboost.estimators.public_rows import PublicPreparation, check_no_ledger
from privboost.estimators.run_settings import RunSettings, budget_of, choose_backend, ledger_path
from privboost.evaluation.outcomes import EvaluationPlan, OutcomeLoader, group_labels, open_groups
from privboost.evaluation.plan import plan_evaluation
from privboost.evaluation.result import Evaluation, Group, Measures, Residuals
from privboost.mechanisms.curator import Curator
from privboost.models.findings import warn_of_defects
from privboost.models.model import Model
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget, Plan, PublicRows, within_account


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: float,
    delta: float = 1e-6,
    by: Any = (),
    score_cells: int | None = None,
    curves: bool | None = None,
    clip: float | None = None,
    deviance: str | None = None,
    power: float | None = None,
    quantile: float | None = None,
    horizon: float | None = None,
    sample_weight: Any = None,
    public_rows: bool = False,
    random_state: int | None = None,
    n_jobs: int | None = None,
    backend: Any = "auto",
    ledger: str | Path | None = None,
    budget: BudgetAccount | None = None,
) -> Evaluation:
    """Measure how good a model is on private rows, at a stated price.

    Parameters
    ----------
    model : fitted estimator or Model
        The model, fitted or loaded.
    X : data frame, array, or path of a Parquet or CSV file
        The rows, as `fit` takes them; those of a Dask or Spark frame stay with their workers. The
        model's domain applies to them. Where it names a unit, one row of each unit is used, drawn
        at random.
    y : one-dimensional or str, optional
        The target; by default the column of `X` that the domain names.
    epsilon, delta : float
        The budget of this evaluation. Where a row touches few cells, and with a delta of 0, the
        noise is Laplace: the guarantee is pure then, and delta is not spent.
    by : sequence of str and features
        Features whose groups are measured too, each feature by itself. A name is one of the
        model's; numbers without edges are cut into four intervals. A `CategoricalFeature` or a
        `NumericFeature` (whose edges delimit its intervals) may be any other column. Each feature
        costs as much as the whole table.
    score_cells : int, optional
        Number of cells of scores in which rows are counted, an even number. By default it depends
        on the noise.
    curves : bool, optional
        Beyond two classes: whether each class has an AUC and a reliability table of its own. They
        cost one touched cell for each class. Default: up to ten classes. Of a number: whether there
        are a calibration table by tenths of the prediction and, for labels that are never negative,
        a Gini coefficient. They cost .22 of the μ² of the other measures. Default: yes.
    clip : float, optional
        For a number on private rows: the clip of residuals, from public knowledge. By default it
        is chosen from noisy counts of residuals by size, within the budget. Estimates are of
        clipped residuals; their intervals allow for what may lie beyond the clip.
    deviance : {"poisson", "gamma", "tweedie", "none"}, optional
        For a number whose lower bound is 0 or more ("gamma": above 0): also measure this mean
        deviance, as a model with this loss minimises it. It costs .22 of that μ² likewise. By
        default that of the loss that the model was trained with, where it is one of these;
        "none" leaves it out.
    power : float, optional
        Power of the variance of a Tweedie deviance, between 1 (Poisson) and 2 (gamma). By default
        the model's own, or 1.5.
    quantile : float, optional
        For a number: the level of the quantile that predictions stand for. Also measure the mean
        pinball loss, and the share of labels that are at most the prediction. Both are nearly free.
        By default that of a model with loss="quantile", and .5 with loss="absolute".
    horizon : float, optional
        For survival times: the time at which predicted survival is compared with the observed one.
        By default about the median time of the events that the model expects within the bounds.
    sample_weight : None
        Not supported: rows count alike.
    public_rows : bool
        With an infinite epsilon, declares that every row is public: exact and free. Residuals are
        not clipped then. Labels beyond the target's bounds are clipped to them in any case, as in
        training; for public rows the evaluation reports their number.
    random_state : int, optional
        A seed, for tests; it takes the guarantee away.
    n_jobs : int, optional
        Largest number of threads; by default as many as pay.
    backend : "auto", "cuda" or callable
        Backend that holds the rows.
    ledger : path, optional
        A file that records the charges.
    budget : BudgetAccount, optional
        The account of these rows, which is charged first.

    Returns
    -------
    Evaluation
        Values with error bars; its attribute `privacy` is the privacy report.

    Privacy
    -------
    Spends (epsilon, delta) on these rows, in addition to all else that was spent on them, training
    included. All is reserved before a row is read. No value raises or warns, and a group without
    rows has measures like any other.

    Warns
    -----
    FitWarning
        If the noisy number of rows does not exceed its noise: labels match no class, or there are
        hardly any rows. Raised as an exception it has the evaluation as `result`.

    Examples
    --------
    >>> from privboost import PrivBoostClassifier, evaluate
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = PrivBoostClassifier(epsilon=1.0, delta=1e-6, domain=adult.domain).fit(adult.train)
    >>> found = evaluate(clf, adult.test, epsilon=1.0, by=["sex"])
    >>> bool(abs(found["auc"].value - 0.9) < 0.03)
    True
    >>> [group.value for group in found.groups]
    ['Female', 'Male', 'other', 'missing']

    Of a number, whether predictions are right on average, and for small and for large ones:

    >>> from privboost import PrivBoostRegressor
    >>> from privboost.datasets import load_abalone
    >>> abalone = load_abalone()
    >>> model = PrivBoostRegressor(epsilon=1.0, delta=1e-6, domain=abalone.domain)
    >>> found = evaluate(model.fit(abalone.train), abalone.test, epsilon=3.0, deviance="poisson")
    >>> bool(abs(found["mean_ratio"].value - 1) < 0.2)
    True
    >>> found.calibration_table().column_names[2:6]
    ['low', 'high', 'predicted', 'observed']
    """
    own = model_of(model)
    if sample_weight is not None:
        raise ValueError("sample_weight: rows of an evaluation count alike; leave it out")
    account = check_account("budget", budget, random_state)
    limit, gaussian = budget_of(epsilon, delta, public_rows), False
    if account is not None:
        limit, gaussian = within_account(limit, account), account.takes_gaussian_only
    table, groups = open_table(X, backend), open_groups(by, own)
    plan = plan_evaluation(
        own,
        groups,
        limit,
        score_cells,
        curves,
        clip,
        deviance,
        power,
        quantile,
        gaussian,
        horizon=horizon,
    )
    run_settings = RunSettings(
        plan.budget,
        random_state,
        KeyStream.of(random_state),
        choose_backend(backend, count_threads(n_jobs)),
        ledger_path(ledger),
        account,
        "evaluate",
        own.domain,
        "other",
    )
    kind = PublicEvaluation if isinstance(limit, PublicRows) else EvaluationPreparation
    given = FitArguments(table, y, None, None)
    found, run = run_evaluation(kind, run_settings, given, plan)
    name = own.domain.target.name
    result = Evaluation(name, found.whole, found.groups, run.report(), found.residuals)
    warn_of_defects(result, result.findings())
    return result


class EvaluationPreparation(Preparation):
    """Preparation of an evaluation: that of a fit, with another loader and no domain inference."""

    def domain_and_budget(self) -> DomainAndBudget:
        """Return the model's domain, whose price was paid by the rows of training."""
        assert self.run_settings.domain is not None
        return DomainAndBudget(self.run_settings.domain, self.run_settings.budget)

    def rows(self, plan: Plan) -> tuple[Loader, Table]:
        """Return the loader of rows, and the table."""
        assert isinstance(plan, EvaluationPlan)
        domain = plan.encoder.domain
        source, roles = open_source(domain, self.given.X, self.given.y, None)
        if plan.groups is not None:
            check_columns_present(source, plan.groups.domain.feature_names)
        rule = UnitRule.of(domain.unit, self.keys.child("units"))
        model = fresh_copy(plan.model)  # the caller's own never sees a private row
        columns = roles.target, rule, roles.event
        return OutcomeLoader(model, plan.outcomes, plan.groups, *columns), source

    def alone(self) -> str:
        """Return the assumption about other releases of the same rows."""
        if self.run_settings.account is not None:
            return super().alone()
        return (
            "this is the price of the evaluation alone: training on the same rows, another "
            "evaluation, or any other release of them adds to it"
        )

    def assumptions(self, domain_and_budget: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
        """Return the assumptions of the guarantee."""
        texts = [
            "all parameters of the evaluation were chosen without these rows or exact scores on "
            "them",
            self.alone(),
        ]
        if domain_and_budget.domain.unit is not None:
            texts += unit_assumptions(domain_and_budget.domain.unit)
        return tuple(texts)


class PublicEvaluation(EvaluationPreparation, PublicPreparation):
    """Preparation of an evaluation on public rows: nothing is reserved."""

    def __init__(self, run_settings: RunSettings, *stages: Any) -> None:
        check_no_ledger(run_settings)
        Preparation.__init__(self, run_settings, *stages)

    def assumptions(self, domain_and_budget: DomainAndBudget, plan: Plan) -> tuple[str, ...]:
        """Return the declaration by which no noise was added."""
        return PublicPreparation.assumptions(self, domain_and_budget, plan)


@dataclass(frozen=True)
class Found:
    """Measures of the whole table and of each group, and how residuals were clipped."""

    whole: Measures
    groups: tuple[Group, ...]
    residuals: Residuals | None = None


def run_evaluation(
    kind: type[Preparation],
    run_settings: RunSettings,
    given: FitArguments,
    plan: EvaluationPlan,
    select: Callable[[Run], Run] = lambda run: run,
) -> tuple[Found, Run]:
    """Reserve a plan, release what it lists, and return the measures with the run.

    `select` may restrict the run to some of the rows before they are loaded.
    """
    run = select(kind(run_settings, given, lambda *_: plan, _no_inference).run())
    opened = run.run_settings.open_backend([run.load])
    try:
        return measure(run.curator(opened), plan), run
    finally:
        opened.close()


def measure(curator: Curator, plan: EvaluationPlan) -> Found:
    """Release what a plan lists; return the measures of the whole table and of each group."""
    parts, residuals = plan.outcomes.measure(curator, plan)
    whole, *by_feature = parts
    groups = [
        Group(feature, value, own)
        for (feature, labels), found in zip(group_labels(plan.groups), by_feature, strict=True)
        for value, own in zip(labels, found, strict=True)
    ]
    return Found(whole[0], tuple(groups), residuals)


def _no_inference(budget: Budget) -> Any:
    raise AssertionError("a model has its domain: none is learned")


def model_of(model: Any) -> Model:
    """Return the model of a fitted estimator, or the model itself."""
    if isinstance(model, PrivateEstimator):
        return model._fitted()
    if isinstance(model, Model):
        return model
    raise TypeError(
        "model must be a fitted estimator of privboost, or a Model; a "
        f"{type(model).__name__} is neither"
    )
