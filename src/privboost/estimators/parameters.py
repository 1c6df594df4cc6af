"""What the documentation of all estimators says of the parameters that they share."""

from __future__ import annotations

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
