"""The plan of cyclical boosting over whole-feature histograms."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar, cast

from privboost.boosting.checks import check_bins, check_count, check_scores
from privboost.boosting.draft import Draft
from privboost.boosting.newton import NewtonStep
from privboost.boosting.plan import Budget, Plan
from privboost.privacy.events.event import Planned
from privboost.privacy.events.sums import GaussianRelease
from privboost.tables.encoding import Encoder


@dataclass(frozen=True, eq=False)
class PrivBoostPlan(Plan):
    """The plan of cyclical histogram boosting; for each feature it has one release.

    Attributes
    ----------
    step : NewtonStep
        From sums to values.
    n_estimators : int
        Rounds for each output.
    max_bins : int
        Bins of a numeric feature.
    """

    _hashed: ClassVar[tuple[str, ...]] = (
        "task",
        "step",
        "contribution",
        "budget",
        "n_estimators",
        "max_bins",
    )

    step: NewtonStep
    n_estimators: int
    max_bins: int

    def release(self, feature: int) -> GaussianRelease:
        """Return the release of a feature's histogram."""
        return cast(GaussianRelease, self.releases[feature].event)  # or, of public rows, Exact

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        chosen = {"loss": self.task.loss, "n_estimators": self.n_estimators}
        return chosen | {"max_bins": self.max_bins, **asdict(self.step)}


def plan_privboost(
    encoder: Encoder,
    step: NewtonStep,
    n_estimators: int,
    max_bins: int,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
) -> PrivBoostPlan:
    """Decide everything about a run of cyclical histogram boosting, and calibrate its noise."""
    n_estimators = check_count("n_estimators", n_estimators)
    max_bins = check_bins("max_bins", max_bins, encoder)
    check_scores(n_estimators * step.leaf_clip * step.learning_rate)
    draft = Draft(encoder, weight_bound, budget, accountant)
    names = encoder.domain.feature_names
    wanted = []
    for feature, name in enumerate(names):
        what = f"gradients and Hessians by bin of feature {name!r}"
        event = GaussianRelease(what, 1.0, cells=1, shares=step.shares, **draft.bound)
        turns = len(range(feature, n_estimators, len(names)))
        if turns:
            wanted.append((name, Planned(event, draft.task.n_outputs * turns)))
    made = draft.scale(wanted)
    return PrivBoostPlan(**made.fields, step=step, n_estimators=n_estimators, max_bins=max_bins)
