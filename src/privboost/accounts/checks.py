"""What an account refuses: names and limits that are none, and what it has no room for."""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from privboost.accounts.filters import Price
from privboost.accounts.statement import Statement, round_down
from privboost.errors import BudgetError
from privboost.forms import is_writable

_LONGEST = 200
"""Characters of a name."""
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)
"""Characters that Python counts as printable and screens leave out or show as a blank: Unicode's
Default_Ignorable_Code_Point, and the empty Braille pattern."""


def check_name(parameter: str, value: Any) -> str:
    """Refuse what is no name."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST or not value.isprintable():
        raise ValueError(f"{parameter} must be a text of 1 to {_LONGEST} printable characters")
    if not is_writable(value):
        raise ValueError(f"{parameter} must be a text that can be written")
    return value


def normal_name(parameter: str, value: Any) -> str:
    """Return a name as it is kept (`as_it_looks`); refuse what is none, or cannot be seen."""
    name = check_name(parameter, as_it_looks(value) if isinstance(value, str) else value)
    if _INVISIBLE.search(name):
        raise ValueError(f"{parameter} must be a text without invisible characters")
    return name


def as_it_looks(name: str) -> str:
    """Return the one form of all names that look alike: NFKC, single blanks, none outside.

    Letters of different alphabets that look alike stay different.
    """
    return re.sub(" +", " ", unicodedata.normalize("NFKC", name)).strip()


def check_limit(epsilon: Any, delta: Any) -> None:
    """Refuse what is no limit."""
    for name, value, most in (("epsilon", epsilon, math.inf), ("delta", delta, 1.0)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (number and 0 < value < most):
            raise ValueError(f"the limit's {name} must be a number above 0, below {most:g}")


def need_open(statement: Statement) -> None:
    """Refuse to spend from an account that was closed."""
    if statement.rules.closed is not None:
        raise BudgetError(f"the account of {statement.dataset!r} is closed: nothing can be spent")


def need_unit(statement: Statement, unit: str | None) -> None:
    """Refuse a run that protects others than the account does."""
    own = statement.rules.unit
    if unit != own:
        change = "" if statement.entries else "; while nothing is spent, privboost budget unit does"
        raise BudgetError(
            f"the account {statement.dataset!r} protects {_unit(own)}; this run would protect "
            f"{_unit(unit)}: they do not add up (an account is opened with the unit column that "
            f"domains name: --unit{change})"
        )


def need_unspent(statement: Statement) -> None:
    """Refuse to change whom an account protects once something is spent."""
    if statement.entries:
        raise BudgetError(
            f"the account of {statement.dataset!r} has entries, whose noise protects "
            f"{_unit(statement.rules.unit)}: that stays, for they promise nothing to others, and a "
            "new account would forget what was spent"
        )


def _unit(column: str | None) -> str:
    return "one row" if column is None else f"all rows of one {column}"


def need_room(statement: Statement, spent: Price) -> None:
    """Refuse what would cost more than the limit, with all that was spent before."""
    rules = statement.rules
    cost = statement.epsilon_of(spent)
    if cost <= rules.epsilon:
        return
    total = f"would cost epsilon {cost:.6g}" if cost < math.inf else "would leave nothing of delta"
    raise BudgetError(
        f"the account of {statement.dataset!r} does not cover this: with what was spent before it "
        f"{total} of {rules.epsilon:g} at delta {rules.delta:g}; epsilon "
        f"{round_down(statement.left)} is left for one more run of Gaussian noise"
    )
