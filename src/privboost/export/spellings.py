"""The texts by which programs that know texts alone find a category.

A table may hold a word, a number or a truth; `tables.values` reads all of them. ONNX and SQL
compare texts as they are written, so the usual ways to write a number or a truth are listed
beforehand.
"""

from __future__ import annotations

import math

import numpy as np

from privboost.tables.features import CategoricalFeature
from privboost.tables.values import code_labels

TRUTHS = {True: ("True", "true", "TRUE"), False: ("False", "false", "FALSE")}


def spellings(feature: CategoricalFeature) -> dict[str, int]:
    """Return the place of the category that each text stands for."""
    written = [str(label) for label in feature.categories]
    values: dict[str, object] = {word: word for word in written}
    for word in written:
        values |= {form: form for form in _forms_of_number(word) if form not in values}
    for truth, words in TRUTHS.items():
        values |= {word: word for word in words if word not in values}
        values |= {word: truth for word in words if _places(feature, [word])[0] < 0}
    found = zip(values, _places(feature, list(values.values())), strict=True)
    return {word: int(place) for word, place in found if place >= 0}


def missing_text(feature: CategoricalFeature) -> str:
    """Return the text that means "missing" where there is nothing else to say it with."""
    taken = spellings(feature)
    text = ""
    while text in taken:
        text = f"({text})" if text else "(missing)"
    return text


def _places(feature: CategoricalFeature, values: list[object]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return code_labels(column, feature.categories, feature.name)


def _forms_of_number(word: str) -> tuple[str, ...]:
    """Return how a number that is written one way may be written otherwise."""
    try:
        number = float(word)
    except ValueError:
        return ()
    if not math.isfinite(number):
        return ()
    whole = (str(int(number)),) if number == int(number) else ()
    return (*whole, repr(number))
