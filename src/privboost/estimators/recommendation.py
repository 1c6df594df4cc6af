"""Recommendation of a recipe from public facts, with reasons.

Every rule is backed by figures of docs/results.md or docs/recipes.md; the tests compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from privboost._core.checks import check_count, check_flag
from privboost._core.errors import DomainError
from privboost._core.unit import Unit
from privboost.data.domain import Domain
from privboost.data.targets import ClassTarget, Target
from privboost.domain_inference.partial_domain import (
    load_partial_domain,
    read_partial_domain,
    target_name_of,
)
from privboost.recipes import ESTIMATORS, RECIPES
from privboost.recipes.common.plan import Budget

_LARGE_EPSILON = 3.0
"""Least ε at which greedy trees are ahead for numbers under pure ε."""
_SMALL_EPSILON = 0.1
_FEW_ROWS = 6000


_FEDERATED = (
    "no server is trusted: give fit a Federation, whose parties keep their rows and add the noise; "
    "the domain must be written whole"
)


@dataclass(frozen=True, eq=False)
class Recommendation:
    """A recommended estimator, with reasons.

    Attributes
    ----------
    estimator : estimator
        The estimator, not fitted, with the recipe's defaults.
    reasons : tuple of str
        Reasons for it, and hints before it is fitted.
    others : mapping from str to str
        Alternative estimators, and when to use them.
    """

    estimator: Any
    reasons: tuple[str, ...]
    others: Mapping[str, str]

    def to_text(self) -> str:
        """Return the recommendation as text."""
        lines = [repr(self.estimator), "", "because"]
        lines += [f"- {reason}" for reason in self.reasons]
        if self.others:
            lines += ["", "instead of it"]
            lines += [f"- {name}: {when}" for name, when in self.others.items()]
        return "\n".join(lines)

    __str__ = to_text

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document, with the estimator's name."""
        return {
            "estimator": type(self.estimator).__name__,
            "reasons": list(self.reasons),
            "others": dict(self.others),
        }


def recommend(
    domain: Any,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    *,
    rows: int | None = None,
    streams: bool = False,
    readable: bool = False,
    trusted_server: bool = True,
    pure: bool = False,
) -> Recommendation:
    """Recommend a recipe from public facts, with reasons.

    Parameters
    ----------
    domain : Domain, mapping or path
        The domain; or a part of one, without a "version", whose rest the estimator is to learn
        (see `domain_given`): its target must have a name, and "classes" or "bounds".
    epsilon, delta : float
        The budget.
    rows : int, optional
        Approximate number of rows, if it is public.
    streams : bool
        Whether rows that come later are to be added.
    readable : bool
        Whether people are to read the whole model.
    trusted_server : bool
        Whether a machine or cluster may see the rows; else parties keep them.
    pure : bool
        Whether the guarantee is to have no δ; then `delta` is ignored.

    Returns
    -------
    Recommendation

    Raises
    ------
    ValueError
        If no recipe meets all requirements.

    Privacy
    -------
    Costs none: no row is read. A secret number of rows must not be given.

    Examples
    --------
    >>> from privboost import recommend
    >>> from privboost.datasets import load_adult
    >>> found = recommend(load_adult().domain, epsilon=0.5, delta=1e-6, rows=30_000)
    >>> type(found.estimator).__name__
    'PrivBoostClassifier'
    """
    for name, value in (("streams", streams), ("readable", readable), ("pure", pure)):
        check_flag(name, value)
    if not check_flag("trusted_server", trusted_server) and (streams or pure or delta == 0):
        raise ValueError(
            "trusted_server: without one, parties of a federation add Gaussian noise; that takes "
            "a delta, and no streams"
        )
    budget = Budget(epsilon, 0.0 if pure else delta)
    facts = _Facts.of(domain, budget, None if rows is None else check_count("rows", rows))
    if streams:
        return _for_streams(facts, readable)
    found = _at_once(facts, readable)
    return found if trusted_server else replace(found, reasons=(*found.reasons, _FEDERATED))


@dataclass(frozen=True, eq=False)
class _Facts:
    """Public facts.

    Attributes
    ----------
    given : dict
        The estimator's parameter `domain` or `domain_given`.
    target : Target
        The target.
    unit : Unit or None
        The protected unit.
    budget : Budget
        The privacy budget.
    rows : int or None
        Approximate number of rows.
    """

    given: dict[str, Any]
    target: Target
    unit: Unit | None
    budget: Budget
    rows: int | None
    task: str = field(init=False)

    def __post_init__(self) -> None:
        task = "classes" if isinstance(self.target, ClassTarget) else "number"
        object.__setattr__(self, "task", task)

    @classmethod
    def of(cls, domain: Any, budget: Budget, rows: int | None) -> _Facts:
        """Return the facts of a domain, or of a part of one."""
        declared = load_partial_domain("domain", domain)
        if "version" in declared:
            whole = domain if isinstance(domain, Domain) else Domain.from_dict(dict(declared))
            return cls({"domain": whole}, whole.target, whole.unit, budget, rows)
        target = target_name_of(declared)
        if target is None:
            raise DomainError("the target must be named, with classes or bounds")
        known = read_partial_domain(declared, target)
        if known.target is None:
            raise DomainError("the target needs classes or bounds")
        given = domain if isinstance(domain, str | Path) else dict(declared)
        return cls({"domain_given": given}, known.target, known.unit, budget, rows)

    def make(self, recipe: str, **settings: Any) -> Any:
        """Return a recipe's estimator."""
        name = self.name(recipe)
        kind = getattr(import_module(f"privboost.{ESTIMATORS[name]}"), name)
        return kind(self.budget.epsilon, self.budget.delta, **self.given, **settings)

    def name(self, recipe: str) -> str:
        """Return the name of a recipe's estimator."""
        return RECIPES[recipe].estimators[self.task]

    @property
    def pure(self) -> bool:
        """Whether there is no δ."""
        return self.budget.delta == 0

    @property
    def can_vote(self) -> bool:
        """Whether a vote of rules is possible: classes, and one row for each unit."""
        return self.task == "classes" and (self.unit is None or self.unit.max_rows == 1)

    def remarks(self) -> list[str]:
        """Return hints that apply to every recipe."""
        hints = []
        if self.rows is not None and self.budget.delta * self.rows > 0.1:
            hints.append(
                "look at delta: it is to be far below one over the number of protected units"
            )
        few = self.rows is not None and self.rows <= _FEW_ROWS
        if few and self.budget.epsilon < _SMALL_EPSILON:
            hints.append(
                "look at epsilon: with a few thousand rows, noise rules below 0.1; fewer features "
                "and tight bounds help more than another recipe"
            )
        if "domain_given" in self.given:
            hints.append(
                "what the domain leaves open is learned, with a tenth of the budget; what is known "
                "is better written"
            )
        return hints


def _for_streams(facts: _Facts, readable: bool) -> Recommendation:
    if facts.pure:
        raise ValueError("streams: no recipe takes them under pure ε; give a delta above 0")
    reasons = ["streams: it alone adds rows later, each with an individual privacy filter"]
    if readable:
        reasons.append("readable: its trees look at one feature each, and add up to effects")
    others = {
        facts.name("privboost"): "if all rows can be fitted at once: it ranks first without streams"
    }
    return Recommendation(facts.make("sbdt"), (*reasons, *facts.remarks()), others)


def _at_once(facts: _Facts, readable: bool) -> Recommendation:
    reasons, others = [], {}
    recipe, settings = "privboost", {}
    if facts.pure:
        recipe, reason = _under_pure(facts, readable)
        reasons.append(reason)
        other = "sarus" if recipe == "privboost" else "privboost"
        others[facts.name(other)] = (
            "where features act together and ε is large"
            if other == "sarus"
            else "below ε = 3, or to read the effect of each feature"
        )
    else:
        reasons.append(_first_of(facts))
        others[facts.name("sbdt")] = (
            "if rows are to be added later; of the others it is next by AUC up to ε = 1"
            if facts.task == "classes"
            else "if rows are to be added later"
        )
        if facts.task == "classes":
            others[facts.name("sarus")] = (
                "where features tell next to nothing alone, and much together: such made-up tables "
                "are its best"
            )
    if readable:
        reasons.append("readable: one effect for each feature, with errors, and nothing else")
        if not facts.pure:
            settings = {"interactions": False}
            reasons.append("ranks were measured with interactions, which are left out to be read")
        others |= _readable_others(facts)
    elif facts.task == "classes" and not facts.pure and facts.budget.epsilon <= _SMALL_EPSILON:
        others[facts.name("adassp")] = "if F1 counts: at ε up to 0.1 it has more of it"
    estimator = facts.make(recipe, **settings)
    return Recommendation(estimator, (*reasons, *facts.remarks()), others)


def _under_pure(facts: _Facts, readable: bool) -> tuple[str, str]:
    """Return the recipe for a δ of 0, and the reason."""
    large = facts.budget.epsilon >= _LARGE_EPSILON
    if facts.task == "number" and large and not readable:
        return "sarus", (
            "pure ε, a number, ε of 3 or more: there its greedy trees are ahead on both tables "
            "that were measured"
        )
    return "privboost", (
        "pure ε: beside Sarus' trees, which need no δ either, it is ahead on most tables, and "
        "up to ε = 1 on nearly all"
    )


def _first_of(facts: _Facts) -> str:
    """Return where the default ranks first."""
    if facts.task == "number":
        return "a number: it has the least RMSE on every table, at every ε that was measured"
    if isinstance(facts.target, ClassTarget) and len(facts.target.classes) > 2:
        return "several classes: it has the least log-loss at every ε that was measured"
    return "two classes: by AUC it has the best mean rank at every ε that was measured"


def _readable_others(facts: _Facts) -> dict[str, str]:
    """Return other readable models."""
    found = {}
    if facts.can_vote:
        found[facts.name("lazybb")] = (
            "for votes that can be added up by hand; it assumes that the number of rows is public"
        )
    if not facts.pure:
        found[facts.name("adassp")] = "for coefficients"
    return found
