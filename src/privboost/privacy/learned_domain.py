"""`Domain.learn`: a budget of its own, a ledger and a report around the releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from privboost.domain import Domain, describe_unit, unit_assumptions
from privboost.privacy.accountants.gdp import GdpAccountant
from privboost.privacy.calibration import calibrate
from privboost.privacy.domain_learning import learn, plan_learning
from privboost.privacy.keystream import KeyStream
from privboost.privacy.ledger import Ledger
from privboost.privacy.report import write_report

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
    accountant = GdpAccountant()
    plan = plan.with_releases(calibrate(plan.releases, epsilon, delta, accountant))
    book = Ledger(epsilon, delta, accountant, ledger)
    book.reserve(plan.releases)
    stream = KeyStream.secure() if random_state is None else KeyStream.seeded(random_state)
    domain, _ = learn(plan, frame, y, book, stream)
    report = write_report(
        book,
        describe_unit(plan.unit),
        (*_ASSUMED, *(unit_assumptions(plan.unit) if plan.unit else ())),
        seeded=random_state is not None,
        parameters={"target": target},
        plan=plan.digest,
    )
    return replace(domain, privacy=report)
