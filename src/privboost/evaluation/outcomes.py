"""Outcomes of rows: integers that follow from one row and a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_expit, softmax

from privboost.grid import SCORE_STEPS
from privboost.losses import UNKNOWN_LABEL
from privboost.models.model import Model
from privboost.tables.pieces import Column
from privboost.tables.rows import Codes
from privboost.tables.values import read_numbers

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
        return (hits, self.n_cells) if model.has_chances else (hits,)

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
        elif self.curves or model.has_chances:
            odds = _log_odds(scores) if model.has_chances else scores
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
