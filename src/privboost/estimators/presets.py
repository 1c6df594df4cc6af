"""Settings of published variants, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from privboost.boosting.checks import check_choice
from privboost.estimators.base import PrivateEstimator


class PresetEstimator(PrivateEstimator):
    """Adds presets."""

    _presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def from_preset(cls, name: str, **parameters: Any) -> Self:
        """Return an estimator with the settings of a published variant.

        Parameters
        ----------
        name : str
            The variant; an unknown one is told with those that there are.
        **parameters
            Any other parameter; they come before the preset's.
        """
        if not cls._presets:
            raise ValueError(f"{cls.__name__} has no presets")
        check_choice("preset", name, tuple(cls._presets))
        return cls(**(dict(cls._presets[name]) | parameters))
