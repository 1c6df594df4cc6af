"""`Scores`: what every kind of score does, from prediction to explanation and export."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import pyarrow as pa

from privboost._core.grid import SCORE_STEPS
from privboost._core.pickling import DeclaredState
from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.rows import Codes, Layout
from privboost.explanations.explanation import Explanation
from privboost.explanations.terms import Coefficients, Finding, VoteSummary
from privboost.models.intervals import Nonconformity
from privboost.models.parts import ScoreParts
from privboost.randomness.keystream import fixed_generator
from privboost.reports.report import PrivacyReport

N_ROWS = 1024
"""The number of rows drawn for importances."""

N_DRAWS = 20
"""The number of noise draws for the errors of importances."""

MORE_NOISE = 2**0.5
"""The factor by which noise grows where it is drawn once more on top of released values."""

UNKNOWN_SHARE = -1.0
"""A share that is not known, in `Scores.mean` and `Scores.label_shares`."""

VOTES = "votes"
NO_MASS = "feature_importances: this model does not hold what was released about its rows"
NO_ERRORS = "standard errors: this model does not hold how far noise moved it"
_INT32 = np.iinfo(np.int32)


def pool_counts(counts: Sequence[float] | np.ndarray, deviation: float) -> np.ndarray:
    """Return the mean of noisy counts of the same rows, and its standard deviation.

    Parameters
    ----------
    counts : sequence of float
        The counts, each with independent noise.
    deviation : float
        The standard deviation of the noise of each count.
    """
    return np.array([np.mean(counts), deviation / math.sqrt(len(counts))])


def add_noise(values: np.ndarray, noise: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return values with Gaussian noise of these standard deviations, on the score grid."""
    return on_grid(values + np.rint(noise * generator.standard_normal(noise.shape)))


def on_grid(steps: np.ndarray) -> np.ndarray:
    """Round to int32 and clip to its range: a file may claim any noise."""
    rounded: np.ndarray = np.clip(np.rint(steps), _INT32.min, _INT32.max).astype(np.int32)
    return rounded


def draw_rows(probabilities: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows with independent features, by the probabilities of codes, and as many other rows.

    Both are uint16 arrays of shape (features, rows).
    """
    generator = fixed_generator()
    middles = (np.arange(N_ROWS) + 0.5) / N_ROWS
    rows = np.empty((len(probabilities), N_ROWS), dtype=np.uint16)
    others = np.empty_like(rows)
    for feature, own in enumerate(probabilities):
        ends = np.cumsum(own)
        codes = np.searchsorted(ends, middles * ends[-1])
        rows[feature] = generator.permutation(np.minimum(codes, len(own) - 1))
        others[feature] = generator.permutation(rows[feature])
    return rows, others


def even(mass: np.ndarray) -> np.ndarray:
    """Return probabilities in proportion to noisy counts; even ones where all are 0."""
    total = mass.sum()
    return mass / total if total > 0 else np.full(len(mass), 1 / len(mass))


def make_read_only(record: Any) -> None:
    """Make the arrays of a dataclass, and those in its tuples, read-only."""
    for field in fields(record):
        value = getattr(record, field.name)
        for array in value if isinstance(value, tuple) else (value,):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False


class ModelView(Protocol):
    """The parts of a `Model` that its scores read to describe themselves; see there."""

    @property
    def encoder(self) -> Encoder: ...
    @property
    def domain(self) -> Domain: ...
    @property
    def scores(self) -> Scores: ...
    @property
    def privacy(self) -> PrivacyReport: ...
    @property
    def span(self) -> tuple[int, int]: ...
    @property
    def link(self) -> str: ...
    @property
    def scale_name(self) -> str: ...
    @property
    def nonconformity(self) -> Nonconformity | None: ...
    @property
    def classes(self) -> np.ndarray: ...
    @property
    def middle_and_half(self) -> tuple[float, float]: ...
    @property
    def bounds(self) -> tuple[float, float]: ...
    @property
    def scale_(self) -> float: ...
    def explain_global(self) -> Explanation: ...


class Scores(DeclaredState, ABC):
    """Released values that give rows their scores: one subclass, in one file, a kind of score.

    A kind predicts (`scores`), lists its terms (`parts`, from which explanations and exports
    follow), describes itself (`to_text` and the tables), and is read from and written to a model
    file (`to_payload`, `from_payload`). `load_model` knows the kinds by their names.

    Attributes
    ----------
    kind : str
        The name of the kind in model files.
    log_odds : bool
        Whether scores are log-odds if the target is a class; no meaning for a number.
    rows : float64 array of shape (2,), or None
        The noisy row count and its standard deviation.
    mean : float64 array of shape (5,), or None
        What the last release tells of the mean of a number, in scores: the mean label, its standard
        error, the mean prediction before and after the correction; and the share of rows that the
        clip of gradients concerns, or `UNKNOWN_SHARE`.
    time_scale : float64 array of shape (1,), or None
        Of survival times: the scale of the logistic distribution of log times around a score, in
        scores.
    label_shares : float64 array of shape (3,), or None
        Of a number, where released counts by label are unusual: the shares of rows at its lower and
        upper bound, and of rows whose event was observed; each `UNKNOWN_SHARE` if it is not.
    staged_log_odds : bool
        Whether the scores of every stage are log-odds, if those of the last are.
    needs_classes : bool
        Whether the target must be a class.
    has_shapes : bool
        Whether every feature has an effect of its own, if only 0.
    is_centred : bool
        Whether explanations move the mean effects of features to the start.
    resolves_bins : bool
        Whether `code_probabilities` were released bin by bin.
    """

    kind: str
    log_odds: bool
    rows: np.ndarray | None
    mean: np.ndarray | None = None
    time_scale: np.ndarray | None = None
    label_shares: np.ndarray | None = None
    staged_log_odds: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = False
    has_shapes: ClassVar[bool] = True
    is_centred: ClassVar[bool] = True
    resolves_bins: ClassVar[bool] = True

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """The number of scores of a row."""

    @property
    def n_trees(self) -> int:
        """The number of trees."""
        return 0

    @property
    def unit(self) -> str:
        """The unit of scores of classes: "log-odds", "votes" or "score"."""
        return "log-odds" if self.log_odds else "score"

    @property
    def has_errors(self) -> bool:
        """Whether the standard errors of scores are known."""
        return False

    @abstractmethod
    def scores(self, codes: Codes) -> np.ndarray:
        """Return the exact scores of rows: int32 of shape (outputs, rows)."""

    def staged_scores(self, codes: Codes) -> Iterator[np.ndarray]:
        """Yield the scores after each update of training (perhaps one array that changes)."""
        raise AttributeError("staged predictions: an additive model has no stages")

    def variances(self, codes: Codes) -> np.ndarray:
        """Return the variance that noise gives to scores: float of shape (outputs, rows)."""
        raise AttributeError(NO_ERRORS)

    def with_more_noise(self, generator: np.random.Generator) -> Self:
        """Return the scores with noise drawn once more on top of released values."""
        raise AttributeError(NO_ERRORS)

    def typical(self) -> np.ndarray:
        """Return scores of rows drawn from noisy counts: int32 of shape (outputs, rows).

        There are no rows where no mass was released.
        """
        try:
            probabilities = self.code_probabilities()
        except AttributeError:
            return np.zeros((self.n_outputs, 0), dtype=np.int32)
        layout = Layout(tuple(map(len, probabilities)))
        return self._scores_of_few(Codes.of(layout, draw_rows(probabilities)[0]))

    def with_mean(self, mean: np.ndarray) -> Self:
        """Return the scores with what the last release tells of the mean of a number."""
        return replace(self, mean=mean)  # type: ignore[type-var]

    def with_time_scale(self, scale: float) -> Self:
        """Return the scores with the scale of log times around them."""
        return replace(self, time_scale=np.array([scale]))  # type: ignore[type-var]

    def with_label_shares(self, shares: np.ndarray | None) -> Self:
        """Return the scores with unusual shares of labels, if there are any."""
        if shares is None:
            return self
        return replace(self, label_shares=shares)  # type: ignore[type-var]

    def _scores_of_few(self, codes: Codes) -> np.ndarray:
        """Return the scores of a few rows, if possible without kernels that a fit does not need."""
        return self.scores(codes)

    @abstractmethod
    def parts(self) -> ScoreParts:
        """Return the scores as one sum, for explanations."""

    def export_parts(self) -> ScoreParts:
        """Return the scores as one sum, for exports."""
        return self.parts()

    @abstractmethod
    def feature_values(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the effect of its codes, interactions aside."""

    def feature_noise(self) -> tuple[np.ndarray, ...] | None:
        """Return for each feature the standard deviation of `feature_values`, if known."""
        return None

    def knows_noise(self, model: ModelView) -> bool:
        """Return whether the noise in `parts` is that of the model's final scores."""
        return True

    def code_masses(self) -> tuple[np.ndarray, ...] | None:
        """Return the noisy counts of each code of each feature, if it was released by code."""
        return None

    @abstractmethod
    def code_probabilities(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the probability of each code, from noisy counts.

        Raises AttributeError where no mass or no noise is known.
        """

    @abstractmethod
    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield the change of scores where one feature takes another row's code.

        One feature at a time, since all at once would take far more memory than the model. `rows`
        and `others` are uint16 arrays of shape (features, rows): the codes of each row, and the
        codes that replace them.

        Yields
        ------
        feature : int
            The feature; those that are left out change nothing.
        change, variance : arrays of shape (outputs, rows)
            The change, in score steps, and the variance that noise alone gives to it.
        """

    def importances(self, drawn: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
        """Return for each feature its share of the scores' variance.

        A share is half the mean square of the change of a score where the feature takes another
        value that occurs (the variance due to the feature, alone and with others), less the part
        due to noise, and at least 0; shares add up to 1, or are all 0. Rows are drawn from
        `code_probabilities`, so that no row of a table is needed, and no privacy is spent; a caller
        who has drawn them already passes them as `drawn`.
        """
        rows, others = drawn or draw_rows(self.code_probabilities())
        moved = np.zeros(len(rows))
        for feature, change, variance in self.changes(rows, others):
            moved[feature] = max(0.5 * (change**2 - variance).mean(axis=1).sum(), 0.0)
        return moved / moved.sum() if moved.any() else moved

    def importance_errors(self) -> np.ndarray:
        """Return the standard deviation that noise gives to each importance.

        With noise drawn once more on top of released values, importances move about as far from
        the model's as these are from those without noise.
        """
        generator = fixed_generator()
        drawn = [self.with_more_noise(generator).importances() for _ in range(N_DRAWS)]
        found: np.ndarray = np.sqrt(((np.array(drawn) - self.importances()) ** 2).mean(axis=0))
        return found

    def row_counts(self) -> Iterator[tuple[float, float]]:
        """Yield noisy counts of all rows, each with its standard error."""
        if self.rows is not None:
            count, error = self.rows.tolist()
            yield count, error

    def least_rows(self) -> float | None:
        """Return about how many rows there are at least, if known: a row's mass is at most 1."""
        return None

    def missing_cells(self) -> np.ndarray | None:
        """Return released sums over rows without and with a value of each feature, if any.

        Of shape (features, 3): the sum over rows without a value, that over rows with one, and the
        standard error of the latter.
        """
        return None

    def findings(self, model: ModelView, rows: Codes | None) -> Iterator[Finding]:
        """Yield findings about this kind of score; `rows` are drawn from noisy counts, if any."""
        yield from ()

    def to_text(self, model: ModelView, most_trees: int | None = None) -> str:
        """Return a description of the model; see `Model.to_text`."""
        return model.explain_global().to_text()

    def coefficient_list(self, model: ModelView) -> Coefficients | None:
        """Return the coefficients for an explanation; None unless the model is linear."""
        return None

    def vote_summary(self, model: ModelView) -> VoteSummary | None:
        """Return the votes of rules for an explanation; None where there are none."""
        return None

    def coefficient_table(self, model: ModelView) -> pa.Table:
        """Return a linear model as a table; see `Model.coefficients`."""
        raise AttributeError("coefficients: only linear models have them; see effects()")

    def vote_table(self, model: ModelView) -> pa.Table:
        """Return the votes of rules as a table; see `Model.explain`."""
        raise AttributeError("only votes of rules have a summary; see effects()")

    def pair_table(self, model: ModelView) -> pa.Table:
        """Return the effects of pairs as a table; see `Model.pairs`."""
        raise AttributeError("pairs: this recipe measures no pairs of features")

    def effect_table(self, model: ModelView) -> pa.Table:
        """Return the effects of features as a table; see `Model.effects`."""
        by_feature, noise, unit = self.feature_values(), self.feature_noise(), effect_unit(model)
        lines: list[dict[str, Any]] = []
        for k, feature in enumerate(model.domain.features):
            for output, values in enumerate(by_feature[k]):
                for text, code in model.encoder.spans_of_codes(k, values):
                    error = None if noise is None else float(noise[k][output, code] * unit)
                    own = {"feature": feature.name, "values": text, "effect": values[code] * unit}
                    lines.append(own | {"std": error, "class": class_of(model, output)})
        return table_of(model, ("feature", "values", "effect", "std"), lines)

    @abstractmethod
    def to_payload(self) -> dict[str, Any]:
        """Return the content of a model file."""

    @classmethod
    @abstractmethod
    def from_payload(cls, payload: Any, layout: Layout, n_outputs: int) -> Self:
        """Return checked scores from the content of a model file; raise ModelFileError."""


def effect_unit(model: ModelView) -> float:
    """Return the size of a score step in units of effects."""
    _, half = model.middle_and_half
    return half / SCORE_STEPS


def class_of(model: ModelView, output: int) -> Any:
    """Return the class of an output, or None where there is one output only."""
    return model.classes[output] if model.scores.n_outputs > 1 else None


def table_of(model: ModelView, columns: tuple[str, ...], lines: list[dict[str, Any]]) -> pa.Table:
    """Return lines as a table, with a column of classes where there are several outputs."""
    names = (*columns, "class") if model.scores.n_outputs > 1 else columns
    numbers = {"effect": pa.float64(), "std": pa.float64()}
    return pa.table(
        {name: pa.array([line[name] for line in lines], numbers.get(name)) for name in names}
    )
