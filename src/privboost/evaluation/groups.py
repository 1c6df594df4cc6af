"""Groups of rows: by the values of one feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from privboost.boosting.checks import shown
from privboost.forms import did_you_mean
from privboost.models.model import Model
from privboost.tables.domain import Domain
from privboost.tables.encoding import Encoder
from privboost.tables.features import Feature

_INTERVALS = 4
"""Intervals of a number whose feature has no edges."""


def open_groups(by: Any, model: Model) -> Encoder | None:
    """Return the encoder of the features of `by`; None without any.

    Parameters
    ----------
    by : sequence of str and features, or one of them
        Names of the model's features; or features, which may be other columns.
    model : Model
        The model whose features are named.
    """
    if isinstance(by, str | Feature):
        by = (by,)
    if not isinstance(by, Sequence):
        raise TypeError(f"by must be names of features, or features; {shown(by)} is not")
    known = {feature.name: feature for feature in model.domain.features}
    features = tuple(_feature(each, known).with_bins(_INTERVALS) for each in by)
    names = [feature.name for feature in features]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"by: {name!r} is given twice")
        if name == model.domain.target.name:
            raise ValueError(f"by: {name!r} is the target")
    return Encoder.of(Domain(features, model.domain.target)) if features else None


def group_labels(groups: Encoder | None) -> list[tuple[str, list[str]]]:
    """Return the name of each feature, with the labels of its codes."""
    if groups is None:
        return []
    found = []
    for k, (feature, n_codes) in enumerate(
        zip(groups.domain.features, groups.layout.n_codes, strict=True)
    ):
        labels = [label for label, _ in groups.spans(k, np.arange(n_codes))]
        found.append((feature.name, labels))
    return found


def _feature(each: Any, known: dict[str, Feature]) -> Feature:
    if isinstance(each, Feature):
        return each
    if not isinstance(each, str):
        raise TypeError(f"by must be names of features, or features; {shown(each)} is neither")
    if each not in known:
        listed = ", ".join(map(repr, list(known)[:20])) + (" …" if len(known) > 20 else "")
        hint = did_you_mean(each, list(known)) or (
            f"it has {listed}; in Python another column is given as a CategoricalFeature or a "
            "NumericFeature"
        )
        raise ValueError(f"by: the model has no feature {each!r}; {hint}")
    return known[each]
