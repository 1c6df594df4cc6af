"""Refusals: parameters that no plan can have, said before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from privboost.grid import MAX_SCORE, MAX_SIGMA, Contribution
from privboost.privacy.events.event import Event
from privboost.tables.domain import CategoricalFeature
from privboost.tables.encoding import FINE_BINS, Encoder

_MOST_CELLS = 2**28
"""Cells of a level's histograms, of 16 bytes each."""


def check_scores(most: float) -> None:
    """Refuse a model whose scores could leave the grid."""
    if most > MAX_SCORE - 8:  # an initial score takes up to 8
        raise ValueError(
            "n_estimators * leaf_clip * learning_rate is too large: a row's score (the sum of its "
            f"rounds' values) could pass {MAX_SCORE}; lower one of them"
        )


def check_shares(name: str, value: Any, count: int) -> tuple[float, ...]:
    """Return parts of a budget that add up to 1, of which only the first may be 0, or raise."""
    fine = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == count
    if not fine:
        raise ValueError(
            f"{name} must be {count} numbers (for the sketch of candidates, the choice of splits, "
            f"and leaves); {value!r} is not"
        )
    first = (
        0.0 if value[0] == 0 else check_number(f"the first of {name}, if not 0,", value[0], above=0)
    )
    rest = (check_number(f"each of {name} but the first", part, above=0) for part in value[1:])
    parts = (first, *rest)
    if not math.isclose(sum(parts), 1.0, rel_tol=0, abs_tol=1e-9):
        raise ValueError(f"{name} must add up to 1; {value!r} add up to {sum(parts):g}")
    return parts


def check_grid(events: Iterable[Event]) -> None:
    """Refuse noise that does not fit the integer grid."""
    for event in (part for whole in events for part in whole.parts):
        if not all(1 <= scale <= MAX_SIGMA for scale in event.scales):
            raise ValueError(
                "epsilon, or a share of it, is too small or too large: the noise of "
                f"{event.what!r} would not fit the integer grid"
            )


def check_choice(name: str, value: Any, choices: tuple[str, ...], *others: str) -> str:
    """Return a parameter that is one of a few words, or raise; `others` may be given instead."""
    if value not in choices:
        listed = " or ".join([*(f'"{choice}"' for choice in choices), *others])
        raise ValueError(f"{name} must be {listed}; {value!r} is not")
    return str(value)


def check_part(name: str, value: Any, or_else: int) -> float:
    """Return a parameter that lies strictly between 0 and 1, or is the one of them allowed."""
    fine = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not fine or not (0 < value < 1 or value == or_else):
        raise ValueError(f"{name} must lie between 0 and 1, or be {or_else}; {value!r} does not")
    return float(value)


def check_number(name: str, value: Any, above: float = -math.inf, below: float = math.inf) -> float:
    """Return a parameter as a float, or raise unless it is a number strictly between two others."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not above < value < below:
        limits = [f"above {above:g}"] if above > -math.inf else []
        limits += [f"below {below:g}"] if below < math.inf else []
        raise ValueError(f"{name} must be a finite number {' and '.join(limits)}; {value!r} is not")
    return float(value)


def check_count(name: str, value: Any, least: int) -> int:
    """Return a parameter as an int, or raise unless it is a whole number of at least `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; {value!r} is not")
    return int(value)


def check_bins(name: str, value: Any, encoder: Encoder) -> int:
    """Return a number of bins, or raise unless it is at least 2 and at most what numbers have."""
    bins, most = check_count(name, value, least=2), _most_bins(encoder)
    if bins > most:
        raise ValueError(
            f"{name} must be at most {most}, all bins that a number has; {bins} is not"
        )
    return bins


def check_candidates(value: int, encoder: Encoder) -> None:
    """Refuse more split candidates than lie between the bins of any number."""
    most = _most_bins(encoder) - 1
    if value > most:
        raise ValueError(
            f"n_candidates must be at most {most}, all edges between a number's bins; "
            f"{value} is not"
        )


def _most_bins(encoder: Encoder) -> int:
    """Return the largest number of fine bins: the usual, or what given edges make."""
    return max(FINE_BINS, *(len(edges) + 1 for edges in encoder.edges))


def count_cells(encoder: Encoder, n_candidates: int) -> int:
    """Return how many cells the histograms of all features have: a category keeps its codes."""
    return sum(
        codes if isinstance(feature, CategoricalFeature) else min(codes, n_candidates + 2)
        for feature, codes in zip(encoder.domain.features, encoder.layout.n_codes, strict=True)
    )


def check_histograms(encoder: Encoder, n_candidates: int, depth: int) -> None:
    """Refuse trees whose node histograms no machine holds."""
    if count_cells(encoder, n_candidates) * 2**depth > _MOST_CELLS:
        raise ValueError(
            "the histograms of a level would be too large: lower max_depth (or greedy_depth) or "
            "n_candidates"
        )


def check_sampled_units(subsample: float, contribution: Contribution) -> None:
    """Refuse to sample the rows of units that have several."""
    if subsample < 1 and contribution.rows > 1:
        raise ValueError(
            "subsample below 1 needs a domain in which a unit has one row: a unit of several rows "
            "may be sampled in part, and no amplification is proved for that"
        )
