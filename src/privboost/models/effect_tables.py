"""Effects of features and of pairs as tables, in words, with their standard errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from privboost.forms import listed
from privboost.grid import SCORE_STEPS
from privboost.models.additive import AdditiveScores
from privboost.models.compound import CompoundScores
from privboost.models.model import Model
from privboost.models.pairs import PairValues
from privboost.tables.features import CategoricalFeature


def effect_table(model: Model) -> pa.Table:
    """Write effects as a table; see `Model.effects`."""
    scores, unit = model.scores, _unit(model)
    by_feature = scores.feature_values()
    told = isinstance(scores, AdditiveScores | CompoundScores)
    noise = scores.feature_noise() if told else None  # type: ignore[union-attr]
    lines: list[dict[str, Any]] = []
    for k, feature in enumerate(model.domain.features):
        for output, values in enumerate(by_feature[k]):
            for words, code in model.encoder.spans_of_codes(k, values):
                error = None if noise is None else float(noise[k][output, code] * unit)
                own = {"feature": feature.name, "values": words, "effect": values[code] * unit}
                lines.append(own | {"std": error, "class": _class(model, output)})
    return _table(model, ("feature", "values", "effect", "std"), lines)


def pair_table(model: Model) -> pa.Table:
    """Write pairs as a table; see `Model.pairs`."""
    scores, unit = model.scores, _unit(model)
    if not isinstance(scores, AdditiveScores | CompoundScores):
        raise AttributeError("pairs: this model was not asked about pairs of features")
    lines: list[dict[str, Any]] = []
    for pair in scores.pairs if isinstance(scores, CompoundScores) else ():
        names = [model.domain.features[feature].name for feature in pair.features]
        first, second = (_sides(model, pair, side) for side in (0, 1))
        for i, own in first:
            for j, other in second:
                lines.append(
                    {
                        "feature": names[0],
                        "values": own,
                        "other feature": names[1],
                        "other values": other,
                        "effect": float(pair.values[i, j] * unit),
                        "std": float(pair.noise[i, j] * unit),
                        "class": _class(model, pair.output),
                    }
                )
    columns = ("feature", "values", "other feature", "other values", "effect", "std")
    return _table(model, columns, lines)


def _unit(model: Model) -> float:
    """Return what a score step is in units of effects."""
    _, half = model.middle_and_half
    return half / SCORE_STEPS


def _class(model: Model, output: int) -> Any:
    return model.classes[output] if model.scores.n_outputs > 1 else None


def _table(model: Model, columns: tuple[str, ...], lines: list[dict[str, Any]]) -> pa.Table:
    """Return lines as columns; classes are among them beyond two."""
    names = (*columns, "class") if model.scores.n_outputs > 1 else columns
    numbers = {"effect": pa.float64(), "std": pa.float64()}
    return pa.table(
        {name: pa.array([line[name] for line in lines], numbers.get(name)) for name in names}
    )


def _sides(model: Model, pair: PairValues, side: int) -> list[tuple[int, str]]:
    """Return each cell of one of a pair's features, with the values in it in words."""
    feature, cells = pair.features[side], pair.cell_of[side]
    words: dict[int, list[str]] = {}
    numbers = not isinstance(model.domain.features[feature], CategoricalFeature)
    for span, code in model.encoder.spans_of_codes(feature, cells.astype(np.int64)):
        words.setdefault(int(cells[code]), []).append(span)
    joint = " or ".join if numbers else listed
    return [(cell, joint(words[cell])) for cell in sorted(words)]
