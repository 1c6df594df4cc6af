"""`PrivateSearchCV`: the best of a random number of runs, at the price of one event.

A search checks everything, plans the ε of one run so that the whole stays within its budget,
reserves the whole, and makes its runs: each trains a candidate on one side of a split of the
protected units, and scores it on the other.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from privboost._core.checks import check_number, check_share, did_you_mean
from privboost._core.errors import BudgetError
from privboost._core.unit import column_of
from privboost._core.warnings import warn_of_parameters
from privboost.accounting.accountants import RdpAccountant
from privboost.accounting.composition import Curve, SearchRelease, curve_of
from privboost.accounting.events import Planned, Relation
from privboost.accounting.ledger import Ledger
from privboost.accounts.account import PendingCharge, check_account
from privboost.data.domain import Domain
from privboost.data.lazy_tables import StreamedTable
from privboost.data.loading import Load, Side, SplitLoader
from privboost.data.table import RemoteTable
from privboost.data.targets import ClassTarget, SurvivalTarget
from privboost.distributed.frames import open_remote
from privboost.estimators.base import PrivateEstimator
from privboost.estimators.foreign_parameters import foreign_name_hint
from privboost.estimators.preparation import (
    FitArguments,
    Run,
    failure_assumption,
    failures_of,
    remembering_failure,
)
from privboost.estimators.run_settings import RunSettings, ledger_path
from privboost.evaluation.class_measures import MEASURES
from privboost.evaluation.deviances import open_deviance
from privboost.evaluation.evaluate import EvaluationPreparation, run_evaluation
from privboost.evaluation.number_measures import measures_of
from privboost.evaluation.number_sums import Wanted
from privboost.evaluation.numbers import clip_of_scores
from privboost.evaluation.plan import loss_measures, plan_evaluation, plan_score
from privboost.evaluation.result import HIGHER, Value
from privboost.evaluation.survival import BETTER
from privboost.losses.base import loss_of, losses_of
from privboost.models.model import Model
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import draw_below, draw_run_count, stop_chance
from privboost.recipes.common.plan import Budget, within_account
from privboost.reports.report import PrivacyReport
from privboost.reports.writing import add_domain_inference, write_report

_STEPS = 12
_LEAST = 1 / 64
"""Least ε of a run, relative to the search's."""
_OF_THE_SEARCH = ("epsilon", "delta", "random_state", "ledger", "budget")
_FIXED = (
    *(*_OF_THE_SEARCH, "public_rows", "backend"),
    *("classes", "domain", "domain_given", "domain_rows", "domain_share", "sample_weight_bound"),
)
"""Parameters that the search sets, or all candidates share."""
_NOT_CHARGED = "a run would release what the search was not charged for"

PlanRuns = Callable[[float], Sequence[Sequence[Planned]]]
"""Function of a run's ε: the releases of training with each candidate, and of a score."""


class PrivateSearchCV(BaseEstimator):
    """Choose parameters privately: train with some, score on other units, keep the best run.

    A random number of runs is made, each with a candidate drawn at random. Only the winner is
    released: its model, its parameters and its noisy score. The number of runs and all other runs
    stay hidden, so the whole costs less than the sum of its runs.

    Parameters
    ----------
    estimator : estimator
        The estimator, with a domain. Its own epsilon and delta are not used.
    candidates : sequence of mappings, or mapping
        Parameters of each candidate; or a mapping from names to lists of values, of which all
        combinations are candidates (`sklearn.model_selection.ParameterGrid`).
    epsilon, delta : float
        The budget of the whole search.
    expected_runs : float
        Mean number of runs, above 1. The more, the less budget each run has.
    validation_share : float
        Share of the units that runs are scored on, and not trained on.
    scoring : str, optional
        Measure of a run: "auc", "accuracy", "log_loss", "brier" or "calibration_error" for classes
        ("accuracy" or "log_loss" beyond two), "rmse", "mae" or "r2" for a number; where all
        candidates have the same loss, also "deviance", that of a loss with a log link, or
        "pinball", that of a quantile or median. By default "auc" ("accuracy" beyond two classes),
        or that of the loss, or else "rmse". Residuals of a number are clipped to half the width of
        a model's clipping range of labels, deviances where noisy counts say.
    random_state : int, optional
        A seed, for tests; it takes the guarantee away.
    ledger : path, optional
        A file that records the charge of the whole search.
    budget : BudgetAccount, optional
        The account of these rows, which is charged first; its filter must be "renyi".

    Attributes
    ----------
    best_estimator_ : estimator
        The winner, trained on its share of the units and of the budget.
    best_params_ : dict
        Its candidate.
    best_score_ : float
        Its noisy score; optimistic, as the best of several.
    best_score_std_ : float
        Standard error of the score, due to noise and sampling of rows.
    scoring_ : str
        Measure of a run.
    privacy_ : PrivacyReport
        Cost of the search.

    Examples
    --------
    >>> from privboost import PrivBoostClassifier, PrivateSearchCV
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> base = PrivBoostClassifier(domain=adult.domain, interactions=False)
    >>> tried = [{"n_estimators": 28}, {"n_estimators": 112}]
    >>> search = PrivateSearchCV(base, tried, epsilon=1.0, delta=1e-6, expected_runs=2)
    >>> search.fit(adult.train).best_params_ in tried
    True
    """

    def __init__(
        self,
        estimator: Any,
        candidates: Any,
        epsilon: float,
        delta: float,
        *,
        expected_runs: float = 10.0,
        validation_share: float = 0.25,
        scoring: str | None = None,
        random_state: int | None = None,
        ledger: Any = None,
        budget: Any = None,
    ) -> None:
        self.estimator = estimator
        self.candidates = candidates
        self.epsilon = epsilon
        self.delta = delta
        self.expected_runs = expected_runs
        self.validation_share = validation_share
        self.scoring = scoring
        self.random_state = random_state
        self.ledger = ledger
        self.budget = budget

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Search.

        Parameters
        ----------
        X, y, sample_weight
            As the estimator takes them; weights apply to training, not to scores.

        Returns
        -------
        self

        Privacy
        -------
        Spends (epsilon, delta) as one event, reserved before a row is read. Its duration reveals
        the number of runs.

        Warns
        -----
        FitWarning
            Of the winner, as its own `fit` would, once the search is complete.
        """
        keys = KeyStream.of(self.random_state)
        task = _Search.of(self, X, y, sample_weight)
        warn_of_parameters(self.epsilon, self.delta, self.random_state)
        with remembering_failure(self):
            pending_charge = None
            if self.budget is not None:
                unit = column_of(task.domain.unit)
                pending_charge = PendingCharge(self.budget, "PrivateSearchCV", unit, task.inference)
            path = ledger_path(self.ledger)
            ledger = Ledger(self.epsilon, self.delta, RdpAccountant(), path, pending_charge)
            ledger.reserve([Planned(task.release, 1)])
            ledger.charge(task.release)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of other runs must stay hidden
                winner = task.search(keys)
            report = task.report(ledger, self, winner.candidate)
        self.best_estimator_ = task.estimators[winner.candidate]
        self.best_estimator_._keep(replace(winner.model, privacy=report))
        self.best_params_ = dict(task.candidates[winner.candidate])
        self.best_score_ = winner.score.value
        self.best_score_std_ = winner.score.std
        self.scoring_ = task.scoring
        self.privacy_ = report
        self.best_estimator_._warn_of_defects()
        return self

    def predict(self, X: Any) -> Any:
        """Predict with the winner. Costs no privacy."""
        return self._winner().predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Return the winner's probabilities. Costs no privacy."""
        return self._winner().predict_proba(X)

    def decision_function(self, X: Any) -> Any:
        """Return the winner's scores. Costs no privacy."""
        return self._winner().decision_function(X)

    def score(self, X: Any, y: Any, *, public_rows: bool = False) -> float:
        """Return the winner's exact score on rows, which must be public: see its own `score`."""
        return float(self._winner().score(X, y, public_rows=public_rows))

    @property
    def classes_(self) -> np.ndarray:
        """The domain's classes."""
        found: np.ndarray = self._winner().classes_
        return found

    def _winner(self) -> Any:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_


@dataclass(frozen=True, eq=False)
class _Winner:
    """The best run so far."""

    candidate: int
    score: Value
    model: Model


@dataclass(frozen=True)
class _Measured:
    """What a score of a number may be by the loss of all candidates, which is public.

    Attributes
    ----------
    deviance : str or None
        The name of the deviance.
    power : float or None
        The power of a Tweedie deviance.
    quantile : float or None
        The level of the pinball loss.
    """

    deviance: str | None = None
    power: float | None = None
    quantile: float | None = None

    @classmethod
    def of(cls, estimators: Sequence[Any]) -> _Measured:
        """Return that of the loss of all candidates; nothing where losses differ."""
        found = {loss_measures(_loss_of(each)) for each in estimators}
        target = estimators[0]._domain().target
        if len(found) > 1 or isinstance(target, ClassTarget):
            return cls()
        own = cls(*found.pop())
        try:
            open_deviance(own.deviance, own.power, target.bounds, target.bounds)
        except ValueError:
            return cls()
        return own

    def arguments(self, scoring: str) -> dict[str, Any]:
        """Return the arguments of `plan_evaluation` for a score."""
        if scoring == "deviance":
            return {"deviance": self.deviance, "power": self.power}
        return {"quantile": self.quantile} if scoring == "pinball" else {}

    def planned(self, scoring: str) -> tuple[float | None, float | None]:
        """Return the power and the quantile of `plan_score` for a score."""
        if scoring == "deviance":
            return open_deviance(self.deviance, self.power, (1.0, 2.0), (1.0, 2.0)), None
        return None, self.quantile if scoring == "pinball" else None


@dataclass(frozen=True, eq=False)
class _Search:
    """A checked search: nothing is reserved yet.

    `estimators` are those of the candidates, with the budget of one run: for training and, on other
    units, for its score. Its δ is the search's, since runs compose by their Rényi curves. `release`
    is the event of the whole search, `stop` the probability to stop in units of 2⁻⁶⁴, `share` that
    of the units that runs are scored on, `measured` what a score of a number may be by the loss of
    all candidates, and `releases` what is charged for each candidate.
    """

    candidates: tuple[Mapping[str, Any], ...]
    estimators: tuple[Any, ...]
    given: FitArguments
    budget: Budget
    release: SearchRelease
    stop: int
    share: float
    scoring: str
    measured: _Measured
    seeded: bool
    assumed: tuple[str, ...]
    releases: tuple[Sequence[Planned], ...]

    @classmethod
    def of(cls, search: Any, X: Any, y: Any, weight: Any) -> _Search:
        """Check everything, and plan the budget of one run."""
        X = open_remote(X)
        account = check_account("budget", search.budget, search.random_state)
        budget = Budget(search.epsilon, search.delta)
        if account is not None:
            budget = within_account(budget, account)
        if budget.delta == 0:
            raise BudgetError(
                "a search needs a delta above 0: its runs add up by Rényi divergences"
            )
        candidates = _check_candidates(search.candidates)
        estimators = [_with(search.estimator, candidate) for candidate in candidates]
        mean = check_number("expected_runs", search.expected_runs, 1.0, 10_000.0)
        share = check_share("validation_share", search.validation_share)
        stop = stop_chance(mean)
        measured = _Measured.of(estimators)
        scoring = _check_scoring(search.scoring, estimators[0], measured)

        def having(epsilon: float) -> list[Any]:
            own = {"epsilon": epsilon, "delta": budget.delta}
            return [clone(each).set_params(**own) for each in estimators]

        def plan_runs(epsilon: float) -> Sequence[Sequence[Planned]]:
            prepared = [each._prepare(X, y, weight) for each in having(epsilon)]
            plans = [each.plan(each.domain_and_budget()) for each in prepared]
            own = Budget(epsilon, budget.delta)
            scored = plan_score(plans[0].encoder, own, *measured.planned(scoring))
            return [*(plan.releases for plan in plans), scored]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about trial plans
            epsilon, release = plan_search(budget, stop / 2**64, plan_runs)
            ready = having(epsilon)
            prepared = [each._prepare(X, y, weight) for each in ready]
            runs = [each.run() for each in prepared]  # checks the table's schema; reads no row
        source = runs[0].load.source
        if isinstance(source, RemoteTable | StreamedTable) and ready[0]._domain().unit is None:
            raise ValueError(
                "a search on a lazy frame, a dataset or a cluster's rows needs a unit column in "
                "the domain: without one the split goes by the positions of rows, whose order may "
                "change between passes"
            )
        every = dict.fromkeys(text for run in runs for text in run.assumptions)
        return cls(
            candidates,
            tuple(ready),
            FitArguments(X, y, weight, None),
            Budget(epsilon, budget.delta),
            release,
            stop,
            share,
            scoring,
            measured,
            search.random_state is not None,
            tuple(text for text in every if text != prepared[0].alone()),
            tuple(run.plan.releases for run in runs),
        )

    @property
    def domain(self) -> Domain:
        """The domain, which all candidates share."""
        found: Domain = self.estimators[0]._domain()
        return found

    @property
    def inference(self) -> PrivacyReport | None:
        """Report of the domain inference, if it used these rows."""
        return None if self.estimators[0].domain_rows == "other" else self.domain.privacy

    def search(self, keys: KeyStream) -> _Winner:
        """Make all runs; return the best."""
        side = np.frombuffer(keys.child("split").words(4).tobytes(), dtype=np.uint8)
        coins, seeds = keys.child("runs"), keys.child("seeds")
        better = _better(self.domain.target, self.measured)
        sign = 1 if better[self.scoring] == HIGHER else -1
        best: _Winner | None = None
        for _ in range(draw_run_count(self.stop, coins)):
            number = draw_below(len(self.candidates), coins)
            seed = int(seeds.words(1)[0]) if self.seeded else None
            run = self._run(number, side, seed)
            if best is None or sign * (run.score.value - best.score.value) > 0:
                best = run
        assert best is not None
        return best

    def _run(self, number: int, key: np.ndarray, seed: int | None) -> _Winner:
        """Train with a candidate on one side, and score it on the other."""
        given = self.given
        estimator = clone(self.estimators[number]).set_params(random_state=seed)
        run = estimator._prepare(given.X, given.y, given.sample_weight).run()
        if run.plan.releases != self.releases[number]:
            raise BudgetError(_NOT_CHARGED)
        model = estimator._train(_on(run, Side(key, 1 - self.share, True)))
        return _Winner(number, self._score(model, Side(key, 1 - self.share, False), seed), model)

    def _score(self, model: Model, side: Side, seed: int | None) -> Value:
        """Return the noisy measure of a model on one side."""
        target = model.domain.target
        how: dict[str, Any]
        if isinstance(target, SurvivalTarget):
            how = {}
        elif isinstance(target, ClassTarget):
            how = {"curves": False if len(target.classes) > 2 else None}
        else:
            how = {"clip": clip_of_scores(model)} | self.measured.arguments(self.scoring)
        plan = plan_evaluation(model, None, self.budget, **how, gaussian=True, only_score=True)
        planned = plan_score(plan.encoder, self.budget, *self.measured.planned(self.scoring))
        if plan.releases != planned:
            raise BudgetError(_NOT_CHARGED)
        run_settings = RunSettings(
            self.budget,
            seed,
            KeyStream.of(seed if seed is None else seed ^ 1),
            self.estimators[0]._run_settings().open_backend,
            None,
            None,
            "a score",
            model.domain,
            "other",
        )
        given = FitArguments(self.given.X, self.given.y, None, None)
        select = partial(_on, side=side)
        found, _ = run_evaluation(EvaluationPreparation, run_settings, given, plan, select)
        return found.whole[self.scoring]

    def report(self, ledger: Ledger, search: Any, winner: int) -> PrivacyReport:
        """Return the privacy report of the search; `winner` is the number of its candidate."""
        unit = self.domain.unit
        assumptions = (
            *self.assumed,
            "candidates and all parameters of the search were chosen without these rows or exact "
            "scores on them",
            "this epsilon is of the search alone: any other release of these rows adds to it",
            *map(failure_assumption, failures_of(search)),
            "how long the search took, which tells the number of its runs, is not shown to whom "
            "the rows must not be shown",
        )
        parameters = {
            "recipe": type(self.estimators[0]).__name__,
            "candidates": len(self.candidates),
            "expected_runs": float(search.expected_runs),
            "validation_share": self.share,
            "scoring": self.scoring,
            "epsilon_of_a_run": self.budget.epsilon,
            **_loss_of(self.estimators[winner]),
        }
        digest = hashlib.sha256(repr((self.candidates, parameters)).encode()).hexdigest()
        report = write_report(
            ledger, unit, assumptions, self.seeded, parameters, digest, "PrivateSearchCV"
        )
        if self.inference is None:
            return report
        return add_domain_inference(self.inference, report, "the search")


def plan_search(budget: Budget, stop: float, plan_runs: PlanRuns) -> tuple[float, SearchRelease]:
    """Return the largest ε of a run for which the search stays in its budget, and its event.

    Training and the score use different units, so a run costs the larger of both, and at most that
    of the most expensive candidate.
    """

    def made(epsilon: float) -> SearchRelease:
        plans = plan_runs(epsilon)
        _check_covered(plans)
        curve = reduce(Curve.joined, [curve_of(plan) for plan in plans])
        return SearchRelease("the best of several runs", 1.0, stop, curve.rho)

    def fits(release: SearchRelease) -> bool:
        return RdpAccountant().cost([Planned(release, 1)], budget.delta) <= budget.epsilon

    low, high = _LEAST * budget.epsilon, budget.epsilon
    best = made(low)
    if not fits(best):
        raise BudgetError(
            "epsilon and delta are too small for a search of so many runs: raise them, or lower "
            "expected_runs"
        )
    for _ in range(_STEPS):
        middle = (low + high) / 2
        tried = made(middle)
        if fits(tried):
            best, low = tried, middle
        else:
            high = middle
    return low, best


def _check_covered(plans: Sequence[Sequence[Planned]]) -> None:
    """Refuse releases that the analysis of a search does not cover."""
    for event in (planned.event for plan in plans for planned in plan):
        if event.relation != Relation.ADD_REMOVE:
            raise BudgetError(
                "a search is about adding or removing a unit: one that is replaced may be trained "
                "on before and scored after; choose another recipe"
            )
        if event.extra_delta:
            raise BudgetError(
                "candidates that learn their domain cannot be searched: learn it first"
            )


def _check_candidates(candidates: Any) -> tuple[Mapping[str, Any], ...]:
    if isinstance(candidates, Mapping) and candidates:
        lists = all(isinstance(own, list | tuple | np.ndarray) for own in candidates.values())
        candidates = ParameterGrid(dict(candidates)) if lists else ()
    found = tuple(candidates) if isinstance(candidates, Iterable) else ()
    if not found or not all(isinstance(each, Mapping) for each in found):
        raise ValueError(
            "candidates must be a list of mappings from parameters to values, such as "
            '[{"n_estimators": 10}, {"n_estimators": 30}], or a mapping from parameters to lists, '
            'such as {"n_estimators": [10, 30]}'
        )
    for name in (name for each in found for name in each):
        if name in _FIXED:
            where = "to PrivateSearchCV itself" if name in _OF_THE_SEARCH else "to the estimator"
            raise ValueError(
                f"candidates: {name!r} cannot be tried, since it is the same for all of them; give "
                f"it {where}"
            )
    return found


def _loss_of(estimator: Any) -> dict[str, Any]:
    """Return the loss of an estimator of a number, with its parameter, if it has one of its own."""
    given = estimator.get_params(deep=False)
    loss = given.get("loss")
    if not isinstance(loss, str) or loss not in losses_of("number") or loss == "squared":
        return {}
    name = loss_of("number", loss).parameter
    return {"loss": loss} | ({name: given.get(name)} if name else {})


def _better(target: Any, measured: _Measured) -> dict[str, str]:
    """Return the measures that compare models of a target, and which values of them are better."""
    if isinstance(target, SurvivalTarget):
        return dict(BETTER)
    if isinstance(target, ClassTarget):
        listed = {name: measure.better for name, measure in MEASURES.items()}
    else:
        wanted = Wanted(target.bounds[0], quantile=measured.quantile)
        if measured.deviance is not None:
            wanted = replace(wanted, deviance=measured.planned("deviance")[0])
        known = measures_of(wanted)
        listed = {name: measure.better for name, measure in known.items()}
    return {name: better for name, better in listed.items() if better is not None}


def _check_scoring(scoring: Any, estimator: Any, measured: _Measured) -> str:
    target = estimator._domain().target
    known = tuple(_better(target, measured))
    if isinstance(target, ClassTarget):
        curves, log_odds = len(target.classes) == 2, hasattr(estimator, "predict_proba")
        having = [(name, MEASURES[name]) for name in known]
        known = tuple(
            name
            for name, own in having
            if (curves or not own.curves) and (log_odds or not own.log_odds)
        )
    if scoring is None:
        return next((name for name in ("auc", "deviance", "pinball") if name in known), known[0])
    if scoring not in known:
        raise ValueError(f"scoring must be one of {', '.join(map(repr, known))}")
    return str(scoring)


def _with(estimator: Any, candidate: Mapping[str, Any]) -> Any:
    if not isinstance(estimator, PrivateEstimator):
        raise TypeError("estimator must be an estimator of privboost")
    for name in ("ledger", "budget", "random_state"):
        if getattr(estimator, name) is not None:
            raise ValueError(f"estimator: give {name} to the search, not to what it trains")
    if estimator.public_rows is not False:
        raise ValueError(
            "estimator: public_rows is for rows that nobody protects, and a private search is no "
            "use there; take GridSearchCV of scikit-learn"
        )
    if estimator.domain is None:
        raise ValueError("estimator: a search needs a domain; Domain.learn makes one")
    known = list(estimator.get_params())
    for name, value in candidate.items():
        if name not in known:
            hint = foreign_name_hint(name, known, value=value) or did_you_mean(name, known)
            hint = hint or f"there are {', '.join(known)}"
            kind = type(estimator).__name__
            raise ValueError(f"candidates: {kind} has no parameter {name!r}; {hint}")
    return clone(estimator).set_params(**candidate, verbose=False)


def _on(run: Run, side: Side) -> Run:
    """Return a run on one side of the split."""
    return replace(run, load=Load(SplitLoader(run.load.loader, side), run.load.source))
