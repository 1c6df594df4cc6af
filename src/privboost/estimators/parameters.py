"""Parameters of estimators: how constructors keep them, and what is said of those they share."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from privboost.forms import did_you_mean

BUDGET_PARAMETERS = """
    Parameters
    ----------
    epsilon, delta : float
        The privacy budget. Choose delta far below one over the number of protected units. It covers
        what `fit` does, not a search around it: exact scores on private rows are private at no ε.
    domain : Domain, dict or path, optional
        What is public about the table. Without it, `fit` learns one privately (see
        `domain_share`); then `y` must be given.
"""
"""What the documentation of every estimator begins with."""

SPAN_PARAMETER = """
    span_share : float, optional
        What the search for a number's span takes of the budget (of μ²; of ε under pure DP): where
        within its bounds the labels lie, to which they are then scaled and clipped. 0 leaves it
        out: then the bounds are the span. Default {SHARE} for a number; classes have none."""
"""What is said of the span wherever a number can be the target."""

CLIPS_OF_A_NUMBER = """Clips are in parts of half the width of the target's span.

    Where labels are skewed (counts, amounts), clipped gradients and labels draw predictions towards
    the median: at the defaults their mean was 10 to 63 % below that of the labels. A
    `gradient_clip` of 2 clips no gradient, with which it was 3 to 25 % below, and adds noise. A
    target on a log scale is no cure: its predictions are geometric means, near the median. See
    "Skewed labels" in docs/sharp_edges.md."""
"""What the docstring of every regressor says of clips."""

RUN_PARAMETERS = """
    domain_given : mapping, Domain or path, optional
        Without a domain, the part of one that is known: see `given` of `Domain.learn`. The rest is
        learned. With a delta of 0 that is bounds of numbers; classes and categories must be given.
    domain_share : float
        Without a domain, the share of the budget that learning one takes: of μ², so that a tenth
        is about 0.3 of ε by itself (of ε and δ where training is not all Gaussian).
    domain_rows : {"same", "other"}
        From which rows a learned domain was learned. "same" adds its price to the report; say
        "other" only if no protected unit of these rows was among those it was learned from.
    public_rows : bool
        Whether the rows are public, so that nothing need be hidden about any of them. It goes with
        `epsilon=math.inf`, and only with it: the same recipe without noise, and without privacy.
    sample_weight_bound : float, optional
        The public bound of sample weights; needed if weights are given to `fit`.
    accountant : {ACCOUNTANTS}
        How releases are composed; "auto" is the tightest that covers them.
    random_state : int, optional
        None is secure noise. A number makes a reproducible run without a privacy guarantee, and a
        warning that says so.
    n_jobs : int, optional
        How many threads may work at once, in training and in predictions: at most one for each core
        that the process may use, and never more than the rows are worth. None and -1 allow all
        cores, -2 all but one. The model does not depend on it.
    backend : "auto", "cuda" or callable
        Who holds the rows during a fit: "auto" is the cluster where they lie, or this machine;
        "cuda" is this machine's graphics cards, all that CUDA_VISIBLE_DEVICES lets it see. The
        model does not depend on it.
    ledger : path, optional
        A file that records the reservation and every charge before the release it pays for.
    budget : BudgetAccount, optional
        The account of these rows, which the whole plan is charged to before a row is read; it
        refuses what exceeds its limit. See `BudgetStore`.
    verbose : bool
        Whether to show progress: bytes that were read, and rounds; that functions are compiled, on
        the first fit of a machine; at a terminal, also that noise is being calibrated.

    Attributes
    ----------
    privacy_ : PrivacyReport
        What was spent, on what, under which assumptions.
    model_ : Model
        The released model.
    domain_ : Domain
        The domain it was trained with, given or learned.
"""
"""What it ends with."""


def keep_parameters(estimator: Any, given: Mapping[str, Any]) -> None:
    """Make each argument of a constructor an attribute of that name: all that it may do.

    Parameters
    ----------
    estimator : estimator
        Whose constructor is called.
    given : mapping
        Its local names.
    """
    for name, value in given.items():
        if name != "self":
            setattr(estimator, name, value)


class TaskDefaults:
    """A parameter left at None means the default of the task."""

    _defaults: ClassVar[Mapping[str, Any]]
    """What such parameters are for classes, or for a number; and other choices of the task."""

    def _or_default(self, name: str) -> Any:
        value = getattr(self, name)
        return self._defaults[name] if value is None else value

    def _share(self, name: str, possible: bool) -> Any:
        """Return a share of the budget; by default 0 where there can be nothing for it."""
        given = getattr(self, name, None)  # some have it for classes only
        if given is not None:
            return given
        return self._defaults[name] if possible else 0


def check_arguments(kind: type, by_place: tuple[Any, ...], by_name: Mapping[str, Any]) -> None:
    """Refuse arguments that a constructor does not have, in words of the estimator.

    Python would name the class that the constructor was written for, which users do not know.
    """
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    known = list(signature.parameters.values())[1:]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        names = [parameter.name for parameter in known]
        for name in by_name:
            if name not in names:
                hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
                raise TypeError(f"{kind.__name__} has no parameter {name!r}; {hint}")
    try:
        signature.bind(None, *by_place, **by_name)
    except TypeError as error:
        placed = [p.name for p in known if p.kind is p.POSITIONAL_OR_KEYWORD]
        raise TypeError(
            f"{kind.__name__}: {error}; by position it takes {', '.join(placed)}, and all others "
            "by name"
        ) from None
