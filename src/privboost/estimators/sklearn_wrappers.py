"""Warnings about scikit-learn's wrappers that call `fit`, and use rows beyond its report.

A wrapper is recognised by its frames on the call stack; no row is read. A fit that a wrapper runs
in another process is recognised by the function that runs there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

from sklearn.utils import get_tags

from privboost._core.warnings import warn, warn_of_exact_score

_BY_SCORES = (
    "uses exact scores on these rows, which are private at no ε: what it shows or chooses has no "
    "privacy guarantee. Use privboost.evaluate and privboost.PrivateSearchCV, or public rows"
)
_BY_FOLDS = (
    "trains on predictions for these rows, in folds that follow all of them: the result has no "
    "privacy guarantee, whatever the reports of its parts say"
)
_BY_LABELS = (
    "fits probabilities to the exact labels of these rows: the result has no privacy guarantee. "
    "calibration_share makes probabilities honest within the budget"
)
_BY_CONFIDENCE = (
    "adds rows by their predicted confidence: the result has no privacy guarantee, whatever the "
    "report of a part says"
)
_BY_CLASSES = (
    "trains once for each class or output on the same rows, and reads the classes off them: each "
    "report states its own part, and the whole costs all of them together"
)
_BY_MEMBERS = (
    "trains several times on the same rows: each report states its own part, and the whole costs "
    "all of them together"
)

UNCOVERED: Mapping[str, str] = {
    "StackingClassifier": _BY_FOLDS,
    "StackingRegressor": _BY_FOLDS,
    "cross_val_predict": _BY_FOLDS,
    "_fit_and_predict": _BY_FOLDS,
    "CalibratedClassifierCV": _BY_LABELS,
    "_fit_classifier_calibrator_pair": _BY_LABELS,
    "BaseSearchCV": _BY_SCORES,
    "TunedThresholdClassifierCV": _BY_SCORES,
    "SequentialFeatureSelector": _BY_SCORES,
    "RFECV": _BY_SCORES,
    "cross_validate": _BY_SCORES,
    "learning_curve": _BY_SCORES,
    "validation_curve": _BY_SCORES,
    "permutation_test_score": _BY_SCORES,
    "_fit_and_score": _BY_SCORES,
    "SelfTrainingClassifier": _BY_CONFIDENCE,
}
"""Wrappers after which there is no guarantee, by the name of their class or function."""

ADDED_UP: Mapping[str, str] = {
    "VotingClassifier": _BY_MEMBERS,
    "VotingRegressor": _BY_MEMBERS,
    "_fit_single_estimator": _BY_MEMBERS,
    "RFE": _BY_MEMBERS,
    "OneVsRestClassifier": _BY_CLASSES,
    "OneVsOneClassifier": _BY_CLASSES,
    "OutputCodeClassifier": _BY_CLASSES,
    "_fit_binary": _BY_CLASSES,
    "_MultiOutputEstimator": _BY_CLASSES,
    "_BaseChain": _BY_CLASSES,
}
"""Wrappers that cost the sum of their fits; an account adds it up."""


def warn_of_wrappers(accounted: bool) -> None:
    """Warn, once, if a wrapper called `fit` that its report does not cover.

    Parameters
    ----------
    accounted : bool
        Whether an account adds up the costs.
    """
    frames = [*_frames(sys._getframe())]
    for table in (UNCOVERED, {} if accounted else ADDED_UP):
        if text := _warning_of(frames, table):
            warn(text)
            return
        if table is UNCOVERED and (fitted := _fitted_steps(sys._getframe())):
            warn(
                f"the pipeline fits {', '.join(fitted)} to these rows before privboost sees them: "
                "what they learn is exact, and no report covers it. Fix their parameters before, "
                "or leave them out (bounds, categories and missing values need none of them)"
            )
            return


def warn_of_score(public_rows: Any, seeded: bool) -> None:
    """Warn of an exact score on rows that were not declared public, once.

    A wrapper that calls `fit` and then `score` gets the warning that `fit` has given already.

    Parameters
    ----------
    public_rows : bool
        Whether the caller declares the rows public.
    seeded : bool
        Whether the fit had a seed, and warned that nothing is private.
    """
    frames = [own for own in _frames(sys._getframe()) if own.f_code.co_name != "score"]
    text = _warning_of(frames, UNCOVERED)
    if not text:
        warn_of_exact_score(public_rows)
    elif not (public_rows or seeded):
        warn(text)


def _warning_of(frames: list[FrameType], table: Mapping[str, str]) -> str:
    """Return the warning about the outermost wrapper among frames, or ""."""
    for shown, names in [*_callers(frames)][::-1]:
        if known := [name for name in names if name in table]:
            return f"{shown} {table[known[0]]}"
    return ""


def _callers(frames: Iterable[FrameType]) -> Iterator[tuple[str, list[str]]]:
    """Yield scikit-learn's estimators and functions on the stack, the innermost first.

    Each has a name to show, and the names of its class and base classes, or of the function.
    """
    for own in frames:
        kinds = type(own.f_locals.get("self")).__mro__
        names = [kind.__name__ for kind in kinds if kind.__module__.startswith("sklearn.")]
        function = own.f_code.co_name
        shown = "a wrapper of scikit-learn" if function.startswith("_") else function
        yield (kinds[0].__name__, names) if names else (shown, [function])


def _fitted_steps(frame: FrameType | None) -> list[str]:
    """Return the classes of steps that pipelines on the stack fit before their last one."""
    found: dict[str, None] = {}
    for own in _frames(frame):
        around: Any = own.f_locals.get("self")
        if "Pipeline" in [kind.__name__ for kind in type(around).__mro__]:
            found |= dict.fromkeys(_learners([step for _, step in around.steps[:-1]]))
    return [*found]


def _learners(steps: list[Any]) -> Iterator[str]:
    """Yield the classes of steps that learn when they are fitted."""
    for step in steps:
        if step is None or isinstance(step, str) or type(step).__name__ == "FrozenEstimator":
            continue
        inner = [
            part[1]
            for name in ("steps", "transformer_list", "transformers")
            for part in getattr(step, name, ())
        ]
        if inner:
            yield from _learners([*inner, getattr(step, "remainder", None)])
        elif _needs_fit(step):
            yield type(step).__name__


def _needs_fit(step: Any) -> bool:
    """Whether a step declares that it learns; one without a declaration is assumed to."""
    try:
        return bool(get_tags(step).requires_fit)
    except Exception:  # whatever a step may be, a warning must not raise
        return True


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of scikit-learn."""
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("sklearn."):
            yield frame
        frame = frame.f_back
