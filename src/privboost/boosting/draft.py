"""A plan in the making: the releases it wants, then noise for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from privboost.boosting.checks import check_grid
from privboost.boosting.plan import Budget, PublicRows, Task, contribution_of
from privboost.grid import Contribution
from privboost.privacy.accountants.base import Accountant
from privboost.privacy.accountants.choice import choose_accountant
from privboost.privacy.calibration import by_shares, calibrate
from privboost.privacy.events.event import Exact, Planned
from privboost.tables.encoding import Encoder
from privboost.tables.features import CategoricalFeature

Shared = tuple[str, Planned, float]
"""A release by the plan's name for it, with its share of the whole μ²."""


@dataclass(frozen=True, eq=False)
class Draft:
    """What every plan begins with.

    Attributes
    ----------
    encoder : Encoder
        The domain and how it is coded.
    weight_bound : float or None
        The public bound of sample weights, if there are weights.
    budget : Budget
        What may be spent.
    accountant : str
        Who is asked for the cost: see `accountants.choice.choose_accountant`.
    loss : str, optional
        The loss of classes; logistic by default.
    """

    encoder: Encoder
    weight_bound: float | None
    budget: Budget
    accountant: str
    loss: str | None = None

    @cached_property
    def task(self) -> Task:
        """What is learned."""
        return Task.of(self.encoder.domain.target, self.loss)

    @cached_property
    def contribution(self) -> Contribution:
        """What one protected unit may add."""
        return contribution_of(self.encoder.domain, self.weight_bound)

    @property
    def bound(self) -> dict[str, Any]:
        """What one protected unit may add to sums of clipped rows, as events say it."""
        rows = self.contribution.rows
        return {"steps": self.contribution.row_steps * rows, "rows": rows}

    @property
    def n_numbers(self) -> int:
        """How many features are numbers."""
        features: Sequence[Any] = self.encoder.domain.features
        return sum(not isinstance(feature, CategoricalFeature) for feature in features)

    @property
    def fields(self) -> dict[str, Any]:
        """What a plan takes over as it is; the names are those of `Plan`."""
        return {
            "encoder": self.encoder,
            "task": self.task,
            "contribution": self.contribution,
            "weight_bound": self.weight_bound,
            "budget": self.budget,
        }

    def share(self, wanted: Sequence[Shared]) -> Made:
        """Calibrate releases that share μ²; what has no share, or is never made, is left out."""
        noisy = by_shares([(planned, share) for _, planned, share in wanted])
        names = [name for name, planned, share in wanted if share > 0 and planned.count > 0]
        return self.scale(list(zip(names, noisy, strict=True)))

    def scale(self, wanted: Sequence[tuple[str, Planned]]) -> Made:
        """Multiply the noise of all releases by one factor, with which they cost the budget.

        Of public rows all of them become exact; they are checked as if they had noise.

        Raises
        ------
        ValueError
            If no noise on the grid does.
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
    """Releases whose noise is calibrated.

    Attributes
    ----------
    draft : Draft
        Where they come from.
    accountant : Accountant
        Who computed the cost.
    names : tuple of str
        What the plan calls each release.
    releases : tuple of Planned
        What is reserved.
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
        """What a plan takes over as it is; the names are those of `Plan`."""
        made = {
            "accountant": self.accountant,
            "releases": self.releases,
            "span": self.get("span"),
        }
        return self.draft.fields | made
