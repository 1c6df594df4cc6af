"""What may be spent, what is reserved, what was spent: append-only."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from privboost.errors import BudgetError, StoreError
from privboost.files import check_link
from privboost.privacy.accountants.base import Accountant, Profile
from privboost.privacy.accountants.discretisation import grid_allowed, grid_size
from privboost.privacy.budgets.life import LifeBudget
from privboost.privacy.events.event import Event, Planned
from privboost.privacy.events.sums import GaussianRelease
from privboost.progress import before_charge, charge_refused

EXCHANGE_ROOM = 1 + 1e-4
"""What takes the place of a reservation may exceed its μ² by so much: calibrations are rounded."""


class Posting(Protocol):
    """An account that lasts, and what is about to be run."""

    @property
    def rows(self) -> str:
        """What tells these rows from others."""

    def post(self, plan: Sequence[Planned], epsilon: float, delta: float) -> str:
        """Write down what a plan takes, for good, or refuse it; return the entry's name."""


class Ledger:
    """Reserves whole plans before data are touched, and records each event before its release.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    accountant : Accountant
        Who computes what events cost.
    path : path, optional
        A file to which every entry is appended as a line of JSON before it takes effect. A
        reservation is on the disk before any data are touched, so a process that is killed has
        spent at most what the file says. What is exchanged for a part of a reservation has an
        entry of its own; its ε is that of all that is reserved then, not a further one.
    posting : Posting, optional
        An account to which every reservation goes first, and which may refuse it.

    Attributes
    ----------
    entry : str
        The account's name for what was reserved; empty without one.
    adds_up : bool
        Whether what was exchanged is still within what was reserved first, grid and all.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        accountant: Accountant,
        path: str | Path | None = None,
        posting: Posting | None = None,
    ) -> None:
        self.epsilon, self.delta, self.accountant = epsilon, delta, accountant
        self.entry, self._posting, self.adds_up = "", posting, True
        self._path = None if path is None else checked_ledger(Path(path))
        self._reserved: list[Planned] = []
        self._left: Counter[Event] = Counter()
        self._spent: Counter[Event] = Counter()
        self._within: Counter[Event] = Counter()
        self._open: dict[LifeBudget, int] = {}  # budgets for life, and releases made within each
        self._ranges: list[
            list[float]
        ] = []  # of selections yet to come: [range, how many], in order
        self._exchanged = False
        self._posted: list[Planned] = []

    def reserve(self, plan: Sequence[Planned]) -> None:
        """Set a plan aside; refuse it if the budget does not cover it and what came before."""
        self._set_aside("reserve", self._reserved, plan)

    def exchange(
        self, placeholder: Planned, plan: Sequence[Planned], accountant: Accountant
    ) -> None:
        """Put a plan in the place of a reservation that stood for it and was not touched."""
        if placeholder not in self._reserved or self._left[placeholder.event] < placeholder.count:
            raise BudgetError(f"not reserved, or spent already: {placeholder.event.what}")
        made = [planned for planned in plan if planned.count]
        # A failure of its own has no μ: on some paths it would come on top of the fixed sum.
        whole = all(p.event.mu is not None and p.event.extra_delta == 0 for p in made)
        others = list(self._reserved)
        others.remove(placeholder)
        held, kept = _mu_squared([placeholder]), _mu_squared(others)
        first = _mu_squared(self._posted)  # what is exchanged again must not grow by turns
        if not (
            whole
            and _mu_squared(made) <= held * EXCHANGE_ROOM
            and kept + _mu_squared(made) <= first * EXCHANGE_ROOM
        ):
            # What comes was chosen after seeing releases: only a fixed sum of μ² bounds that.
            raise BudgetError(
                f"the plan needs more than was reserved for it: {placeholder.event.what}"
            )
        coarse = grid_size([*others, *made]) > grid_allowed(self._posted) * EXCHANGE_ROOM
        if coarse and self._posting is not None:
            raise BudgetError(
                f"the noise is too fine for the account: {placeholder.event.what}; use a smaller "
                "epsilon, or write the domain"
            )
        before, self.accountant = self.accountant, accountant
        try:
            self._set_aside("exchange", others, plan, instead_of=placeholder.event.what)
        except BaseException:  # also where somebody interrupts
            self.accountant = before
            raise
        self._left[placeholder.event] -= placeholder.count
        self._exchanged = True
        self.adds_up = self.adds_up and not coarse

    @property
    def cost(self) -> float:
        """The ε that all reserved releases cost, whatever they turned out to be.

        What was exchanged follows from releases, and so does what the grid adds to its cost: then
        it is the whole budget, which no path exceeds.
        """
        if self._exchanged:
            return self.epsilon
        return self.accountant.cost(self.reserved, self.delta)

    def check(self, plan: Sequence[Planned]) -> float:
        """Return the ε that a plan costs; refuse one that the whole budget does not cover."""
        cost = self.accountant.cost(plan, self.delta)
        if not cost <= self.epsilon:
            raise BudgetError(
                f"the plan costs epsilon {cost:.6g} at delta {self.delta:g}; "
                f"the budget is {self.epsilon:.6g}"
            )
        return cost

    def _set_aside(
        self, entry: str, others: Sequence[Planned], plan: Sequence[Planned], **words: str
    ) -> None:
        """Reserve a plan beside others, once an entry of the file says so."""
        together = [*others, *plan]
        cost = self.check(together)
        content = {"epsilon": cost, "delta": self.delta, **words, "plan": _rows(plan)}
        before_charge()
        try:
            if self._posting is not None and entry == "reserve":  # an exchange costs no more
                self.entry = self._posting.post(plan, cost, self.delta)
            self._write({"entry": entry, **content}, durable=True)
        except (BudgetError, StoreError, OSError):
            if not self.entry:  # an account that was charged stays charged
                charge_refused()
            raise
        self._reserved = together
        if entry == "reserve":
            self._posted += plan
        for planned in plan:
            self._left[planned.event] += planned.count
            if planned.event.range_epsilon is not None and planned.count:
                self._ranges.append([planned.event.range_epsilon, planned.count])

    def _write(self, entry: dict[str, Any], durable: bool) -> None:
        """Add an entry to the file, if there is one; who cannot says what was charged before."""
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
        """Add an event to the file: not forced to the disk, where its reservation is already."""
        if self._path is not None:
            self._write({"entry": entry, **event.to_dict()}, durable=False)

    def charge(self, event: Event) -> None:
        """Record an event that was reserved. Call it before the value is released."""
        if self._left[event] < 1:
            raise BudgetError(f"not reserved, or spent already: {event.what}")
        if event.range_epsilon is not None:
            self._take_turn(event)
        self._note("charge", event)
        self._left[event] -= 1
        self._spent[event] += 1
        if isinstance(event, LifeBudget):
            self._open[event] = 0

    def adopt(self, budget: LifeBudget, used: int) -> None:
        """Go on with a budget that an earlier ledger has charged and partly used."""
        self._open[budget] = used

    def charge_within(self, event: GaussianRelease) -> None:
        """Record a release that rows pay from their open budgets. Call it before the release."""
        for budget, used in self._open.items():
            budget.check(event, 1, used)
        self._note("within", event)
        self._within[event] += 1
        for budget in self._open:
            self._open[budget] += 1

    def note_within(self, event: Event) -> None:
        """Record a release that a group, which is charged already, pays for."""
        self._note("within", event)

    def used(self, budget: LifeBudget) -> int:
        """How many releases were made within a budget: public, like the number of rounds."""
        return self._open[budget]

    def _take_turn(self, event: Event) -> None:
        """Hold selections of different ranges to the plan's order, which decides their cost."""
        turn = self._ranges[0]
        if event.range_epsilon != turn[0]:
            raise BudgetError(f"out of turn: selections follow the order of the plan: {event.what}")
        turn[1] -= 1
        if turn[1] == 0:
            self._ranges.pop(0)

    @property
    def reserved(self) -> tuple[Planned, ...]:
        """All that was set aside; what is reported, whether a run came to its end or not."""
        return tuple(self._reserved)

    @property
    def posted(self) -> tuple[Planned, ...]:
        """What was set aside before anything was exchanged: public, whatever was released."""
        return tuple(self._posted)

    @property
    def rows(self) -> str:
        """What tells these rows from others; empty without an account."""
        return "" if self._posting is None else self._posting.rows

    @property
    def spent(self) -> tuple[Planned, ...]:
        """The events recorded so far."""
        return tuple(Planned(event, count) for event, count in self._spent.items())

    @property
    def within(self) -> tuple[Planned, ...]:
        """The releases that rows paid from their own budgets."""
        return tuple(Planned(event, count) for event, count in self._within.items())

    @property
    def profile(self) -> Profile:
        """The privacy curve of all that was reserved."""
        return self.accountant.compose(self._reserved)


def _mu_squared(plan: Sequence[Planned]) -> float:
    """Add up μ² of what is Gaussian."""
    return math.fsum(planned.count * (planned.event.mu or 0.0) ** 2 for planned in plan)


_FIRST = b'{"entry"'


def checked_ledger(path: Path) -> Path:
    """Return a path; refuse to add entries to what is no ledger, or cannot be written."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"ledger: no such folder: {path.parent}")
    check_link(path)
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PermissionError(f"ledger: {path} cannot be written")
    if path.is_file():
        with path.open("rb") as file:
            if not _FIRST.startswith(file.read(len(_FIRST))):  # a crash may have cut it short
                raise ValueError(f"ledger: {path} is there already and is no ledger")
    return path


def _append(path: Path, entry: dict[str, Any], durable: bool) -> None:
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":  # a crash cut the last one short
                file.write(b"\n")
        file.write(json.dumps(entry).encode() + b"\n")
        file.flush()
        if durable:
            os.fsync(file.fileno())


def _rows(plan: Sequence[Planned]) -> list[dict[str, Any]]:
    return [{"count": planned.count, **planned.event.to_dict()} for planned in plan]
