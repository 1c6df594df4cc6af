"""What is worth a look after a fit: read off released values alone, so it is free.

Everything here is a function of the model as its file holds it: two fits that released the same
are told the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit

from privboost.cautions import warn
from privboost.errors import FitWarning
from privboost.explanations.lists import Finding
from privboost.grid import LABEL_STEPS, SCORE_STEPS, WHOLE_SPAN
from privboost.models.additive import AdditiveScores
from privboost.models.compound import CompoundScores
from privboost.models.export import vote_card
from privboost.models.importance import draw_rows, importances
from privboost.models.linear import LinearScores
from privboost.models.model import Model
from privboost.models.trees import TreeScores
from privboost.models.votes import OddsVotes, VoteScores
from privboost.reports.report import WEIGHTED
from privboost.tables.features import CategoricalFeature, ClassTarget, DateFeature, DurationFeature
from privboost.tables.rows import Codes

NO_SIGNAL = "no signal"
NO_ROWS = "no rows"
MISSING_COLUMN = "missing column"
RARE_CLASS = "rare class"
WIDE_BOUNDS = "wide bounds"
LABEL_BOUNDS = "label bounds"
LARGE_DELTA = "large delta"
WASTED_SHARE = "wasted share"

_MOST_OF_MASS = 0.8
_FEW_BINS = 0.2
"""Bounds are wide where most of the mass lies in so small a part of them."""

_RARE = 0.02
"""A class is rare that has less than this part of what it would have if all were alike."""

_DELTA_PART = 0.1
"""δ is large above this part of one over the number of rows."""

_NARROW_SPAN = 0.2
"""Bounds of labels are wide of which labels fill less than this part."""

_NAMED = 10
"""So many features are named in one sentence."""

_ENOUGH_TREES = 10
"""From so many trees on, their totals tell by themselves how far noise moves them."""

_ROWS_THAT_MATTER = 1000.0
"""So many rows, over ε: of fewer no recipe learns much."""

_SOME_VALUES = 0.15
"""A column is empty if rows with a value, two standard errors added, are less of the others."""

_MANY_CANCELLED = 0.25
"""Votes were wasted of which at least this part cancels."""

_FLAT = 0.1
"""Votes tell nothing that all together move the log-odds by less."""


def find(model: Model) -> tuple[Finding, ...]:
    """Return what is worth a look: the same for all models whose files are the same."""
    looks = (_signals, _rows, _missing, _classes, _bounds, _labels, _delta, _joint_answers, _votes)
    told = _Told(model)
    return tuple(finding for look in looks for finding in look(told))


def find_defects(model: Model) -> tuple[Finding, ...]:
    """Return the findings that a user must act on: no rows with a label, columns without values."""
    told = _Told(model)
    return (*_rows(told), *_missing(told))


def warn_of_defects(result: Any, findings: Iterable[Finding]) -> None:
    """Warn once of all findings that a user must act on, if there are any.

    Parameters
    ----------
    result : Model or Evaluation
        What they were found in. It must be complete: the warning may be turned into an exception.
    findings : iterable of Finding
        What was found, from released values alone.
    """
    warning = FitWarning(*findings)
    if warning.findings:
        warning.result = result
        warn(warning)


@dataclass(frozen=True, eq=False)
class _Told:
    """A model, with what is read off it more than once."""

    model: Model

    @cached_property
    def shares(self) -> np.ndarray | None:
        """The importances, noise taken off, where what was released tells them."""
        try:
            return importances(self.model.scores)
        except AttributeError:
            return None

    @cached_property
    def rows(self) -> Codes:
        """Rows drawn from released mass, where there is some."""
        codes = draw_rows(self.model.scores.chances())[0]
        return Codes.of(self.model.encoder.layout, codes)

    @property
    def noiseless(self) -> bool:
        """Whether there is no noise to stand out from."""
        return self.model.privacy.public_rows

    @property
    def price(self) -> str:
        """What to say of advice that only another fit can follow."""
        return "" if self.noiseless else "; another fit on these rows costs its epsilon again"


def _signals(told: _Told) -> Iterator[Finding]:
    shares = told.shares
    if shares is None or told.noiseless:
        return
    if not shares.any():
        text = (
            "no feature stands out from the noise: are labels written as in the table, and are "
            "there enough rows for this epsilon?"
        )
        yield Finding(NO_SIGNAL, text)
        return
    silent = [
        own for own, share in zip(told.model.domain.feature_names, shares, strict=True) if not share
    ]
    if silent:
        more = f" and {len(silent) - _NAMED} others" if len(silent) > _NAMED else ""
        text = f"{', '.join(silent[:_NAMED])}{more}: nothing that stands out from the noise"
        yield Finding(NO_SIGNAL, text)


def _rows(told: _Told) -> Iterator[Finding]:
    """Look whether rows were found at all, where noise would show so many that they matter."""
    ways, privacy = list(_told_rows(told.model.scores)), told.model.privacy
    if ways and all(_is_nothing(*way, privacy.epsilon) for way in ways):
        weighted = any(said.startswith(WEIGHTED) for said in privacy.assumptions)
        classes = isinstance(told.model.domain.target, ClassTarget)
        yield no_rows(classes, told.noiseless, weighted)


def no_rows(classes: bool, noiseless: bool, weighted: bool = False) -> Finding:
    """Return the finding that hardly any row has a label that can be used.

    Only rows with such labels are counted, so that few rows and unmatched labels look alike.
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
    """Whether a count tells of no rows, and is sure that there are not so many that they matter."""
    if error == 0:  # exact, of public rows
        return count <= 0
    return count < 2 * error and (count + 2 * error) * epsilon < _ROWS_THAT_MATTER


def _missing(told: _Told) -> Iterator[Finding]:
    """Look for columns in which nearly every cell seems to be missing or unreadable."""
    found = _missing_cells(told.model)
    if found is None:
        return
    names = [
        name
        for name, own in zip(told.model.domain.feature_names, found, strict=True)
        if _is_empty(*own.tolist())
    ]
    if names:
        more = f" and {len(names) - _NAMED} others" if len(names) > _NAMED else ""
        text = (
            f"{', '.join(names[:_NAMED])}{more}: nearly every cell seems to be missing: is the "
            "column filled, and are its values written as the domain says?"
        )
        yield Finding(MISSING_COLUMN, text)


def _is_empty(missing: float, present: float, error: float) -> bool:
    """Whether hardly any row has a value, by sums over rows without one and over those with one."""
    most = max(present, 0.0) + 2 * error
    return present <= 2 * error and most < _SOME_VALUES * missing


def _missing_cells(model: Model) -> np.ndarray | None:
    """Return released sums over rows without a value, with one, and the latter's standard error.

    Of shape (features, 3); None where nothing was released that tells.
    """
    scores = model.scores.alone if isinstance(model.scores, CompoundScores) else model.scores
    if isinstance(scores, AdditiveScores):
        return scores.missing
    # Where trees are grown greedily, missing values may always go along with the others.
    if isinstance(scores, TreeScores) and "split_lambda" not in model.privacy.parameters:
        return scores.missing_cells()
    return None


def _told_rows(scores: Any) -> Iterator[tuple[float, float]]:
    """Yield how many rows there are, as far as was released, and the standard error of that.

    Trees tell their mass, which is no more, again and again; in a stream those of later batches.
    """
    scores = scores.alone if isinstance(scores, CompoundScores) else scores
    if scores.rows is not None:
        count, error = scores.rows.tolist()
        yield count, error
    totals = _totals(scores)
    if totals is not None and len(totals) >= _ENOUGH_TREES:
        yield float(totals.mean()), float(np.linalg.norm(_error(totals))) / totals.shape[1]


def _classes(told: _Told) -> Iterator[Finding]:
    """Look for classes that hardly any row is given: a label may be written in another way."""
    model = told.model
    if not model.has_chances or told.shares is None:
        return
    scores = model.scores.scores(told.rows)
    chances = expit(scores / SCORE_STEPS).mean(axis=1)
    if len(chances) == 1:
        chances = np.array([1 - chances[0], chances[0]])
    for name, chance in zip(model.classes, chances, strict=True):
        if chance * len(chances) < _RARE:
            text = f"hardly a row seems to be of class {name}: is it written as in the table?"
            yield Finding(RARE_CLASS, text)


def _bounds(told: _Told) -> Iterator[Finding]:
    """Look for numbers whose mass lies in a small part of their bounds."""
    model, scores = told.model, told.model.scores
    if isinstance(scores, LinearScores) or told.shares is None:
        return
    for k, (feature, own) in enumerate(zip(model.domain.features, scores.chances(), strict=True)):
        if isinstance(feature, CategoricalFeature) or feature.number.edges is not None:
            continue
        number = feature.number
        if number.scale == "log":  # whose bounds may be wide
            continue
        first, last = _fullest(own[:-1])
        if last - first <= _FEW_BINS * (len(own) - 1):
            low, high = number.bounds
            ends = np.concatenate([[low], model.encoder.edges[k], [high]])
            timed = isinstance(feature, DateFeature | DurationFeature)
            write = feature.format_value if timed else "{:.4g}".format
            log = "" if isinstance(feature, DateFeature) else ', or scale "log",'
            text = (
                f"{feature.name}: about {_MOST_OF_MASS:.0%} of the released mass lie from "
                f"{write(ends[first])} to {write(ends[last])}, and the bounds are {write(low)} and "
                f"{write(high)}: narrower ones{log} would give it finer bins{told.price}"
            )
            yield Finding(WIDE_BOUNDS, text)


def _fullest(chances: np.ndarray) -> tuple[int, int]:
    """Return from which bin to which (the one behind it) most of the mass lies, most narrowly."""
    total = np.concatenate([[0.0], np.cumsum(chances)])
    need = _MOST_OF_MASS * total[-1]
    # All of it is never out of reach, whatever rounding does.
    last = np.minimum(np.searchsorted(total, total[:-1] + need), len(chances))
    wide = np.where(
        total[last] - total[:-1] >= need * (1 - 1e-9), last - np.arange(len(last)), np.inf
    )
    first = int(wide.argmin())
    return first, int(last[first])


def _labels(told: _Told) -> Iterator[Finding]:
    """Look at the span of labels, where one was learned."""
    model, target = told.model, told.model.domain.target
    if isinstance(target, ClassTarget) or not model.privacy.parameters.get("span_share"):
        return
    low, high = model.span
    for end, bound, words in ((low, -LABEL_STEPS, "lower"), (high, LABEL_STEPS, "upper")):
        if end == bound and (low, high) != WHOLE_SPAN:  # of which nothing was told
            own = target.bounds[0] if words == "lower" else target.bounds[1]
            text = (
                f"labels seem to reach the {words} bound {own:g}: what lies beyond it counts as it"
            )
            yield Finding(LABEL_BOUNDS, text)
    if high - low < _NARROW_SPAN * 2 * LABEL_STEPS:
        first, last = model.bounds
        text = (
            f"labels seem to lie from {first:.4g} to {last:.4g}, and the bounds are "
            f"{target.bounds[0]:g} and {target.bounds[1]:g}: narrower ones need no search"
        )
        yield Finding(LABEL_BOUNDS, text)


def _delta(told: _Told) -> Iterator[Finding]:
    """Compare δ with one over the rows that masses speak of: there are at least as many."""
    model, privacy = told.model, told.model.privacy
    rows = _least_rows(model.scores)
    if rows is None or told.noiseless:
        return
    units = rows / (1 if model.domain.unit is None else model.domain.unit.max_rows)
    if privacy.delta * units >= _DELTA_PART:
        text = (
            f"delta is {privacy.delta:.2g}, and released masses speak of {units:.2g} protected "
            "units or more: keep it far below one over their number"
        )
        yield Finding(LARGE_DELTA, text)


def _least_rows(scores: Any) -> float | None:
    """Return how many rows there are at least, about: none has a mass above 1."""
    if isinstance(scores, CompoundScores):
        return _least_rows(scores.alone)
    if isinstance(scores, AdditiveScores):
        if scores.mass is None:
            return None
        return max(float(min(own[k].sum() for own in scores.mass)) for k in range(scores.n_outputs))
    totals = _totals(scores)
    if totals is None or len(totals) < _ENOUGH_TREES:
        return None
    return float((totals.mean(axis=0) - 2 * _error(totals)).max())


def _error(totals: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean of what trees tell."""
    error: np.ndarray = totals.std(axis=0) / math.sqrt(len(totals))
    return error


def _totals(scores: Any) -> np.ndarray | None:
    """Return the mass that each tree tells of all rows, of shape (trees, outputs)."""
    forests = scores.forests if isinstance(scores, TreeScores) else ()
    masses = [own.mass.sum(axis=2, dtype=np.float64) for own in forests if own.mass is not None]
    if not masses:
        return None
    totals = np.concatenate(masses)
    # Where a tree is about one output alone, the others have no mass.
    alone = totals.shape[1] > 1 and bool(((totals != 0).sum(axis=1) <= 1).all())
    return totals.sum(axis=1, keepdims=True) if alone else totals


def _joint_answers(told: _Told) -> Iterator[Finding]:
    """Look whether what features do together stands out from the noise, on rows that occur."""
    scores = told.model.scores
    if not isinstance(scores, CompoundScores) or told.noiseless or told.shares is None:
        return
    codes = told.rows
    joint = scores.scores(codes).astype(np.float64) - scores.alone.scores(codes)
    noise = np.zeros(joint.shape)
    parts: list[Any] = [*scores.pairs, *scores.trees.forests]
    for part in parts:
        part.add_variances(codes, noise)
    if joint.var(axis=1).sum() <= noise.mean(axis=1).sum():
        text = (
            "pairs and trees do not stand out from the noise: features may make better use of "
            f"their share (interactions=False){told.price}"
        )
        yield Finding(WASTED_SHARE, text)


def _votes(told: _Told) -> Iterator[Finding]:
    """Look for votes that cancel each other, and for classes that votes tell nothing about."""
    model, scores = told.model, told.model.scores
    if not isinstance(scores, VoteScores):
        return
    if scores.of_rules:
        card = vote_card(model)
        cast = scores.n_trees
        left = int(np.abs(card["votes"].to_numpy()).sum()) if card.num_rows else 0
        if cast - left >= _MANY_CANCELLED * cast:
            text = f"{cast - left} of {cast} votes cancel each other"
            yield Finding(WASTED_SHARE, text)
    if isinstance(scores, OddsVotes):
        most = scores.worth / SCORE_STEPS * scores.n_trees / scores.n_outputs
        names = model.classes if scores.n_outputs > 1 else model.classes[1:]
        for name, own in zip(names, most, strict=True):
            if own < _FLAT:
                text = f"votes hardly move the log-odds of class {name}"
                yield Finding(NO_SIGNAL, text)
