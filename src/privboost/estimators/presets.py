"""Presets: parameters of published variants, by name."""

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
        """Return an estimator with the parameters of a published variant.

        Parameters
        ----------
        name : str
            Name of the variant; an error for an unknown one lists all.
        **parameters
            Any other parameter; they override the preset's.
        """
        if not cls._presets:
            raise ValueError(f"{cls.__name__} has no presets")
        check_choice("preset", name, tuple(cls._presets))
        return cls(**(dict(cls._presets[name]) | parameters))
