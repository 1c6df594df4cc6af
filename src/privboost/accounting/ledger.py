"""The ledger of a run: budget, reservations and charges, append-only."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from privboost._core.errors import BudgetError, StoreError
from privboost._core.files import check_link
from privboost._core.progress import before_charge, charge_refused
from privboost.accounting.accountants import Accountant
from privboost.accounting.events import Event, Planned
from privboost.accounting.grid_slack import EXCHANGE_ROOM, grid_allowed, grid_size
from privboost.accounting.individual_budgets import IndividualBudget
from privboost.accounting.noisy_sums import GaussianRelease, Parallel


class PendingCharge(Protocol):
    """A run that is about to be charged to an account."""

    @property
    def rows(self) -> str:
        """Identifier of the rows."""

    def charge(self, plan: Sequence[Planned], epsilon: float, delta: float) -> str:
        """Charge a plan permanently, or refuse it; return the entry's key."""


class Ledger:
    """Reserves plans before data are accessed, and records each event before its release.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    accountant : Accountant
        Computes the cost of events.
    path : path, optional
        A file to which every entry is appended as a line of JSON before it takes effect. A
        reservation is on disk before any data are accessed, so a killed process has spent at most
        the recorded reservations. An exchange has an entry of its own; its ε is that of the whole
        new reservation, not an additional one.
    pending_charge : PendingCharge, optional
        An account to which every reservation is charged first, and which may refuse it.

    Attributes
    ----------
    entry : str
        Key of the account's entry; empty without an account.
    adds_up : bool
        Whether exchanges stayed within the grid allowance of the first reservation.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        accountant: Accountant,
        path: str | Path | None = None,
        pending_charge: PendingCharge | None = None,
    ) -> None:
        self.epsilon, self.delta, self.accountant = epsilon, delta, accountant
        self.entry, self._pending_charge, self.adds_up = "", pending_charge, True
        self._path = None if path is None else checked_ledger(Path(path))
        self._reserved: list[Planned] = []
        self._left: Counter[Event] = Counter()
        self._spent: Counter[Event] = Counter()
        self._within: Counter[Event] = Counter()
        self._open: dict[
            IndividualBudget, int
        ] = {}  # individual budgets, and releases made within each
        self._ranges: list[list[float]] = []  # selections to come, in order: [range, count]
        self._exchanged = False
        self._first_reserved: list[Planned] = []

    def reserve(self, plan: Sequence[Planned]) -> None:
        """Reserve a plan; refuse it if the budget does not cover all reservations together."""
        self._set_aside("reserve", self._reserved, plan)

    def exchange(
        self, placeholder: Planned, plan: Sequence[Planned], accountant: Accountant
    ) -> None:
        """Replace a reservation that was not spent by another plan."""
        if placeholder not in self._reserved or self._left[placeholder.event] < placeholder.count:
            raise BudgetError(f"not reserved, or spent already: {placeholder.event.what}")
        made = [planned for planned in plan if planned.count]
        if any(isinstance(p.event, Parallel) for p in made) and any(
            isinstance(p.event, Parallel) for p in self._reserved
        ):  # what an earlier one relies on could be exchanged away
            raise BudgetError("units can be put aside by one plan only")
        # Failure probabilities are not part of μ²: on some paths they would exceed the fixed sum.
        whole = all(p.event.mu is not None and p.event.extra_delta == 0 for p in made)
        others = list(self._reserved)
        others.remove(placeholder)
        held, kept = _mu_squared([placeholder]), _mu_squared(others)
        first = _mu_squared(self._first_reserved)  # repeated exchanges must not accumulate
        if not (
            whole
            and _mu_squared(made) <= held * EXCHANGE_ROOM
            and kept + _mu_squared(made) <= first * EXCHANGE_ROOM
        ):
            # The new plan depends on earlier releases: only a fixed sum of μ² bounds it.
            raise BudgetError(
                f"the plan needs more than was reserved for it: {placeholder.event.what}"
            )
        coarse = grid_size([*others, *made]) > grid_allowed(self._first_reserved) * EXCHANGE_ROOM
        if coarse and self._pending_charge is not None:
            raise BudgetError(
                f"the noise is too fine for the account: {placeholder.event.what}; use a smaller "
                "epsilon, or write the domain"
            )
        before, self.accountant = self.accountant, accountant
        try:
            self._set_aside("exchange", others, plan, instead_of=placeholder.event.what)
        except BaseException:  # KeyboardInterrupt too
            self.accountant = before
            raise
        self._left[placeholder.event] -= placeholder.count
        self._exchanged = True
        self.adds_up = self.adds_up and not coarse

    @property
    def cost(self) -> float:
        """ε of all reservations.

        After an exchange it is the whole budget, which no path exceeds: exchanged plans depend on
        releases, and so does the slack of their grid.
        """
        if self._exchanged:
            return self.epsilon
        return self.accountant.cost(self.reserved, self.delta)

    def check(self, plan: Sequence[Planned]) -> float:
        """Return the ε of a plan; refuse one that the whole budget does not cover."""
        cost = self.accountant.cost(plan, self.delta)
        if not cost <= self.epsilon:
            raise BudgetError(
                f"the plan costs epsilon {cost:.6g} at delta {self.delta:g}; "
                f"the budget is {self.epsilon:.6g}"
            )
        return cost

    def _set_aside(
        self, entry: str, others: Sequence[Planned], plan: Sequence[Planned], **details: str
    ) -> None:
        """Reserve a plan in addition to others, once the account and the file have the entry."""
        _check_parallel(plan)
        together = [*others, *plan]
        cost = self.check(together)
        content = {"epsilon": cost, "delta": self.delta, **details, "plan": _plan_dicts(plan)}
        before_charge()
        try:
            if self._pending_charge is not None and entry == "reserve":  # an exchange costs no more
                self.entry = self._pending_charge.charge(plan, cost, self.delta)
            self._write({"entry": entry, **content}, durable=True)
        except (BudgetError, StoreError, OSError):
            if not self.entry:  # an account that was charged stays charged
                charge_refused()
            raise
        self._reserved = together
        if entry == "reserve":
            self._first_reserved += plan
        for planned in plan:
            self._left[planned.event] += planned.count
            if planned.event.range_epsilon is not None and planned.count:
                self._ranges.append([planned.event.range_epsilon, planned.count])

    def _write(self, entry: dict[str, Any], durable: bool) -> None:
        """Append an entry to the file, if any; an error names a charge that was made before."""
        if self._path is None:
            return
        try:
            _append(self._path, entry, durable)
        except OSError as error:
            why = error.strerror or str(error)
            if self.entry:
                why += f"; the account was charged (entry {self.entry}), and nothing is given back"
            raise OSError(error.errno, why, str(self._path)) from None

    def _note(self, entry: str, event: Event) -> None:
        """Append an event to the file, without fsync: its reservation is on disk already."""
        if self._path is not None:
            self._write({"entry": entry, **event.to_dict()}, durable=False)

    def charge(self, event: Event) -> None:
        """Record an event that was reserved. Call it before the value is released."""
        if self._left[event] < 1:
            raise BudgetError(f"not reserved, or spent already: {event.what}")
        if event.range_epsilon is not None:
            self._check_order(event)
        self._note("charge", event)
        self._left[event] -= 1
        self._spent[event] += 1
        if isinstance(event, IndividualBudget):
            self._open[event] = 0

    def check_unspent(self, event: Event) -> None:
        """Refuse an event that is not reserved, or that was charged or exchanged already."""
        counts = [planned.count for planned in self._reserved if planned.event == event]
        if not counts or self._left[event] != sum(counts) or event in self._spent:
            raise BudgetError(f"not reserved, or spent already: {event.what}")

    def check_parallel(self, fraction: float) -> frozenset[Parallel]:
        """Return the reserved parallel releases; refuse them unless all may still be covered.

        Neither they nor the releases that cover them were made or exchanged, and all are of this
        fraction of the units.
        """
        events = [planned.event for planned in self._reserved]
        found = [event for event in events if isinstance(event, Parallel)]
        for event in found:
            if event.fraction != fraction:
                raise BudgetError(f"not of the units that are put aside: {event.what}")
            self.check_unspent(event)
            self.check_unspent(event.covered_by)
        return frozenset(found)

    def adopt(self, budget: IndividualBudget, used: int) -> None:
        """Continue a budget that an earlier ledger has charged and partly used."""
        self._open[budget] = used

    def charge_within(self, event: GaussianRelease) -> None:
        """Record a release that rows pay from individual budgets. Call it before the release."""
        for budget, used in self._open.items():
            budget.check(event, 1, used)
        self._note("within", event)
        self._within[event] += 1
        for budget in self._open:
            self._open[budget] += 1

    def note_within(self, event: Event) -> None:
        """Record a release of a group, which is charged already."""
        self._note("within", event)

    def used(self, budget: IndividualBudget) -> int:
        """Return the number of releases within a budget: public, like the number of rounds."""
        return self._open[budget]

    def _check_order(self, event: Event) -> None:
        """Refuse selections out of the plan's order: the cost of different ranges depends on it."""
        due = self._ranges[0]
        if event.range_epsilon != due[0]:
            raise BudgetError(f"selections must follow the order of the plan: {event.what}")
        due[1] -= 1
        if due[1] == 0:
            self._ranges.pop(0)

    @property
    def reserved(self) -> tuple[Planned, ...]:
        """All reservations: the basis of the report, whether or not a run completes."""
        return tuple(self._reserved)

    @property
    def first_reserved(self) -> tuple[Planned, ...]:
        """Reservations before any exchange: public, whatever was released."""
        return tuple(self._first_reserved)

    @property
    def rows(self) -> str:
        """Identifier of the rows; empty without an account."""
        return "" if self._pending_charge is None else self._pending_charge.rows

    @property
    def spent(self) -> tuple[Planned, ...]:
        """Events recorded so far."""
        return tuple(Planned(event, count) for event, count in self._spent.items())

    @property
    def within(self) -> tuple[Planned, ...]:
        """Releases that rows paid from individual budgets."""
        return tuple(Planned(event, count) for event, count in self._within.items())


def _mu_squared(plan: Sequence[Planned]) -> float:
    """Return Σμ² of Gaussian events."""
    return math.fsum(planned.count * (planned.event.mu or 0.0) ** 2 for planned in plan)


def _check_parallel(plan: Sequence[Planned]) -> None:
    """Refuse parallel releases that no release of the plan covers, or not all of them.

    A Gaussian release that the plan makes several times covers no more than one; Laplace releases
    cover as many as they say.
    """
    parallel = [
        (planned.event, planned.count) for planned in plan if isinstance(planned.event, Parallel)
    ]
    for whole in {event.covered_by for event, _ in parallel}:
        own = [(event, count) for event, count in parallel if event.covered_by == whole]
        copies = own[0][0].copies
        made = sum(planned.count for planned in plan if planned.event == whole)
        covered = (
            math.fsum(count * event.part for event, count in own) <= 1
            and sum(count * event.touched for event, count in own) <= copies * whole.touched
            and all(event.copies == copies for event, _ in own)
            and made >= copies
        )
        if not covered:
            raise BudgetError(f"the plan does not cover what is parallel to it: {whole.what}")


_FIRST = b'{"entry"'


def checked_ledger(path: Path) -> Path:
    """Return a path to which entries can be appended; refuse other files."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"ledger: no such folder: {path.parent}")
    check_link(path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"ledger: {path} cannot be written")
    if path.is_file():
        with path.open("rb") as file:
            if not _FIRST.startswith(file.read(len(_FIRST))):  # a crash may have truncated it
                raise ValueError(f"ledger: {path} exists and is no ledger")
    return path


def _append(path: Path, entry: dict[str, Any], durable: bool) -> None:
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a crash truncated the last one
                file.write(b"\n")
        file.write(json.dumps(entry).encode() + b"\n")
        file.flush()
        if durable:
            os.fsync(file.fileno())


def _plan_dicts(plan: Sequence[Planned]) -> list[dict[str, Any]]:
    return [{"count": planned.count, **planned.event.to_dict()} for planned in plan]
