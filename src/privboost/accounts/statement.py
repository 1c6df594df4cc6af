"""What an account says at one moment: its limit, its entries, and what is left."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from privboost.accounts.filters import Filter, GaussianFilter, Price, far_factor
from privboost.privacy.events.event import Relation
from privboost.reports.report import round_up

_WORDS_SHARE = 0.1
_PERCENTS = 1.0
"""Beyond all of an account, parts are told in times."""


@dataclass(frozen=True)
class Entry:
    """An entry of an account: something that spent, or was about to.

    Attributes
    ----------
    number : int
        Its place in the store.
    key : str
        Its own name, which reports carry.
    date : str
        When it was written, as the machine's clock said; nothing depends on it.
    who : str
        The user and the machine.
    name : str
        What the caller called it.
    what : str
        What was run.
    epsilon, delta : float
        What its own report states.
    batches : int
        Of a stream: how many batches were charged to it; 0 of anything else.
    price : Price
        What it takes of the account.
    """

    number: int
    key: str
    date: str
    who: str
    name: str
    what: str
    epsilon: float
    delta: float
    batches: int
    price: Price


@dataclass(frozen=True)
class Rules:
    """What an account is about; all but the limit is fixed once something is spent.

    Attributes
    ----------
    relation : Relation
        Which tables are neighbours.
    unit : str or None
        The column that tells protected units apart; None is one row.
    filter : Filter
        How runs add up.
    epsilon, delta : float
        The limit.
    opened : str
        When it was opened.
    closed : str or None
        When it was closed: nothing can be spent since.
    """

    relation: Relation
    unit: str | None
    filter: Filter
    epsilon: float
    delta: float
    opened: str
    closed: str | None

    @property
    def noise_delta(self) -> float:
        """The part of δ that noise has; fixed, so that nobody can choose between the two."""
        return self.delta * (1 - _WORDS_SHARE)

    @property
    def words_delta(self) -> float:
        """The part of δ that thresholds of learned words have."""
        return self.delta * _WORDS_SHARE


@dataclass(frozen=True)
class Statement:
    """What an account says at one moment.

    Attributes
    ----------
    dataset : str
        The data set.
    rules : Rules
        What it is about.
    entries : tuple of Entry
        What was spent, in order.
    """

    dataset: str
    rules: Rules
    entries: tuple[Entry, ...]

    @property
    def spent(self) -> Price:
        """All prices together."""
        return sum((entry.price for entry in self.entries), Price())

    @property
    def epsilon(self) -> float:
        """The ε of all runs together, at the account's δ."""
        return self.epsilon_of(self.spent)

    def epsilon_of(self, price: Price) -> float:
        """The ε that a price costs by itself, at the account's δ."""
        rules = self.rules
        if price.words_delta(rules.epsilon) > rules.words_delta * (1 + 1e-9):
            return math.inf
        return rules.filter.epsilon(price, rules.noise_delta)

    @property
    def left(self) -> float:
        """The ε that one more run of Gaussian noise could have, at the account's δ."""
        rules, spent = self.rules, self.spent
        room = rules.filter.room(rules.epsilon, rules.noise_delta) - spent.size
        if rules.closed is not None or self.epsilon > rules.epsilon or room <= 0:
            return 0.0
        return rules.filter.as_gaussian(room, rules.noise_delta)

    @property
    def words_delta_left(self) -> float:
        """What one more lesson may use of δ for thresholds: half of what is left for them."""
        rules = self.rules
        left = rules.words_delta - self.spent.words_delta(rules.epsilon)
        near = rules.relation == Relation.ADD_REMOVE
        return max(0.0, left / 2 / (1 if near else far_factor(rules.epsilon)))

    def share_of(self, price: Price) -> float:
        """The part of the account that a price takes."""
        room = self.rules.filter.room(self.rules.epsilon, self.rules.noise_delta)
        return price.size / room if room > 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON, where an infinite number is null."""
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
        runs = [
            {
                "entry": entry.key,
                "date": entry.date,
                "who": entry.who,
                "name": entry.name,
                "what": entry.what,
                "epsilon": entry.epsilon,
                "delta": entry.delta,
                "share": _finite(self.share_of(entry.price)),
            }
            for entry in self.entries
        ]
        return own | {"runs": runs}

    def __str__(self) -> str:
        rules = self.rules
        unit = "one row" if rules.unit is None else f"all rows of one {rules.unit}"
        order = f" of order {rules.filter.order}" if hasattr(rules.filter, "order") else ""
        closed = "" if rules.closed is None else "CLOSED; "
        part = share_words(self.share_of(self.spent))
        left = f"epsilon {round_down(self.left)} for one more run of Gaussian noise"
        lines = [
            f"{self.dataset}: {closed}epsilon {round_up(self.epsilon)} of {rules.epsilon:g} is "
            f"spent, at delta {rules.delta:g}: {part} of the account",
            f"  left        {left if self.left > 0 else 'nothing'}",
            f"  protects    {unit}; neighbours {rules.relation.value}",
            f"  adds up by  {rules.filter.name}{order}{_why(rules.filter)}",
            f"  opened      {rules.opened}"
            + (f"; closed {rules.closed}" if rules.closed is not None else ""),
        ]
        if self.epsilon > rules.epsilon:
            lines.append("  note        the limit was lowered below what is spent: no run fits")
        if self.entries:
            lines += [f"  {name:<10}  {words}" for name, words in _meanings(self)]
        wide = max([9, *(len(entry.name) for entry in self.entries)])
        for entry in self.entries:
            cost = f"({round_up(entry.epsilon)}, {round_up(entry.delta)})"
            name = entry.name or "(no name)"
            lines.append(
                f"  {entry.date}  {name:<{wide}}  {entry.what:<20}  {cost:<18}  "
                f"{share_words(self.share_of(entry.price)):>7} of the account  {entry.who}  "
                f"{entry.key}"
            )
        return "\n".join(lines)


def _why(kind: Filter) -> str:
    """Say what is odd about a filter's figures."""
    if isinstance(kind, GaussianFilter):
        return ""
    return (
        ": the first run costs an epsilon of its own, whatever it is; shares say how much is left"
    )


def _meanings(statement: Statement) -> list[tuple[str, str]]:
    """Say what the figures of an account with entries mean, each in a sentence."""
    rules = statement.rules
    squares = isinstance(rules.filter, GaussianFilter)
    adds = "mu squared" if squares else "Rényi divergences"
    said = [
        (
            "epsilon",
            f"of the account: of all runs together, at its delta {rules.delta:g}; of a run: what "
            "its report states, at its own delta",
        )
    ]
    if len(statement.entries) > 1:
        own = round_up(sum(entry.epsilon for entry in statement.entries))
        words = (
            f"add up, being parts of {adds}; epsilons do not: the sum of the runs' own, {own}, is "
            "not what they cost together"
        )
        said.append(("shares", words))
    return said


def share_words(share: float) -> str:
    """Write a part of an account; what is far more than all of it in times."""
    if share <= _PERCENTS:
        return f"{share:.2%}"
    return f"{share:.3g} times all" if math.isfinite(share) else "beyond all"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def round_down(value: float) -> str:
    """Return a number in words that promise no more than there is."""
    return f"{math.floor(value * 1e4) / 1e4:.6g}"
