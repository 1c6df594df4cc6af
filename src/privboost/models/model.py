"""`Model`: a trained model, its predictions and explanations, and its file.

A file is JSON and plain arrays, and loading it runs no code. It holds released values and public
facts: no time, host, backend, seed or key. Every part is checked against the domain in the same
file, so that no file can make a model read foreign memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import MethodType
from typing import Any, NoReturn, Self

import numpy as np
import pyarrow as pa
from scipy.special import expit, log_expit, softmax

from privboost._core import codec
from privboost._core.checks import check_share
from privboost._core.errors import DomainError, ModelFileError
from privboost._core.files import UNREADABLE, FileKind, write_file
from privboost._core.grid import BLOCK_ROWS, FULL_RANGE, SCORE_STEPS
from privboost._core.pickling import DeclaredState
from privboost._core.warnings import warn_of_exact_score
from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.features import NumericFeature
from privboost.data.loading import open_source
from privboost.data.rows import Codes
from privboost.data.scales import from_scale
from privboost.data.targets import ClassTarget, NumberTarget, SurvivalTarget, Target, has_log_bounds
from privboost.data.values import read_numbers
from privboost.distributed.frames import accepts_remote_frames, is_remote
from privboost.explanations.explanation import Explanation, LocalExplanation
from privboost.explanations.terms import Finding
from privboost.models.additive import AdditiveScores
from privboost.models.checks import (
    need,
    need_keys,
    need_list,
    need_text,
    need_whole,
    read_encoder,
    read_report,
)
from privboost.models.explain import explain_model, explain_rows
from privboost.models.findings import find
from privboost.models.interactions import InteractionScores
from privboost.models.intervals import Nonconformity
from privboost.models.linear import LinearScores
from privboost.models.scores import NO_ERRORS, Scores
from privboost.models.survival import check_times, concordance
from privboost.models.trees import MarginScores, TreeScores
from privboost.models.votes import CalibratedVotes, VoteScores
from privboost.reports.report import PrivacyReport

IDENTITY, LOG, SOFTMAX = "identity", "log", "softmax"
"""Links of scores: with the last, those of several classes are logarithms of probabilities."""

_FAR_BEYOND = 20.0
"""Farthest logarithm of a predicted time beyond the bounds of times: medians may lie there."""

_DEEP = 60.0
"""Least logarithm of a prediction whose lower bound is 0, below that of the upper bound."""


def _need_log_odds(model: Model) -> None:
    """Raise AttributeError unless scores are log-odds."""
    if not isinstance(model.domain.target, ClassTarget):
        raise AttributeError("predict_proba: the target is a number")
    if not model.has_probabilities:
        raise AttributeError(
            "predict_proba: the scores of this model are not log-odds; see decision_function"
        )


class _WhereLogOdds:
    """A method that a model has only where scores are log-odds.

    As scikit-learn's `available_if`; but a model can be loaded without importing scikit-learn.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, model: Model | None, owner: type | None = None) -> Callable[..., Any]:
        if model is None:
            return self._method
        _need_log_odds(model)
        return MethodType(self._method, model)


@dataclass(frozen=True, eq=False, repr=False)
class Model(DeclaredState):
    """A trained model, which predicts from any table with the domain's features.

    It holds released values only. scikit-learn's tools accept it as a fitted estimator (`score`,
    displays, the last step of a `Pipeline`); tools that would fit it again are refused.

    Attributes
    ----------
    encoder : Encoder
        The domain and the edges of its bins.
    scores : Scores
        The released values.
    privacy : PrivacyReport
        The privacy report of training.
    span : (int, int)
        The target clipping range of a number in `grid.LABEL_STEPS`, to which scores of −1 and 1
        correspond; by default its bounds.
    nonconformity : Nonconformity, optional
        The released histogram that prediction intervals, or sets of classes, follow from.
    link : {"identity", "log", "softmax"}
        With "log", the score of a number is the logarithm of its mean, so that effects are
        factors. With "softmax", the scores of several classes are logarithms of probabilities but
        for a constant of each row; else each is the log-odds of its class against the rest, and
        probabilities are in proportion to σ(score).
    exposure : str or None
        With a log link, the feature in proportion to which a number grows, if there is one.
    """

    encoder: Encoder
    scores: Scores
    privacy: PrivacyReport
    span: tuple[int, int] = FULL_RANGE
    nonconformity: Nonconformity | None = None
    link: str = IDENTITY
    exposure: str | None = None

    def __repr__(self) -> str:
        features, target = len(self.domain.features), self.domain.target.name
        return (
            f"Model({self.scores.kind}, {features} features -> {target}; {self.privacy.guarantee})"
        )

    @property
    def domain(self) -> Domain:
        """The public description of the table."""
        return self.encoder.domain

    @property
    def classes(self) -> np.ndarray:
        """The classes in sorted order."""
        if not isinstance(self.domain.target, ClassTarget):
            raise AttributeError("classes: the target is a number")
        return np.array(self.domain.target.ordered)

    @property
    def middle_and_half(self) -> tuple[float, float]:
        """Intercept and slope from score to target: its value at 0, and its change for 1.

        They are 0 and 1 for classes; those of a number are on the scale of effects: the target's
        declared one, or logarithms of means.
        """
        if self.link == LOG:
            return 0.0, 1.0
        return self.domain.target.middle_and_half(self.span)

    @property
    def scale_name(self) -> str:
        """The scale of effects on a number: "linear" or "log"."""
        target = self.domain.target
        if self.link == LOG or isinstance(target, ClassTarget):
            return "log" if self.link == LOG else "linear"
        return target.scale

    @property
    def scale_(self) -> float:
        """The scale s of log times around their median: S(t) = 1/(1 + (t/median)^(1/s)).

        It is released, or was declared (`scale`), and all rows share it. AttributeError where the
        target is no survival time.
        """
        own = self.scores.time_scale
        if own is None:
            raise AttributeError("scale_: the target is no survival time")
        return float(own[0]) * self.middle_and_half[1]

    @property
    def inverse_scale_name(self) -> str:
        """The function from the scale of effects to numbers; see `scales.inverse_scale_name`."""
        target = self.domain.target
        assert not isinstance(target, ClassTarget)
        return "exp" if self.link == LOG else target.inverse_scale_name

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of predictions of a number: those of the released clipping range, if any.

        Predicted survival times may lie beyond: most rows may still live where all are censored.
        """
        if isinstance(self.domain.target, ClassTarget):
            raise AttributeError("bounds: the target is a class")
        if self.link == LOG:
            middle, half = self.domain.target.middle_and_half(self.span)
            return max(middle - half, 0.0), middle + half
        low, high = self.numbers(np.array([-1.0, 1.0]))
        return float(low), float(high)

    @property
    def middle_and_half_of_labels(self) -> tuple[float, float]:
        """The middle of a number's clipping range and half its width, on a linear scale."""
        target = self.domain.target
        if isinstance(target, ClassTarget) or self.scale_name == "linear":
            return self.middle_and_half
        low, high = self.bounds
        return low + (high - low) / 2, (high - low) / 2

    @property
    def scaled_bounds(self) -> tuple[float, float]:
        """The bounds of predictions of a number, on the scale of effects."""
        target = self.domain.target
        assert not isinstance(target, ClassTarget)
        if self.link == LOG:
            low, high = self.bounds
            last = math.log(high)
            return math.log(low) if low > 0 else last - _DEEP, last
        middle, half = self.middle_and_half
        low, high = target.scaled_bounds
        if isinstance(target, SurvivalTarget):
            return low - _FAR_BEYOND, high + _FAR_BEYOND
        return max(low, middle - half), min(high, middle + half)

    def numbers(self, scores: np.ndarray) -> np.ndarray:
        """Return predictions of a number from scores, within `bounds`."""
        target = self.domain.target
        assert not isinstance(target, ClassTarget)
        middle, half = self.middle_and_half
        own = np.clip(middle + half * scores, *self.scaled_bounds)
        if self.link == LOG:
            means: np.ndarray = np.clip(from_scale(own, (1.0, 2.0), LOG), *self.bounds)
            return means
        if isinstance(target, SurvivalTarget):
            return target.from_scale(own)
        numbers: np.ndarray = np.clip(target.from_scale(own), *target.bounds)
        return numbers

    @accepts_remote_frames
    def decision_function(
        self, data: Any, return_std: bool = False, n_jobs: int | None = None
    ) -> Any:
        """Return scores: of shape (rows,), or (rows, classes) beyond two classes.

        Parameters
        ----------
        return_std : bool
            Whether to also return the standard error that the noise of training gives to each; see
            `effects`.
        n_jobs : int, optional
            The number of threads, as in every estimator.

        Raises
        ------
        AttributeError
            With `return_std`, where the standard errors of scores are unknown.
        """
        if not return_std:
            return self._by_row(self.encoder.map_codes(data, self.scores.scores, n_jobs), np.int32)
        if not self.scores.has_errors:
            raise AttributeError(NO_ERRORS)

        def score(codes: Codes) -> tuple[np.ndarray, np.ndarray]:
            return self.scores.scores(codes), np.sqrt(self.scores.variances(codes))

        both = self.encoder.map_codes(data, score, n_jobs)
        return (
            self._by_row([scores for scores, _ in both], np.int32),
            self._by_row([errors for _, errors in both], np.float64),
        )

    def _by_row(self, blocks: list[np.ndarray], dtype: type) -> np.ndarray:
        """Return blocks of shape (outputs, rows) as one array in units of scores, rows first."""
        empty: np.ndarray = np.empty((self.scores.n_outputs, 0), dtype=dtype)
        joined: np.ndarray = np.concatenate([empty, *blocks], axis=1) / SCORE_STEPS
        return joined[0] if len(joined) == 1 else joined.T

    @property
    def has_errors(self) -> bool:
        """Whether the standard errors of scores are known."""
        return self.scores.has_errors

    def staged_decision_function(self, data: Any) -> Iterator[np.ndarray]:
        """Yield the scores after each update of training; the last are `decision_function`'s."""
        blocks = list(self.encoder.feature_codes(data))
        for stage in zip(*map(self.scores.staged_scores, blocks), strict=True):
            yield self._by_row(list(stage), np.int32)

    @_WhereLogOdds
    @accepts_remote_frames
    def predict_proba(self, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        """Return class probabilities, in the order of `classes`.

        Parameters
        ----------
        return_std : bool
            Whether to also return the standard error that noise gives to each, to first order; see
            `decision_function`.
        n_jobs : int, optional
            The number of threads, as in every estimator.
        """
        if not return_std:
            return self.probabilities_of(self.decision_function(data, n_jobs=n_jobs))
        scores, errors = self.decision_function(data, return_std=True, n_jobs=n_jobs)
        found = self.probabilities_of(scores)
        if scores.ndim == 1:
            return found, (found[:, :1] * found[:, 1:] * errors[:, None]).repeat(2, axis=1)
        moves = errors**2
        if self.link != SOFTMAX:
            moves = (expit(-scores) * errors) ** 2  # the variances of log σ(score)
        own = (1 - 2 * found) * moves  # (1 − q)² = q² + (1 − 2q)
        return found, found * np.sqrt(own + (found**2 * moves).sum(axis=1, keepdims=True))

    def staged_predict_proba(self, data: Any) -> Iterator[np.ndarray]:
        """Yield class probabilities after each update of training."""
        if not self.scores.staged_log_odds:
            raise AttributeError("staged probabilities: a vote's stages are votes, and no log-odds")
        return map(self.probabilities_of, self.staged_decision_function(data))

    @accepts_remote_frames
    def predict(self, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        """Return the most probable class, or the predicted number within `bounds`.

        Parameters
        ----------
        return_std : bool
            For a number: whether to also return the standard error that noise gives to each; see
            `decision_function`. On a log scale it is to first order.
        n_jobs : int, optional
            The number of threads, as in every estimator.
        """
        if not return_std:
            return self.prediction_of(self.decision_function(data, n_jobs=n_jobs))
        if isinstance(self.domain.target, ClassTarget):
            raise AttributeError("return_std: a class has no standard error; see predict_proba")
        scores, errors = self.decision_function(data, return_std=True, n_jobs=n_jobs)
        numbers = self.prediction_of(scores)
        if self.link == LOG:
            return numbers, errors * numbers
        return numbers, errors * self.middle_and_half[1] * self.domain.target.slope(numbers)

    def predict_rate(self, data: Any, n_jobs: int | None = None) -> Any:
        """Return the predicted number of each row for an exposure of 1.

        The column of exposures must be there, and its values change nothing.

        Raises
        ------
        AttributeError
            If the model was trained without an exposure.
        """
        if self.exposure is None:
            raise AttributeError("predict_rate: the model was trained without an exposure")
        if is_remote(data):
            raise ValueError("predict_rate: rows of a cluster are not collected; pass local rows")
        feature = self.domain.feature_names.index(self.exposure)
        values = self.scores.feature_values()[feature]

        def score(codes: Codes) -> np.ndarray:
            rate: np.ndarray = self.scores.scores(codes) - values[:, codes.column(feature)]
            return rate

        scores = self._by_row(self.encoder.map_codes(data, score, n_jobs), np.int32)
        return from_scale(np.clip(scores, *self.scaled_rate_bounds), (1.0, 2.0), LOG)

    def predict_survival_function(
        self, data: Any, times: Any, n_jobs: int | None = None
    ) -> np.ndarray:
        """Return the probability that the event of each row comes after each time.

        It is σ((F − log t)/s), with the logarithm F of the predicted median and a scale s that all
        rows share, so that it falls from 1 to 0 as time goes on. Beyond the times of training it is
        an extrapolation.

        Parameters
        ----------
        data : data frame, array, or path of a file
            The rows.
        times : float, or sequence of float
            The times, 0 or more, in any order; one alone gives one column.
        n_jobs : int, optional
            The number of threads, as in every estimator.

        Returns
        -------
        float64 array of shape (rows, times)

        Raises
        ------
        AttributeError
            Where the target is no survival time.
        """
        if not isinstance(self.domain.target, SurvivalTarget):
            raise AttributeError("predict_survival_function: the target is no survival time")
        found = check_times(times)
        if is_remote(data):
            raise ValueError(
                "predict_survival_function: rows of a cluster are not collected; pass local rows"
            )
        return self.survival_of(self.decision_function(data, n_jobs=n_jobs), found)

    def survival_of(self, scores: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Return survival functions from scores of `decision_function`: one line a row."""
        target, scale = self.domain.target, self.scores.time_scale
        assert isinstance(target, SurvivalTarget)
        assert scale is not None
        middle, half = self.middle_and_half
        with np.errstate(divide="ignore"):
            at = np.where(times > 0, target.to_scale(np.where(times > 0, times, 1.0)), -np.inf)
        survival: np.ndarray = expit((scores[:, None] - (at - middle) / half) / scale[0])
        return survival

    @property
    def scaled_rate_bounds(self) -> tuple[float, float]:
        """The bounds of the logarithms of rates: those of numbers at the extreme exposures."""
        exposure = self.domain.features[self.domain.feature_names.index(str(self.exposure))]
        assert isinstance(exposure, NumericFeature)
        (low, high), (least, most) = self.scaled_bounds, exposure.bounds
        return low - math.log(most), high - math.log(least)

    def predict_interval(
        self, data: Any, coverage: float = 0.9, n_jobs: int | None = None
    ) -> np.ndarray:
        """Return an interval for the number of each row, within the target's declared bounds.

        Intervals come from split conformal prediction on the units that training put aside. For a
        new unit, drawn like those of training, the interval contains the number with a probability
        of at least 0.8 · `coverage`, whatever the model and the distribution are, and in general of
        a little more than `coverage`: in at most one fit of five does noise make intervals shorter
        than those without noise. Numbers beyond the declared bounds count as the nearer of the two.
        They are symmetric around the score; with a log link they are wider where means are larger,
        see `interval_half_width`.

        Parameters
        ----------
        data : data frame, array, or path of a file
            The rows.
        coverage : float
            The fraction of rows whose number the interval should contain, strictly between 0 and 1.
        n_jobs : int, optional
            The number of threads, as in every estimator.

        Returns
        -------
        float64 array of shape (rows, 2)
            The lower and the upper end. They are the declared bounds where too few units were put
            aside for so large a coverage and so much noise.

        Raises
        ------
        AttributeError
            Where no units were put aside: `conformal_fraction` was 0.

        Examples
        --------
        >>> import numpy as np
        >>> from privboost import PrivBoostRegressor
        >>> domain = {"version": 1,
        ...           "features": {"x": {"kind": "numeric", "bounds": [0, 1]}},
        ...           "target": {"name": "y", "bounds": [0, 1]}}
        >>> x = np.linspace(0, 1, 10_000)
        >>> reg = PrivBoostRegressor(3.0, 1e-6, domain, conformal_fraction=0.2)
        >>> ends = reg.fit(x[:, None], x**2).predict_interval([[0.5]], coverage=0.9)
        >>> ends.shape
        (1, 2)
        >>> bool(0 <= ends[0, 0] < ends[0, 1] <= 1)
        True
        """
        half = self.interval_half_width(coverage)
        if is_remote(data):
            raise ValueError(
                "predict_interval: rows of a cluster are not collected; add the half width "
                "(interval_half_width) to decision_function, or pass local rows"
            )
        scores = self.decision_function(data, n_jobs=n_jobs)
        if self.link == LOG:
            return self._relative_interval(scores, coverage)
        return np.stack([self._clipped_to_target(scores + end) for end in (-half, half)], axis=1)

    def _relative_interval(self, scores: np.ndarray, coverage: float) -> np.ndarray:
        """Return the intervals of rows whose scores are logarithms of means."""
        target, terms = self.domain.target, self.interval_terms(coverage)
        assert isinstance(target, NumberTarget)
        if terms is None:
            return np.tile(np.array(target.bounds, dtype=np.float64), (len(scores), 1))
        assert self.nonconformity is not None
        assert self.nonconformity.scale is not None
        scale = self.nonconformity.scale
        scores = np.clip(scores, *scale.limits)
        mean, spread = (
            from_scale(own, (1.0, 2.0), LOG) for own in (scores, scores * scale.power / 2)
        )
        ends = [np.clip(a * mean + b * spread + c, *target.bounds) for a, b, c in terms]
        return np.stack(ends, axis=1)

    def interval_terms(self, coverage: float) -> tuple[tuple[float, float, float], ...] | None:
        """Return what the ends of intervals are sums of, with a log link; None for the bounds.

        See `RelativeScale.terms`.
        """
        found, target = self.nonconformity, self.domain.target
        assert found is not None
        assert found.scale is not None
        assert isinstance(target, NumberTarget)
        edge = found.threshold(coverage)
        return None if edge is None else found.scale.terms(edge, target.middle_and_half()[1])

    def interval_half_width(self, coverage: float = 0.9) -> float:
        """Return half the width of prediction intervals in scores; infinite for the bounds.

        The interval of a row with the score s (`decision_function`) goes from s − h to s + h; on
        the target's declared scale that is `middle_and_half[1]` times as wide. With a log link it
        goes from m − h·m^(p/2) to m + h·m^(p/2) about the mean m, p the power of the loss (1 for
        "poisson", 2 for "gamma"), a little rounded up.

        Parameters
        ----------
        coverage : float
            As in `predict_interval`.
        """
        if self.nonconformity is None or isinstance(self.domain.target, ClassTarget):
            raise AttributeError(
                "predict_interval: no units were put aside for intervals; only a regressor with a "
                "conformal_fraction above 0 has them"
            )
        share = check_share("coverage", coverage)
        if self.link == LOG:
            terms = self.interval_terms(share)
            return math.inf if terms is None else terms[1][1]
        return self.nonconformity.half_width(share)

    def predict_set(
        self, data: Any, coverage: float = 0.9, n_jobs: int | None = None
    ) -> np.ndarray:
        """Return a set of classes for each row, which holds the row's own with this probability.

        Sets come from split conformal prediction on the units that training put aside, and what
        `predict_interval` promises holds for them. They hold all classes whose score is high
        enough, and the most probable class in any case.

        Parameters
        ----------
        data : data frame, array, or path of a file
            The rows.
        coverage : float
            The fraction of rows whose class the set should hold, strictly between 0 and 1.
        n_jobs : int, optional
            The number of threads, as in every estimator.

        Returns
        -------
        bool array of shape (rows, classes)
            Whether each class is in the set, in the order of `classes`. All are where too few units
            were put aside for so large a coverage and so much noise.

        Raises
        ------
        AttributeError
            Where no units were put aside: `conformal_fraction` was 0.

        Examples
        --------
        >>> from privboost import PrivBoostClassifier
        >>> from privboost.datasets import load_adult
        >>> adult = load_adult()
        >>> clf = PrivBoostClassifier(1.0, 1e-6, adult.domain, conformal_fraction=0.2)
        >>> sets = clf.fit(adult.train).predict_set(adult.test, coverage=0.9)
        >>> sets.shape
        (16281, 2)
        >>> bool(1 < sets.sum(axis=1).mean() < 1.5)
        True
        """
        if self.nonconformity is None or not isinstance(self.domain.target, ClassTarget):
            raise AttributeError(
                "predict_set: no units were put aside for sets of classes; only a classifier with "
                "a conformal_fraction above 0 has them"
            )
        edge = self.nonconformity.threshold(check_share("coverage", coverage))
        if is_remote(data):
            raise ValueError("predict_set: rows of a cluster are not collected; pass local rows")
        scores = self.decision_function(data, n_jobs=n_jobs)
        by_class = np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores
        if edge is None:
            return np.ones(by_class.shape, dtype=np.bool_)
        sets: np.ndarray = -by_class < edge / SCORE_STEPS
        sets[np.arange(len(sets)), by_class.argmax(axis=1)] = True
        return sets

    def _clipped_to_target(self, scores: np.ndarray) -> np.ndarray:
        """Return the numbers of scores, within the target's declared bounds."""
        target = self.domain.target
        assert not isinstance(target, ClassTarget)
        middle, half = self.middle_and_half
        own = np.clip(middle + half * scores, *target.scaled_bounds)
        numbers: np.ndarray = np.clip(target.from_scale(own), *target.bounds)
        return numbers

    def staged_predict(self, data: Any) -> Iterator[np.ndarray]:
        """Yield predictions after each update of training."""
        return map(self.prediction_of, self.staged_decision_function(data))

    @property
    def has_probabilities(self) -> bool:
        """Whether scores are log-odds of classes, so that there are probabilities."""
        return isinstance(self.domain.target, ClassTarget) and self.scores.log_odds

    def probabilities_of(self, scores: np.ndarray) -> np.ndarray:
        """Return class probabilities from scores of `decision_function`."""
        _need_log_odds(self)
        if scores.ndim == 1:
            both = np.empty((len(scores), 2))
            expit(scores, out=both[:, 1])
            np.subtract(1, both[:, 1], out=both[:, 0])
            return both
        logs = scores if self.link == SOFTMAX else log_expit(scores)  # σ(score) may underflow
        found: np.ndarray = softmax(logs, axis=1)
        return found

    def prediction_of(self, scores: np.ndarray) -> np.ndarray:
        """Return predictions from scores of `decision_function`."""
        if isinstance(self.domain.target, ClassTarget):
            best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
            named: np.ndarray = self.classes[best]
            return named
        return self.numbers(scores)

    def effects(self) -> pa.Table:
        """Return the effect of each feature and bin on the score.

        A row's score is the sum of its effects and a start (`scores.start`), plus the interactions
        of models that have any (`scores.pairs`, `scores.trees`). Neighbouring codes with the same
        effect are merged. Values of hardly any row (between whole numbers, or missing where none
        is) have an effect of noise alone. Levels are those of training; those of `explain_global`
        have a mean of 0.

        For classes the score is the log-odds (of the second class, or of each class beyond two);
        for a number, an effect is on the target's declared scale, or with a log link the logarithm
        of a factor of the mean.

        Returns
        -------
        pyarrow.Table
            With columns feature, values, effect and std, and class beyond two classes. std is the
            standard error that the noise of training gives to an effect, without that of its
            feature's mean effect (levels move freely between features and the start); null where it
            is unknown. It includes neither the sampling error of the rows nor the bias of coarse
            bins and shrinkage.
        """
        return self.scores.effect_table(self)

    def pairs(self) -> pa.Table:
        """Return the joint effects of pairs of features, in addition to their own effects.

        Returns
        -------
        pyarrow.Table
            With columns feature, values, other feature, other values, effect and std (see
            `effects`), and class beyond two classes; without rows where no pair was measured.

        Raises
        ------
        AttributeError
            Where the recipe has no pairs.
        """
        return self.scores.pair_table(self)

    def explain(self) -> pa.Table:
        """Return a summary of a vote of rules: the votes of each value of a feature.

        A rule votes for the second class (or its own, beyond two classes) where it holds, and
        against it elsewhere; negative votes are the other way round. Rules whose votes cancel are
        left out.

        Returns
        -------
        pyarrow.Table
            With columns votes, feature and value, and class beyond two classes; from the most
            votes to the fewest.
        """
        return self.scores.vote_table(self)

    def findings(self) -> tuple[Finding, ...]:
        """Return findings, which follow from the content of the model file.

        They are a part of `explain_global`, and faster to compute alone.
        """
        return find(self)

    def explain_global(self) -> Explanation:
        """Explain the model: shapes, pairs, trees, lists, and findings.

        Models of all recipes have the same structure: a row's score is the sum of the start,
        shapes, pairs and trees. Explanations use released values and cost no privacy.

        Returns
        -------
        Explanation
            With `to_text`, `to_dict` and `plot`, as for each of its parts.
        """
        return explain_model(self)

    def explain_local(self, data: Any) -> LocalExplanation:
        """Explain the scores of rows, at no cost for the privacy of the training rows.

        Parameters
        ----------
        data : data frame, array, or path of a file
            The caller's rows; the explanation is as private as they are.

        Returns
        -------
        LocalExplanation
            Contributions of features, pairs and trees that add up to the score, and exact Shapley
            values of the features.
        """
        if is_remote(data):
            raise ValueError("explain_local: rows of a cluster are not collected; pass local rows")
        return explain_rows(self, data)

    def sparsity(self) -> dict[str, int]:
        """Return the size of a vote of rules: votes, and rules and features with a net vote.

        Returns
        -------
        dict
            With votes, rules, features, and of_features, the number of features of the domain.
        """
        rules = self.explain()
        named = set(rules["feature"].to_pylist()) & set(self.domain.feature_names)
        return {
            "votes": self.scores.n_trees,
            "rules": rules.num_rows,
            "features": len(named),
            "of_features": len(self.domain.features),
        }

    def coefficients(self) -> pa.Table:
        """Return a linear model's coefficients, on the scale of the table.

        The coefficient of a number is per 1 (on a log scale: from −1 to 1), that of an indicator
        for its value. Coefficients add up to the score of a class; for a number, to the prediction,
        or to its logarithm where the target has a log scale.

        Returns
        -------
        pyarrow.Table
            With columns feature, value and coefficient, and class beyond two classes.
        """
        return self.scores.coefficient_table(self)

    def feature_importances(self, return_std: bool = False) -> Any:
        """Return the share of each feature in the variance of scores; see `Scores.importances`.

        Shares add up to 1, or are all 0. They follow from released values and cost no privacy.

        Parameters
        ----------
        return_std : bool
            Whether to also return the standard error that noise gives to each.

        Raises
        ------
        AttributeError
            Where no mass of values was released: votes, linear models without an intercept, files
            of earlier versions. With `return_std`, where the standard errors are unknown.
        """
        if not return_std:
            return self.scores.importances()
        return self.scores.importances(), self.scores.importance_errors()

    def to_text(self, most_trees: int | None = None) -> str:
        """Return a text of the model: for trees, the conditions and value of each leaf.

        A vote of rules is a list of rules (see `explain`), a linear model the list of its
        `coefficients`, an additive model its explanation (see `explain_global`).

        Parameters
        ----------
        most_trees : int, optional
            The largest number of trees.
        """
        return self.scores.to_text(self, most_trees)

    def save(self, path: str | Path) -> None:
        """Write the model to a file (see `load_model`)."""
        save_model(self, path)

    # scikit-learn's tools accept a model as a fitted estimator without parameters.

    @property
    def classes_(self) -> np.ndarray:
        """Sorted class labels."""
        return self.classes

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return len(self.domain.features)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features."""
        return np.array(self.domain.feature_names, dtype=object)

    def fit(self, X: Any, y: Any = None, **more: Any) -> NoReturn:
        """Raise TypeError: tools that fit, such as cross-validation, need an estimator."""
        raise TypeError(
            "fit: a trained model cannot be trained again: fit an estimator instead; to pass the "
            "model as it is to a tool that fits, wrap it in sklearn.frozen.FrozenEstimator"
        )

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, public_rows: bool = False
    ) -> float:
        """Return the exact accuracy, R² or concordance on rows that must be public.

        It is the accuracy of classes, R² of a number, and of survival times Harrell's concordance,
        for which rows count alike. `y` may be left out if `X` has the target's columns.

        Parameters
        ----------
        X, y, sample_weight
            As scikit-learn's estimators take them.
        public_rows : bool
            Declares that every row is public; without it, a PrivacyWarning is issued.

        Privacy
        -------
        None: the score is exact. For private rows use `privboost.evaluate`.
        """
        from sklearn.metrics import accuracy_score, r2_score

        warn_of_exact_score(public_rows)
        if isinstance(self.domain.target, SurvivalTarget):
            return self._concordance(X, y)
        if y is None:
            return self._score_of_table(X, sample_weight)
        measure = accuracy_score if isinstance(self.domain.target, ClassTarget) else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    def _score_of_table(self, X: Any, sample_weight: Any = None) -> float:
        """Return the accuracy or R² on the labels in `X`, exactly: see `score`.

        A label that is no class of the domain counts as a wrong prediction.
        """
        from sklearn.metrics import accuracy_score, r2_score

        target = self.domain.target
        source, roles = open_source(replace(self.domain, unit=None), X, None, None)
        columns = [batch[roles.target] for batch in source.batches([roles.target], BLOCK_ROWS)]
        predicted = self.predict(X)
        if not isinstance(target, ClassTarget):
            labels = np.concatenate([read_numbers(each, target.name) for each in columns])
            return float(r2_score(labels, predicted, sample_weight=sample_weight))
        codes = np.concatenate([target.code(each).label for each in columns])
        own = np.searchsorted(self.classes, predicted)
        return float(accuracy_score(codes, own, sample_weight=sample_weight))

    def _concordance(self, X: Any, y: Any) -> float:
        """Return the concordance of predicted survival times, exactly: see `score`."""
        target = self.domain.target
        assert isinstance(target, SurvivalTarget)
        domain = replace(self.domain, unit=None)
        table, roles = open_source(domain, X, y, None)
        assert roles.event is not None
        parts = []
        for batch in table.batches([*domain.feature_names, *roles.names], BLOCK_ROWS):
            scores = self.scores.scores(self.encoder.code(batch))[0]
            parts.append((*target.read(batch[roles.target], batch[roles.event]), scores))
        return concordance(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return an empty dict: a trained model has no parameters."""
        return {}

    def set_params(self, **parameters: Any) -> Self:
        """Refuse any parameter: a trained model has none."""
        if parameters:
            raise ValueError("set_params: a trained model has no parameters")
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        classes = isinstance(self.domain.target, ClassTarget)
        return Tags(
            estimator_type="classifier" if classes else "regressor",
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if classes else None,
            regressor_tags=None if classes else RegressorTags(),
            input_tags=InputTags(allow_nan=True, categorical=True, string=True),
        )


MODEL_FILE = FileKind(b"PRIVBST", 2, "a privboost model file")
_MAGIC = b"PVBMODEL"
_EXPORTS = (".onnx", ".sql")
_KINDS: dict[str, type[Scores]] = {
    kind.kind: kind
    for kind in (
        AdditiveScores,
        InteractionScores,
        LinearScores,
        TreeScores,
        MarginScores,
        VoteScores,
        CalibratedVotes,
    )
}


def model_bytes(model: Model) -> bytes:
    """Return the content of a model's file."""
    payload: dict[str, Any] = {
        "kind": model.scores.kind,
        "domain": model.domain.to_dict(),
        "edges": list(model.encoder.edges),
        "scores": model.scores.to_payload(),
        "privacy": model.privacy.to_dict(),
    }
    if model.span != FULL_RANGE:
        payload["span"] = list(model.span)
    if model.link != IDENTITY:
        payload["link"] = model.link
    if model.exposure is not None:
        payload["exposure"] = model.exposure
    if model.nonconformity is not None:
        payload["nonconformity"] = model.nonconformity.to_payload()
    return MODEL_FILE.seal(codec.dump(payload, _MAGIC))


def save_model(model: Model, path: str | Path) -> None:
    """Write a model; an existing file is replaced atomically.

    The content is read back before it is written, so that no budget is spent on a file that cannot
    be loaded.
    """
    content = model_bytes(model)
    try:
        read_model(content, str(path))
    except ModelFileError as error:
        raise RuntimeError(f"nothing is written, since it could not be read: {error}") from error
    write_file(path, content)


def load_model(path: str | Path) -> Model:
    """Read a model file.

    A file may come from anybody: for any content, either `ModelFileError` is raised, or the model
    predicts from its own values alone, within the bounds of its own domain. Only its author can
    vouch for the values and the privacy report.

    Examples
    --------
    >>> from privboost import load_model
    >>> model = load_model("adult.privboost")         # doctest: +SKIP
    >>> model.predict_proba(table)                     # doctest: +SKIP
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name the file that save wrote")
    if not path.exists():
        raise FileNotFoundError(f"No such file: {path}; name the one that save wrote")
    data = path.read_bytes()
    if path.suffix.lower() in _EXPORTS and not data.startswith(MODEL_FILE.name):
        raise ModelFileError(f"{path} is an export, for other programs: name what save wrote")
    return read_model(data, str(path))


def read_model(data: bytes | memoryview, path: str) -> Model:
    """Return the model of a file's content; errors name the path."""
    content = MODEL_FILE.unseal(data, path)
    try:
        return _read(codec.load(content, _MAGIC))
    except (DomainError, ModelFileError) as error:
        raise ModelFileError(f"{path} holds no model: {error}") from None
    except UNREADABLE:
        raise ModelFileError(f"{path} holds no model: its form is not that of one") from None


def _read(payload: Any) -> Model:
    payload = dict(payload)
    span, nonconformity = payload.pop("span", None), payload.pop("nonconformity", None)
    link, exposure = payload.pop("link", IDENTITY), payload.pop("exposure", None)
    payload = need_keys(payload, "file", {"kind", "domain", "edges", "scores", "privacy"})
    encoder = read_encoder(payload["domain"], payload["edges"])
    target = encoder.domain.target
    kind = need_text(payload["kind"], "kind")
    need(kind in _KINDS, "kind", f"one of {', '.join(_KINDS)} is needed")
    fits = isinstance(target, ClassTarget) or not _KINDS[kind].needs_classes
    need(fits, "kind", f"{kind} need classes")
    scores = _KINDS[kind].from_payload(payload["scores"], encoder.layout, target.n_outputs)
    span = _read_span(span, target)
    link = _read_link(link, target, span)
    times = isinstance(target, SurvivalTarget)
    need((scores.time_scale is not None) == times, "scores.time_scale", "it is for survival times")
    intervals = _read_nonconformity(nonconformity, target)
    if intervals is not None:
        fits = (intervals.scale is None) == (link != LOG)
        need(fits, "nonconformity", "residuals are relative with a log link, and with none else")
    about = span, intervals, link, _read_exposure(exposure, link, encoder.domain)
    return Model(encoder, scores, read_report(payload["privacy"]), *about)


def _read_link(value: Any, target: Target, span: tuple[int, int]) -> str:
    """Return the link of a number's scores; a file without one means the scores themselves."""
    if value == SOFTMAX:
        need(target.n_outputs > 1, "link", "several classes are needed")
    elif value != IDENTITY:
        need(value == LOG, "link", f"{IDENTITY}, {LOG} or {SOFTMAX} is needed")
        need(has_log_bounds(target), "link", "a target of positive numbers is needed")
        need(sum(target.middle_and_half(span)) > 0, "span", "it must reach above 0 with this link")
    return str(value)


def _read_exposure(value: Any, link: str, domain: Domain) -> str | None:
    """Return the name of the exposure; a file without one means none."""
    if value is None:
        return None
    name = need_text(value, "exposure")
    numbers = [own for own in domain.features if isinstance(own, NumericFeature)]
    fits = any(own.name == name and own.bounds[0] > 0 for own in numbers)
    need(fits and link == LOG, "exposure", "a feature above 0 is needed")
    return name


def _read_nonconformity(value: Any, target: Target) -> Nonconformity | None:
    """Return the nonconformity of rows put aside; most files have none."""
    if value is None:
        return None
    return Nonconformity.from_payload(value, -(2**30) if isinstance(target, ClassTarget) else 1)


def _read_span(value: Any, target: Target) -> tuple[int, int]:
    """Return the clipping range of a numeric target; a file without one means its bounds."""
    if value is None:
        return FULL_RANGE
    need(not isinstance(target, ClassTarget), "span", "classes have none")
    ends = need_list(value, "span", 2)
    low, high = (need_whole(end, "span", *FULL_RANGE) for end in ends)
    need(low < high and (high - low) % 2 == 0, "span", "its ends must be apart, by an even number")
    return low, high
