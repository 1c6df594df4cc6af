"""Boosted models for private tables, with differential privacy that is proved and tested.

The public names load on first use, so that importing the package is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from privboost._core.hooks import register
from privboost.recipes import ESTIMATORS

# isort: off
if TYPE_CHECKING:  # the same names, for tools that read types
    from privboost.data.domain import Domain as Domain
    from privboost.data.features import CategoricalFeature as CategoricalFeature
    from privboost.data.targets import (
        ClassTarget as ClassTarget,
        NumberTarget as NumberTarget,
        SurvivalTarget as SurvivalTarget,
    )
    from privboost.data.features import (
        BooleanFeature as BooleanFeature,
        DateFeature as DateFeature,
        DurationFeature as DurationFeature,
        NumericFeature as NumericFeature,
        OrdinalFeature as OrdinalFeature,
    )
    from privboost._core.unit import Unit as Unit
    from privboost._core.errors import (
        BudgetError as BudgetError,
        DeviceError as DeviceError,
        ClusterError as ClusterError,
        DomainError as DomainError,
        FederationError as FederationError,
        FitWarning as FitWarning,
        ModelFileError as ModelFileError,
        PrivacyWarning as PrivacyWarning,
        SchemaError as SchemaError,
        StoreError as StoreError,
    )
    from privboost.accounts.account import BudgetAccount as BudgetAccount
    from privboost.accounts.account import BudgetStore as BudgetStore
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
        PrivBoostSurvival as PrivBoostSurvival,
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
    from privboost.evaluation.sweep import Sweep as Sweep
    from privboost.federated.transport import (
        FederationServer as FederationServer,
        join_federation as join_federation,
    )
    from privboost.federated.federation import Federation as Federation
    from privboost.federated.crypto import KeyPair as KeyPair
    from privboost.federated.party import Party as Party
    from privboost.explanations.explanation import Explanation as Explanation
    from privboost.explanations.explanation import LocalExplanation as LocalExplanation
    from privboost.export.export import export_model as export_model
    from privboost.evaluation.model_card import ModelCard as ModelCard, model_card as model_card
    from privboost.search import PrivateSearchCV as PrivateSearchCV
    from privboost.models.model import load_model as load_model
    from privboost.models.model import Model as Model
    from privboost.estimators.recommendation import (
        Recommendation as Recommendation,
        recommend as recommend,
    )
    from privboost.reports.report import PrivacyReport as PrivacyReport
# isort: on

__version__ = "0.1.0"

_HOMES = {
    "BooleanFeature": "data.features",
    "CategoricalFeature": "data.features",
    "ClassTarget": "data.targets",
    "DateFeature": "data.features",
    "Domain": "data.domain",
    "DurationFeature": "data.features",
    "NumberTarget": "data.targets",
    "NumericFeature": "data.features",
    "SurvivalTarget": "data.targets",
    "OrdinalFeature": "data.features",
    "Unit": "_core.unit",
    "BudgetError": "_core.errors",
    "DeviceError": "_core.errors",
    "ClusterError": "_core.errors",
    "DomainError": "_core.errors",
    "FederationError": "_core.errors",
    "FitWarning": "_core.errors",
    "ModelFileError": "_core.errors",
    "PrivacyWarning": "_core.errors",
    "SchemaError": "_core.errors",
    "StoreError": "_core.errors",
    "BudgetAccount": "accounts.account",
    "BudgetStore": "accounts.account",
    "Evaluation": "evaluation.result",
    "Sweep": "evaluation.sweep",
    "evaluate": "evaluation.evaluate",
    "Federation": "federated.federation",
    "FederationServer": "federated.transport",
    "KeyPair": "federated.crypto",
    "join_federation": "federated.transport",
    "Party": "federated.party",
    "Explanation": "explanations.explanation",
    "LocalExplanation": "explanations.explanation",
    "ModelCard": "evaluation.model_card",
    "model_card": "evaluation.model_card",
    "PrivateSearchCV": "search",
    "export_model": "export.export",
    "Model": "models.model",
    "load_model": "models.model",
    "PrivacyReport": "reports.report",
    "Recommendation": "estimators.recommendation",
    "recommend": "estimators.recommendation",
    **ESTIMATORS,
}
__all__ = sorted(_HOMES)

register("Domain.learn", "privboost.domain_inference.inference", "learn_domain")
register("report_document", "privboost.reports.sections", "report_document")
register("loader PVBLOAD1", "privboost.data.loading", "RowLoader")
register("loader PVBPART1", "privboost.data.loading", "SplitLoader")
register("loader PVBSIZE1", "privboost.domain_inference.bounds", "InferenceLoader")
register("loader PVBEVAL1", "privboost.evaluation.outcomes", "OutcomeLoader")
register("outcomes classes", "privboost.evaluation.classes", "ClassOutcomes")
register("outcomes number", "privboost.evaluation.numbers", "NumberOutcomes")
register("outcomes survival", "privboost.evaluation.survival", "SurvivalOutcomes")
register("outcomes exact number", "privboost.evaluation.exact_numbers", "ExactNumberOutcomes")


if not TYPE_CHECKING:  # else every name would be known, and could be anything

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'privboost' has no attribute {name!r}")
        return getattr(import_module(f"privboost.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
