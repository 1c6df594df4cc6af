"""Outcomes of rows: integers that follow from one row and a model.

Groups of rows: by the values of one feature.

Loader of rows to evaluate a model on: their outcomes and groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy.special import log_expit, softmax

from privboost._core import codec
from privboost._core.checks import did_you_mean, shown
from privboost._core.grid import SCORE_STEPS
from privboost.data.contribution_bound import UnitRule
from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.features import Feature
from privboost.data.rows import Codes, Layout, Rows
from privboost.data.table import Batch, Column
from privboost.data.unit_names import read_unit_names
from privboost.data.values import read_numbers
from privboost.losses.base import UNKNOWN_LABEL
from privboost.models.model import Model, model_bytes, read_model

STEPS = 4096
"""Codes of a digit of an exact number: the size of a loss table."""
DIGIT_BITS = 12
EXACT_BITS = 60
"""Bits of a residual or label of public rows; squares of 60-bit numbers are split in three."""
SQUARE = ("upper²", "upper·lower", "lower²")
"""(2³⁰u + l)² = 2⁶⁰u² + 2³¹ul + l²: each product has 60 bits."""
QUANTITIES = {
    "residual": 5,
    **{f"residual {part}": 5 for part in SQUARE},
    "fourth power": 10,
    "label": 5,
    **{f"label {part}": 5 for part in SQUARE},
    "outside": 1,
}
"""Quantities that are summed over public rows, with their digits. The fourth power is of the
residual, for error bars; `outside` is 1 where the label lay outside the target's bounds."""
OCTAVES = 32
OCTAVE_STEPS = 256
NUMBER_CODES = 2 * OCTAVES * OCTAVE_STEPS
"""Codes of a number with a sign: its distance from its code's middle is at most 1/512 of itself,
except below 2⁻³¹ of the reach."""
RESIDUAL_CELLS = 25
"""Cells in which residuals are counted by size: each halves the reach once more, and the first
holds all smaller ones."""
_LEAST_PROBABILITY = 1e-30


@dataclass(frozen=True, eq=False)
class ClassOutcomes:
    """Whether the prediction is right, by class; then scores by cell and class.

    The first column is 2 · class + (1 if the prediction is right). Each output has a column
    2 · cell + (1 if the row is of the output's own class). Without curves one column follows
    instead: the cell of the predicted probability of the row's own class.

    Attributes
    ----------
    edges : int32 array
        Lower ends of the cells of scores, except the first, in score steps.
    curves : bool
        Whether each output has a column.
    """

    kind: ClassVar[str] = "classes"
    edges: np.ndarray
    curves: bool

    @property
    def n_cells(self) -> int:
        """Number of cells of scores."""
        return len(self.edges) + 1

    def sizes(self, model: Model) -> tuple[int, ...]:
        """Return the number of codes of each column."""
        hits = 2 * len(model.classes)
        if self.curves:
            return (hits, *[2 * self.n_cells] * model.scores.n_outputs)
        return (hits, self.n_cells) if model.has_probabilities else (hits,)

    def code(
        self, model: Model, codes: Codes, column: Column
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the label of each row (0, or unknown), and its columns."""
        label, _ = model.domain.target.code(column)
        known = label != UNKNOWN_LABEL
        own = np.where(known, label, 0).astype(np.int64)
        scores = model.scores.scores(codes)
        best = (scores[0] > 0).astype(np.int64) if len(scores) == 1 else scores.argmax(axis=0)
        columns = [2 * own + (best == own)]
        if len(scores) == 1:
            columns.append(2 * self._cells(scores[0]) + own)
        elif self.curves or model.has_probabilities:
            odds = _log_odds(scores) if model.has_probabilities else scores
            if self.curves:
                columns += [2 * self._cells(each) + (own == k) for k, each in enumerate(odds)]
            else:
                columns.append(self._cells(odds[own, np.arange(len(own))]))
        return np.where(known, 0, UNKNOWN_LABEL).astype(np.uint8), columns

    def _cells(self, scores: np.ndarray) -> np.ndarray:
        cells: np.ndarray = np.searchsorted(self.edges, scores, side="right")
        return cells

    def to_dict(self) -> dict[str, Any]:
        """Return the outcomes for `read_outcomes`."""
        return {"kind": self.kind, "edges": self.edges, "curves": self.curves}


@dataclass(frozen=True, eq=False)
class NumberOutcomes:
    """The residual and the label of a row, on grids that are finer towards zero.

    The clip of residuals is chosen after rows are coded, so codes cover the whole range with about
    the same relative precision: a sign, `OCTAVES` halvings of the range, and `OCTAVE_STEPS` equal
    steps in each. They follow from exponents and mantissas, which are the same on every machine.

    Attributes
    ----------
    reach : float
        Largest coded residual, on the scale of the target: the width of its bounds, or a little
        more where a clip was given.
    """

    kind: ClassVar[str] = "number"
    reach: float

    def sizes(self, model: Model) -> tuple[int, ...]:
        """Return the number of codes of each column."""
        return NUMBER_CODES, NUMBER_CODES

    def code(
        self, model: Model, codes: Codes, column: Column
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the label of each row (0, or unknown), and its columns."""
        values, labels = _labels(model, column)
        middle, _ = model.middle_and_half_of_labels
        columns = [
            _code_number(labels - _predictions(model, codes), self.reach),
            _code_number(labels - middle, label_reach(model)),
        ]
        return np.where(np.isnan(values), UNKNOWN_LABEL, 0).astype(np.uint8), columns

    def to_dict(self) -> dict[str, Any]:
        """Return the outcomes for `read_outcomes`."""
        return {"kind": self.kind, "reach": self.reach}


@dataclass(frozen=True, eq=False)
class ExactNumberOutcomes:
    """The residual and the label of a public row as whole numbers, digit by digit.

    Sums of digits are sums of integers, so sums of residuals, labels and their squares are exact
    on every backend. A row's columns are the digits of `QUANTITIES`, the most significant first;
    rows with a negative residual have the label 1.
    """

    kind: ClassVar[str] = "exact number"

    def sizes(self, model: Model) -> tuple[int, ...]:
        """Return the number of codes of each column."""
        return (STEPS,) * sum(QUANTITIES.values())

    def code(
        self, model: Model, codes: Codes, column: Column
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the label of each row (its residual's sign, or unknown), and its columns."""
        values, labels = _labels(model, column)
        low, _ = model.domain.target.bounds  # type: ignore[union-attr]
        residuals = labels - _predictions(model, codes)
        power = exact_power(model)
        found: dict[str, np.ndarray] = {}
        for name, number in (("residual", np.abs(residuals)), ("label", labels - low)):
            whole = np.ldexp(number, EXACT_BITS - power).astype(np.int64)
            upper, lower = whole >> (EXACT_BITS // 2), whole & (2 ** (EXACT_BITS // 2) - 1)
            products = (upper * upper, upper * lower, lower * lower)
            found[name] = whole
            found |= {f"{name} {part}": own for part, own in zip(SQUARE, products, strict=True)}
        found["outside"] = ((values < labels) | (values > labels)).astype(np.int64)
        columns = []
        for name, n_digits in QUANTITIES.items():
            if name == "fourth power":
                columns += _digits_below_one(np.ldexp(residuals, -power) ** 4, n_digits)
            else:
                shifts = DIGIT_BITS * np.arange(n_digits)[::-1]
                columns += [(found[name] >> shift) & (STEPS - 1) for shift in shifts]
        sign = np.where(np.isnan(values), UNKNOWN_LABEL, residuals < 0)
        return sign.astype(np.uint8), columns

    def to_dict(self) -> dict[str, Any]:
        """Return the outcomes for `read_outcomes`."""
        return {"kind": self.kind}


Outcomes = ClassOutcomes | NumberOutcomes | ExactNumberOutcomes


def read_outcomes(parts: dict[str, Any]) -> Outcomes:
    """Read what `to_dict` gave."""
    if parts["kind"] == ClassOutcomes.kind:
        return ClassOutcomes(parts["edges"], parts["curves"])
    if parts["kind"] == ExactNumberOutcomes.kind:
        return ExactNumberOutcomes()
    return NumberOutcomes(parts["reach"])


def label_reach(model: Model) -> float:
    """Return the largest distance of a label from the middle of the model's labels."""
    low, high = model.domain.target.bounds  # type: ignore[union-attr]
    middle, _ = model.middle_and_half_of_labels
    return float(max(high - middle, middle - low))


def exact_power(model: Model) -> int:
    """Return the power of two below which all residuals of a model lie."""
    low, high = model.domain.target.bounds  # type: ignore[union-attr]
    return int(np.frexp(high - low)[1])


def middles_of_codes() -> np.ndarray:
    """Return the middle of each code of a number, in units of its reach, from −1 to 1."""
    octave, step = np.divmod(np.arange(NUMBER_CODES // 2), OCTAVE_STEPS)
    low = np.where(octave > 0, OCTAVE_STEPS + step, step)  # the first octave reaches down to 0
    sizes = np.ldexp(low + 0.5, np.maximum(octave, 1) - OCTAVES) / OCTAVE_STEPS
    return np.concatenate([-sizes[::-1], sizes])


def cells_of_codes() -> np.ndarray:
    """Return the cell of each code of a residual: by how often its size halves the reach."""
    octave = np.arange(NUMBER_CODES // 2) // OCTAVE_STEPS
    cells = np.maximum(octave - (OCTAVES - RESIDUAL_CELLS), 0)
    return np.concatenate([cells[::-1], cells])


def _labels(model: Model, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return labels as they are, NaN where unknown, and clipped to the target's bounds."""
    target: Any = model.domain.target
    values = np.asarray(read_numbers(column, target.name), dtype=np.float64)
    return values, np.clip(np.where(np.isnan(values), target.bounds[0], values), *target.bounds)


def _predictions(model: Model, codes: Codes) -> np.ndarray:
    return model.numbers(model.scores.scores(codes)[0] / SCORE_STEPS)


def _code_number(values: np.ndarray, reach: float) -> np.ndarray:
    """Return the code of each number from −reach to reach: sign, octave, step in the octave."""
    size = np.minimum(np.abs(values) / reach, 1.0)
    mantissa, power = np.frexp(size)
    small = size < 2.0 ** (1 - OCTAVES)
    octave = np.where(small, 0, OCTAVES - 1 + power)
    within = np.where(small, np.ldexp(size, OCTAVES - 1), 2 * mantissa - 1)
    step = np.minimum((within * OCTAVE_STEPS).astype(np.int64), OCTAVE_STEPS - 1)
    code = np.minimum(octave * OCTAVE_STEPS + step, NUMBER_CODES // 2 - 1)
    half = NUMBER_CODES // 2
    codes: np.ndarray = np.where(values < 0, half - 1 - code, half + code)
    return codes


def _digits_below_one(values: np.ndarray, n_digits: int) -> list[np.ndarray]:
    """Return the digits of numbers in [0, 1); each step is exact."""
    digits = []
    for _ in range(n_digits):
        values = values * STEPS
        whole = np.floor(values)
        values = values - whole
        digits.append(whole.astype(np.int64))
    return digits


def _log_odds(scores: np.ndarray) -> np.ndarray:
    """Return log-odds of class probabilities, in score steps, from one-vs-rest scores."""
    probability = np.clip(softmax(log_expit(scores / SCORE_STEPS), axis=0), _LEAST_PROBABILITY, 1.0)
    others = np.clip(probability.sum(axis=0) - probability, _LEAST_PROBABILITY, 1.0)
    odds: np.ndarray = np.rint((np.log(probability) - np.log(others)) * SCORE_STEPS)
    steps: np.ndarray = odds.astype(np.int32)
    return steps


_INTERVALS = 4
"""Intervals of a number whose feature has no edges."""


def open_groups(by: Any, model: Model) -> Encoder | None:
    """Return the encoder of the features of `by`; None without any.

    Parameters
    ----------
    by : sequence of str and features, or one of them
        Names of the model's features; or features, which may be other columns.
    model : Model
        The model whose features are named.
    """
    if isinstance(by, str | Feature):
        by = (by,)
    if not isinstance(by, Sequence):
        raise TypeError(f"by must be names of features, or features; {shown(by)} is not")
    known = {feature.name: feature for feature in model.domain.features}
    features = tuple(_feature(each, known).with_bins(_INTERVALS) for each in by)
    names = [feature.name for feature in features]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"by: {name!r} is given twice")
        if name == model.domain.target.name:
            raise ValueError(f"by: {name!r} is the target")
    return Encoder.of(Domain(features, model.domain.target)) if features else None


def group_labels(groups: Encoder | None) -> list[tuple[str, list[str]]]:
    """Return the name of each feature, with the labels of its codes."""
    if groups is None:
        return []
    found = []
    for k, (feature, n_codes) in enumerate(
        zip(groups.domain.features, groups.layout.n_codes, strict=True)
    ):
        labels = [label for label, _ in groups.spans(k, np.arange(n_codes))]
        found.append((feature.name, labels))
    return found


def _feature(each: Any, known: dict[str, Feature]) -> Feature:
    if isinstance(each, Feature):
        return each
    if not isinstance(each, str):
        raise TypeError(f"by must be names of features, or features; {shown(each)} is neither")
    if each not in known:
        listed = ", ".join(map(repr, list(known)[:20])) + (" …" if len(known) > 20 else "")
        hint = did_you_mean(each, list(known)) or (
            f"it has {listed}; in Python another column is given as a CategoricalFeature or a "
            "NumericFeature"
        )
        raise ValueError(f"by: the model has no feature {each!r}; {hint}")
    return known[each]


@dataclass(frozen=True, eq=False)
class OutcomeLoader:
    """Codes rows as outcomes of a model; of the features only those of groups are kept.

    Attributes
    ----------
    model : Model
        The model; it is serialised with the loader.
    outcomes : ClassOutcomes, NumberOutcomes or ExactNumberOutcomes
        Outcomes of a row: the first columns of codes.
    groups : Encoder or None
        Features of groups: the columns after them.
    target : str
        The column of labels.
    unit : UnitRule or None
        Rule that bounds the rows of one unit.
    """

    magic: ClassVar[bytes] = b"PVBEVAL1"
    by_place: ClassVar[bool] = False

    model: Model
    outcomes: Outcomes
    groups: Encoder | None
    target: str
    unit: UnitRule | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read."""
        names = [*self.model.domain.feature_names, self.target]
        names += [] if self.groups is None else self.groups.domain.feature_names
        names += [] if self.unit is None else [self.unit.column]
        return tuple(dict.fromkeys(names))

    @property
    def layout(self) -> Layout:
        """Number of codes of each column."""
        groups = () if self.groups is None else self.groups.layout.n_codes
        return Layout((*self.outcomes.sizes(self.model), *groups))

    def read(self, batch: Batch, first: int) -> Rows:
        """Code some rows; they have no ids, since they are not sampled."""
        coded = self.model.encoder.code(batch)
        label, columns = self.outcomes.code(self.model, coded, batch[self.target])
        if self.groups is not None:
            groups = self.groups.code(batch)
            columns += [groups.column(k) for k in range(len(self.groups.domain.features))]
        codes = Codes.empty(self.layout, len(label))
        for number, column in enumerate(columns):
            codes.column(number)[:] = column
        return Rows(codes, label)

    def name_units(self, batch: Batch) -> pa.Array:
        """Return the canonical name of each row's unit, null where there is none."""
        assert self.unit is not None
        return read_unit_names(batch[self.unit.column], self.unit.column)

    def to_bytes(self) -> bytes:
        """Write the loader for another process."""
        parts = {
            "model": np.frombuffer(model_bytes(self.model), dtype=np.uint8),
            "outcomes": self.outcomes.to_dict(),
            "groups": None if self.groups is None else self.groups.domain.to_dict(),
            "edges": [] if self.groups is None else list(self.groups.edges),
            "target": self.target,
            "unit": None if self.unit is None else self.unit.to_dict(),
        }
        return codec.dump(parts, self.magic)

    @classmethod
    def from_bytes(cls, data: bytes) -> OutcomeLoader:
        """Read what `to_bytes` wrote."""
        parts = codec.load(data, cls.magic)
        groups = parts["groups"]
        return cls(
            read_model(parts["model"].tobytes(), "the model that is evaluated"),
            read_outcomes(parts["outcomes"]),
            None if groups is None else Encoder(Domain.from_dict(groups), tuple(parts["edges"])),
            parts["target"],
            None if parts["unit"] is None else UnitRule(**parts["unit"]),
        )
