"""The balance of an account: its limit, its entries, and what is left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privboost._core.errors import BudgetError
from privboost.accounting.events import Relation
from privboost.accounting.formulas import round_up
from privboost.accounts.filters import Filter, Price, far_factor

_THRESHOLD_SHARE = 0.1
"""Part of δ that is reserved for thresholds of private domain inference."""


@dataclass(frozen=True)
class Entry:
    """A charge to an account, written before its run begins."""

    number: int  # in the store
    key: str  # unique; reports carry it
    date: str  # by the machine's clock; for display only
    who: str  # user and machine
    name: str  # that the caller chose
    what: str  # what was run
    epsilon: float  # of the run's own report
    delta: float
    batches: int  # of a stream; 0 for any other run
    price: Price  # in the account's filter


@dataclass(frozen=True)
class Rules:
    """Terms of an account; all but the limit are fixed once something is spent."""

    relation: Relation
    unit: str | None  # the unit column; None is one row
    filter: Filter
    epsilon: float  # the limit
    delta: float
    opened: str  # a date
    closed: str | None  # the date after which nothing can be spent

    @property
    def noise_delta(self) -> float:
        """Part of δ for noise; fixed, so that it cannot be chosen in view of releases."""
        return self.delta * (1 - _THRESHOLD_SHARE)

    @property
    def threshold_delta(self) -> float:
        """Part of δ for thresholds of private domain inference."""
        return self.delta * _THRESHOLD_SHARE


@dataclass(frozen=True)
class Balance:
    """State of a data set's account at one moment: its terms, and its charges in order."""

    dataset: str
    rules: Rules
    entries: tuple[Entry, ...]

    @property
    def spent(self) -> Price:
        """Total price of all entries."""
        return sum((entry.price for entry in self.entries), Price())

    @property
    def epsilon(self) -> float:
        """ε of all runs together, at the account's δ."""
        return self.epsilon_of(self.spent)

    def epsilon_of(self, price: Price) -> float:
        """Return the ε of a price, at the account's δ."""
        rules = self.rules
        if price.threshold_delta(rules.epsilon) > rules.threshold_delta * (1 + 1e-9):
            return math.inf
        return rules.filter.epsilon(price, rules.noise_delta)

    @property
    def left(self) -> float:
        """Largest ε of one more run with Gaussian noise, at the account's δ."""
        rules, spent = self.rules, self.spent
        headroom = rules.filter.headroom(rules.epsilon, rules.noise_delta) - spent.size
        if rules.closed is not None or self.epsilon > rules.epsilon or headroom <= 0:
            return 0.0
        return rules.filter.as_gaussian(headroom, rules.noise_delta)

    @property
    def threshold_delta_left(self) -> float:
        """δ for the thresholds of one more domain inference: half of what is left for them."""
        rules = self.rules
        left = rules.threshold_delta - self.spent.threshold_delta(rules.epsilon)
        near = rules.relation == Relation.ADD_REMOVE
        return max(0.0, left / 2 / (1 if near else far_factor(rules.epsilon)))

    def check_open(self) -> None:
        """Refuse to spend from a closed account."""
        if self.rules.closed is not None:
            raise BudgetError(f"the account of {self.dataset!r} is closed: nothing can be spent")

    def check_unit(self, unit: str | None) -> None:
        """Refuse a run that protects another unit than the account."""
        if unit != self.rules.unit:
            hint = "" if self.entries else "; while nothing is spent, privboost budget unit does"
            raise BudgetError(
                f"the account {self.dataset!r} protects {_describe_unit(self.rules.unit)}; this "
                f"run would protect {_describe_unit(unit)}: they do not add up (an account is "
                f"opened with the unit column that domains name: --unit{hint})"
            )

    def check_unspent(self) -> None:
        """Refuse to change the protected unit once something is spent."""
        if self.entries:
            raise BudgetError(
                f"the account of {self.dataset!r} has entries, whose noise protects "
                f"{_describe_unit(self.rules.unit)}: its unit cannot change, since they guarantee "
                "nothing to others, and a new account would forget what was spent"
            )

    def check_room(self, spent: Price) -> None:
        """Refuse a total price above the limit."""
        rules, cost = self.rules, self.epsilon_of(spent)
        if cost <= rules.epsilon:
            return
        total = f"cost epsilon {cost:.6g}" if cost < math.inf else "leave nothing of delta"
        raise BudgetError(
            f"the account of {self.dataset!r} does not cover this: with what was spent before it "
            f"would {total} of {rules.epsilon:g} at delta {rules.delta:g}; epsilon "
            f"{round_down(self.left)} is left for one more run of Gaussian noise"
        )

    def share_of(self, price: Price) -> float:
        """Return a price as a fraction of the limit."""
        headroom = self.rules.filter.headroom(self.rules.epsilon, self.rules.noise_delta)
        return price.size / headroom if headroom > 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible dict, in which infinity is null."""
        rules = self.rules
        own = {
            "dataset": self.dataset,
            "relation": rules.relation.value,
            "unit": rules.unit,
            "filter": rules.filter.name,
            "order": getattr(rules.filter, "order", None),
            "limit": {"epsilon": rules.epsilon, "delta": rules.delta},
            "spent": {"epsilon": _finite(self.epsilon), "delta": rules.delta},
            "left": {"epsilon": self.left, "delta": rules.delta},
            "opened": rules.opened,
            "closed": rules.closed,
        }
        shown = ("date", "who", "name", "what", "epsilon", "delta")
        runs = [
            {"entry": entry.key}
            | {name: getattr(entry, name) for name in shown}
            | {"share": _finite(self.share_of(entry.price))}
            for entry in self.entries
        ]
        return own | {"runs": runs}

    def __str__(self) -> str:
        rules = self.rules
        order = f" of order {rules.filter.order}" if hasattr(rules.filter, "order") else ""
        closed = "" if rules.closed is None else "CLOSED; "
        part = format_share(self.share_of(self.spent))
        left = f"epsilon {round_down(self.left)} for one more run of Gaussian noise"
        lines = [
            f"{self.dataset}: {closed}epsilon {round_up(self.epsilon)} of {rules.epsilon:g} is "
            f"spent, at delta {rules.delta:g}: {part} of the account",
            f"  left        {left if self.left > 0 else 'nothing'}",
            f"  protects    {_describe_unit(rules.unit)}; neighbours {rules.relation.value}",
            f"  adds up by  {rules.filter.name}{order}{rules.filter.note}",
            f"  opened      {rules.opened}"
            + (f"; closed {rules.closed}" if rules.closed is not None else ""),
        ]
        if self.epsilon > rules.epsilon:
            lines.append("  note        the limit was lowered below what is spent: no run fits")
        if self.entries:
            lines.append(
                "  epsilon     of the account: of all runs together, at its delta "
                f"{rules.delta:g}; of a run: that of its report, at its own delta"
            )
        if len(self.entries) > 1:
            own = round_up(sum(entry.epsilon for entry in self.entries))
            lines.append(
                f"  shares      add up, being parts of {rules.filter.additive}; epsilons do not: "
                f"the sum of the runs' own, {own}, is not what they cost together"
            )
        wide = max([9, *(len(entry.name) for entry in self.entries)])
        for entry in self.entries:
            cost = f"({round_up(entry.epsilon)}, {round_up(entry.delta)})"
            name = entry.name or "(no name)"
            lines.append(
                f"  {entry.date}  {name:<{wide}}  {entry.what:<20}  {cost:<18}  "
                f"{format_share(self.share_of(entry.price)):>7} of the account  {entry.who}  "
                f"{entry.key}"
            )
        return "\n".join(lines)


def _describe_unit(column: str | None) -> str:
    return "one row" if column is None else f"all rows of one {column}"


def format_share(share: float) -> str:
    """Format a share of an account: a percentage, or a multiple of the whole."""
    if share <= 1:
        return f"{share:.2%}"
    return f"{share:.3g} times all" if math.isfinite(share) else "beyond all"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def round_down(value: float) -> str:
    """Format a number, rounded down."""
    return f"{math.floor(value * 1e4) / 1e4:.6g}"
