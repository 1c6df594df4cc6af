"""Additive scores: a start, and for each feature and code a value; a row's score is their sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from privboost.grid import SCORE_STEPS
from privboost.models import effect_kernels
from privboost.models.checks import (
    largest,
    need,
    need_array,
    need_finite,
    need_keys,
    need_list,
    need_scores,
    within_grid,
)
from privboost.models.importance import MORE, NO_ERRORS, NO_MASS, add_noise, draw_rows, even
from privboost.models.parts import ScoreParts
from privboost.models.told_rows import read_rows
from privboost.pickling import DeclaredState
from privboost.tables.layout import Layout
from privboost.tables.rows import Codes


@dataclass(frozen=True, eq=False)
class AdditiveScores(DeclaredState):
    """Released values on the score grid.

    Attributes
    ----------
    start : int32 array of shape (outputs,)
        The score before any feature is looked at.
    values : tuple of int32 arrays
        For each feature, of shape (outputs, codes).
    mass : tuple of float64 arrays, or None
        What was released about how many rows have each code, of the same shapes; noise may leave
        less than 0.
    noise : tuple of float64 arrays, or None
        The standard deviation that the noise of training gives to each value, in score steps, the
        mean of its feature's values aside: that part is shared with other features and the start.
    together : float64 array of shape (outputs,), or None
        What noise gives to a score, in parts of what it would if all its values erred on their
        own: values that act on the same rows make up for each other's errors.
    rows : float64 array of shape (2,), or None
        How many rows there are, as far as was released, and the standard deviation of that.
    missing : float64 array of shape (features, 3), or None
        Of each feature, the mean released Hessian sum of rows without a value, that of rows with
        one, and the standard deviation of the latter. Unlike `mass`, sums below 0 are kept.
    """

    kind = "additive"
    log_odds: ClassVar[bool] = True
    start: np.ndarray
    values: tuple[np.ndarray, ...]
    mass: tuple[np.ndarray, ...] | None = None
    noise: tuple[np.ndarray, ...] | None = None
    together: np.ndarray | None = None
    rows: np.ndarray | None = None
    missing: np.ndarray | None = None

    def __post_init__(self) -> None:
        for array in (self.start, *self.values, *(self.mass or ()), *(self.noise or ())):
            array.flags.writeable = False
        for whole in (self.together, self.rows, self.missing):
            if whole is not None:
                whole.flags.writeable = False

    @property
    def n_outputs(self) -> int:
        """How many scores a row has."""
        return len(self.values[0])

    def scores(self, codes: Codes) -> np.ndarray:
        """Return the exact scores of rows: int32 of shape (outputs, rows)."""
        scores = np.repeat(self.start[:, None], len(codes), axis=1)
        values, first = self._packed
        slots = codes.layout.slot_array
        effect_kernels.add_effects(codes.narrow, codes.wide, slots, values, first, scores)
        return scores

    @cached_property
    def _packed(self) -> tuple[np.ndarray, np.ndarray]:
        """The values of all codes, feature after feature, and where those of each begin and end."""
        first = np.cumsum([0, *(own.shape[1] for own in self.values)], dtype=np.int64)
        return np.ascontiguousarray(np.concatenate(self.values, axis=1)), first

    @property
    def largest(self) -> np.ndarray:
        """A size that no row's score exceeds, of each output, in score steps."""
        sizes = [largest(self.start[:, None], axis=1)]
        sizes += [largest(own, axis=1) for own in self.values]
        most: np.ndarray = np.sum(sizes, axis=0)
        return most

    def typical(self) -> np.ndarray:
        """Return the scores of rows drawn from released mass: int32 of shape (outputs, rows)."""
        layout = Layout(tuple(own.shape[1] for own in self.values))
        return self.scores(Codes.of(layout, draw_rows(self.chances())[0]))

    def on_lines(self, lines: np.ndarray) -> AdditiveScores:
        """Return the model with each output's scores on a line; see `TreeScores.on_lines`."""
        slope = within_grid(lines[:, 0], self.largest)
        start = np.rint(slope * self.start + lines[:, 1] * SCORE_STEPS).astype(np.int32)
        by_code = slope[:, None]
        values = tuple(np.rint(own * by_code).astype(np.int32) for own in self.values)
        noise = None if self.noise is None else tuple(own * by_code for own in self.noise)
        return replace(self, start=start, values=values, noise=noise)

    def variances(self, codes: Codes) -> np.ndarray:
        """Return what noise gives to scores, squared: float of shape (outputs, rows)."""
        return self.variances_with((), codes)

    def variances_with(self, others: Sequence[Any], codes: Codes) -> np.ndarray:
        """Return the same for effects and what is added to them."""
        if self.noise is None or self.together is None:
            raise AttributeError(NO_ERRORS)
        total = np.zeros((self.n_outputs, len(codes)))
        for feature, noise in enumerate(self.noise):
            total += noise[:, codes.column(feature)] ** 2
        for part in others:
            part.add_variances(codes, total)
        scaled: np.ndarray = self.together[:, None] ** 2 * total
        return scaled

    def drawn(self, generator: np.random.Generator) -> AdditiveScores:
        """Return the model with noise drawn once more on top; see `importance.deviations`."""
        if self.noise is None:
            raise AttributeError(NO_ERRORS)
        values = tuple(
            add_noise(own, noise, generator)
            for own, noise in zip(self.values, self.noise, strict=True)
        )
        return replace(self, values=values, noise=tuple(MORE * own for own in self.noise))

    def feature_noise(self) -> tuple[np.ndarray, ...] | None:
        """Return for each feature the standard deviation of its codes' values."""
        return self.noise

    def feature_values(self) -> tuple[np.ndarray, ...]:
        """Return for each feature the score of its codes."""
        return self.values

    def parts(self) -> ScoreParts:
        """Return the scores as one sum."""
        return ScoreParts(self.start, self.values, noise=self.noise)

    def chances(self) -> tuple[np.ndarray, ...]:
        """Return for each feature how likely its codes are, from released Hessians."""
        if self.mass is None or self.noise is None:
            raise AttributeError(NO_MASS)
        return tuple(even(np.maximum(mass.sum(axis=0), 0.0)) for mass in self.mass)

    def changes(
        self, rows: np.ndarray, others: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield what other codes change; see `importance.Explainable`."""
        assert self.noise is not None
        for feature, (values, noise) in enumerate(zip(self.values, self.noise, strict=True)):
            before, after = rows[feature], others[feature]
            change = values[:, after].astype(np.float64) - values[:, before]
            # Codes of one cell have one value, and its noise is the same.
            doubt = (change != 0) * (noise[:, after] ** 2 + noise[:, before] ** 2)
            yield feature, change, doubt

    def to_form(self) -> dict[str, Any]:
        """Return what a model file keeps."""
        mass, noise = (None if part is None else list(part) for part in (self.mass, self.noise))
        kept = {} if self.rows is None else {"rows": self.rows}
        kept |= {} if self.missing is None else {"missing": self.missing}
        return kept | {
            "start": self.start,
            "values": list(self.values),
            "mass": mass,
            "noise": noise,
            "together": self.together,
        }

    @classmethod
    def from_form(cls, form: Any, layout: Layout, n_outputs: int) -> AdditiveScores:
        """Read what `to_form` gave: for each feature a value for each output and code."""
        place = "scores.values"
        own = {"start", "values", "mass", "noise", "together"}
        form = need_keys(form, "scores", own, {"rows", "missing"})
        start = need_array(form["start"], "scores.start", np.int32, (n_outputs,))
        count, n_codes = len(layout.n_codes), layout.n_codes
        values = need_list(form["values"], place)
        need(len(values) == count, place, "an array for each feature is needed")
        for own, codes in zip(values, n_codes, strict=True):
            need_array(own, place, np.int32, (n_outputs, codes))
        plain = cls(start, tuple(values))
        need_scores(plain.largest, place)
        if form["mass"] is None:
            return plain
        mass = need_list(form["mass"], "scores.mass", count)
        noise = need_list(form["noise"], "scores.noise", count)
        for own, doubt, codes in zip(mass, noise, n_codes, strict=True):
            need_finite(own, "scores.mass", (n_outputs, codes))
            need_finite(doubt, "scores.noise", (n_outputs, codes), least=0)
        together = need_finite(form["together"], "scores.together", (n_outputs,), least=0)
        missing = form.get("missing")  # earlier versions kept nothing
        if missing is not None:
            need_finite(missing, "scores.missing", (count, 3))
            need_finite(missing[:, 2], "scores.missing", (count,), least=0)
        parts = (tuple(mass), tuple(noise), together, read_rows(form), missing)
        return cls(start, tuple(values), *parts)
