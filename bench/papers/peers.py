"""Other people's learners on the same rows, splits and public bounds, fitted and scored as ours.

They are no part of the project's dependencies: a point whose peer is not installed is left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from bench.papers.figure import Point
from bench.papers.protocol import score, split, table
from privboost import ClassTarget, Domain
from privboost.data.scales import to_scale

Prepare = Callable[[pd.DataFrame], Any]
"""From rows of a table to what a learner takes."""

NEEDS = {
    "lightgbm": "lightgbm",
    "xgboost": "xgboost",
    "dp_ebm": "interpret",
    "gradient_boosting": "sklearn",
    "one_rule": "sklearn",
}
"""The package that each peer comes from."""


def missing(point: Point) -> bool:
    """Return whether a point asks for a peer that is not installed here.

    Measures other than `peer` name theirs as "peer" in `how`.
    """
    name = point.how.get("name" if point.measure is peer else "peer")
    return name is not None and find_spec(NEEDS[name]) is None


def peer(
    data: str, name: str, how: dict[str, Any], metric: str, seed: int, share: float = 0.8
) -> float:
    """Return the score, on held-out rows, of one fit of a peer.

    Parameters
    ----------
    data : str
        A data set, as `protocol.table` names it.
    name : {"lightgbm", "xgboost", "dp_ebm", "gradient_boosting", "one_rule"}
        The peer; the last two are scikit-learn's, on indicators. Only DP-EBM is private.
    how : dict
        The peer's own parameters; the rest stay at its defaults, on one thread.
    metric : str
        As in `protocol.score`.
    seed : int
        Of the split and of the peer.
    share : float
        The share of rows to fit.
    """
    frame, domain = table(data)
    rows, rest = split(frame, seed, share)
    return score(fit(name, how, rows, domain, seed), rest, domain, metric)


@dataclass(frozen=True)
class Peer:
    """A fitted peer with the methods that scores are taken from."""

    model: Any
    prepare: Prepare
    target: Any

    def predict(self, rows: pd.DataFrame) -> np.ndarray:
        """Return numbers, or the likeliest class."""
        if isinstance(self.target, ClassTarget):
            return np.array(self.target.ordered)[self.predict_proba(rows).argmax(axis=1)]
        return np.asarray(self.model.predict(self.prepare(rows)))

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray:
        """Return the chance of each class; of one that no row to fit had, 0."""
        chances = np.zeros((len(rows), len(self.target.ordered)))
        chances[:, self.model.classes_] = self.model.predict_proba(self.prepare(rows))
        return chances

    def decision_function(self, rows: pd.DataFrame) -> np.ndarray:
        """Return how far the chance of the second class is above one half."""
        return self.predict_proba(rows)[:, 1] - 0.5


def fit(name: str, how: dict[str, Any], rows: pd.DataFrame, domain: Domain, seed: int) -> Peer:
    """Return a peer, fitted to rows."""
    model, prepare = build(name, how, domain, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of theirs: of weak δ, of few bins, of names
        model.fit(prepare(rows), labels(rows, domain))
    return Peer(model, prepare, domain.target)


def build(name: str, how: dict[str, Any], domain: Domain, seed: int) -> tuple[Any, Prepare]:
    """Return a peer that is not fitted yet, and what makes rows into what it takes."""
    return _MAKERS[name](domain, {"random_state": seed} | how)


def labels(rows: pd.DataFrame, domain: Domain) -> np.ndarray:
    """Return what is to be predicted: numbers, or the places of classes in their order."""
    label = rows[domain.target.name]
    if isinstance(domain.target, ClassTarget):
        label = label.map({one: number for number, one in enumerate(domain.target.ordered)})
    return label.to_numpy()


def _lightgbm(domain: Domain, how: dict[str, Any]) -> tuple[Any, Prepare]:
    import lightgbm

    two = isinstance(domain.target, ClassTarget)
    kind = lightgbm.LGBMClassifier if two else lightgbm.LGBMRegressor
    return kind(**{"n_jobs": 1, "verbose": -1} | how), _with_categories(domain)


def _xgboost(domain: Domain, how: dict[str, Any]) -> tuple[Any, Prepare]:
    import xgboost

    two = isinstance(domain.target, ClassTarget)
    kind = xgboost.XGBClassifier if two else xgboost.XGBRegressor
    return kind(**{"n_jobs": 1, "enable_categorical": True} | how), _with_categories(domain)


def _with_categories(domain: Domain) -> Prepare:
    """Numbers as they are, categories by the domain's list; others count as missing.

    Columns go by their numbers: not every library takes every name.
    """

    def prepare(rows: pd.DataFrame) -> pd.DataFrame:
        columns = {}
        for number, feature in enumerate(domain.features):
            column = rows[feature.name]
            if feature.kind == "categorical":
                kinds = pd.CategoricalDtype(list(feature.categories))
                column = column.where(column.isin(feature.categories)).astype(kinds)
            else:
                column = column.astype(float)
            columns[f"x{number}"] = column
        return pd.DataFrame(columns)

    return prepare


def _dp_ebm(domain: Domain, how: dict[str, Any]) -> tuple[Any, Prepare]:
    """DP-EBM, with the domain's bounds as its own; it would else read them off the rows.

    It begins with bins of equal width, as our recipes do, so numbers come on their scales: it has
    no word for them, and most of what is learned of Spambase would lie in its first bin.
    """
    from interpret import privacy

    numeric = [feature.kind == "numeric" for feature in domain.features]
    public = {
        "feature_names": list(domain.feature_names),
        "feature_types": ["continuous" if number else "nominal" for number in numeric],
        "privacy_bounds": {
            k: tuple(_on_scale(np.array(feature.bounds), feature).tolist())
            for k, feature in enumerate(domain.features)
            if numeric[k]
        },
    }
    kind = privacy.DPExplainableBoostingClassifier
    if not isinstance(domain.target, ClassTarget):
        kind = privacy.DPExplainableBoostingRegressor
        low, high = map(float, domain.target.bounds)
        public |= {"privacy_target_min": low, "privacy_target_max": high}
    return kind(**{"n_jobs": 1} | public | how), on_scales(domain)


def on_scales(domain: Domain) -> Prepare:
    """Numbers on their scales, missing ones in the middle; missing categories as one more."""

    def prepare(rows: pd.DataFrame) -> pd.DataFrame:
        columns: dict[str, Any] = {}
        for feature in domain.features:
            column = rows[feature.name]
            if feature.kind == "numeric":
                middle = _on_scale(np.array(feature.bounds), feature).mean()
                numbers = _on_scale(column.to_numpy(float, na_value=np.nan), feature)
                columns[feature.name] = np.where(np.isnan(numbers), middle, numbers)
            else:
                words = column.astype(object).where(column.notna(), "missing").astype(str)
                columns[feature.name] = words.to_numpy()
        return pd.DataFrame(columns)

    return prepare


def _on_scale(numbers: np.ndarray, feature: Any) -> np.ndarray:
    """Return numbers within a feature's bounds, on the scale that the domain states."""
    low, high = map(float, feature.bounds)
    return to_scale(np.clip(numbers.astype(float), low, high), (low, high), feature.scale)


def _gradient_boosting(domain: Domain, how: dict[str, Any]) -> tuple[Any, Prepare]:
    from sklearn.ensemble import GradientBoostingClassifier

    return GradientBoostingClassifier(**how), _as_indicators(domain)


def _one_rule(domain: Domain, how: dict[str, Any]) -> tuple[Any, Prepare]:
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(max_depth=1, **how), _as_indicators(domain)


def _as_indicators(domain: Domain) -> Prepare:
    """Numbers as they are, an indicator for each of the domain's categories."""
    prepare = _with_categories(domain)
    numbers = [feature.name for feature in domain.features if feature.kind == "numeric"]
    middles = {f.name: float(np.mean(f.bounds)) for f in domain.features if f.name in numbers}

    def coded(rows: pd.DataFrame) -> pd.DataFrame:
        return pd.get_dummies(prepare(rows).fillna(middles), dtype=float)

    return coded


_MAKERS: dict[str, Callable[[Domain, dict[str, Any]], tuple[Any, Prepare]]] = {
    "lightgbm": _lightgbm,
    "xgboost": _xgboost,
    "dp_ebm": _dp_ebm,
    "gradient_boosting": _gradient_boosting,
    "one_rule": _one_rule,
}
