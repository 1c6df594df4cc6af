"""A search from its parameters to its winner: checks, plan, reservation, runs."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from privboost.accounts.given import check_account
from privboost.accounts.posting import Posting
from privboost.boosting.checks import check_number, check_share
from privboost.boosting.plan import Budget, leave_some
from privboost.clusters.recognition import open_remote
from privboost.errors import BudgetError
from privboost.estimators.base import PrivateEstimator
from privboost.estimators.preparation import Given, Setting, failure_assumption, failures_of
from privboost.evaluation.evaluate import EvaluationPreparation, run_evaluation
from privboost.evaluation.plan import clip_of_scores, plan_evaluation, plan_score
from privboost.evaluation.result import Value
from privboost.forms import did_you_mean
from privboost.models.model import Model
from privboost.privacy.accountants.rdp import RdpAccountant
from privboost.privacy.events.event import Planned
from privboost.privacy.ledger import Ledger
from privboost.privacy.statements import add_lesson, write_report
from privboost.randomness.keystream import KeyStream
from privboost.randomness.run_counts import draw_below, draw_run_count, stop_chance
from privboost.reports.report import PrivacyReport
from privboost.search.plan import SearchPlan, plan_search
from privboost.tables.features import ClassTarget
from privboost.tables.loading import Load
from privboost.tables.part_loader import PartLoader, Side
from privboost.tables.remote import RemoteTable
from privboost.tables.streamed_sources import StreamedTable
from privboost.unit import column_of

_BETTER = {
    "accuracy": 1,
    "auc": 1,
    "log_loss": -1,
    "brier": -1,
    "calibration_error": -1,
    "rmse": -1,
    "mae": -1,
    "r2": 1,
}
"""Sign of each measure: 1 if larger is better."""
_OF_THE_SEARCH = ("epsilon", "delta", "random_state", "ledger", "budget")
_FIXED = (
    *(*_OF_THE_SEARCH, "public_rows", "backend"),
    *("classes", "domain", "domain_given", "domain_rows", "domain_share", "sample_weight_bound"),
)
"""Parameters that the search sets, or all candidates share."""


@dataclass(frozen=True, eq=False)
class Winner:
    """The best run so far."""

    candidate: int
    score: float
    error: float
    model: Model


@dataclass(frozen=True, eq=False)
class SearchTask:
    """A checked search: nothing is reserved yet.

    Attributes
    ----------
    candidates : tuple of mappings
        Parameters of each candidate.
    estimators : tuple of estimators
        Estimator of each candidate, with the budget of a run.
    given : Given
        Arguments of `fit`.
    plan : SearchPlan
        The plan.
    delta : float
        δ of runs: all of it, since runs compose by their Rényi curves.
    stop : int
        Probability to stop, in units of 2⁻⁶⁴.
    share : float
        Share of the units that runs are scored on.
    scoring : str
        Measure of a run.
    seeded : bool
        Whether there is a seed.
    assumed : tuple of str
        Assumptions of every run.
    releases : tuple of sequences of Planned
        Charged releases of training with each candidate.
    """

    candidates: tuple[Mapping[str, Any], ...]
    estimators: tuple[Any, ...]
    given: Given
    plan: SearchPlan
    delta: float
    stop: int
    share: float
    scoring: str
    seeded: bool
    assumed: tuple[str, ...]
    releases: tuple[Sequence[Planned], ...]

    @classmethod
    def of(cls, search: Any, X: Any, y: Any, weight: Any, keys: KeyStream) -> SearchTask:
        """Check everything, and plan the budget of one run."""
        X = open_remote(X)
        account = check_account("budget", search.budget, search.random_state)
        budget = Budget(search.epsilon, search.delta)
        if account is not None:
            budget = leave_some(budget, account)
        if budget.delta == 0:
            raise BudgetError(
                "a search needs a delta above 0: its runs add up by Rényi divergences"
            )
        candidates = _check_candidates(search.candidates)
        estimators = [_with(search.estimator, candidate) for candidate in candidates]
        mean = check_number("expected_runs", search.expected_runs, 1.0, 10_000.0)
        share = check_share("validation_share", search.validation_share)
        stop = stop_chance(mean)

        def plan_runs(epsilon: float) -> Sequence[Sequence[Planned]]:
            own = [
                _planned(_having(each, epsilon, budget.delta), X, y, weight) for each in estimators
            ]
            encoder = own[0].encoder
            scored = plan_score(encoder, Budget(epsilon, budget.delta))
            return [*(plan.releases for plan in own), scored]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about trial plans
            plan = plan_search(
                "the best of several runs", budget.epsilon, budget.delta, stop / 2**64, plan_runs
            )
            ready = [_having(each, plan.epsilon, budget.delta) for each in estimators]
            runs = [each._prepare(X, y, weight) for each in ready]
            ready_to_run = [run.run() for run in runs]  # checks the table's schema; reads no row
        source = ready_to_run[0].load.source
        if isinstance(source, RemoteTable | StreamedTable) and ready[0]._domain().unit is None:
            raise ValueError(
                "a search on a lazy frame, a dataset or a cluster's rows needs a unit column in "
                "the domain: without one the split goes by the positions of rows, whose order may "
                "change between passes"
            )
        given = Given(X, y, weight, None)
        scoring = _check_scoring(search.scoring, ready[0])
        every = dict.fromkeys(text for run in ready_to_run for text in run.assumptions)
        assumed = tuple(text for text in every if text != runs[0].alone())
        own = (candidates, tuple(ready), given, plan, budget.delta, stop, share, scoring)
        releases = tuple(run.plan.releases for run in ready_to_run)
        return cls(*own, search.random_state is not None, assumed, releases)

    def reserve(self, search: Any, path: Any) -> Ledger:
        """Reserve the whole search in a ledger."""
        account, domain = search.budget, self._domain
        posting = None
        if account is not None:
            lesson = self._lesson
            posting = Posting(account, "PrivateSearchCV", column_of(domain.unit), lesson)
        ledger = Ledger(search.epsilon, search.delta, RdpAccountant(), path, posting)
        ledger.reserve([Planned(self.plan.release, 1)])
        return ledger

    def search(self, keys: KeyStream) -> Winner:
        """Make all runs; return the best."""
        side = np.frombuffer(keys.child("split").words(4).tobytes(), dtype=np.uint8)
        coins, seeds = keys.child("runs"), keys.child("seeds")
        best: Winner | None = None
        for _ in range(draw_run_count(self.stop, coins)):
            number = draw_below(len(self.candidates), coins)
            seed = int(seeds.words(1)[0]) if self.seeded else None
            run = self._run(number, side, seed)
            if best is None or _BETTER[self.scoring] * (run.score - best.score) > 0:
                best = run
        assert best is not None
        return best

    def _run(self, number: int, key: np.ndarray, seed: int | None) -> Winner:
        """Train with a candidate on one side, and score it on the other."""
        given = self.given
        estimator = clone(self.estimators[number]).set_params(random_state=seed)
        run = estimator._prepare(given.X, given.y, given.sample_weight).run()
        if run.plan.releases != self.releases[number]:
            raise BudgetError(_NOT_CHARGED)
        model = estimator._train(_on(run, Side(key, 1 - self.share, True)))
        score = self._score(model, Side(key, 1 - self.share, False), seed)
        return Winner(number, score.value, score.std, model)

    def _score(self, model: Model, side: Side, seed: int | None) -> Value:
        budget = Budget(self.plan.epsilon, self.delta)
        classes = model.domain.target
        many = isinstance(classes, ClassTarget) and len(classes.classes) > 2
        how: dict[str, Any] = {"curves": False if many else None}
        if not isinstance(classes, ClassTarget):
            how["clip"] = clip_of_scores(model)
        plan = plan_evaluation(model, None, budget, **how, gaussian=True, only_score=True)
        if plan.releases != plan_score(plan.encoder, budget):
            raise BudgetError(_NOT_CHARGED)
        estimator = self.estimators[0]
        setting = Setting(
            budget,
            seed,
            KeyStream.of(seed if seed is None else seed ^ 1),
            estimator._setting().open_backend,
            None,
            None,
            "a score",
            model.domain,
            "other",
        )
        given = Given(self.given.X, self.given.y, None, None)
        select = partial(_on, side=side)
        found, _ = run_evaluation(EvaluationPreparation, setting, given, plan, select)
        return found.whole[self.scoring]

    def report(self, ledger: Ledger, search: Any) -> PrivacyReport:
        """Return the privacy report of the search."""
        unit = self._domain.unit
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
            "epsilon_of_a_run": self.plan.epsilon,
        }
        digest = hashlib.sha256(repr((self.candidates, parameters)).encode()).hexdigest()
        report = write_report(
            ledger, unit, assumptions, self.seeded, parameters, digest, "PrivateSearchCV"
        )
        lesson = self._lesson
        return report if lesson is None else add_lesson(lesson, report, "the search")

    @property
    def _domain(self) -> Any:
        return self.estimators[0]._domain()

    @property
    def _lesson(self) -> PrivacyReport | None:
        """Report of the domain inference, if it used these rows."""
        estimator = self.estimators[0]
        if estimator.domain_rows == "other":
            return None
        privacy: PrivacyReport | None = self._domain.privacy
        return privacy


_NOT_CHARGED = "a run would release what the search was not charged for"


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


def _check_scoring(scoring: Any, estimator: Any) -> str:
    target = estimator._domain().target
    if isinstance(target, ClassTarget):
        two = len(target.classes) == 2
        known: tuple[str, ...] = ("auc", "accuracy") if two else ("accuracy",)
        if hasattr(estimator, "predict_proba"):
            known += ("log_loss", "brier", "calibration_error") if two else ("log_loss",)
    else:
        known = ("rmse", "mae", "r2")
    if scoring is None:
        return known[0]
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
    for name in candidate:
        if name not in known:
            hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
            kind = type(estimator).__name__
            raise ValueError(f"candidates: {kind} has no parameter {name!r}; {hint}")
    return clone(estimator).set_params(**candidate, verbose=False)


def _having(estimator: Any, epsilon: float, delta: float) -> Any:
    return clone(estimator).set_params(epsilon=epsilon, delta=delta)


def _planned(estimator: Any, X: Any, y: Any, weight: Any) -> Any:
    """Return the plan of a run of training."""
    preparation = estimator._prepare(X, y, weight)
    return preparation.plan(preparation.ground())


def _on(run: Any, side: Side) -> Any:
    """Return a run on one side of the split."""
    return replace(run, load=Load(PartLoader(run.load.loader, side), run.load.source))
