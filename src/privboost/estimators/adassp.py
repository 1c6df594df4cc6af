"""Estimators of boosted linear models: BoostedAdaSSP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from sklearn.utils.metaestimators import available_if

from privboost.boosting.adassp import PRESETS, boost_adassp
from privboost.boosting.adassp_plan import (
    TWO_CLASSES,
    AdaSSPPlan,
    AdaSSPSettings,
    plan_adassp,
)
from privboost.boosting.adassp_terms import design, named_features
from privboost.boosting.checks import check_bins, check_choice, check_flag, check_size
from privboost.boosting.plan import Budget
from privboost.estimators.any_loss import AnyLossClassifier, has_log_odds
from privboost.estimators.class_weights import CLASSES_PARAMETER, weights_in_order
from privboost.estimators.parameters import (
    BUDGET_PARAMETERS,
    CLIPS_OF_A_NUMBER,
    RUN_PARAMETERS,
    SPAN_PARAMETER,
    TaskDefaults,
    keep_parameters,
)
from privboost.estimators.predictors import PrivateRegressor
from privboost.estimators.presets import PresetEstimator
from privboost.losses import losses_of
from privboost.models.linear import LinearScores
from privboost.models.loss_curve import loss_curve
from privboost.privacy.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder
from privboost.tables.features import ClassTarget, NumericFeature

_ROUNDS = """
    n_estimators : int
        Rounds; 1 is AdaSSP itself.
    learning_rate : float, optional
        What each round's step is multiplied by. Default 4 for the logistic loss, which bends less
        than the matrix says, and 1 for others.
    ratio : three floats
        a : b : c, how μ is divided between the matrix of products, the gradients of all rounds, and
        the smallest eigenvalue. With c = 0 the ridge follows the released matrix, which is free.
    ridge : float or "adassp", optional
        λ, added to the diagonal of the matrix: in rows (an entry of 1 adds 1 for each row); or by
        the rule of AdaSSP, for which c must be above 0. By default the least with which no
        direction is mere noise. Whatever it is, no direction counts for less than the noise in it.
    keep_stages : bool
        Whether the model keeps its coefficients after each round, for staged predictions and
        `loss_curve`."""

_COLUMNS = """
    gradient_clip : float
        What a row's gradient is clipped to, in the first round.
    clip_decay : float
        What the clip is multiplied by after each round: gradients shrink, and so may the noise.
    tail : float
        The last part of the rounds whose coefficients are averaged; 0 for the last round alone.
    bins : int, optional
        Cut numbers into so many bins (at most 192, or as many as given edges make) with an
        indicator each: an additive model. By default a number is one coordinate, scaled to
        [−1, 1] by its bounds.
    products : bool or sequence of pairs of feature names
        Which products of two features are added: none, all, or these.
    intercept : bool
        Whether there is a constant coordinate.
    norm_bound : float or "longest", optional
        The length of a row's vector beyond which it is shortened: smaller means less noise. The
        longest that bounds and categories allow shortens none. By default that of a row whose
        numbers are of the size of evenly spread ones."""


_SPAN = SPAN_PARAMETER.replace(", optional", "").partition(" Default")[0]


def _has_stages(estimator: Any) -> bool:
    if not estimator.keep_stages:
        raise AttributeError("stages need keep_stages=True when the model is fitted")
    return True


class AdaSSPEstimator(TaskDefaults, PresetEstimator):
    """What the classifier and the regressor share: plan, recipe, coefficients and stages."""

    _presets: ClassVar[Mapping[str, Mapping[str, Any]]] = PRESETS

    def coefficients(self) -> pa.Table:
        """Return the coefficients on the features' own scales: see `Model.coefficients`."""
        return self._fitted().coefficients()

    @available_if(_has_stages)
    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield predictions after each round, as if it were the last. Costs no privacy.

        To pick a stage by its exact errors on private rows does, and no ε covers it: use public or
        synthetic rows, or keep to the last stage.
        """
        return self._fitted().staged_predict(X)

    @available_if(_has_stages)
    def loss_curve(self, X: Any, y: Any = None) -> np.ndarray:
        """Return the mean loss on some rows after each round; the rows must be public.

        Of several classes it is the sum over all, each against the rest; of a number, half the
        squared error in parts of half the width of its span. Rows of an unknown target are left
        out.

        Parameters
        ----------
        X : data frame, array, or path of a file
            Public rows, as for `fit`.
        y : one-dimensional or str, optional
            Their target; by default the column of `X` that the domain names.

        Privacy
        -------
        None: an exact loss tells about every row in it, at any ε, and so does a number of rounds
        that is chosen by it. It is for public or synthetic rows, never for those of `fit`.
        """
        return loss_curve(self._fitted(), X, y)

    def _plan(self, encoder: Encoder, weight_bound: float | None, budget: Budget) -> AdaSSPPlan:
        loss = check_choice("loss", getattr(self, "loss", "squared"), losses_of("classes"))
        intercept = check_flag("intercept", self.intercept)
        rate = self.learning_rate
        if rate is None:
            rate = 4.0 if loss == "logistic" else 1.0
        countable = loss == "logistic" and intercept and self.class_weight is None
        settings = AdaSSPSettings(
            loss=loss,
            n_estimators=self.n_estimators,
            learning_rate=rate,
            ratio=self.ratio,
            gradient_clip=self.gradient_clip,
            clip_decay=self.clip_decay,
            tail=self.tail,
            class_weight=self._two_weights(encoder),
            ridge=self.ridge,
            keep_stages=self.keep_stages,
            calibration_share=self._share("calibration_share", countable),
            span_share=getattr(self, "span_share", 0.0),
        )
        bins, bound = self.bins, self.norm_bound
        own = design(
            encoder,
            bins if bins is None else check_bins("bins", bins, encoder),
            self.products,
            intercept,
            _check_norm_bound(bound),
        )
        return plan_adassp(encoder, settings, own, weight_bound, budget, self.accountant)

    def _two_weights(self, encoder: Encoder) -> str | tuple[float, float] | None:
        """Return the weights of the two classes in the model's order, if they are given."""
        weight = getattr(self, "class_weight", None)
        if not isinstance(weight, Mapping):
            return weight
        weights = weights_in_order(weight, encoder.domain.target)
        if len(weights) != 2:
            raise ValueError(TWO_CLASSES)
        return weights[0], weights[1]

    def _stand_in(self) -> Domain:
        names = dict.fromkeys(["x", *self._named_features()])
        features = tuple(NumericFeature(name, (0, 1)) for name in names)
        target = super()._stand_in().target
        weight = getattr(self, "class_weight", None)
        if isinstance(weight, Mapping) and len(weight) > 1:
            target = ClassTarget("y", tuple(weight))
        return Domain(features, target)

    def _named_features(self) -> list[str]:
        return named_features(self.products)

    def _boost(
        self, curator: Curator, plan: AdaSSPPlan, structures: KeyStream, track: Any
    ) -> LinearScores:
        return boost_adassp(curator, plan, track)  # which has no random structure


def _check_norm_bound(bound: Any) -> float | str | None:
    if isinstance(bound, str):
        return check_choice("norm_bound", bound, ("longest",), "a number", "None")
    return bound if bound is None else check_size("norm_bound", bound)


def _has_staged_chances(estimator: Any) -> bool:
    return _has_stages(estimator) and has_log_odds(estimator)


class BoostedAdaSSPClassifier(AdaSSPEstimator, AnyLossClassifier):  # noqa: D101
    __doc__ = f"""A private linear classifier, boosted from noisy sufficient statistics.
{BUDGET_PARAMETERS.rstrip()}
    loss : {{{", ".join(f'"{name}"' for name in losses_of("classes"))}}}
        What is minimised. Only the logistic loss gives probabilities.{_ROUNDS}{_COLUMNS}
    class_weight : dict or "balanced", optional
        Public weights of the two classes; or "balanced", and the rarer one weighs as much as the
        other, by released counts.
    calibration_share : float, optional
        The share of the budget (on μ²) of the counts of rows by score and class, which make
        probabilities honest; 0 leaves them out. Default 0.04 with the logistic loss, an intercept
        and no class_weight; without one of them there are none.{CLASSES_PARAMETER}
{RUN_PARAMETERS.replace("{ACCOUNTANTS}", '{"auto", "gdp", "rdp"}').lstrip(chr(10))}
    Examples
    --------
    >>> from privboost import BoostedAdaSSPClassifier
    >>> from privboost.datasets import load_adult
    >>> adult = load_adult()
    >>> clf = BoostedAdaSSPClassifier(epsilon=1.0, delta=1e-6, domain=adult.domain)
    >>> clf = clf.fit(adult.train)
    >>> clf.predict_proba(adult.test).shape
    (16281, 2)
    >>> clf.coefficients().column_names
    ['feature', 'value', 'coefficient']
    """
    _presets = {  # noqa: RUF012
        name: {"loss": "squared", "class_weight": None, "calibration_share": 0.0} | preset
        for name, preset in PRESETS.items()
    }
    _defaults: ClassVar[Mapping[str, Any]] = {"calibration_share": 0.04}

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        domain: Any = None,
        *,
        loss: str = "logistic",
        n_estimators: int = 25,
        learning_rate: float | None = None,
        ratio: tuple[float, float, float] = (1.0, 3.0, 0.0),
        ridge: float | str | None = None,
        keep_stages: bool = False,
        gradient_clip: float = 1.0,
        clip_decay: float = 1.0,
        tail: float = 0.5,
        bins: int | None = None,
        products: bool | Sequence[tuple[str, str]] = False,
        intercept: bool = True,
        norm_bound: float | str | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        calibration_share: float | None = None,
        classes: Any = None,
        domain_given: Any = None,
        domain_share: float = 0.1,
        domain_rows: str = "same",
        public_rows: bool = False,
        sample_weight_bound: float | None = None,
        accountant: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        backend: Any = "auto",
        ledger: Any = None,
        budget: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())

    @available_if(_has_stages)
    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Yield scores after each round, as if it were the last. Costs no privacy.

        To pick a stage by its exact errors on private rows does: see `staged_predict`.
        """
        return self._fitted().staged_decision_function(X)

    @available_if(_has_staged_chances)
    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield class probabilities after each round, as if it were the last. Costs no privacy.

        To pick a stage by its exact errors on private rows does: see `staged_predict`.
        """
        return self._fitted().staged_predict_proba(X)


class BoostedAdaSSPRegressor(AdaSSPEstimator, PrivateRegressor):  # noqa: D101
    __doc__ = f"""A private linear regressor, boosted from noisy sufficient statistics.

    {CLIPS_OF_A_NUMBER}
{BUDGET_PARAMETERS.rstrip()}{_ROUNDS}{_COLUMNS}{_SPAN}
{RUN_PARAMETERS.replace("{ACCOUNTANTS}", '{"auto", "gdp", "rdp"}').lstrip(chr(10))}
    Examples
    --------
    >>> import numpy as np
    >>> from privboost import BoostedAdaSSPRegressor
    >>> domain = {{"version": 1,
    ...           "features": {{"x": {{"kind": "numeric", "bounds": [0, 1]}}}},
    ...           "target": {{"name": "y", "bounds": [0, 1]}}}}
    >>> x = np.linspace(0, 1, 10_000)
    >>> model = BoostedAdaSSPRegressor(epsilon=1.0, delta=1e-6, domain=domain)
    >>> model = model.fit(x[:, None], 0.2 + 0.5 * x)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.45) < 0.1)
    True
    """
    _presets = {  # noqa: RUF012
        name: {"span_share": 0.0} | preset for name, preset in PRESETS.items()
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        domain: Any = None,
        *,
        n_estimators: int = 4,
        learning_rate: float | None = None,
        ratio: tuple[float, float, float] = (1.0, 3.0, 0.0),
        ridge: float | str | None = None,
        keep_stages: bool = False,
        gradient_clip: float = 1.0,
        clip_decay: float = 1.0,
        tail: float = 0.5,
        bins: int | None = None,
        products: bool | Sequence[tuple[str, str]] = False,
        intercept: bool = True,
        norm_bound: float | str | None = None,
        span_share: float = 0.05,
        domain_given: Any = None,
        domain_share: float = 0.1,
        domain_rows: str = "same",
        public_rows: bool = False,
        sample_weight_bound: float | None = None,
        accountant: str = "auto",
        random_state: int | None = None,
        n_jobs: int | None = None,
        backend: Any = "auto",
        ledger: Any = None,
        budget: Any = None,
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())
