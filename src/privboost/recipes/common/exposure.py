"""The effect of an exposure, known before any release: labels grow in proportion to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost._core.checks import did_you_mean, shown
from privboost._core.grid import SCORE_STEPS
from privboost.data.encoding import Encoder
from privboost.data.features import Feature, NumericFeature
from privboost.engine.updates import AddCellValues
from privboost.mechanisms.curator import Curator
from privboost.trees.cell_map import CellMap


@dataclass(frozen=True, eq=False)
class Exposure:
    """The effect of an exposure: the logarithm of each bin's middle, known before any release.

    Attributes
    ----------
    feature : int
        The feature.
    most : float
        Its upper bound.
    values : int32 array
        The logarithm of the exposure of each code, in parts of the upper bound, in score steps.
    """

    feature: int
    most: float
    values: np.ndarray

    @classmethod
    def of(cls, encoder: Encoder, name: str) -> Exposure:
        """Return the effect of a numeric feature; a missing exposure counts as the upper bound."""
        feature = encoder.domain.feature_names.index(name)
        declared = encoder.domain.features[feature]
        assert isinstance(declared, NumericFeature)
        low, high = declared.bounds
        ends = np.concatenate([[low], np.clip(encoder.edges[feature], low, high), [high]])
        if declared.scale == "log":
            middles = np.sqrt(ends[1:] * ends[:-1])
        else:
            middles = (ends[1:] + ends[:-1]) / 2
        logs = np.rint(np.log(np.append(middles, high) / high) * SCORE_STEPS)
        return cls(feature, high, logs.astype(np.int32))

    def publish(self, curator: Curator) -> None:
        """Add it to the scores of all rows, which have just begun."""
        cells = CellMap.of_feature(self.feature, np.arange(len(self.values)))
        curator.publish(AddCellValues(cells, self.values))

    @property
    def of_one(self) -> int:
        """The logarithm of the upper bound, in score steps."""
        return round(math.log(self.most) * SCORE_STEPS)


def check_exposure_feature(feature: Feature, n_features: int) -> None:
    """Refuse a feature that is no exposure, and one besides which there is no other."""
    if not isinstance(feature, NumericFeature) or not feature.bounds[0] > 0:
        raise ValueError(f"exposure: {feature.name!r} must be numeric, with a lower bound above 0")
    if n_features == 1:
        raise ValueError("exposure: the domain has no other feature")


def check_exposure(settings: Any, encoder: Encoder, log_link: bool) -> None:
    """Refuse an exposure that the loss, the domain or other parameters do not allow."""
    name = settings.exposure
    if not log_link:
        raise ValueError('exposure needs a loss with a log link, such as loss="poisson"')
    known = {feature.name: feature for feature in encoder.domain.features}
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(name, list(known)) if isinstance(name, str) else ""
        end = f"; {hint}" if hint else ""
        raise ValueError(f"exposure must name a feature of the domain; {shown(name)} does not{end}")
    check_exposure_feature(known[name], len(known))
    if name in dict(settings.monotone):
        raise ValueError(f"monotone: {name!r} is the exposure, whose effect is known")
    pairs = settings.interactions if isinstance(settings.interactions, tuple) else ()
    if any(name in pair for pair in pairs):
        raise ValueError(f"interactions: {name!r} is the exposure, which has none")
