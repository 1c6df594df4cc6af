"""The plan of cyclical boosting over whole-feature histograms."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from privboost.boosting.checks import check_bins, check_count, check_grid, check_scores
from privboost.boosting.plan import Budget, NewtonStep, Plan, Task, contribution_of
from privboost.encoding import Encoder
from privboost.privacy.accountants.choice import choose_accountant
from privboost.privacy.calibration import calibrate
from privboost.privacy.events import Planned
from privboost.privacy.sum_events import GaussianRelease


@dataclass(frozen=True, eq=False)
class HistogramPlan(Plan):
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
        event = self.releases[feature].event
        assert isinstance(event, GaussianRelease)
        return event

    @property
    def parameters(self) -> dict[str, Any]:
        """What was chosen, for reports."""
        chosen = {"loss": self.task.loss, "n_estimators": self.n_estimators}
        return chosen | {"max_bins": self.max_bins, **asdict(self.step)}


def plan_histograms(
    encoder: Encoder,
    step: NewtonStep,
    n_estimators: int,
    max_bins: int,
    weight_bound: float | None,
    budget: Budget,
    accountant: str,
) -> HistogramPlan:
    """Decide everything about a run of cyclical histogram boosting, and calibrate its noise."""
    n_estimators = check_count("n_estimators", n_estimators, least=1)
    max_bins = check_bins("max_bins", max_bins, encoder)
    check_scores(n_estimators * step.leaf_clip * step.learning_rate)
    domain = encoder.domain
    task = Task.of(domain.target)
    contribution = contribution_of(domain, weight_bound)
    features = len(domain.features)
    wanted = [
        Planned(
            GaussianRelease(
                what=f"gradients and Hessians by bin of feature {name!r}",
                noise=1.0,
                units=contribution.row_units * contribution.rows,
                cells=1,
                rows=contribution.rows,
                shares=step.shares,
            ),
            count=task.n_outputs * len(range(k, n_estimators, features)),
        )
        for k, name in enumerate(domain.feature_names)
    ]
    made = [planned for planned in wanted if planned.count]
    chosen = choose_accountant(accountant, [*budget.before, *made], budget.delta)
    plan = HistogramPlan(
        encoder=encoder,
        task=task,
        contribution=contribution,
        weight_bound=weight_bound,
        budget=budget,
        accountant=chosen,
        releases=calibrate(made, budget.epsilon, budget.delta, chosen, budget.before),
        step=step,
        n_estimators=n_estimators,
        max_bins=max_bins,
    )
    check_grid(plan.release(k) for k in range(len(made)))
    return plan
