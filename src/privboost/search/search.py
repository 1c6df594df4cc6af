"""`PrivateSearchCV`: the best of a random number of runs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from privboost.cautions import caution
from privboost.estimators.preparation import remembering_failure
from privboost.estimators.running import ledger_path
from privboost.randomness.keystream import KeyStream
from privboost.search.task import SearchTask


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
        Measure of a run: "auc", "accuracy", "log_loss" or "brier" for classes, "rmse", "mae" or
        "r2" for a number. By default "auc" ("accuracy" beyond two classes), or "rmse". Residuals of
        a number are clipped to half the width of a model's clipping range of labels.
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
        task = SearchTask.of(self, X, y, sample_weight, keys)
        caution(self.epsilon, self.delta, self.random_state)
        with remembering_failure(self):
            ledger = task.reserve(self, ledger_path(self.ledger))
            ledger.charge(task.plan.release)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of other runs must stay hidden
                winner = task.search(keys)
            report = task.report(ledger, self)
        model = replace(winner.model, privacy=report)
        self.best_estimator_ = task.estimators[winner.candidate]
        self.best_estimator_._keep(model)
        self.best_params_ = dict(task.candidates[winner.candidate])
        self.best_score_ = winner.score
        self.best_score_std_ = winner.error
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
