"""Public weights of classes, by which rows weigh according to their labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privboost._core.checks import check_size
from privboost._core.grid import WEIGHT_STEPS
from privboost.data.targets import TASKS_IN_WORDS


def check_class_weight(given: Any, task: str) -> dict[Any, float]:
    """Return checked weights of classes, or raise."""
    if task != "classes":
        raise ValueError(f"class_weight is for classes, and the target is {TASKS_IN_WORDS[task]}")
    if isinstance(given, str):
        raise ValueError(
            f"class_weight={given!r} needs the counts of classes, which are private. Give "
            'public weights, such as {"no": 1, "yes": 5}; BoostedAdaSSPClassifier releases '
            'counts for "balanced", out of its budget'
        )
    if not isinstance(given, Mapping) or len(given) < 2:
        raise ValueError("class_weight must be a mapping from all classes to public weights")
    if len({str(name) for name in given}) < len(given):
        raise ValueError("class_weight: two of its classes are the same string")
    checked = {name: check_size("each of class_weight", part) for name, part in given.items()}
    if min(checked.values()) * WEIGHT_STEPS < max(checked.values()):
        raise ValueError(
            f"class_weight: each weight must be at least 1/{WEIGHT_STEPS} of the largest; "
            "smaller ones are rounded to 0"
        )
    return checked


def weights_in_order(given: Mapping[Any, float], target: Any) -> tuple[float, ...]:
    """Return the weight of each class in the model's order; classes match by their string."""
    by_text = {str(name): value for name, value in given.items()}
    classes = [str(name) for name in target.ordered]
    if set(by_text) != set(classes):
        raise ValueError(f"class_weight must give a weight for each of {', '.join(classes)}")
    return tuple(by_text[name] for name in classes)
