"""The estimator of smooth boosting: LazyBB."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.utils.metaestimators import available_if

from privboost.boosting.checks import check_count, check_part, check_share
from privboost.boosting.lazybb import boost_lazybb, literals_of
from privboost.boosting.lazybb_plan import (
    LazyBBPlan,
    LazyBBSettings,
    check_single_rows,
    density_for,
    plan_lazybb,
    rate_for,
    votes_for,
    votes_of_theory,
)
from privboost.boosting.lazybb_presets import PRESETS
from privboost.boosting.plan import Budget, Task
from privboost.estimators.class_weights import CLASSES_PARAMETER
from privboost.estimators.parameters import BUDGET_PARAMETERS, RUN_PARAMETERS, keep_parameters
from privboost.estimators.predictors import PrivateClassifier
from privboost.estimators.preparation import MakePlan
from privboost.estimators.trees import TreeEstimator
from privboost.models.votes import NO_COUNT, VoteScores
from privboost.privacy.curator import Curator
from privboost.privacy.utilities.smooth import MOST_VOTES
from privboost.randomness.keystream import KeyStream
from privboost.tables.encoding import Encoder

_PARAMETERS = (
    BUDGET_PARAMETERS.rstrip()
    + """
    n_estimators : int, optional
        Votes (for each class beyond two classes). By default as many as the budget affords for the
        number of rows, from 5 to 99 and odd. If it is even, a tie is a vote for the first class.
    learning_rate : float, optional
        How fast rows lose weight that are voted on rightly. By default 1.6 over the root of the
        number of votes.
    density : float, optional
        The part of the rows that the weight is spread over at least, in (0, 1]. A row's weight is
        at most one over `density` times the number of rows: the larger, the less noise. By default
        it falls from 0.5 to 0.15 with what the budget affords for the number of rows.
    learner : {"rule", "tree"}
        What votes: one feature's value (DP-1R), or a tree (DP-TopDown).
    n_splits : int
        Inner nodes of a tree: at most 30, and no leaf is more than ten splits deep.
    label_share : float
        The share of a tree's budget (on μ²) that the classes of its leaves have.
    n_candidates : int
        Thresholds of a number, evenly spread: at most 191, or as many as its given edges.
    literals : {"thresholds", "intervals"}
        What is asked of a number: whether it is above a threshold, or whether it lies between two
        that are next to each other (as one-hot coding of bins has it).
    criterion : {"gini"}
        What splits of a tree lower. Entropy is refused: it has no range of use.
    calibration_share : float
        The share of the budget (of ε where delta is 0, else on μ²) of the counts of rows by votes
        and class, which tell what a vote is worth: scores are log-odds then, and there are
        probabilities. 0 leaves a plain majority vote."""
    + CLASSES_PARAMETER
    + RUN_PARAMETERS.replace(
        "{ACCOUNTANTS}", '{"auto", "pure", "game", "rdp", "advanced"}'
    ).replace(
        """    sample_weight_bound : float, optional
        The public bound of sample weights; needed if weights are given to `fit`.
""",
        "",
    )
)


class LazyBBClassifier(TreeEstimator, PrivateClassifier):  # noqa: D101
    __doc__ = f"""A private majority vote of rules or small trees (LazyBB).

    Neighbours replace one row; the number of rows is public. There are no sample weights.
{_PARAMETERS}
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

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        domain: Any = None,
        *,
        n_estimators: int | None = None,
        learning_rate: float | None = None,
        density: float | None = None,
        learner: str = "rule",
        n_splits: int = 3,
        label_share: float = 0.5,
        n_candidates: int = 31,
        literals: str = "thresholds",
        criterion: str = "gini",
        calibration_share: float = 0.04,
        classes: Any = None,
        domain_given: Any = None,
        domain_share: float = 0.1,
        domain_rows: str = "same",
        public_rows: bool = False,
        accountant: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        backend: Any = "auto",
        ledger: Any = None,
        budget: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    @classmethod
    def from_advantage(cls, advantage: float, density: float, **parameters: Any) -> Self:
        """Return an estimator with the settings for which theory promises large margins.

        They are τ ≥ 16·ln(1/κ)/γ² votes and a rate of λ = γ/4: if each vote is right about
        ½ + γ of the weight, at most a part κ of the rows has a margin of γ or less. Far fewer
        votes at a faster rate are better in practice: noise leaves no vote its advantage for long.

        Parameters
        ----------
        advantage : float
            γ: how much more than half of the weight each vote is right about, below ½.
        density : float
            κ, below 1.
        **parameters
            Any other parameter; they come before the rule's.

        Raises
        ------
        ValueError
            If more votes would be needed than choices are proved for.
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
        them; `privacy_` says on what. All is reserved before a value is read; rows are counted
        before, where `n_estimators` or `density` is left to follow their number. What was fitted to
        the rows before, and parameters that exact scores on them chose, are not covered at any ε.
        """
        super().fit(X, y)
        return self

    @available_if(lambda own: own.calibration_share != 0)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, in the order of `classes_`. Costs no privacy."""
        chances: np.ndarray = self._fitted().predict_proba(X, n_jobs=self.n_jobs)
        return chances

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
        """Return the model as a card: how many votes each value of a feature has.

        See `Model.explain`.
        """
        return self._fitted().explain()

    def sparsity(self) -> dict[str, float]:
        """Return how many votes, rules and features the model has: see `Model.sparsity`.

        Returns
        -------
        dict
            Also with literals, how many there are to choose from (what one-hot coding calls
            features), and share, the part of them that has a net vote.
        """
        model = self._fitted()
        told = model.privacy.parameters
        splits = literals_of(model.encoder, told["n_candidates"], told["literals"])
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
        check_single_rows(encoder.domain)
        votes, density = self.n_estimators, self.density
        if n_rows is not None and encoder.domain.unit is not None:
            raise ValueError(
                "n_estimators and density must be given: their defaults follow the number of rows, "
                "and with a unit column only the number of units is public"
            )
        outputs = Task.of(encoder.domain.target).n_outputs
        if density is None:
            density = density_for(budget, n_rows or 0, outputs)
        if votes is None:
            density = check_part("density", density, or_else=1)
            votes = votes_for(budget, n_rows or 0, density, outputs)
        rate = self.learning_rate
        if rate is None:
            rate = rate_for(check_count("n_estimators", votes))
        settings = LazyBBSettings(
            n_estimators=votes,
            learning_rate=rate,
            density=density,
            learner=self.learner,
            n_splits=self.n_splits,
            label_share=self.label_share,
            n_candidates=self.n_candidates,
            literals=self.literals,
            criterion=self.criterion,
            calibration_share=self.calibration_share,
        )
        return plan_lazybb(encoder, settings, budget, self.accountant)

    def _boost(
        self, curator: Curator, plan: LazyBBPlan, structures: KeyStream, track: Any
    ) -> VoteScores:
        return boost_lazybb(curator, plan, track)  # which has no random structure
