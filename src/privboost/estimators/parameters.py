"""Parameters of estimators: how constructors keep them, and what is said of those they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BUDGET_PARAMETERS = """
    Parameters
    ----------
    epsilon, delta : float
        The privacy budget. Choose delta far below one over the number of protected units.
    domain : Domain, dict or path, optional
        What is public about the table. Without it, `fit` learns one privately (see
        `domain_share`); then `y` must be given.
"""
"""What the documentation of every estimator begins with."""

RUN_PARAMETERS = """
    domain_share : float
        Without a domain, the share of the budget that learning one takes.
    domain_rows : {"same", "other"}
        From which rows a learned domain was learned. "same" adds its price to the report; say
        "other" only if no protected unit of these rows was among those it was learned from.
    sample_weight_bound : float, optional
        The public bound of sample weights; needed if weights are given to `fit`.
    accountant : {ACCOUNTANTS}
        How releases are composed; "auto" is the tightest that covers them.
    random_state : int, optional
        None is secure noise. A number makes a reproducible run without a privacy guarantee.
    n_jobs : int, optional
        Threads; -1 for all cores. The model does not depend on it.
    backend : "local" or callable
        Who holds the rows during a fit.
    ledger : path, optional
        A file that records the reservation and every charge before the release it pays for.
    verbose : bool
        Whether to show a progress bar.

    Attributes
    ----------
    privacy_ : PrivacyReport
        What was spent, on what, under which assumptions.
    model_ : Model
        The released model.
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
    for name in estimator._get_param_names():
        setattr(estimator, name, given[name])
