"""Parts of estimators: named features, presets, probabilities of the loss, staged predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from privboost._core.checks import check_choice
from privboost.data.domain import Domain
from privboost.data.features import NumericFeature
from privboost.domain_inference.within_fit import DomainInference
from privboost.estimators.base import PrivateClassifier, PrivateEstimator
from privboost.estimators.preparation import FitArguments, MakePlan
from privboost.losses.base import loss_of, losses_of
from privboost.recipes.common.plan import Budget


class MonotoneEstimator(PrivateEstimator):
    """Adds checks of the features that parameters name where the domain is still to be inferred."""

    def _named_features(self) -> list[str]:
        named = getattr(self, "monotone", None)
        return [str(name) for name in named] if isinstance(named, Mapping) else []

    def _stand_in(self) -> Domain:
        spare, named = super()._stand_in(), dict.fromkeys(self._named_features())
        more = tuple(NumericFeature(name, (0, 1)) for name in named if name != "x")
        target = replace(spare.target, name="y".join(["", *named, ""]))  # unlike any of them
        return Domain((*spare.features, *more), target) if named else spare

    def _inference(
        self, given: FitArguments, make_plan: MakePlan, budget: Budget
    ) -> tuple[DomainInference, Any]:
        inference, plan = super()._inference(given, make_plan, budget)
        if plan.settings.monotone:
            inference.check_numbers("monotone", [name for name, _ in plan.settings.monotone])
            inference.check_two_classes("monotone")
        return inference, plan


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


def has_log_odds(estimator: Any) -> bool:
    """Whether a classifier's scores are log-odds; else raise an error that lists such losses."""
    known = [name for name in losses_of("classes") if loss_of("classes", name).log_odds]
    loss = getattr(estimator, "loss", None)
    if loss not in (None, *known):  # None is the default, which does
        named = " or ".join(f'loss="{name}"' for name in known)
        raise AttributeError(f"probabilities need {named}; see decision_function")
    return True


class AnyLossClassifier(PrivateClassifier):
    """Adds probabilities where the loss gives log-odds."""

    @available_if(has_log_odds)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, in the order of `classes_`. Costs no privacy."""
        probabilities: np.ndarray = self._fitted().predict_proba(X, n_jobs=self.n_jobs)
        return probabilities


class TreeEstimator(PresetEstimator):
    """Adds staged predictions."""

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield predictions after each update of training. Costs no privacy.

        To pick a stage by its exact errors on private rows does, and no ε covers it: use public or
        synthetic rows, or keep to the last stage.
        """
        return self._fitted().staged_predict(X)


class TreeClassifier(PrivateClassifier):
    """Adds staged probabilities where the loss gives log-odds."""

    @available_if(has_log_odds)
    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Yield class probabilities after each update of training. Costs no privacy.

        To pick a stage by its exact errors on private rows does: see `staged_predict`.
        """
        return self._fitted().staged_predict_proba(X)
