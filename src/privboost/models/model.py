"""A trained model: how rows are coded, what their scores are, and what the scores mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import expit, log_expit, softmax
from sklearn.utils.metaestimators import available_if

from privboost.clusters.prediction import where_rows_lie
from privboost.clusters.recognition import is_remote
from privboost.explanations.explanation import Explanation
from privboost.explanations.lists import Finding
from privboost.explanations.local import LocalExplanation
from privboost.grid import SCORE_STEPS, WHOLE_SPAN
from privboost.models.additive import AdditiveScores
from privboost.models.compound import CompoundScores
from privboost.models.importance import NO_ERRORS, deviations, importances
from privboost.models.linear import LinearScores
from privboost.models.manners import TrainedModel
from privboost.models.trees import TreeScores
from privboost.models.votes import VoteScores
from privboost.pickling import DeclaredState
from privboost.reports.report import PrivacyReport
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder, middle_and_half
from privboost.tables.features import ClassTarget
from privboost.tables.rows import Codes


def _has_probabilities(model: Model) -> bool:
    """Whether scores are log-odds; the error that is raised where they are not says why."""
    if not isinstance(model.domain.target, ClassTarget):
        raise AttributeError("predict_proba: the target is a number")
    if not model.has_chances:
        raise AttributeError(
            "predict_proba: the scores of this model are not log-odds; see decision_function"
        )
    return True


@dataclass(frozen=True, eq=False, repr=False)
class Model(DeclaredState, TrainedModel):
    """Predicts from any table with the domain's features. Holds released values only.

    scikit-learn's tools take it as a fitted estimator (`score`, displays, the last step of a
    `Pipeline`); those that would fit it again are refused.

    Attributes
    ----------
    encoder : Encoder
        The domain and the edges of its bins.
    scores : AdditiveScores, CompoundScores, TreeScores or LinearScores
        The released values.
    privacy : PrivacyReport
        What training spent.
    span : (int, int)
        Of a number: what scores of −1 and 1 mean, in `grid.LABEL_STEPS`; by default its bounds.
    """

    encoder: Encoder
    scores: AdditiveScores | CompoundScores | TreeScores | LinearScores
    privacy: PrivacyReport
    span: tuple[int, int] = WHOLE_SPAN

    def __repr__(self) -> str:
        features, target = len(self.domain.features), self.domain.target.name
        return (
            f"Model({self.scores.kind}, {features} features -> {target}; {self.privacy.guarantee})"
        )

    @property
    def domain(self) -> Domain:
        """What is public about the table."""
        return self.encoder.domain

    @property
    def classes(self) -> np.ndarray:
        """The classes in the order that models use: sorted."""
        if not isinstance(self.domain.target, ClassTarget):
            raise AttributeError("classes: the target is a number")
        return np.array(self.domain.target.ordered)

    @property
    def middle_and_half(self) -> tuple[float, float]:
        """What a score of 0 means of a number, and how much more one of 1; 0 and 1 of classes.

        Both are on the scale on which the target's errors count.
        """
        target = self.domain.target
        return (0.0, 1.0) if isinstance(target, ClassTarget) else middle_and_half(target, self.span)

    @property
    def bounds(self) -> tuple[float, float]:
        """Between which numbers predictions lie: those of the span that was learned, if one was."""
        if isinstance(self.domain.target, ClassTarget):
            raise AttributeError("bounds: the target is a class")
        low, high = self.numbers(np.array([-1.0, 1.0]))
        return float(low), float(high)

    @property
    def middle_and_half_of_labels(self) -> tuple[float, float]:
        """The middle of the labels that a number has, and half their width, on its own scale."""
        target = self.domain.target
        if isinstance(target, ClassTarget) or target.scale == "linear":
            return self.middle_and_half
        low, high = self.bounds
        return low + (high - low) / 2, (high - low) / 2

    @property
    def scaled_bounds(self) -> tuple[float, float]:
        """The bounds of predictions of a number, on the scale on which its errors count."""
        target = self.domain.target
        assert not isinstance(target, ClassTarget)
        middle, half = self.middle_and_half
        low, high = target.scaled_bounds
        return max(low, middle - half), min(high, middle + half)

    def numbers(self, scores: np.ndarray) -> np.ndarray:
        """Return the numbers that scores mean, within the bounds of the span that was learned."""
        target = self.domain.target
        assert not isinstance(target, ClassTarget)
        middle, half = self.middle_and_half
        own = np.clip(middle + half * scores, *self.scaled_bounds)
        numbers: np.ndarray = np.clip(target.from_scale(own), *target.bounds)
        return numbers

    @where_rows_lie
    def decision_function(
        self, data: Any, return_std: bool = False, n_jobs: int | None = None
    ) -> Any:
        """Return scores: of shape (rows,), or (rows, classes) beyond two classes.

        Parameters
        ----------
        return_std : bool
            Whether to return as well the standard error that the noise of training gives to each;
            see `effects`.
        n_jobs : int, optional
            How many threads may work at once, as in every estimator.

        Raises
        ------
        AttributeError
            With `return_std`, where the recipe does not tell how far noise moved its values.
        """
        if not return_std:
            return self._by_row(self.encoder.map_codes(data, self.scores.scores, n_jobs), np.int32)
        noisy = self._with_errors()

        def score(codes: Codes) -> tuple[np.ndarray, np.ndarray]:
            return noisy.scores(codes), np.sqrt(noisy.variances(codes))

        both = self.encoder.map_codes(data, score, n_jobs)
        return (
            self._by_row([scores for scores, _ in both], np.int32),
            self._by_row([errors for _, errors in both], np.float64),
        )

    def _by_row(self, parts: list[np.ndarray], kind: type) -> np.ndarray:
        """Put blocks of (outputs, rows) in one, in units of scores, rows first."""
        empty: np.ndarray = np.empty((self.scores.n_outputs, 0), dtype=kind)
        joined: np.ndarray = np.concatenate([empty, *parts], axis=1) / SCORE_STEPS
        return joined[0] if len(joined) == 1 else joined.T

    @property
    def has_errors(self) -> bool:
        """Whether it tells how far noise may have moved what it says."""
        scores = self.scores.alone if isinstance(self.scores, CompoundScores) else self.scores
        return isinstance(scores, AdditiveScores) and scores.noise is not None

    def _with_errors(self) -> AdditiveScores | CompoundScores:
        """Return the scores, if they tell how far noise moved them."""
        if not isinstance(self.scores, AdditiveScores | CompoundScores):
            raise AttributeError(NO_ERRORS)
        return self.scores

    def staged_decision_function(self, data: Any) -> Iterator[np.ndarray]:
        """Yield the scores after each update of training; the last are `decision_function`'s."""
        if isinstance(self.scores, AdditiveScores | CompoundScores):
            raise AttributeError("staged predictions: an additive model has no stages")
        parts = list(self.encoder.feature_codes(data))
        stages = [self.scores.staged_scores(codes) for codes in parts]
        for stage in zip(*stages, strict=True):
            scores = np.concatenate(stage, axis=1) / SCORE_STEPS
            yield scores[0] if len(scores) == 1 else scores.T

    @available_if(_has_probabilities)
    @where_rows_lie
    def predict_proba(self, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        """Return class probabilities, in the order of `classes`.

        Parameters
        ----------
        return_std : bool
            Whether to return as well the standard error that noise gives to each, to first order;
            see `decision_function`.
        n_jobs : int, optional
            How many threads may work at once, as in every estimator.
        """
        if not return_std:
            return self.chances_of(self.decision_function(data, n_jobs=n_jobs))
        scores, errors = self.decision_function(data, return_std=True, n_jobs=n_jobs)
        chances = self.chances_of(scores)
        if scores.ndim == 1:
            return chances, (chances[:, :1] * chances[:, 1:] * errors[:, None]).repeat(2, axis=1)
        moves = (expit(-scores) * errors) ** 2  # of the logarithms that chances are made of
        own = (1 - 2 * chances) * moves  # (1 − q)² = q² + (1 − 2q)
        return chances, chances * np.sqrt(own + (chances**2 * moves).sum(axis=1, keepdims=True))

    def staged_predict_proba(self, data: Any) -> Iterator[np.ndarray]:
        """Yield class probabilities after each update of training."""
        if isinstance(self.scores, VoteScores):
            raise AttributeError("staged probabilities: a vote's stages are votes, and no log-odds")
        return map(self.chances_of, self.staged_decision_function(data))

    @where_rows_lie
    def predict(self, data: Any, return_std: bool = False, n_jobs: int | None = None) -> Any:
        """Return the most probable class, or the predicted number within `bounds`.

        Parameters
        ----------
        return_std : bool
            For a number: whether to return as well the standard error that noise gives to each;
            see `decision_function`. On a log scale it is to first order.
        n_jobs : int, optional
            How many threads may work at once, as in every estimator.
        """
        if not return_std:
            return self.prediction_of(self.decision_function(data, n_jobs=n_jobs))
        if isinstance(self.domain.target, ClassTarget):
            raise AttributeError("return_std: a class has no standard error; see predict_proba")
        scores, errors = self.decision_function(data, return_std=True, n_jobs=n_jobs)
        numbers = self.prediction_of(scores)
        return numbers, errors * self.middle_and_half[1] * self.domain.target.slope(numbers)

    def staged_predict(self, data: Any) -> Iterator[np.ndarray]:
        """Yield predictions after each update of training."""
        return map(self.prediction_of, self.staged_decision_function(data))

    @property
    def has_chances(self) -> bool:
        """Whether scores are log-odds, so that there are probabilities."""
        return isinstance(self.domain.target, ClassTarget) and self.scores.log_odds

    def chances_of(self, scores: np.ndarray) -> np.ndarray:
        """Return class probabilities for scores of `decision_function`."""
        _has_probabilities(self)
        if scores.ndim == 1:
            both = np.empty((len(scores), 2))
            expit(scores, out=both[:, 1])
            np.subtract(1, both[:, 1], out=both[:, 0])
            return both
        chances: np.ndarray = softmax(log_expit(scores), axis=1)  # they may all be too small
        return chances

    def prediction_of(self, scores: np.ndarray) -> np.ndarray:
        """Return what `predict` says of rows with these scores of `decision_function`."""
        if isinstance(self.domain.target, ClassTarget):
            best = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
            named: np.ndarray = self.classes[best]
            return named
        return self.numbers(scores)

    def effects(self) -> pa.Table:
        """Return what was learned: for each feature and span of values, its effect on the score.

        A row's score is the sum of its effects and a start that all rows have (`scores.start`);
        what features do together, where that was learned, comes on top (`scores.pairs`,
        `scores.trees`).
        Neighbouring codes with the same effect are joined. What hardly a row has (values between
        whole numbers, missing ones where there are none) has an effect of noise alone. Levels are
        as training left them: those of `explain_global` are 0 on average.

        For classes the score is the log-odds (of the second class, or of each class beyond two);
        for a number, an effect is on the scale of the target: with a log scale, on that of its
        logarithm.

        Returns
        -------
        pyarrow.Table
            With columns feature, values, effect and std, and class beyond two classes. std is the
            standard error that the noise of training gives to an effect, its feature's mean effect
            aside (a level moves freely between features and the start); null where a recipe does
            not tell it. It knows of noise alone: not of the rows being a sample, nor of how far
            coarse questions and caution keep effects from what they are.
        """
        from privboost.models.effect_tables import effect_table

        return effect_table(self)

    def pairs(self) -> pa.Table:
        """Return what pairs of features add to the score together, beside their own effects.

        Returns
        -------
        pyarrow.Table
            With columns feature, values, other feature, other values, effect and std (see
            `effects`), and class beyond two classes; without rows where no pair was asked about.

        Raises
        ------
        AttributeError
            Where the recipe has no pairs.
        """
        from privboost.models.effect_tables import pair_table

        return pair_table(self)

    def explain(self) -> pa.Table:
        """Return a vote of rules as a card: how many votes each value of a feature has.

        A rule votes for the second class (or its own, beyond two classes) where its value is met,
        and against it elsewhere; negative votes are the other way round. Rules whose votes cancel
        are left out.

        Returns
        -------
        pyarrow.Table
            With columns votes, feature and value, and class beyond two classes; from the most
            votes to the fewest.
        """
        from privboost.models.export import vote_card

        return vote_card(self)

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth a look: sentences that follow from what the model's file holds.

        They are a part of `explain_global`, and found quicker alone.
        """
        from privboost.models.findings import find

        return find(self)

    def explain_global(self) -> Explanation:
        """Say what the model has learned: shapes, pairs, trees, lists, and what is worth a look.

        Every recipe's model has the same form: a row's score is the start and what shapes, pairs
        and trees add. It is computed from released values and costs no privacy.

        Returns
        -------
        Explanation
            With `to_text`, `to_dict` and `plot`, as has each of its parts.
        """
        from privboost.models.explaining import explain_model

        return explain_model(self)

    def explain_local(self, data: Any) -> LocalExplanation:
        """Say why rows have the scores that they have. Costs no privacy of the rows of training.

        Parameters
        ----------
        data : data frame, array, or path of a file
            The rows: the caller's own, and so is what is said of them.

        Returns
        -------
        LocalExplanation
            Contributions of features, pairs and trees that add up to the score, and exact Shapley
            values of the features.
        """
        from privboost.models.explaining import explain_rows

        if is_remote(data):
            raise ValueError(
                "explain_local: rows of a cluster stay there; bring those over that matter"
            )
        return explain_rows(self, data)

    def sparsity(self) -> dict[str, int]:
        """Return how small a vote of rules is: votes, and rules and features with a net vote.

        Returns
        -------
        dict
            With votes, rules, features, and of_features, how many features the domain has.
        """
        card = self.explain()
        named = set(card["feature"].to_pylist()) & set(self.domain.feature_names)
        return {
            "votes": self.scores.n_trees,  # type: ignore[union-attr]
            "rules": card.num_rows,
            "features": len(named),
            "of_features": len(self.domain.features),
        }

    def coefficients(self) -> pa.Table:
        """Return a linear model's coefficients, on the scale of the table.

        A number's is for each 1 of it (on a log scale: from −1 to 1), an indicator's for its
        value. For classes they add up to the score; for a number, to the prediction, or to its
        logarithm where the target has a log scale.

        Returns
        -------
        pyarrow.Table
            With columns feature, value and coefficient, and class beyond two classes.
        """
        from privboost.models.export import coefficient_table

        return coefficient_table(self)

    def feature_importances(self, return_std: bool = False) -> Any:
        """Return how much each feature moves the score, adding up to 1 (or all zero).

        It is the variance that a feature's values, as often as released mass says, bring into the
        score, alone and together with others, less what noise alone would give, never below 0.
        It is computed from released values and costs no privacy.

        Parameters
        ----------
        return_std : bool
            Whether to return the standard error that noise gives to each as well.

        Raises
        ------
        AttributeError
            Where nothing was released about how many rows a value stands for: votes, linear
            models without an intercept, files of earlier versions. With `return_std`, where the
            recipe does not tell how far noise moved its values.
        """
        if not return_std:
            return importances(self.scores)
        return importances(self.scores), deviations(self._with_errors())

    def to_text(self, most_trees: int | None = None) -> str:
        """Write the model in words: of trees, conditions and what each leaf adds to the score.

        A vote of rules is written as its card (see `explain`), a linear model as the list of its
        `coefficients`, a model of effects as its explanation (see `explain_global`).

        Parameters
        ----------
        most_trees : int, optional
            Stop after so many trees.
        """
        from privboost.models.export import model_text

        if isinstance(self.scores, AdditiveScores | CompoundScores):
            return self.explain_global().to_text()
        return model_text(self, most_trees)

    def save(self, path: str | Path) -> None:
        """Write the model to one file (see `load_model`)."""
        from privboost.models.files import save_model

        save_model(self, path)
