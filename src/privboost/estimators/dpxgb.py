"""Estimators that boost greedy trees under (ε, δ): DP-XGB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from privboost.boosting.calibrated import calibrate_scores
from privboost.boosting.checks import check_size, widest_clip
from privboost.boosting.dpxgb import PRESETS, boost_dpxgb
from privboost.boosting.dpxgb_plan import DPXGBPlan, DPXGBSettings, plan_dpxgb
from privboost.boosting.initial_score import start_boosting
from privboost.boosting.newton import NewtonStep
from privboost.boosting.plan import Budget
from privboost.boosting.structures import RandomTrees
from privboost.estimators.class_weights import (
    CLASS_WEIGHT_PARAMETER,
    CLASSES_PARAMETER,
    WeighedClasses,
)
from privboost.estimators.parameters import (
    BUDGET_PARAMETERS,
    CLIPS_OF_A_NUMBER,
    RUN_PARAMETERS,
    SPAN_PARAMETER,
    TaskDefaults,
    keep_parameters,
)
from privboost.estimators.predictors import PrivateRegressor
from privboost.estimators.trees import TreeClassifier, TreeEstimator
from privboost.models.trees import TreeScores
from privboost.privacy.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.randomness.public_choices import public_generator
from privboost.tables.encoding import Encoder

_PARAMETERS = (
    BUDGET_PARAMETERS.rstrip()
    + """
    n_estimators : int
        Trees (for each class beyond two classes).
    max_depth : int
        Depth of the trees, at most 12; they are complete.
    greedy_depth : int, optional
        How many levels from the top are chosen privately; the others are drawn at random, which
        costs nothing. By default all.
    learning_rate : float
        What each tree's values are multiplied by.
    gradient_clip : float
        What a row's gradient is clipped to; a smaller clip means less noise.
    hessian_clip : float, optional
        The same for the Hessian. Default 0.25 for classes, 1 for a number.
    hessian_share : float, optional
        The share of the Hessian in a leaf's release. By default it balances the errors of both
        for values of a typical size.
    reg_lambda : float, optional
        λ, added to every leaf's sum of Hessians. By default half a standard deviation of its noise
        for classes, six for a number; 1 without noise.
    split_lambda : float
        λ of the score by which splits are chosen, in rows.
    leaf_clip : float, optional
        A tree's values are clipped to ± this before the learning rate. None leaves them as they
        are, up to what the grid of scores holds.
    init_share : float
        The share of the budget (on μ²) that the initial score takes; 0 for none.
    calibration_share : float, optional
        The same of the counts of rows by score and class, which make probabilities honest; 0
        leaves them out. Default 0.04 for classes; a number has none.
    shares : three floats that add up to 1
        How the rest of the budget (on μ²) is divided between the sketch of split candidates, the
        choice of splits, and leaves. Where there is no sketch, the others have its share.
    features : "all", "cyclical" or int
        Among which features a split is chosen: all; one a tree, in turn; or so many that are drawn
        for each tree.
    candidates : {"grid", "hessian"}
        Where numbers may be split: at `n_candidates` evenly spread edges, or at edges that follow
        released Hessians.
    n_candidates : int
        Split candidates of a number: at most 191, or as many as its given edges.
    candidate_rounds : int or "all"
        How often "hessian" candidates are refined: once, before the first tree; in so many
        rounds; or in all.
    sketch_bins : int, optional
        How many even spans of a number the sketch is about. By default the spans between its
        candidates."""
    + SPAN_PARAMETER.replace("{SHARE}", "0.05")
    + CLASS_WEIGHT_PARAMETER
    + CLASSES_PARAMETER
    + RUN_PARAMETERS.replace("{ACCOUNTANTS}", '{"auto", "game", "rdp"}')
)


class DPXGBEstimator(WeighedClasses, TaskDefaults, TreeEstimator):
    """What the classifier and the regressor share: parameters, plan and recipe."""

    _presets = PRESETS

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        domain: Any = None,
        *,
        n_estimators: int = 50,
        max_depth: int = 4,
        greedy_depth: int | None = None,
        learning_rate: float = 0.3,
        gradient_clip: float = 0.5,
        hessian_clip: float | None = None,
        hessian_share: float | None = None,
        reg_lambda: float | None = None,
        split_lambda: float = 1.0,
        leaf_clip: float | None = 2.0,
        init_share: float = 0.05,
        calibration_share: float | None = None,
        shares: tuple[float, float, float] = (0.1, 0.6, 0.3),
        features: str | int = "all",
        candidates: str = "grid",
        n_candidates: int = 32,
        candidate_rounds: str | int = 1,
        sketch_bins: int | None = None,
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

    def _plan(self, encoder: Encoder, weight_bound: float | None, budget: Budget) -> DPXGBPlan:
        settings = DPXGBSettings(
            n_estimators=self.n_estimators,
            max_depth=self.max_depth,
            greedy_depth=self.greedy_depth,
            features=self.features,
            candidates=self.candidates,
            n_candidates=self.n_candidates,
            candidate_rounds=self.candidate_rounds,
            sketch_bins=self.sketch_bins,
            init_share=self.init_share,
            calibration_share=self._or_default("calibration_share"),
            shares=self.shares,
            split_lambda=self.split_lambda,
            span_share=self._or_default("span_share"),
        )
        gradient_clip = check_size("gradient_clip", self.gradient_clip)
        hessian_clip = check_size("hessian_clip", self._or_default("hessian_clip"))
        share = self.hessian_share
        if share is None:
            share = NewtonStep.balanced_share(gradient_clip, hessian_clip, 0.25)
        rate = check_size("learning_rate", self.learning_rate)
        clip = self.leaf_clip
        step = NewtonStep(
            gradient_clip=gradient_clip,
            hessian_clip=hessian_clip,
            hessian_share=share,
            reg_lambda=1.0 if self.reg_lambda is None else self.reg_lambda,
            leaf_clip=widest_clip(settings.n_estimators, rate) if clip is None else clip,
            learning_rate=rate,
        )
        noise_lambda = self._defaults["noise_lambda"] if self.reg_lambda is None else None
        return plan_dpxgb(
            encoder, step, settings, weight_bound, budget, self.accountant, noise_lambda
        )

    def _boost(
        self, curator: Curator, plan: DPXGBPlan, structures: KeyStream, track: Any
    ) -> TreeScores:
        settings = plan.settings
        draws = RandomTrees(
            plan.encoder,
            settings.max_depth,
            settings.features,
            "one",
            public_generator(structures),
        )
        model = boost_dpxgb(curator, plan, draws, start_boosting(curator, plan), track)
        return calibrate_scores(curator, plan, plan.scores, model)


class DPXGBClassifier(DPXGBEstimator, TreeClassifier):  # noqa: D101
    __doc__ = f"""A private classifier of boosted greedy trees (DP-XGB).
{_PARAMETERS}
    Examples
    --------
    >>> from privboost import DPXGBClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = DPXGBClassifier(1.0, 1e-6, adult.domain, n_estimators=10, max_depth=3)
    >>> clf = clf.fit(adult.train)
    >>> clf.predict_proba(adult.test).shape
    (16281, 2)
    >>> clf.model_.to_text(most_trees=1).startswith("score at the start")
    True
    """
    _defaults: ClassVar[Mapping[str, Any]] = {
        "hessian_clip": 0.25,
        "noise_lambda": 0.5,
        "calibration_share": 0.04,
        "span_share": 0.0,
    }


class DPXGBRegressor(DPXGBEstimator, PrivateRegressor):  # noqa: D101
    __doc__ = f"""A private regressor of boosted greedy trees (DP-XGB).

    {CLIPS_OF_A_NUMBER}
{_PARAMETERS}
    Examples
    --------
    >>> import numpy as np
    >>> from privboost import DPXGBRegressor
    >>> domain = {{"version": 1,
    ...           "features": {{"x": {{"kind": "numeric", "bounds": [0, 1]}}}},
    ...           "target": {{"name": "y", "bounds": [0, 1]}}}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = DPXGBRegressor(epsilon=1.0, delta=1e-6, domain=domain, n_estimators=20)
    >>> model = model.fit(x[:, None], x**2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.2)
    True
    """
    _defaults: ClassVar[Mapping[str, Any]] = {
        "hessian_clip": 1.0,
        "noise_lambda": 6.0,
        "calibration_share": 0.0,
        "span_share": 0.05,
    }
