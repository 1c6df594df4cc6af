"""Findings after a fit: read off released values alone, so that they cost no privacy.

Findings are a function of the model's file: two fits that released the same have the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from privboost._core.errors import FitWarning
from privboost._core.grid import FULL_RANGE, LABEL_STEPS, SCORE_STEPS
from privboost._core.warnings import warn
from privboost.data.features import CategoricalFeature, DateFeature, DurationFeature
from privboost.data.rows import Codes
from privboost.data.targets import ClassTarget
from privboost.explanations.terms import (
    LABEL_BOUNDS,
    LARGE_DELTA,
    MISSING_COLUMN,
    MOVED_MEAN,
    NO_ROWS,
    NO_SIGNAL,
    RARE_CLASS,
    UNCERTAIN_MEAN,
    WIDE_BOUNDS,
    WIDE_INTERVALS,
    Finding,
)
from privboost.models.intervals import EXPORTED_COVERAGE
from privboost.models.scores import ModelView, draw_rows
from privboost.reports.report import WEIGHTED

_MOST_OF_MASS = 0.8
_FEW_BINS = 0.2
"""Bounds are wide where most of the mass lies in this part of the bins."""

_RARE = 0.02
"""A class is rare with less than this part of an even share."""

_DELTA_PART = 0.1
"""δ is large above this part of one over the number of units."""

_NARROW_SPAN = 0.2
"""Bounds of labels are wide if labels fill less than this part."""

_UNCERTAIN = 0.2
"""A mean is uncertain with a larger standard error, in parts of itself."""

_MOVED = 0.1
"""The mean prediction had moved if it was off by more, in parts of the mean label."""

_NAMED = 10
"""The largest number of features in one sentence."""

_ROWS_THAT_MATTER = 1000.0
"""The least number of rows, times ε, from which recipes learn much."""

_SOME_VALUES = 0.15
"""A column is empty if rows with a value, plus two errors, are less than this part of others."""


def find(model: ModelView) -> tuple[Finding, ...]:
    """Return all findings about a model."""
    checks = (_signals, _rows, _missing, _classes, _bounds, _labels, _mean, _intervals, _delta)
    view = _View(model)
    found = [finding for check in checks for finding in check(view)]
    rows = None if view.shares is None else view.rows
    return (*found, *model.scores.findings(model, rows))


def find_defects(model: ModelView) -> tuple[Finding, ...]:
    """Return the findings that need action.

    They are: no rows with a label, columns without values, a mean that noise hides.
    """
    view = _View(model)
    uncertain = (each for each in _mean(view) if each.kind == UNCERTAIN_MEAN)
    return (*_rows(view), *_missing(view), *uncertain)


def warn_of_defects(result: Any, findings: Iterable[Finding]) -> None:
    """Issue one warning for all findings that need action, if there are any.

    It holds the complete result (a model or an evaluation): it may be turned into an exception.
    """
    warning = FitWarning(*findings)
    if warning.findings:
        warning.result = result
        warn(warning)


@dataclass(frozen=True, eq=False)
class _View:
    """A model with the quantities that several checks need."""

    model: ModelView

    @cached_property
    def _drawn(self) -> tuple[np.ndarray, np.ndarray]:
        return draw_rows(self.model.scores.code_probabilities())

    @cached_property
    def shares(self) -> np.ndarray | None:
        """The importances, or None where no mass was released."""
        try:
            return self.model.scores.importances(self._drawn)
        except AttributeError:
            return None

    @cached_property
    def rows(self) -> Codes:
        """Rows drawn from noisy counts."""
        return Codes.of(self.model.encoder.layout, self._drawn[0])

    @property
    def noiseless(self) -> bool:
        """Whether the rows are public, so that there is no noise."""
        return self.model.privacy.public_rows


def _signals(view: _View) -> Iterator[Finding]:
    shares = view.shares
    if shares is None or view.noiseless:
        return
    if not shares.any():
        text = (
            "no feature stands out from the noise: are labels written as in the table, and are "
            "there enough rows for this epsilon?"
        )
        yield Finding(NO_SIGNAL, text)
        return
    silent = [
        own for own, share in zip(view.model.domain.feature_names, shares, strict=True) if not share
    ]
    if silent:
        yield Finding(NO_SIGNAL, f"{_listed(silent)}: nothing that stands out from the noise")


def _rows(view: _View) -> Iterator[Finding]:
    """Check whether any rows were found, where noise leaves a relevant number visible."""
    counts, privacy = list(view.model.scores.row_counts()), view.model.privacy
    if counts and all(_is_nothing(*own, privacy.epsilon) for own in counts):
        weighted = any(own.startswith(WEIGHTED) for own in privacy.assumptions)
        classes = view.model.domain.target.task == "classes"
        yield no_rows(classes, view.noiseless, weighted)


def no_rows(classes: bool, noiseless: bool, weighted: bool = False) -> Finding:
    """Return the finding that hardly any row has a valid label.

    Only rows with valid labels are counted, so few rows and unmatched labels look the same.
    """
    unmatched = "labels match no class" if classes else "labels are not numbers"
    weights = ", weights are not positive (are weights numbers above 0?)" if weighted else ""
    few = "there are no rows" if noiseless else "there are hardly any rows for this epsilon"
    counted = "is 0" if noiseless else "does not stand out from its noise"
    text = (
        f"the released number of rows with a known label {counted}: {unmatched} (are labels "
        f"written as in the table?){weights}, or {few}"
    )
    return Finding(NO_ROWS, text)


def _is_nothing(count: float, error: float, epsilon: float) -> bool:
    """Return whether a noisy count excludes a relevant number of rows."""
    if error == 0:  # exact: the rows are public
        return count <= 0
    return count < 2 * error and (count + 2 * error) * epsilon < _ROWS_THAT_MATTER


def _missing(view: _View) -> Iterator[Finding]:
    """Check for columns in which nearly every cell seems to be missing or unreadable."""
    # Greedy splits may always send missing values along with others.
    greedy = "split_lambda" in view.model.privacy.parameters
    found = None if greedy else view.model.scores.missing_cells()
    if found is None:
        return
    names = [
        name
        for name, own in zip(view.model.domain.feature_names, found, strict=True)
        if _is_empty(*own.tolist())
    ]
    if names:
        text = (
            f"{_listed(names)}: nearly every cell seems to be missing: is the column filled, and "
            "are its values written as the domain says?"
        )
        yield Finding(MISSING_COLUMN, text)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _is_empty(missing: float, present: float, error: float) -> bool:
    """Return whether hardly any row has a value, from sums over rows without and with one."""
    most = max(present, 0.0) + 2 * error
    return present <= 2 * error and most < _SOME_VALUES * missing


def _classes(view: _View) -> Iterator[Finding]:
    """Check for classes that hardly any row gets: a label may be written in another way."""
    model = view.model
    log_odds = isinstance(model.domain.target, ClassTarget) and model.scores.log_odds
    if not log_odds or view.shares is None:
        return
    scores = model.scores.scores(view.rows) / SCORE_STEPS
    of_all = softmax(scores, axis=0) if model.link == "softmax" else expit(scores)
    shares = of_all.mean(axis=1)
    if len(shares) == 1:
        shares = np.array([1 - shares[0], shares[0]])
    for name, share in zip(model.classes, shares, strict=True):
        if share * len(shares) < _RARE:
            text = f"hardly a row seems to be of class {name}: is it written as in the table?"
            yield Finding(RARE_CLASS, text)


def _bounds(view: _View) -> Iterator[Finding]:
    """Check for numbers whose mass lies in a small part of their bounds."""
    model, scores = view.model, view.model.scores
    if not scores.resolves_bins or view.shares is None:
        return
    by_feature = zip(model.domain.features, scores.code_probabilities(), strict=True)
    price = "" if view.noiseless else "; another fit on these rows costs its epsilon again"
    for k, (feature, own) in enumerate(by_feature):
        if isinstance(feature, CategoricalFeature):
            continue
        number = feature.number
        if number.edges is not None or number.scale == "log":  # whose bounds may be wide
            continue
        first, last = _fullest(own[:-1])
        if last - first <= _FEW_BINS * (len(own) - 1):
            low, high = number.bounds
            ends = np.concatenate([[low], model.encoder.edges[k], [high]])
            timed = isinstance(feature, DateFeature | DurationFeature)
            write = feature.format_value if timed else "{:.4g}".format
            log = "" if isinstance(feature, DateFeature) else ', or scale "log",'
            text = (
                f"{feature.name}: about {_MOST_OF_MASS:.0%} of the noisy counts lie from "
                f"{write(ends[first])} to {write(ends[last])}, and the bounds are {write(low)} and "
                f"{write(high)}: narrower ones{log} would give it finer bins{price}"
            )
            yield Finding(WIDE_BOUNDS, text)


def _fullest(probabilities: np.ndarray) -> tuple[int, int]:
    """Return the narrowest range of bins (first, last + 1) with most of the mass."""
    total = np.concatenate([[0.0], np.cumsum(probabilities)])
    need = _MOST_OF_MASS * total[-1]
    # Rounding must not move the last bin out of range.
    last = np.minimum(np.searchsorted(total, total[:-1] + need), len(probabilities))
    wide = np.where(
        total[last] - total[:-1] >= need * (1 - 1e-9), last - np.arange(len(last)), np.inf
    )
    first = int(wide.argmin())
    return first, int(last[first])


def _labels(view: _View) -> Iterator[Finding]:
    """Check the clipping range of labels, where one was released."""
    model, target = view.model, view.model.domain.target
    if isinstance(target, ClassTarget) or not model.privacy.parameters.get("span_share"):
        return
    low, high = model.span
    sides = zip(model.span, FULL_RANGE, ("lower", "upper"), target.bounds, strict=True)
    for end, most, side, bound in sides:
        if end == most and model.span != FULL_RANGE and not (model.link == "log" and end < 0):
            text = (
                f"labels seem to reach the {side} bound {bound:g}: what lies beyond it counts as it"
            )
            yield Finding(LABEL_BOUNDS, text)
    if high - low < _NARROW_SPAN * 2 * LABEL_STEPS:
        first, last = model.bounds
        text = (
            f"labels seem to lie from {first:.4g} to {last:.4g}, and the bounds are "
            f"{target.bounds[0]:g} and {target.bounds[1]:g}: narrower ones need no search"
        )
        yield Finding(LABEL_BOUNDS, text)


def _intervals(view: _View) -> Iterator[Finding]:
    """Check that intervals, or sets, of the usual coverage say anything."""
    nonconformity = view.model.nonconformity
    if nonconformity is not None and nonconformity.threshold(EXPORTED_COVERAGE) is None:
        classes = isinstance(view.model.domain.target, ClassTarget)
        what = "sets" if classes else "intervals"
        trivial = "hold all classes" if classes else "are the bounds"
        text = (
            f"prediction {what} of {EXPORTED_COVERAGE:.0%} coverage {trivial}: too few units were "
            "put aside for this epsilon; a larger conformal_fraction puts more aside"
        )
        yield Finding(WIDE_INTERVALS, text)


def _mean(view: _View) -> Iterator[Finding]:
    """Compare the mean prediction with the mean label, where the last release has both."""
    model, target = view.model, view.model.domain.target
    facts = model.scores.mean
    if facts is None or isinstance(target, ClassTarget):
        return
    if target.scale != "linear" or target.bounds[0] < 0:  # a ratio says nothing
        return
    middle, half = model.middle_and_half
    label, before, after = (middle + half * facts[k] for k in (0, 2, 3))
    error, clipped = half * float(facts[1]), float(facts[4])
    if any(_rows(view)):  # of no rows there is no mean
        return
    if label <= 2 * error or error > _UNCERTAIN * label:
        text = (
            f"the mean label is {max(label, 0.0):.3g} ± {error:.2g} by noisy sums, and the mean "
            f"prediction {after:.3g}: for sums of predictions more rows or a larger epsilon are "
            "needed, or narrower bounds"
        )
        yield Finding(UNCERTAIN_MEAN, text)
        return
    if abs(before / label - 1) > max(_MOVED, 2 * error / label):
        share = f" (which concerns some {clipped:.0%} of rows)" if clipped > 0 else ""
        text = (
            f"a clip of gradients{share} had drawn the mean prediction to {before / label:.2f} "
            f"times the mean label (± {error / label:.2f}); the last release corrected it to "
            f"{after / label:.2f}"
        )
        yield Finding(MOVED_MEAN, text)


def _delta(view: _View) -> Iterator[Finding]:
    """Compare δ with one over the least number of rows by noisy counts."""
    model, privacy = view.model, view.model.privacy
    rows = model.scores.least_rows()
    if rows is None or view.noiseless:
        return
    unit = model.domain.unit
    units = rows / (1 if unit is None else unit.contribution().unit_weight)
    if privacy.delta * units >= _DELTA_PART:
        text = (
            f"delta is {privacy.delta:.2g}, and noisy counts amount to {units:.2g} protected "
            "units or more: keep it far below one over their number"
        )
        yield Finding(LARGE_DELTA, text)
