"""A store of accounts: one SQLite file for all data sets of an owner."""

from __future__ import annotations

import secrets
from pathlib import Path

from privboost.accounts.account import BudgetAccount
from privboost.accounts.checks import as_it_looks, check_limit, check_name, normal_name
from privboost.accounts.damage import damaged
from privboost.accounts.database import create_database, reading, writing
from privboost.accounts.filters import FILTERS, GaussianFilter, RenyiFilter
from privboost.accounts.records import find_dataset, no_account, now, read_datasets
from privboost.accounts.statement import Balance
from privboost.errors import BudgetError
from privboost.privacy.events.event import Relation

RELATIONS = {"add-remove": Relation.ADD_REMOVE, "replace-one": Relation.REPLACE_ONE}
"""Neighbouring relations by the names of the `relation` parameter."""


class BudgetStore:
    """Privacy budgets of data sets, across runs and processes, in one SQLite file.

    Every charge is on disk before a row is read, and two processes never spend the same budget.
    Users who can write the file can change it: it belongs to the owner of the data. Keep it on a
    local disk; a restored copy forgets what was spent since.

    Parameters
    ----------
    path : path
        The file; it is created when the first account is opened.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = BudgetStore(folder.name + "/store.db")
    >>> patients = store.open("patients", epsilon=3.0, delta=1e-5)
    >>> patients.balance().left > 2.99
    True
    >>> folder.cleanup()
    """

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | Path):
            raise TypeError("path must be the path of a file")
        self.path = Path(path)

    def open(
        self,
        dataset: str,
        epsilon: float,
        delta: float,
        *,
        unit: str | None = None,
        relation: str = "add-remove",
        filter: str = "gaussian",
        order: int | None = None,
    ) -> BudgetAccount:
        """Open an account for a data set.

        Parameters
        ----------
        dataset : str
            Its name, stored in NFKC, with single blanks and none at the ends. Invisible characters
            are refused.
        epsilon, delta : float
            The limit of all charges.
        unit : str, optional
            Unit column, as in domains; None is one row.
        relation : {"add-remove", "replace-one"}
            Neighbouring relation. Add/remove runs are converted in a replace-one account, never
            the other way round.
        filter : {"gaussian", "renyi"}
            Composition of runs: exact, for Gaussian noise on all rows; or by Rényi divergences of
            one order, for all recipes.
        order : int, optional
            The Rényi order; by default the one with most room for Gaussian noise at the limit.

        Raises
        ------
        BudgetError
            If there is an account of that name: use `account`.
        """
        dataset = normal_name("dataset", dataset)
        check_limit(epsilon, delta)
        if unit is not None:
            check_name("unit", unit)
        if relation not in RELATIONS:
            raise ValueError(f"relation must be one of {', '.join(map(repr, RELATIONS))}")
        if filter not in FILTERS:
            raise ValueError(f"filter must be one of {', '.join(map(repr, FILTERS))}")
        if filter == GaussianFilter.name and order is not None:
            raise ValueError("order is for the filter 'renyi'")
        if filter == RenyiFilter.name:
            chosen = RenyiFilter.of_limit(epsilon, delta) if order is None else RenyiFilter(order)
            order = chosen.order
        create_database(self.path, secrets.token_hex(8))
        with writing(self.path) as connection:
            line = (dataset, RELATIONS[relation].value, unit, filter, order)
            if find_dataset(connection, dataset) is not None:
                raise BudgetError(
                    f"{self.path} has an account of {dataset!r} already: "
                    f"BudgetStore.account({dataset!r}) returns it, privboost budget show prints it"
                )
            connection.execute(
                "INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                (*line, float(epsilon), float(delta), now()),
            )
        return self.account(dataset)

    def account(self, dataset: str) -> BudgetAccount:
        """Return an existing account."""
        check_name("dataset", as_it_looks(dataset) if isinstance(dataset, str) else dataset)
        with reading(self.path) as connection:
            known, own = read_datasets(connection), find_dataset(connection, dataset)
            found = connection.execute("SELECT id FROM store").fetchone()
        if found is None:
            raise damaged(self.path, "its own name is missing")
        if own is None:
            raise no_account(self.path, dataset, known)
        return BudgetAccount(self.path.resolve(), found[0], own)

    def datasets(self) -> list[str]:
        """Return the names of data sets with accounts."""
        with reading(self.path) as connection:
            return read_datasets(connection)

    def balances(self) -> list[Balance]:
        """Return the balance of each account."""
        return [self.account(dataset).balance() for dataset in self.datasets()]

    def __repr__(self) -> str:
        return f"BudgetStore({str(self.path)!r})"
