"""`Domain.learn`: private domain inference with a budget, a ledger and a report of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from privboost.accounts.given import check_account
from privboost.accounts.posting import Posting
from privboost.boosting.checks import check_file, check_grid
from privboost.boosting.plan import Budget, leave_some
from privboost.cautions import caution, holding_warnings
from privboost.clusters.recognition import open_remote, open_where_rows_lie
from privboost.errors import DomainError
from privboost.learning.domain_learning import (
    LearningPlan,
    learn,
    open_unknown,
    plan_learning,
)
from privboost.learning.given import open_given
from privboost.privacy.calibration import calibrate
from privboost.privacy.ledger import Ledger
from privboost.privacy.statements import add_lesson, check_lesson, write_report
from privboost.randomness.keystream import KeyStream
from privboost.reports.report import PrivacyReport
from privboost.tables.domain import Domain, paid_lessons
from privboost.tables.domain_forms import read_privacy
from privboost.tables.features import lessons_of
from privboost.unit import column_of, unit_assumptions

_ASSUMED = (
    "the columns of the table and their types are public",
    "these rows were used in no other release; training on them adds to epsilon",
)


def learn_domain(
    frame: Any,
    target: str,
    epsilon: float,
    delta: float,
    y: Any,
    task: str | None,
    given: Any,
    random_state: int | None,
    ledger: str | Path | None,
    account: Any,
) -> Domain:
    """Infer a domain; see `Domain.learn`."""
    _check(target, task, ledger)
    budget, account = Budget(epsilon, delta), check_account("budget", account, random_state)
    words_delta = math.inf
    if account is not None:
        budget = leave_some(budget, account)
        words_delta = account.statement().words_delta_left
    epsilon, delta, part = budget.epsilon, budget.delta, open_given("given", given)
    stream = KeyStream.of(random_state)
    caution(epsilon, delta, random_state)
    table = open_unknown(open_remote(frame), y, target)
    plan = plan_learning(table, target, task, part, delta, words_delta=words_delta)
    earlier = _price(part)
    if not lessons_of(plan.given) <= paid_lessons(earlier):
        raise DomainError(
            'given: a part was learned privately, but its price ("privacy") is not there: give the '
            "learned domain whole"
        )
    if earlier is not None:
        check_lesson(earlier, plan.unit)
    accountant = plan.accountant
    plan = plan.with_releases(calibrate(plan.releases, epsilon, delta, accountant))
    check_grid(planned.event for planned in plan.releases)
    posting = None
    if account is not None:
        posting = Posting(account, "Domain.learn", column_of(plan.unit), earlier)
    book = Ledger(epsilon, delta, accountant, ledger, posting)
    book.reserve(plan.releases)
    with holding_warnings() as held:
        domain, _ = learn(plan, table, open_where_rows_lie(1), book, stream)
    report = state_lesson(book, plan, domain, random_state is not None)
    if earlier is not None:
        report = add_lesson(earlier, report, "learning the rest of it")
    learned = replace(domain, privacy=report)
    held.say(learned)
    return learned


def state_lesson(ledger: Ledger, plan: LearningPlan, domain: Domain, seeded: bool) -> PrivacyReport:
    """Return the report of an inference, with the identifiers of all inferences in the domain."""
    assumed = (*_ASSUMED, *(unit_assumptions(plan.unit) if plan.unit else ()))
    parameters = {"target": plan.target_name, "lessons": " ".join(sorted(domain.inferences))}
    return write_report(ledger, plan.unit, assumed, seeded, parameters, plan.digest, "Domain.learn")


def _price(part: Mapping[str, Any]) -> PrivacyReport | None:
    """Return the cost of the given part if it was inferred, assumed to be from the same rows."""
    payload = part.get("privacy")
    return None if payload is None else read_privacy(payload)


def _check(target: Any, task: Any, ledger: Any) -> None:
    """Check parameters before a row is read."""
    if not isinstance(target, str) or not target:
        raise TypeError(f"target must be the name of the column to predict; {target!r} is not")
    if task not in (None, "classes", "number"):
        raise ValueError(f'task must be "classes" or "number"; {task!r} is not')
    if ledger is not None and not isinstance(ledger, str | Path):
        raise TypeError("ledger must be the path of a file, or None")
    if ledger is not None:
        check_file("ledger", ledger)
