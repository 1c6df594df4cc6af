"""Boosted models for private tables, with differential privacy that is proved and tested.

The public names load on first use, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "CategoricalFeature": "domain",
    "ClassTarget": "domain",
    "Domain": "domain",
    "NumberTarget": "domain",
    "NumericFeature": "domain",
    "Unit": "domain",
    "BudgetError": "errors",
    "DomainError": "errors",
    "ModelFileError": "errors",
    "PrivacyWarning": "errors",
    "SchemaError": "errors",
    "Model": "models.model",
    "load_model": "models.files",
    "PrivacyReport": "privacy.report",
    "PrivBoostClassifier": "estimators.privboost",
    "PrivBoostRegressor": "estimators.privboost",
    "DPXGBClassifier": "estimators.dpxgb",
    "DPXGBRegressor": "estimators.dpxgb",
    "SarusXGBClassifier": "estimators.sarus",
    "SarusXGBRegressor": "estimators.sarus",
    "BoostedAdaSSPClassifier": "estimators.adassp",
    "BoostedAdaSSPRegressor": "estimators.adassp",
    "LazyBBClassifier": "estimators.lazybb",
    "SBDTClassifier": "estimators.sbdt",
    "SBDTRegressor": "estimators.sbdt",
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'privboost' has no attribute {name!r}")
    return getattr(import_module(f"privboost.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
