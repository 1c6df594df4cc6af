"""Weights of classes: public numbers, by which rows weigh as their labels say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from privboost.boosting.checks import check_size
from privboost.grid import WEIGHT_STEPS

CLASS_WEIGHT_PARAMETER = """
    class_weight : mapping, optional
        Public weights of all classes, such as {"no": 1, "yes": 5}: rows weigh by their label, and
        noise grows with the largest. Probabilities are then those of a table in which classes have
        these weights. "balanced" is refused: it needs counts of classes, which are private. A
        number has none."""
"""What is said of it wherever rows carry weights."""

CLASSES_PARAMETER = """
    classes : sequence, optional
        The classes of the target, such as [0, 1], where there is no domain: they are public then
        and cost nothing, and a rare one cannot be missed. Beside a domain that gives classes they
        must be the same. A number has none."""
"""The docstring of `classes`, for all classifiers."""


class WeighedClasses:
    """Adds `class_weight`, by which rows weigh as their labels say."""

    class_weight: Any
    _task: str

    def _class_weight(self) -> Mapping[Any, float] | None:
        return check_class_weight(self.class_weight, self._task)


def check_class_weight(given: Any, task: str) -> dict[Any, float] | None:
    """Return weights of classes that can be meant, or raise.

    Parameters
    ----------
    given : mapping or None
        What the parameter says.
    task : str
        What the target is: "classes" or "number".
    """
    if given is None:
        return None
    if task != "classes":
        raise ValueError("class_weight is for classes, and the target is a number")
    if isinstance(given, str):
        raise ValueError(
            f"class_weight={given!r} needs the counts of classes, which are private. Give public "
            'weights, such as {"no": 1, "yes": 5}; BoostedAdaSSPClassifier releases counts for '
            '"balanced", out of its budget'
        )
    if not isinstance(given, Mapping) or len(given) < 2:
        raise ValueError("class_weight must be a mapping from all classes to public weights")
    if len({str(name) for name in given}) < len(given):
        raise ValueError("class_weight: two of its classes are written alike")
    checked = {name: check_size("each of class_weight", part) for name, part in given.items()}
    if min(checked.values()) * WEIGHT_STEPS < max(checked.values()):
        raise ValueError(
            "class_weight: beside the largest, a class would weigh nothing; each weight must be at "
            f"least 1/{WEIGHT_STEPS} of it"
        )
    return checked


def weights_in_order(given: Mapping[Any, float], target: Any) -> tuple[float, ...]:
    """Return the weight of each class in the model's order; classes match as labels do, by text."""
    by_text = {str(name): value for name, value in given.items()}
    classes = [str(name) for name in target.ordered]
    if set(by_text) != set(classes):
        raise ValueError(f"class_weight must give a weight for each of {', '.join(classes)}")
    return tuple(by_text[name] for name in classes)
