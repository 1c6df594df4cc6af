"""Calibration of a plan: its releases first, then the noise of all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from privboost.boosting.plan import Budget, PublicRows, Task, contribution_of
from privboost.grid import Contribution
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.accountants.choice import choose_accountant
from privboost.privacy.calibration import by_shares, calibrate
from privboost.privacy.events.event import Exact, Planned
from privboost.recipes.common.limits import check_grid
from privboost.tables.encoding import Encoder
from privboost.tables.features import CategoricalFeature

Shared = tuple[str, Planned, float]
"""Name of a release in the plan, the release, and its share of the whole μ²."""


@dataclass(frozen=True, eq=False)
class Draft:
    """Facts that every plan starts from.

    Attributes
    ----------
    encoder : Encoder
        Domain and binning.
    weight_bound : float or None
        Public bound of sample weights, if there are weights.
    budget : Budget
        Privacy budget.
    accountant : str
        Name of the accountant: see `accountants.choice.choose_accountant`.
    loss : str, optional
        Loss of classes; logistic by default.
    """

    encoder: Encoder
    weight_bound: float | None
    budget: Budget
    accountant: str
    loss: str | None = None

    @cached_property
    def task(self) -> Task:
        """Learning task."""
        return Task.of(self.encoder.domain.target, self.loss)

    @cached_property
    def contribution(self) -> Contribution:
        """Bound of one protected unit's contribution."""
        return contribution_of(self.encoder.domain, self.weight_bound)

    @property
    def bound(self) -> dict[str, Any]:
        """Bound of one protected unit's contribution to sums of clipped rows, as events take it."""
        rows = self.contribution.rows
        return {"steps": self.contribution.row_steps * rows, "rows": rows}

    @property
    def n_numbers(self) -> int:
        """Number of numeric features."""
        features: Sequence[Any] = self.encoder.domain.features
        return sum(not isinstance(feature, CategoricalFeature) for feature in features)

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of `Plan` that are known already."""
        return {
            "encoder": self.encoder,
            "task": self.task,
            "contribution": self.contribution,
            "weight_bound": self.weight_bound,
            "budget": self.budget,
        }

    def share(self, wanted: Sequence[Shared]) -> Made:
        """Calibrate releases that share μ²; those without a share or a count are left out."""
        noisy = by_shares([(planned, share) for _, planned, share in wanted])
        names = [name for name, planned, share in wanted if share > 0 and planned.count > 0]
        return self.scale(list(zip(names, noisy, strict=True)))

    def scale(self, wanted: Sequence[tuple[str, Planned]]) -> Made:
        """Multiply the noise of all releases by the factor with which they cost the budget.

        Releases of public rows become exact; they are checked as if they had noise.

        Raises
        ------
        ValueError
            If no noise on the grid costs the budget.
        """
        budget, planned = self.budget, [planned for _, planned in wanted]
        chosen = choose_accountant(self.accountant, [*budget.before, *planned], budget.delta)
        names = tuple(name for name, _ in wanted)
        if isinstance(budget, PublicRows):
            exact = tuple(Planned(Exact.of(each.event), each.count) for each in planned)
            return Made(self, chosen, names, exact)
        releases = calibrate(planned, budget.epsilon, budget.delta, chosen, budget.before)
        check_grid(planned.event for planned in releases)
        return Made(self, chosen, names, releases)


@dataclass(frozen=True, eq=False)
class Made:
    """Calibrated releases.

    Attributes
    ----------
    draft : Draft
        Facts that the plan starts from.
    accountant : Accountant
        Accountant that composed the releases.
    names : tuple of str
        Name of each release in the plan.
    releases : tuple of Planned
        Releases to reserve.
    """

    draft: Draft
    accountant: Accountant
    names: tuple[str, ...]
    releases: tuple[Planned, ...]

    def __getitem__(self, name: str) -> Any:
        return self.releases[self.names.index(name)].event

    def get(self, name: str) -> Any:
        """Return the release of a name, or None where the plan makes none."""
        return self[name] if name in self.names else None

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of `Plan` that all recipes fill alike."""
        made = {
            "accountant": self.accountant,
            "releases": self.releases,
            "span": self.get("span"),
        }
        return self.draft.fields | made
