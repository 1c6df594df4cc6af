"""Estimator of smooth boosting: LazyBB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.utils.metaestimators import available_if

from privboost._core.checks import check_share
from privboost.data.encoding import Encoder
from privboost.estimators.base import PrivateClassifier
from privboost.estimators.foreign_parameters import answers_foreign_names
from privboost.estimators.mixins import TreeEstimator
from privboost.estimators.parameters import (
    ClassArguments,
    RunArguments,
    accountants,
    constructor,
    documented,
)
from privboost.estimators.preparation import MakePlan
from privboost.mechanisms.curator import Curator
from privboost.mechanisms.utilities import MOST_VOTES
from privboost.models.votes import NO_COUNT, VoteScores
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.target_range import TargetRange
from privboost.recipes.lazybb import (
    PRESETS,
    LazyBBParameters,
    LazyBBPlan,
    boost_lazybb,
    literals_of,
    plan_lazybb,
    votes_of_theory,
)


@dataclass(frozen=True, kw_only=True)
class LazyBBArguments(LazyBBParameters, ClassArguments, RunArguments):
    """Arguments of LazyBB's estimator."""

    accountant: str = accountants("pure", "game", "rdp", "advanced")


@documented
class LazyBBClassifier(TreeEstimator, PrivateClassifier):
    """A private majority vote of rules or small trees (LazyBB).

    Neighbours replace one row; the number of rows is public. There are no sample weights.

    Examples
    --------
    >>> from privboost import LazyBBClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = LazyBBClassifier(epsilon=0.4, delta=0, domain=adult.domain, n_estimators=9)
    >>> clf = clf.fit(adult.train)
    >>> clf.privacy_.guarantee
    '0.4-differential privacy (pure)'
    >>> clf.explain().column_names
    ['votes', 'feature', 'value']
    """

    sample_weight_bound = None
    _presets = PRESETS

    @constructor(LazyBBArguments)
    def __init__(self) -> None: ...

    @classmethod
    def from_advantage(cls, advantage: float, density: float, **parameters: Any) -> Self:
        """Return an estimator with the parameters for which large margins are proved.

        They are τ ≥ 16·ln(1/κ)/γ² votes and a rate of λ = γ/4: if each vote is right about
        ½ + γ of the weight, at most a part κ of the rows has a margin of γ or less. Far fewer
        votes at a faster rate are better in practice: noise leaves no vote its advantage for long.

        Parameters
        ----------
        advantage : float
            γ: each vote is right about ½ + γ of the weight; below ½.
        density : float
            κ, below 1.
        **parameters
            Any other parameter; they override those of the rule.

        Raises
        ------
        ValueError
            If more votes would be needed than selections are proved for.
        """
        gamma, kappa = check_share("advantage", advantage), check_share("density", density)
        if gamma >= 0.5:
            raise ValueError("advantage must be below 1/2: no vote is right about more than all")
        votes = votes_of_theory(gamma, kappa)
        if votes > MOST_VOTES:
            raise ValueError(
                f"advantage: theory needs {votes} votes for it, and at most {MOST_VOTES} are "
                "possible; give a larger advantage or density"
            )
        own = {"n_estimators": votes, "learning_rate": gamma / 4, "density": kappa}
        return cls(**(own | parameters))

    @answers_foreign_names
    def fit(  # type: ignore[override]
        self, X: Any, y: Any = None
    ) -> LazyBBClassifier:
        """Train a private model.

        Parameters
        ----------
        X : data frame, array, or path of a Parquet or CSV file
            The rows, as for all estimators.
        y : one-dimensional or str, optional
            The target, or the column of `X` that holds it; by default the one the domain names.

        Returns
        -------
        self

        Privacy
        -------
        Spends the whole budget (`epsilon`, `delta`) on these rows, where neighbours replace one of
        them; `privacy_` lists the releases. No value is read before its release is reserved; rows
        are counted before, where defaults of `n_estimators` or `density` follow their number.
        Earlier fits to the rows, and parameters that exact scores on them chose, are not covered at
        any ε.
        """
        super().fit(X, y)
        return self

    @available_if(lambda own: own.calibration_share != 0)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, in the order of `classes_`. Costs no privacy."""
        probabilities: np.ndarray = self._fitted().predict_proba(X, n_jobs=self.n_jobs)
        return probabilities

    def __getattr__(self, name: str) -> Any:
        if name == "predict_proba":
            raise AttributeError(
                "predict_proba: votes are no log-odds without calibration_share; see "
                "decision_function"
            )
        if name == "feature_importances_":
            raise AttributeError(NO_COUNT)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def explain(self) -> pa.Table:
        """Return the votes of each value of a feature as a table: see `Model.explain`."""
        return self._fitted().explain()

    def sparsity(self) -> dict[str, float]:
        """Return the numbers of votes, rules and features: see `Model.sparsity`.

        Returns
        -------
        dict
            Also with literals, the number of candidates (features of a one-hot coding), and share,
            the part of them that has a net vote.
        """
        model = self._fitted()
        chosen = model.privacy.parameters
        splits = literals_of(model.encoder, chosen["n_candidates"], chosen["literals"])
        literals = int(splits.allowed(splits.start_reach())[0, 1:].sum())
        named = zip(*model.explain().select(["feature", "value"]).to_pydict().values(), strict=True)
        used = len({line for line in named if line[0] in model.domain.feature_names})
        return model.sparsity() | {"literals": literals, "share": used / max(literals, 1)}

    def _planner(self, count: Callable[[], int]) -> MakePlan:
        given = self.n_estimators is not None and self.density is not None
        return partial(self._plan, n_rows=None if given else count())

    def _plan(
        self,
        encoder: Encoder,
        weight_bound: float | None,
        budget: Budget,
        n_rows: int | None = None,
    ) -> LazyBBPlan:
        return plan_lazybb(self.get_params(deep=False), encoder, budget, n_rows)

    def _boost(
        self,
        curator: Curator,
        plan: LazyBBPlan,
        target_range: TargetRange,
        public_choices: KeyStream,
        track: Any,
    ) -> VoteScores:
        return boost_lazybb(curator, plan, track)  # which has no random structure
