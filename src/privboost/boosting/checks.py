"""Refusals: parameters that no plan can have, said before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privboost.grid import CLIP_STEPS, MAX_SCORE, MAX_SIGMA, Contribution
from privboost.privacy.calibration import LEAST_RATE
from privboost.privacy.events.event import Event
from privboost.tables.domain_checks import FINE_BINS
from privboost.tables.encoding import Encoder
from privboost.tables.features import CategoricalFeature

LEAST_SIZE, MOST_SIZE = 1e-50, 1e50
"""Between them lies whatever is a size: a clip, a rate of learning, a bound of weights."""
LEAST_SHARE = 1e-6
"""A part of a budget: its noise is then a thousand times that of the whole."""
MOST_COUNT = 10**6
"""Of rounds, trees, or whatever is counted."""
_MOST_OF_ROUNDS = MAX_SCORE - 8
"""A score, without the initial one, which takes up to 8."""
_LEAST_PART = 1e-9
_MOST_SHOWN = 100
_MOST_CELLS = 2**28
"""Cells of a level's histograms, of 16 bytes each."""


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


def check_shares(name: str, value: Any, count: int) -> tuple[float, ...]:
    """Return parts of a budget that add up to 1, of which only the first may be 0, or raise."""
    fine = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == count
    if not fine:
        raise ValueError(
            f"{name} must be {count} numbers (for the sketch of candidates, the choice of splits, "
            f"and leaves); {shown(value)} is not"
        )
    first = check_share(f"the first of {name}", value[0], or_else=0)
    rest = (check_share(f"each of {name} but the first", part) for part in value[1:])
    parts = (first, *rest)
    if not math.isclose(sum(parts), 1.0, rel_tol=0, abs_tol=1e-9):
        raise ValueError(f"{name} must add up to 1; {shown(value)} add up to {sum(parts):g}")
    return parts


def check_rest(**shares: float) -> None:
    """Refuse parts of a budget that leave nothing for the rounds."""
    if sum(shares.values()) > 1 - LEAST_SHARE:
        raise ValueError(f"{' and '.join(shares)} leave nothing for the rounds")


def check_grid(events: Iterable[Event]) -> None:
    """Refuse noise that does not fit the integer grid."""
    for event in (part for whole in events for part in whole.parts):
        if not all(1 <= scale <= MAX_SIGMA for scale in event.scales):
            raise ValueError(
                "epsilon, or a share of it, is too small or too large: the noise of "
                f"{event.what!r} would not fit the integer grid"
            )


def keep_checked(settings: Any, **checks: Callable[[str, Any], Any]) -> None:
    """Make each named field of frozen settings what its check returns.

    That is plain Python whatever was given, so that every plan can be written down and hashed.
    """
    for name, check in checks.items():
        object.__setattr__(settings, name, check(name, getattr(settings, name)))


def shown(value: Any) -> str:
    """Write a parameter's value for an error, however long it is."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of so many digits
        return "a number of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def check_choice(name: str, value: Any, choices: tuple[str, ...], *others: str) -> str:
    """Return a parameter that is one of a few words, or raise; `others` may be given instead."""
    if not isinstance(value, str) or value not in choices:
        listed = " or ".join([*(f'"{choice}"' for choice in choices), *others])
        raise ValueError(f"{name} must be {listed}; {shown(value)} is not")
    return str(value)


def check_choice_or_count(name: str, value: Any, choices: tuple[str, ...]) -> str | int:
    """Return a parameter that is one of a few words, or a whole number, or raise."""
    if isinstance(value, str):
        return check_choice(name, value, choices, "a whole number")
    return check_count(name, value)


def check_flag(name: str, value: Any) -> bool:
    """Return a parameter as a truth value, or raise where it has none."""
    try:
        return bool(value)
    except (ValueError, TypeError):  # an array has none
        raise ValueError(f"{name} must be True or False; {shown(value)} is not") from None


def check_path(name: str, value: str | Path) -> None:
    """Refuse what no file can be called."""
    text = str(value)
    if value == "" or "\0" in text:
        raise ValueError(f"{name} must be the path of a file; {shown(text)} is none")


def check_file(name: str, value: str | Path) -> None:
    """Refuse what no file can be called, and folders."""
    check_path(name, value)
    if Path(value).is_dir():
        raise ValueError(f"{name} must be the path of a file; {shown(str(value))} is a folder")


def is_number(value: Any) -> bool:
    """Whether a parameter is a number, of Python or numpy; a truth value is none."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def check_number(name: str, value: Any, above: float = -math.inf, below: float = math.inf) -> float:
    """Return a parameter as a float, or raise unless it is a number strictly between two others."""
    number = _as_float(value)
    if not math.isfinite(number) or not above < number < below:
        limits = [f"above {above:g}"] if above > -math.inf else []
        limits += [f"below {below:g}"] if below < math.inf else []
        rule = " ".join(["a finite number", " and ".join(limits)]).rstrip()
        raise ValueError(f"{name} must be {rule}; {shown(value)} is not")
    return number


def check_size(name: str, value: Any, below: float = MOST_SIZE) -> float:
    """Return a parameter that is the size of something, or raise.

    Within these limits no product or quotient of a few of them leaves float64.
    """
    if not _as_float(value) > 0:
        return check_number(name, value, above=0)
    return check_number(name, value, above=LEAST_SIZE, below=below)


def check_split_lambda(name: str, value: Any) -> float:
    """Return λ of the score of splits, or raise unless it is more than one grid step."""
    return check_number(name, value, above=1 / CLIP_STEPS, below=MOST_SIZE)


def check_part(name: str, value: Any, or_else: int) -> float:
    """Return a parameter that lies strictly between 0 and 1, or is the one of them allowed."""
    number = _as_float(value)
    if not (_LEAST_PART <= number < 1 or number == or_else):
        raise ValueError(
            f"{name} must lie between 0 and 1 (from {_LEAST_PART:g} on), or be {or_else}; "
            f"{shown(value)} does not"
        )
    return number


def check_share(name: str, value: Any, or_else: int | None = None) -> float:
    """Return a share of a budget, or raise: what has less of it than a millionth is all noise."""
    number = _as_float(value)
    if not (LEAST_SHARE <= number <= 1 - LEAST_SHARE or number == or_else):
        other = "" if or_else is None else f", or be {or_else}"
        raise ValueError(
            f"{name} must lie strictly between 0 and 1 (at least {LEAST_SHARE:g} from "
            f"both){other}; {shown(value)} does not"
        )
    return number


def check_rate(name: str, value: Any) -> float:
    """Return the chance of a row to be used, or raise."""
    number = _as_float(value)
    if not LEAST_RATE <= number <= 1:
        raise ValueError(
            f"{name} must lie between 0 and 1 (from {LEAST_RATE:g} on), or be 1; "
            f"{shown(value)} does not"
        )
    return number


def check_count(name: str, value: Any, least: int = 1, most: int = MOST_COUNT) -> int:
    """Return a parameter as an int, or raise unless it is a whole number between two others."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(
            f"{name} must be a whole number of at least {least}; {shown(value)} is not"
        )
    if value > most:
        raise ValueError(f"{name} must be at most {most}; {shown(value)} is not")
    return int(value)


def _as_float(value: Any) -> float:
    """Return a number as Python has it; what is none, or too large for it, as NaN."""
    try:
        return float(value) if is_number(value) else math.nan
    except OverflowError:
        return math.nan


def check_bins(name: str, value: Any, encoder: Encoder) -> int:
    """Return a number of bins, or raise unless it is at least 2 and at most what numbers have."""
    bins, most = check_count(name, value, least=2), _most_bins(encoder)
    if bins > most:
        raise ValueError(
            f"{name} must be at most {most}, all bins that a number has; {bins} is not"
        )
    return bins


def check_sketch_bins(name: str, value: Any) -> int | None:
    """Return how many spans a sketch is about, None for those between candidates, or raise."""
    return None if value is None else check_count(name, value, least=2)


def check_candidates(value: int, encoder: Encoder, sketch_bins: int | None = None) -> None:
    """Refuse more split candidates than lie between the bins of any number, or a finer sketch."""
    if sketch_bins is not None:
        check_bins("sketch_bins", sketch_bins, encoder)
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


def check_monotone(name: str, value: Any) -> tuple[tuple[str, int], ...]:
    """Return which features go one way, in the order of their names."""
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
    """Refuse features whose effects cannot go one way."""
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
