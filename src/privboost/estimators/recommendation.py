"""Recommendation of a recipe from public facts, with reasons.

Every rule is backed by figures of docs/results.md or docs/recipes.md; the tests compare them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from privboost._core.checks import check_count, check_flag
from privboost._core.errors import DomainError
from privboost._core.unit import Unit
from privboost.data.domain import Domain
from privboost.data.targets import Target
from privboost.domain_inference.partial_domain import (
    load_partial_domain,
    read_partial_domain,
    target_name_of,
)
from privboost.recipes import ESTIMATORS, RECIPES
from privboost.recipes.common.plan import Budget, Task

_LARGE_EPSILON = 3.0
"""Least ε at which greedy trees are ahead for numbers under pure ε."""
_SMALL_EPSILON = 0.1
_FEW_ROWS = 6000


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
    rows = None if rows is None else check_count("rows", rows)
    given, target, unit = _read_domain(domain)
    names = {name: recipe.estimators.get(target.task, "") for name, recipe in RECIPES.items()}
    if target.task == "survival":
        if streams:
            raise ValueError("streams: no recipe takes those of survival times")
        recipe, reasons, others = "privboost", ["survival times: it alone predicts them"], {}
        if readable and budget.delta:
            given["interactions"] = False
            reasons.append("readable: one effect for each feature, with errors, and nothing else")
    elif streams:
        if budget.delta == 0:
            raise ValueError("streams: no recipe takes them under pure ε; give a delta above 0")
        recipe = "sbdt"
        reasons = ["streams: it alone adds rows later, each with an individual privacy filter"]
        if readable:
            reasons.append("readable: its trees look at one feature each, and add up to effects")
        others = {"privboost": "if all rows can be fitted at once: it ranks first without streams"}
    else:
        recipe, reasons, others = _choose(budget, target, readable)
        if readable:
            reasons.append("readable: one effect for each feature, with errors, and nothing else")
            others |= _readable_alternatives(budget, target, unit)
            if budget.delta:
                given["interactions"] = False
                reasons.append(
                    "ranks were measured with interactions, which are left out to be read"
                )
    reasons += _hints(budget, rows, "domain_given" in given)
    if not trusted_server:
        reasons.append(
            "no server is trusted: give fit a Federation, whose parties keep their rows and add "
            "the noise; the domain must be written whole"
        )
    kind = getattr(import_module(f"privboost.{ESTIMATORS[names[recipe]]}"), names[recipe])
    estimator = kind(budget.epsilon, budget.delta, **given)
    return Recommendation(
        estimator, tuple(reasons), {names[other]: when for other, when in others.items()}
    )


def _read_domain(domain: Any) -> tuple[dict[str, Any], Target, Unit | None]:
    """Return the estimator's parameter `domain` or `domain_given`, the target and the unit."""
    declared = load_partial_domain("domain", domain)
    if "version" in declared:
        whole = domain if isinstance(domain, Domain) else Domain.from_dict(dict(declared))
        return {"domain": whole}, whole.target, whole.unit
    name = target_name_of(declared)
    if name is None:
        raise DomainError("the target must be named, with classes or bounds")
    known = read_partial_domain(declared, name)
    if known.target is None:
        raise DomainError("the target needs classes or bounds")
    given = domain if isinstance(domain, str | Path) else dict(declared)
    return {"domain_given": given}, known.target, known.unit


def _choose(
    budget: Budget, target: Target, readable: bool
) -> tuple[str, list[str], dict[str, str]]:
    """Return the recipe for rows that are fitted at once, with reasons and alternatives."""
    task = Task.of(target)
    recipe, number = "privboost", task.target == "number"
    if budget.delta == 0:
        if number and budget.epsilon >= _LARGE_EPSILON and not readable:
            recipe = "sarus"
            reason = (
                "pure ε, a number, ε of 3 or more: there its greedy trees are ahead on both tables "
                "that were measured"
            )
            others = {"privboost": "below ε = 3, or to read the effect of each feature"}
        else:
            reason = (
                "pure ε: beside Sarus' trees, which need no δ either, it is ahead on most tables, "
                "and up to ε = 1 on nearly all"
            )
            others = {"sarus": "where features act together and ε is large"}
    elif number:
        reason = "a number: it has the least RMSE on every table, at every ε that was measured"
        others = {"sbdt": "if rows are to be added later"}
    else:
        reason = (
            "several classes: it has the least log-loss at every ε that was measured"
            if task.n_outputs > 1
            else "two classes: by AUC it has the best mean rank at every ε that was measured"
        )
        others = {
            "sbdt": "if rows are to be added later; of the others it is next by AUC up to ε = 1",
            "sarus": "where features tell next to nothing alone, and much together: such made-up "
            "tables are its best",
        }
        if budget.epsilon <= _SMALL_EPSILON and not readable:
            others["adassp"] = "if F1 counts: at ε up to 0.1 it has more of it"
    return recipe, [reason], others


def _readable_alternatives(budget: Budget, target: Target, unit: Unit | None) -> dict[str, str]:
    """Return other readable models."""
    found = {}
    if target.task == "classes" and (unit is None or unit.max_rows == 1):
        found["lazybb"] = (
            "for votes that can be added up by hand; it assumes that the number of rows is public"
        )
    if budget.delta:
        found["adassp"] = "for coefficients"
    return found


def _hints(budget: Budget, rows: int | None, learned: bool) -> list[str]:
    """Return hints that apply to every recipe."""
    hints = []
    if rows is not None and budget.delta * rows > 0.1:
        hints.append("look at delta: it is to be far below one over the number of protected units")
    if rows is not None and rows <= _FEW_ROWS and budget.epsilon < _SMALL_EPSILON:
        hints.append(
            "look at epsilon: with a few thousand rows, noise rules below 0.1; fewer features "
            "and tight bounds help more than another recipe"
        )
    if learned:
        hints.append(
            "what the domain leaves open is learned, with a tenth of the budget; what is known "
            "is better written"
        )
    return hints
