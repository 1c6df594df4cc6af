"""Privacy warnings, at the line of the caller.

Warnings follow from parameters or released values, never from rows.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from privboost._core.errors import PrivacyWarning

MOST_EPSILON = 50.0
MOST_DELTA = 1e-3

_EXACT_SCORE = (
    "an exact score on rows that were not declared public is an unpaid release of them, private at "
    "no ε: it tells about every row in it, and so does whatever is chosen by it. Use "
    "privboost.evaluate, which has a price and keeps to it; or say score(…, public_rows=True) if "
    "every row is public"
)
_MACHINERY = ("privboost", "sklearn", "joblib")
_shown: set[tuple[str, str, int]] = set()
"""Warnings about calls through scikit-learn, with the caller's file and line."""


def warn_of_parameters(epsilon: float, delta: float, random_state: Any) -> None:
    """Warn, once each, of a seed and of a weak budget."""
    if random_state is not None:
        warn(
            "random_state is given: anybody who knows the seed can remove the noise, so the result "
            "has no privacy guarantee; leave it at None for private rows"
        )
    if delta > MOST_DELTA:
        warn(
            f"delta is above {MOST_DELTA:g}: it allows a mechanism that publishes one whole record "
            "in a thousand; choose it far below one over the number of protected units"
        )
    if epsilon > MOST_EPSILON:
        warn(
            f"epsilon is above {MOST_EPSILON:g}: a guarantee this weak hides next to nothing about "
            "a single protected unit"
        )


def warn_of_exact_score(public_rows: Any) -> None:
    """Warn of an exact score, unless the caller declares its rows public."""
    if not isinstance(public_rows, bool | np.bool_):  # a string such as "no" declares nothing
        raise ValueError("public_rows must be True or False")
    if not public_rows:
        warn(_EXACT_SCORE)


def warn(message: str | Warning) -> None:
    """Warn at the line that called privboost, or scikit-learn around it.

    Searches and cross-validations reset Python's registry of shown warnings at each of their fits,
    so warnings of such calls are recorded here.
    """
    level, frame, through = 1, sys._getframe(), False
    while frame.f_back is not None and _package(frame) in _MACHINERY:
        through = through or _package(frame) != "privboost"
        level, frame = level + 1, frame.f_back
    place = (str(message), frame.f_code.co_filename, frame.f_lineno)
    if through and place in _shown:
        return
    if through:
        _shown.add(place)
    category = None if isinstance(message, Warning) else PrivacyWarning
    warnings.warn(message, category, stacklevel=level)


class DelayedWarnings:
    """Warnings about a result that was paid for, delayed until it is complete and kept."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def say(self, result: Any = None) -> None:
        """Give the warnings; raised as exceptions (`python -W error`) they carry the result."""
        for message in self.messages:
            warning = PrivacyWarning(message)
            warning.result = result
            warn(warning)


_held: ContextVar[DelayedWarnings | None] = ContextVar("_held", default=None)


@contextmanager
def delayed_warnings() -> Iterator[DelayedWarnings]:
    """Delay the warnings of `warn_after_spending` in this block; `say` gives them afterwards."""
    held = DelayedWarnings()
    token = _held.set(held)
    try:
        yield held
    finally:
        _held.reset(token)


def warn_after_spending(message: str) -> None:
    """Warn after spending, once the block of `delayed_warnings` is done."""
    held = _held.get()
    if held is None:
        warn(message)
    else:
        held.messages.append(message)


def _package(frame: Any) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
