"""Limits of plans, checked before anything is spent: the integer grid, memory, sampled units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from privboost._core.checks import (
    MOST_SIZE,
    as_float,
    check_count,
    check_number,
    check_share,
    is_number,
    shown,
)
from privboost._core.grid import CLIP_STEPS, MAX_SCORE, MAX_SIGMA, Contribution
from privboost.accounting.calibration import LEAST_RATE
from privboost.accounting.events import Event
from privboost.data.encoding import Encoder
from privboost.data.feature_base import FINE_BINS
from privboost.data.features import CategoricalFeature

_MOST_OF_ROUNDS = MAX_SCORE - 8
"""Largest score without the initial one, which takes up to 8."""
_MOST_CELLS = 2**28
"""Most cells of a level's histograms, of 16 bytes each."""


def check_scores(most: float) -> None:
    """Refuse a model whose scores could leave the grid."""
    if most > _MOST_OF_ROUNDS:
        raise ValueError(
            "n_estimators * leaf_clip * learning_rate is too large: a row's score (the sum of its "
            f"rounds' values) could pass {MAX_SCORE}; lower one of them"
        )


def widest_clip(n_estimators: int, learning_rate: float) -> float:
    """Return the largest clip of a tree's values with which no score can leave the grid."""
    return _MOST_OF_ROUNDS * (1 - 1e-9) / (n_estimators * learning_rate)


def check_grid(events: Iterable[Event]) -> None:
    """Refuse noise that does not fit the integer grid."""
    for event in (part for whole in events for part in whole.parts):
        if not all(1 <= scale <= MAX_SIGMA for scale in event.scales):
            raise ValueError(
                "epsilon, or a share of it, is too small or too large: the noise of "
                f"{event.what!r} would not fit the integer grid"
            )


def check_rate(name: str, value: Any) -> float:
    """Return a sampling rate of rows, or raise."""
    number = as_float(value)
    if not LEAST_RATE <= number <= 1:
        raise ValueError(
            f"{name} must lie between 0 and 1 (from {LEAST_RATE:g} on), or be 1; "
            f"{shown(value)} does not"
        )
    return number


def check_sampled_units(subsample: float, contribution: Contribution) -> None:
    """Refuse to sample the rows of units that have several."""
    if subsample < 1 and contribution.rows > 1:
        raise ValueError(
            "subsample below 1 needs a domain in which a unit has one row: a unit of several rows "
            "may be sampled in part, and no amplification is proved for that"
        )


def check_shares(name: str, value: Any) -> tuple[float, ...]:
    """Return three shares of a budget that add up to 1, or raise; only the first may be 0."""
    fine = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 3
    if not fine:
        raise ValueError(
            f"{name} must be 3 numbers (for the sketch of candidates, the choice of splits, "
            f"and leaves); {shown(value)} is not"
        )
    first = check_share(f"the first of {name}", value[0], or_else=0)
    rest = (check_share(f"each of {name} but the first", part) for part in value[1:])
    parts = (first, *rest)
    if not math.isclose(sum(parts), 1.0, rel_tol=0, abs_tol=1e-9):
        raise ValueError(f"{name} must add up to 1; {shown(value)} add up to {sum(parts):g}")
    return parts


def check_split_lambda(name: str, value: Any) -> float:
    """Return λ of the score of splits, or raise unless it is more than one grid step."""
    return check_number(name, value, above=1 / CLIP_STEPS, below=MOST_SIZE)


def check_bins(name: str, value: Any, encoder: Encoder) -> int:
    """Return a number of bins, or raise unless it lies between 2 and the number of fine bins."""
    bins, most = check_count(name, value, least=2), _most_bins(encoder)
    if bins > most:
        raise ValueError(
            f"{name} must be at most {most}, all bins that a number has; {bins} is not"
        )
    return bins


def check_candidates(value: int, encoder: Encoder, sketch_bins: int | None = None) -> None:
    """Refuse more split candidates than there are edges between bins, or a finer sketch."""
    if sketch_bins is not None:
        check_bins("sketch_bins", sketch_bins, encoder)
    most = _most_bins(encoder) - 1
    if value > most:
        raise ValueError(
            f"n_candidates must be at most {most}, all edges between a number's bins; "
            f"{value} is not"
        )


def _most_bins(encoder: Encoder) -> int:
    """Return the largest number of fine bins: the usual one, or that of declared edges."""
    return max(FINE_BINS, *(len(edges) + 1 for edges in encoder.edges))


def count_cells(encoder: Encoder, n_candidates: int) -> int:
    """Return the number of cells of all features' histograms; a category has one for each code."""
    return sum(
        codes if isinstance(feature, CategoricalFeature) else min(codes, n_candidates + 2)
        for feature, codes in zip(encoder.domain.features, encoder.layout.n_codes, strict=True)
    )


def check_histograms(encoder: Encoder, n_candidates: int, depth: int) -> None:
    """Refuse trees whose node histograms would not fit into memory."""
    if count_cells(encoder, n_candidates) * 2**depth > _MOST_CELLS:
        raise ValueError(
            "the histograms of a level would be too large: lower max_depth (or greedy_depth) or "
            "n_candidates"
        )


def check_monotone(name: str, value: Any) -> tuple[tuple[str, int], ...]:
    """Return the features with a monotone effect and their directions, sorted by name."""
    if value is None or isinstance(value, tuple):
        value = dict(value or ())
    rule = f"{name} must map names of features to 1 (never falls), -1 (never rises) or 0"
    if not isinstance(value, Mapping):
        raise ValueError(f"{rule}; {shown(value)} does not")
    for feature, slope in value.items():
        if not (isinstance(feature, str) and is_number(slope) and slope in (-1, 0, 1)):
            raise ValueError(f"{rule}; {shown({feature: slope})} does not")
    return tuple(sorted((str(feature), int(slope)) for feature, slope in value.items() if slope))


def check_slopes(monotone: tuple[tuple[str, int], ...], encoder: Encoder, outputs: int) -> None:
    """Refuse monotone effects of features that have no order, or of several outputs."""
    known = {feature.name: feature for feature in encoder.domain.features}
    for name, _ in monotone:
        if name not in known:
            raise ValueError(f"monotone: there is no feature {name!r}")
        if isinstance(known[name], CategoricalFeature):
            raise ValueError(
                f"monotone: {name!r} is a category, and its values have no order; declare it as a "
                "number, or leave it out"
            )
    if monotone and outputs > 1:
        raise ValueError(
            "monotone needs two classes or a number: beyond two, what raises the score of one "
            "class need not raise its probability"
        )
