"""Estimators that boost greedy trees under pure ε: DP-XGBoost of Sarus, made sound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from privboost.boosting.calibrated import calibrate_scores
from privboost.boosting.checks import check_choice, check_share
from privboost.boosting.initial_score import start_boosting
from privboost.boosting.newton import NewtonStep
from privboost.boosting.plan import Budget
from privboost.boosting.sarus import PRESETS, boost_sarus
from privboost.boosting.sarus_plan import SarusPlan, SarusSettings, plan_sarus
from privboost.estimators.class_weights import (
    CLASS_WEIGHT_PARAMETER,
    CLASSES_PARAMETER,
    WeighedClasses,
)
from privboost.estimators.parameters import (
    CLIPS_OF_A_NUMBER,
    RUN_PARAMETERS,
    SPAN_PARAMETER,
    TaskDefaults,
    keep_parameters,
)
from privboost.estimators.predictors import PrivateRegressor
from privboost.estimators.trees import AnyLossTreeClassifier, TreeEstimator
from privboost.losses import newton_losses
from privboost.models.trees import TreeScores
from privboost.privacy.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.tables.encoding import Encoder

_PARAMETERS = (
    """
    Parameters
    ----------
    epsilon : float
        The privacy budget. It covers what `fit` does, not a search around it: exact scores on
        private rows are private at no ε.
    delta : float
        0 (the default) is pure DP. Above 0 the same mechanisms are composed under (ε, δ), with
        about half the noise.
    domain : Domain, dict or path, optional
        What is public about the table. Without it, `fit` learns one privately (see
        `domain_share`), where delta is 0 from what `domain_given` says; then `y` must be given.
    loss : str, optional
        What is minimised: "logistic" (the default of classes), or "squared", with classes as -1
        and 1, which gives no probabilities. A number has the squared loss alone.
    n_estimators : int
        Trees (for each class beyond two classes).
    max_depth : int
        Depth of the trees, at most 12; they are complete.
    learning_rate : float, optional
        What each tree's values are multiplied by. Default 0.3 for a number and with
        `geometric_clip`, else 1.
    subsample : float
        The chance of a row to be used for a tree: one sample for a tree's splits and leaves.
    gradient_clip : float
        What a row's gradient is clipped to.
    gradient_filter : float, optional
        Rows whose gradient is above this are left out of a tree. It must be below `gradient_clip`,
        above which there is none.
    leaves : {"sums", "means"}
        What of a leaf has noise: the sum of its gradients and its count; or the mean of its
        gradients, G/(n + λ), which one row moves by at most gradient_clip/(1 + λ). Means hide how
        many rows a leaf has, need far more noise, have no importances and take no weights.
    count_share : float
        The share of a leaf's count in its release; the sum of gradients has the rest. For sums.
    reg_lambda : float, optional
        λ, added to every leaf's count. By default half a standard deviation of its noise for
        classes, three for a number; with `leaves="means"`, or without noise, 1.
    split_lambda : float
        λ of the score by which splits are chosen, in rows.
    leaf_clip : float
        A tree's values are clipped to ± this before the learning rate.
    geometric_clip : bool
        Whether the clip shrinks by (1 − learning_rate) from tree to tree. The rate must be below
        1, which would leave nothing to all trees but the first; it is 0.3 unless given.
    min_child_weight : float
        Leaves whose released count is below this have the value 0. For sums.
    init_share : float
        The share of ε that the initial score takes; 0 for none.
    calibration_share : float, optional
        The share of ε of the counts of rows by score and class, which make probabilities honest;
        0 leaves them out. Default 0.04 for classes with the logistic loss; a number and the
        squared loss have none.
    shares : three floats that add up to 1
        How the rest of ε is divided between the sketch of split candidates, the choice of splits,
        and leaves. A sketch of share 0 leaves candidates evenly spread.
    n_candidates : int
        Split candidates of a number: at most 191, or as many as its given
        edges.
    sketch_bins : int, optional
        How many even spans of a number the sketch is about. By default the spans between its
        candidates.
    sketch_weights : {"count", "hessian"}
        What the sketch adds up: rows, or their Hessians.
    sketch_each_tree : bool
        Whether each tree has a sketch, on its own sample, instead of one before all trees; their
        share is divided among them."""
    + SPAN_PARAMETER.replace("{SHARE}", "0.2")
    + CLASS_WEIGHT_PARAMETER
    + CLASSES_PARAMETER
    + RUN_PARAMETERS.replace("{ACCOUNTANTS}", '{"auto", "pure", "game", "pld", "rdp"}')
)


class SarusEstimator(WeighedClasses, TaskDefaults, TreeEstimator):
    """What the classifier and the regressor share: parameters, plan and recipe."""

    _presets = PRESETS

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        domain: Any = None,
        *,
        loss: str | None = None,
        n_estimators: int = 20,
        max_depth: int = 4,
        learning_rate: float | None = None,
        subsample: float = 1.0,
        gradient_clip: float = 0.5,
        gradient_filter: float | None = None,
        leaves: str = "sums",
        count_share: float = 0.25,
        reg_lambda: float | None = None,
        split_lambda: float = 1.0,
        leaf_clip: float = 2.0,
        geometric_clip: bool = False,
        min_child_weight: float = 0.0,
        init_share: float = 0.05,
        calibration_share: float | None = None,
        shares: tuple[float, float, float] = (0.1, 0.45, 0.45),
        n_candidates: int = 32,
        sketch_bins: int | None = None,
        sketch_weights: str = "count",
        sketch_each_tree: bool = False,
        span_share: float | None = None,
        classes: Any = None,
        domain_given: Any = None,
        domain_share: float = 0.1,
        domain_rows: str = "same",
        public_rows: bool = False,
        sample_weight_bound: float | None = None,
        class_weight: Mapping[Any, float] | None = None,
        accountant: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        backend: Any = "auto",
        ledger: Any = None,
        budget: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    def _plan(self, encoder: Encoder, weight_bound: float | None, budget: Budget) -> SarusPlan:
        loss = check_choice("loss", self._or_default("loss"), newton_losses(self._task))
        settings = SarusSettings(
            n_estimators=self.n_estimators,
            max_depth=self.max_depth,
            subsample=self.subsample,
            n_candidates=self.n_candidates,
            init_share=self.init_share,
            calibration_share=self._share("calibration_share", loss == "logistic"),
            shares=self.shares,
            split_lambda=self.split_lambda,
            gradient_filter=self.gradient_filter,
            geometric_clip=self.geometric_clip,
            min_child_weight=self.min_child_weight,
            leaves=self.leaves,
            sketch_bins=self.sketch_bins,
            sketch_weights=self.sketch_weights,
            sketch_each_tree=self.sketch_each_tree,
            span_share=self._or_default("span_share"),
        )
        step = NewtonStep(
            gradient_clip=self.gradient_clip,
            hessian_clip=1.0,  # leaves count rows
            hessian_share=check_share("count_share", self.count_share),
            reg_lambda=1.0 if self.reg_lambda is None else self.reg_lambda,
            leaf_clip=self.leaf_clip,
            learning_rate=self._rate(settings.geometric_clip),
        )
        follows = self.reg_lambda is None and settings.leaves == "sums"
        noise_lambda = self._defaults["noise_lambda"] if follows else None
        return plan_sarus(
            encoder, step, settings, weight_bound, budget, self.accountant, noise_lambda, loss
        )

    def _rate(self, geometric_clip: bool) -> Any:
        """Return the learning rate: with a geometric clip the published one, unless given."""
        if self.learning_rate is None and geometric_clip:
            return 0.3
        return self._or_default("learning_rate")

    def _boost(
        self, curator: Curator, plan: SarusPlan, structures: KeyStream, track: Any
    ) -> TreeScores:
        model = boost_sarus(curator, plan, start_boosting(curator, plan), track)
        return calibrate_scores(curator, plan, plan.scores, model)


class SarusXGBClassifier(SarusEstimator, AnyLossTreeClassifier):  # noqa: D101
    __doc__ = f"""A classifier of boosted greedy trees under pure ε-DP.

    Leaves move scores by mean gradients, which are at most a half of what Newton steps would be;
    the learning rate and the leaf clip are of that size.
{_PARAMETERS}
    Examples
    --------
    >>> from privboost import SarusXGBClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = SarusXGBClassifier(epsilon=2.0, domain=adult.domain).fit(adult.train)
    >>> clf.predict_proba(adult.test).shape
    (16281, 2)
    >>> clf.privacy_.guarantee
    '2-differential privacy (pure)'
    """
    _defaults: ClassVar[Mapping[str, Any]] = {
        "loss": "logistic",
        "calibration_share": 0.04,
        "learning_rate": 1.0,
        "noise_lambda": 0.5,
        "span_share": 0.0,
    }


class SarusXGBRegressor(SarusEstimator, PrivateRegressor):  # noqa: D101
    __doc__ = f"""A regressor of boosted greedy trees under pure ε-DP.

    {CLIPS_OF_A_NUMBER}
{_PARAMETERS}
    Examples
    --------
    >>> import numpy as np
    >>> from privboost import SarusXGBRegressor
    >>> domain = {{"version": 1,
    ...           "features": {{"x": {{"kind": "numeric", "bounds": [0, 1]}}}},
    ...           "target": {{"name": "y", "bounds": [0, 1]}}}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = SarusXGBRegressor(epsilon=2.0, domain=domain).fit(x[:, None], x**2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.2)
    True
    """
    _defaults: ClassVar[Mapping[str, Any]] = {
        "loss": "squared",
        "calibration_share": 0.0,
        "learning_rate": 0.3,
        "noise_lambda": 3.0,
        "span_share": 0.2,
    }
