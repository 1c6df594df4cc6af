"""A model as one Python file that needs nothing else."""

from __future__ import annotations

import math
from importlib.resources import files
from typing import Any

import numpy as np

from privboost.export.formula import Formula, Reading
from privboost.grid import SCORE_STEPS
from privboost.models.model import Model
from privboost.tables.features import CategoricalFeature, ClassTarget
from privboost.tables.values import MISSING, OTHER, code_labels

_CUT = "# --- copied from here on ---\n"

_SCORES = '''

def scores(row):
    """Return the scores of a row, which is a mapping from columns to values: {scores}."""
    return scores_of(row, MODEL)


def predict(row):
    """Return the prediction for a row."""
    return prediction_of(scores(row), MODEL)
'''
_CHANCES = '''

def predict_proba(row):
    """Return the probability of each class, in the order of `MODEL["classes"]`."""
    return chances_of(scores(row))
'''


def python_text(model: Model) -> str:
    """Write a model as the text of a Python module, of the standard library alone.

    It has `predict(row)` and `scores(row)`, and `predict_proba(row)` where scores are log-odds; a
    row is a mapping from columns to values.
    """
    formula = Formula.of(model)
    times = any(reading.counts != "numbers" for reading in formula.readings)
    target, names = model.domain.target.name, [reading.name for reading in formula.readings]
    words = f"A model of {target!r}, written by privboost. {model.privacy.guarantee}"
    meaning = "one" if len(formula.start) == 1 else "one for each class"
    lines = [
        repr(words),
        f"COLUMNS = {names!r}",
        "",
        _source("standalone.py"),
        "",
        *([_source("standalone_times.py"), ""] if times else []),
        "MODEL = {",
        *(f"    {name!r}: {_literal(part)}," for name, part in _form(formula).items()),
        "}",
    ]
    ends = _SCORES.replace("{scores}", meaning) + (_CHANCES if model.has_chances else "")
    return "\n".join(lines) + "\n" + ends


def _source(name: str) -> str:
    """Return the part of a file that is copied into modules."""
    return (files("privboost.export") / name).read_text(encoding="utf-8").split(_CUT)[1]


def _form(formula: Formula) -> dict[str, Any]:
    """Return the data of a module: what `standalone` reads."""
    model = formula.model
    target = model.domain.target
    classes = isinstance(target, ClassTarget)
    middle, half = model.middle_and_half
    return {
        "columns": [_column(reading) for reading in formula.readings],
        "start": formula.start.tolist(),
        "alone": [own.tolist() for own in formula.alone],
        "pairs": [
            (pair.output, *pair.features, *(c.tolist() for c in pair.cell_of), pair.values.tolist())
            for pair in formula.pairs
        ],
        "splits": [(split.reading, split.turns.tolist()) for split in formula.splits],
        "trees": [(tree.splits.tolist(), tree.values.tolist()) for tree in formula.trees],
        "steps": SCORE_STEPS,
        "classes": model.classes.tolist() if classes else None,
        "bounds": None if classes else tuple(map(float, model.scaled_bounds)),
        "way_back": "same" if isinstance(target, ClassTarget) else target.way_back,
        "middle": float(middle),
        "half": float(half),
    }


def _column(reading: Reading) -> dict[str, Any]:
    """Return how a column is read."""
    feature = reading.feature
    if not isinstance(feature, CategoricalFeature):
        form = {"name": feature.name, "reads": reading.counts, "missing": reading.n_codes - 1}
        return form | {"edges": reading.edges.tolist()}
    *codes, other, missing = reading.codes.tolist()
    labels = [label if reading.of_text else float(label) for label in feature.categories]
    form = {"name": feature.name, "text": reading.of_text, "other": other, "missing": missing}
    form["labels"] = dict(zip(labels, codes, strict=True))
    if reading.of_text:
        code = {OTHER: other, MISSING: missing} | dict(enumerate(codes))
        form["truths"] = {truth: code[_place(feature, truth)] for truth in (True, False)}
        form["numbers"] = {number: code[_by_value(feature, number)] for number in _numbers(feature)}
    return form


def _numbers(feature: CategoricalFeature) -> list[float]:
    """Return the numbers that are among the words."""
    numbers = []
    for label in feature.categories:
        try:
            numbers.append(float(label))
        except ValueError:
            continue
    return [number for number in numbers if math.isfinite(number)]


def _by_value(feature: CategoricalFeature, number: float) -> int:
    """Return the place of a number that is written as no category is."""
    text = repr(number)
    while text in feature.categories:
        text = f" {text}"
    return _place(feature, text)


def _place(feature: CategoricalFeature, value: object) -> int:
    return int(code_labels(np.array([value], dtype=object), feature.categories, feature.name)[0])


def _literal(part: Any) -> str:
    """Write lists of parts a line each, so that a file can be read and compared."""
    if not isinstance(part, list) or not part:
        return repr(part)
    return "\n".join(["[", *(f"        {each!r}," for each in part), "    ]"])
