"""`RunSettings`: the checked parameters that every run has, and the checks of some of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privboost._core.checks import check_file, is_number, shown
from privboost._core.errors import BudgetError
from privboost.accounts.account import BudgetAccount
from privboost.cuda.backend import open_cuda
from privboost.data.domain import Domain
from privboost.distributed.frames import open_backend_of
from privboost.engine.backend import OpenBackend
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget, PublicRows


@dataclass(frozen=True)
class RunSettings:
    """Checked parameters of a run.

    `what` names the estimator or function in reports and accounts, `domain` is None if it is to be
    learned, `domain_rows` tells which rows a learned one came from ("same" or "other"), and
    `unfinished` lists the reservations of earlier runs of the estimator that failed.
    """

    budget: Budget
    random_state: int | None
    keys: KeyStream
    open_backend: OpenBackend
    ledger: Path | None
    account: BudgetAccount | None
    what: str
    domain: Domain | None
    domain_rows: str
    unfinished: tuple[str, ...] = ()

    @property
    def seeded(self) -> bool:
        """Whether anybody who knows the seed can remove the noise."""
        return self.random_state is not None


def budget_of(epsilon: Any, delta: Any, public_rows: Any) -> Budget:
    """Return the budget, which is unlimited if the caller declares the rows public.

    Raises
    ------
    BudgetError
        If only one of an infinite epsilon and that declaration is given.
    """
    if not isinstance(public_rows, bool | np.bool_):  # a string such as "no" declares nothing
        raise ValueError(f"public_rows must be True or False; {shown(public_rows)} is not")
    infinite = is_number(epsilon) and epsilon == math.inf
    if infinite and not public_rows:
        raise BudgetError(
            "epsilon is infinite: nothing would be protected. If every row is public, say so with "
            "public_rows=True (--public-rows); for private rows epsilon must be finite"
        )
    if public_rows and not infinite:
        raise BudgetError(
            "public_rows=True goes with epsilon=math.inf only: rows that have a finite epsilon are "
            "private"
        )
    return PublicRows(delta) if public_rows else Budget(epsilon, delta)


def choose_backend(backend: Any, threads: int) -> OpenBackend:
    """Return the function that opens a backend on loads of rows."""
    if backend == "auto":
        return open_backend_of(threads)
    if backend == "cuda":
        return open_cuda(threads)
    if callable(backend):
        opened: OpenBackend = backend
        return opened
    raise ValueError('backend must be "auto", "cuda" or a callable that takes loads of rows')


def ledger_path(ledger: Any) -> Path | None:
    """Return the path of the ledger's file, or None."""
    if ledger is None:
        return None
    if not isinstance(ledger, str | Path):
        raise TypeError("ledger must be the path of a file, or None")
    check_file("ledger", ledger)
    return Path(ledger)
