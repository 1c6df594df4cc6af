"""`Domain.learn`: a budget of its own, a ledger and a report around the releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from privboost.domain import Domain
from privboost.privacy.accountants.gdp import GdpAccountant
from privboost.privacy.calibration import calibrate
from privboost.privacy.domain_learning import LearningPlan, learn, plan_learning
from privboost.privacy.keystream import KeyStream
from privboost.privacy.ledger import Ledger
from privboost.privacy.report import PrivacyReport
from privboost.privacy.statements import add_lesson, check_lesson, write_report

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
    given: Mapping[str, Any] | None,
    random_state: int | None,
    ledger: str | Path | None,
) -> Domain:
    """Learn a domain; see `Domain.learn`."""
    if task not in (None, "classes", "number"):
        raise ValueError(f'task must be "classes" or "number"; {task!r} is not')
    if not (epsilon > 0 and 0 < delta < 1):
        raise ValueError("epsilon must be above 0, and delta strictly between 0 and 1")
    plan = plan_learning(frame, y, target, task, given or {}, delta)
    earlier = _price(given)
    if earlier is not None:
        check_lesson(earlier, plan.unit)
    accountant = GdpAccountant()
    plan = plan.with_releases(calibrate(plan.releases, epsilon, delta, accountant))
    book = Ledger(epsilon, delta, accountant, ledger)
    book.reserve(plan.releases)
    stream = KeyStream.secure() if random_state is None else KeyStream.seeded(random_state)
    domain, _ = learn(plan, frame, y, book, stream)
    report = state_lesson(book, plan, random_state is not None)
    if earlier is not None:
        report = add_lesson(earlier, report, "learning the rest of it")
    return replace(domain, privacy=report)


def state_lesson(ledger: Ledger, plan: LearningPlan, seeded: bool) -> PrivacyReport:
    """State what a ledger with the releases of a lesson guarantees."""
    parameters = {"target": plan.target_name}
    return write_report(ledger, plan.unit, _ASSUMED, seeded, parameters, plan.digest)


def _price(given: Any) -> PrivacyReport | None:
    """What the part of a domain that is given was learned at, taken to be from the same rows."""
    if isinstance(given, Domain):
        return given.privacy
    form = (given or {}).get("privacy")
    return None if form is None else PrivacyReport.from_dict(form)
