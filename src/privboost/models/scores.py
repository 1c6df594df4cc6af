"""Noisy row counts: a released count with the standard deviation of its noise.

Rows and noise that are drawn from released values, for importances and their errors.

Scores of any kind as one sum: a start, tables of features and pairs, and trees.

`Scores`: the protocol of every kind of score, from prediction to explanation and export.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
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
from privboost.models.checks import need_finite
from privboost.randomness.keystream import fixed_generator
from privboost.reports.report import PrivacyReport
from privboost.trees.tree import Tree, find_leaves


def pool_counts(counts: Sequence[float] | np.ndarray, deviation: float) -> np.ndarray:
    """Return the mean of released counts of the same rows, and its standard deviation.

    Parameters
    ----------
    counts : sequence of float
        The counts, each with independent noise.
    deviation : float
        The standard deviation of the noise of each count.
    """
    return np.array([np.mean(counts), deviation / math.sqrt(len(counts))])


def read_row_count(payload: dict[str, Any]) -> np.ndarray | None:
    """Return the noisy row count of a model file, or None for files of earlier versions."""
    if "rows" not in payload:
        return None
    rows = need_finite(payload["rows"], "scores.rows", (2,))
    need_finite(rows[1:], "scores.rows", (1,), least=0)
    return rows


def as_counts(rows: np.ndarray | None) -> Iterator[tuple[float, float]]:
    """Yield a noisy row count and its standard deviation, if there is one."""
    if rows is not None:
        count, error = rows.tolist()
        yield count, error


N_ROWS = 1024
"""The number of rows drawn."""

N_DRAWS = 20
"""The number of noise draws for the errors of importances."""

MORE_NOISE = 2**0.5
"""The factor by which noise grows where it is drawn once more on top of released values."""

_INT32 = np.iinfo(np.int32)
NO_MASS = "feature_importances: this model does not hold what was released about its rows"
NO_ERRORS = "standard errors: this model does not hold how far noise moved it"


def add_noise(values: np.ndarray, noise: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return values with Gaussian noise of these standard deviations, on the score grid."""
    return on_grid(values + np.rint(noise * generator.standard_normal(noise.shape)))


def on_grid(steps: np.ndarray) -> np.ndarray:
    """Round to int32 and clip to its range: a file may claim any noise."""
    rounded: np.ndarray = np.clip(np.rint(steps), _INT32.min, _INT32.max).astype(np.int32)
    return rounded


def draw_rows(probabilities: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows with independent features, and as many other rows.

    Parameters
    ----------
    probabilities : sequence of float arrays
        For each feature the probability of each code.

    Returns
    -------
    rows, others : uint16 arrays of shape (features, rows)
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


@dataclass(frozen=True, eq=False)
class JointTable:
    """The joint effect of two features.

    Attributes
    ----------
    features : (int, int)
        The indices of the two features.
    cell_of : tuple of int arrays
        For each of the two the cell of each code.
    values : int array of shape (outputs, cells of the first, cells of the second)
        In score steps.
    output : int or None
        The only output with values other than 0, where there is one.
    noise : float array of shape (cells of the first, cells of the second), or None
        The standard deviation of that output's values, where it is known.
    """

    features: tuple[int, int]
    cell_of: tuple[np.ndarray, np.ndarray]
    values: np.ndarray
    output: int | None = None
    noise: np.ndarray | None = None

    def of(self, codes: Codes) -> np.ndarray:
        """Return the effect on rows: shape (outputs, rows)."""
        own, other = (
            cells[codes.column(feature)]
            for feature, cells in zip(self.features, self.cell_of, strict=True)
        )
        found: np.ndarray = self.values[:, own, other]
        return found

    def cell_probabilities(self, by_code: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return the probabilities of both features' cells, from those of all features' codes."""
        first, second = (
            np.bincount(cells, by_code[feature], size)
            for feature, cells, size in zip(
                self.features, self.cell_of, self.values.shape[1:], strict=True
            )
        )
        return first, second

    def mean(self, by_code: Sequence[np.ndarray]) -> np.ndarray:
        """Return the mean effect: shape (outputs,)."""
        first, second = self.cell_probabilities(by_code)
        found: np.ndarray = self.values @ second @ first
        return found


@dataclass(frozen=True, eq=False)
class JointTree:
    """A tree of a model with its values.

    Attributes
    ----------
    number : int
        The index among all trees of the model.
    tree : Tree
        The splits.
    values : int array of shape (outputs, leaves)
        In score steps.
    mass, noise : arrays of the same shape, or None
        The noisy count of its leaves, and the standard deviation of its values; see `Forest`.
    """

    number: int
    tree: Tree
    values: np.ndarray
    mass: np.ndarray | None
    noise: np.ndarray | None

    def of(self, codes: Codes) -> np.ndarray:
        """Return the effect on rows: shape (outputs, rows)."""
        found: np.ndarray = self.values[:, find_leaves(codes, self.tree)]
        return found


@dataclass(frozen=True, eq=False)
class ScoreParts:
    """All terms that add up to a row's score, on the score grid.

    Attributes
    ----------
    start : int array of shape (outputs,)
        The constant term.
    tables : tuple of int arrays
        For each feature the effect of its codes, of shape (outputs, codes).
    pairs : tuple of JointTable
        The joint effects of two features.
    trees : tuple of JointTree
        Trees that are in no table.
    noise : tuple of float arrays, or None
        The standard deviation of the values in `tables`; None where it is unknown.
    """

    start: np.ndarray
    tables: tuple[np.ndarray, ...]
    pairs: tuple[JointTable, ...] = ()
    trees: tuple[JointTree, ...] = ()
    noise: tuple[np.ndarray, ...] | None = None

    @property
    def n_outputs(self) -> int:
        """The number of scores of a row."""
        return len(self.start)

    def centred(self, probabilities: Sequence[np.ndarray]) -> ScoreParts:
        """Return the same sum with tables and pairs whose mean effect is 0.

        Their means move to the start in whole steps, so that every score stays the same to the
        last bit.

        Parameters
        ----------
        probabilities : sequence of float arrays
            For each feature the probability of each code.
        """
        start = self.start.astype(np.int64)
        tables, pairs = [], []
        for table, own in zip(self.tables, probabilities, strict=True):
            level = np.rint(table @ own).astype(np.int64)
            start += level
            tables.append(table - level[:, None])
        for pair in self.pairs:
            level = np.rint(pair.mean(probabilities)).astype(np.int64)
            start += level
            pairs.append(replace(pair, values=pair.values - level[:, None, None]))
        return replace(self, start=start, tables=tuple(tables), pairs=tuple(pairs))

    def contributions(self, codes: Codes) -> np.ndarray:
        """Return the effects of features, pairs and trees: int64 of shape (terms, outputs, rows).

        All trees together are one term, the last.
        """
        own = [table[:, codes.column(k)].astype(np.int64) for k, table in enumerate(self.tables)]
        own += [pair.of(codes) for pair in self.pairs]
        if self.trees:
            total = np.zeros((self.n_outputs, len(codes)), dtype=np.int64)
            for tree in self.trees:
                total += tree.of(codes)
            own.append(total)
        return np.stack(own)


VOTES = "votes"


class ModelView(Protocol):
    """The parts of a `Model` that its scores read to describe themselves; see there."""

    @property
    def encoder(self) -> Encoder:
        """The domain and the edges of its bins."""

    @property
    def domain(self) -> Domain:
        """The domain."""

    @property
    def scores(self) -> Scores:
        """The scores."""

    @property
    def privacy(self) -> PrivacyReport:
        """The privacy report."""

    @property
    def span(self) -> tuple[int, int]:
        """The clipping range of a numeric target."""

    @property
    def classes(self) -> np.ndarray:
        """The classes in their order."""

    @property
    def middle_and_half(self) -> tuple[float, float]:
        """The target at a score of 0, and its change for a score of 1."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds of predictions of a number."""

    def explain_global(self) -> Explanation:
        """Explain the model."""


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
        Whether scores are log-odds.
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
        return np.zeros((self.n_outputs, 0), dtype=np.int32)

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

        Raises
        ------
        AttributeError
            Where no mass or no noise is known.
        """

    @abstractmethod
    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield the change of scores where one feature takes another row's code.

        One feature at a time, since all at once would take far more memory than the model.

        Parameters
        ----------
        rows, others : uint16 arrays of shape (features, rows)
            The codes of each row, and the codes that replace them.

        Yields
        ------
        feature : int
            The feature; those that are left out change nothing.
        change : array of shape (outputs, rows)
            The change, in score steps.
        variance : array of the same shape, or (1, rows)
            The variance that noise alone gives to the change.
        """

    def importances(self, drawn: tuple[np.ndarray, np.ndarray] | None = None) -> np.ndarray:
        """Return for each feature its share of the scores' variance.

        A share is half the mean square of the change of a score where the feature takes another
        value that occurs (the variance due to the feature, alone and with others), less the part
        due to noise, and at least 0; shares add up to 1, or are all 0. Rows are drawn from
        `code_probabilities`, so that no row of a table is needed, and no privacy is spent.

        Parameters
        ----------
        drawn : tuple of two arrays, optional
            Rows of `draw_rows(self.code_probabilities())`, where the caller has them.

        Raises
        ------
        AttributeError
            Where released values do not say how many rows have which value.
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
        yield from ()

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
        """Yield findings about this kind of score.

        Parameters
        ----------
        model : ModelView
            The model of these scores.
        rows : Codes or None
            Rows drawn from noisy counts, if any was released.
        """
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
