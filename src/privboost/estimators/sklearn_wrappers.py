"""Warnings about scikit-learn's wrappers that call `fit`, and use rows beyond its report.

A wrapper is recognised by its frames on the call stack; no row is read. A fit that a wrapper runs
in another process is recognised by the function that runs there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from sklearn.utils import get_tags

from privboost._core.warnings import warn, warn_of_exact_score


def _by_name(names: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {name: message for message, own in names.items() for name in own}


UNCOVERED = _by_name(
    {
        "trains on predictions for these rows, in folds that follow all of them: the result has no "
        "privacy guarantee, whatever the reports of its parts say": (
            "StackingClassifier",
            "StackingRegressor",
            "cross_val_predict",
            "_fit_and_predict",
        ),
        "fits probabilities to the exact labels of these rows: the result has no privacy "
        "guarantee. calibration_share makes probabilities honest within the budget": (
            "CalibratedClassifierCV",
            "_fit_classifier_calibrator_pair",
        ),
        "uses exact scores on these rows, which are private at no ε: what it shows or chooses has "
        "no privacy guarantee. Use privboost.evaluate and privboost.PrivateSearchCV, or public "
        "rows": (
            "BaseSearchCV",
            "TunedThresholdClassifierCV",
            "SequentialFeatureSelector",
            "RFECV",
            "cross_validate",
            "learning_curve",
            "validation_curve",
            "permutation_test_score",
            "_fit_and_score",
        ),
        "adds rows by their predicted confidence: the result has no privacy guarantee, whatever "
        "the report of a part says": ("SelfTrainingClassifier",),
    }
)
"""Wrappers after which there is no guarantee, by the name of their class or function."""

ADDED_UP = _by_name(
    {
        "trains several times on the same rows: each report states its own part, and the whole "
        "costs all of them together": (
            "VotingClassifier",
            "VotingRegressor",
            "_fit_single_estimator",
            "RFE",
        ),
        "trains once for each class or output on the same rows, and reads the classes off them: "
        "each report states its own part, and the whole costs all of them together": (
            "OneVsRestClassifier",
            "OneVsOneClassifier",
            "OutputCodeClassifier",
            "_fit_binary",
            "_MultiOutputEstimator",
            "_BaseChain",
        ),
    }
)
"""Wrappers that cost the sum of their fits; an account adds it up."""


def warn_of_wrappers(accounted: bool) -> None:
    """Warn, once, if a wrapper called `fit` that its report does not cover.

    An account adds up costs: then it is no matter that a wrapper fits several times.
    """
    frames = [*_sklearn_frames()]
    text = _warning_of(frames, UNCOVERED)
    if not text and (fitted := dict.fromkeys(_fitted_steps(frames))):
        text = (
            f"the pipeline fits {', '.join(fitted)} to these rows before privboost sees them: "
            "what they learn is exact, and no report covers it. Fix their parameters before, "
            "or leave them out (bounds, categories and missing values need none of them)"
        )
    if not text and not accounted:
        text = _warning_of(frames, ADDED_UP)
    if text:
        warn(text)


def warn_of_score(public_rows: Any, seeded: bool) -> None:
    """Warn of an exact score on rows that were not declared public, once.

    A wrapper that calls `fit` and then `score` gets the warning that `fit` has given already;
    `fit` of a `seeded` run has warned that nothing is private.
    """
    frames = [own for own in _sklearn_frames() if own.f_code.co_name != "score"]
    text = _warning_of(frames, UNCOVERED)
    if not text:
        warn_of_exact_score(public_rows)
    elif not (public_rows or seeded):
        warn(text)


def _sklearn_frames() -> Iterator[FrameType]:
    """Yield the frames of scikit-learn on the stack, the innermost first."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).startswith("sklearn."):
            yield frame
        frame = frame.f_back


def _warning_of(frames: list[FrameType], table: Mapping[str, str]) -> str:
    """Return the warning about the outermost wrapper among frames, or ""."""
    for own in reversed(frames):
        kinds = type(own.f_locals.get("self")).__mro__
        names = [kind.__name__ for kind in kinds if kind.__module__.startswith("sklearn.")]
        shown = kinds[0].__name__
        if not names:
            names = [own.f_code.co_name]
            shown = "a wrapper of scikit-learn" if names[0].startswith("_") else names[0]
        for name in names:
            if name in table:
                return f"{shown} {table[name]}"
    return ""


def _fitted_steps(frames: list[FrameType]) -> Iterator[str]:
    """Yield the classes of steps that pipelines on the stack fit before their last one."""
    for own in frames:
        around: Any = own.f_locals.get("self")
        if "Pipeline" in [kind.__name__ for kind in type(around).__mro__]:
            yield from _learners([step for _, step in around.steps[:-1]])


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
