"""Boosted models for private tables, with differential privacy that is proved and tested.

The public names load on first use, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privboost.recipes import ESTIMATORS

# isort: off
if TYPE_CHECKING:  # the same names, for tools that read types
    from privboost.tables.domain import Domain as Domain
    from privboost.tables.features import (
        CategoricalFeature as CategoricalFeature,
        ClassTarget as ClassTarget,
        NumberTarget as NumberTarget,
        NumericFeature as NumericFeature,
    )
    from privboost.unit import Unit as Unit
    from privboost.errors import (
        BudgetError as BudgetError,
        ClusterError as ClusterError,
        DomainError as DomainError,
        ModelFileError as ModelFileError,
        PrivacyWarning as PrivacyWarning,
        SchemaError as SchemaError,
        StoreError as StoreError,
    )
    from privboost.accounts.account import BudgetAccount as BudgetAccount
    from privboost.accounts.store import BudgetStore as BudgetStore
    from privboost.estimators.adassp import (
        BoostedAdaSSPClassifier as BoostedAdaSSPClassifier,
        BoostedAdaSSPRegressor as BoostedAdaSSPRegressor,
    )
    from privboost.estimators.dpxgb import (
        DPXGBClassifier as DPXGBClassifier,
        DPXGBRegressor as DPXGBRegressor,
    )
    from privboost.estimators.lazybb import LazyBBClassifier as LazyBBClassifier
    from privboost.estimators.privboost import (
        PrivBoostClassifier as PrivBoostClassifier,
        PrivBoostRegressor as PrivBoostRegressor,
    )
    from privboost.estimators.sarus import (
        SarusXGBClassifier as SarusXGBClassifier,
        SarusXGBRegressor as SarusXGBRegressor,
    )
    from privboost.estimators.sbdt import (
        SBDTClassifier as SBDTClassifier,
        SBDTRegressor as SBDTRegressor,
    )
    from privboost.evaluation.evaluate import evaluate as evaluate
    from privboost.evaluation.result import Evaluation as Evaluation
    from privboost.search.search import PrivateSearchCV as PrivateSearchCV
    from privboost.models.files import load_model as load_model
    from privboost.models.model import Model as Model
    from privboost.reports.report import PrivacyReport as PrivacyReport
# isort: on

__version__ = "0.1.0"

_HOMES = {
    "CategoricalFeature": "tables.features",
    "ClassTarget": "tables.features",
    "Domain": "tables.domain",
    "NumberTarget": "tables.features",
    "NumericFeature": "tables.features",
    "Unit": "unit",
    "BudgetError": "errors",
    "ClusterError": "errors",
    "DomainError": "errors",
    "ModelFileError": "errors",
    "PrivacyWarning": "errors",
    "SchemaError": "errors",
    "StoreError": "errors",
    "BudgetAccount": "accounts.account",
    "BudgetStore": "accounts.store",
    "Evaluation": "evaluation.result",
    "evaluate": "evaluation.evaluate",
    "PrivateSearchCV": "search.search",
    "Model": "models.model",
    "load_model": "models.files",
    "PrivacyReport": "reports.report",
    **ESTIMATORS,
}
__all__ = sorted(_HOMES)


if not TYPE_CHECKING:  # else every name would be known, and could be anything

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'privboost' has no attribute {name!r}")
        return getattr(import_module(f"privboost.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
