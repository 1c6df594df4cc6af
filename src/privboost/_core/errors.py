"""The errors and warnings users meet. They name a parameter, a column or a rule, never a value."""

from __future__ import annotations

from typing import Any


class DomainError(ValueError):
    """A domain (what is public about a table) is written wrongly; the message names the place."""


class SchemaError(ValueError):
    """A table does not have the columns, or the kinds of columns, that its domain declares."""


class BudgetError(ValueError):
    """A release would cost more than what was reserved or allowed; nothing was released."""


class StoreError(ValueError):
    """A store of budgets cannot be read or written; what it says is as it was."""


class PrivacyWarning(UserWarning):
    """Something that a careful user would want to know before trusting or sharing a result.

    Attributes
    ----------
    result : Domain or None
        What was paid for before the warning was given, where no estimator keeps it.
    """

    result: Any = None


class FitWarning(UserWarning):
    """Released values show that a result is of little use, and what a user must look at.

    Raised as an exception (`python -W error`) it loses nothing: the result is complete and paid
    for before.

    Parameters
    ----------
    *findings : Finding
        What was found. Each has a `kind` and a `text`.

    Attributes
    ----------
    result : Model or Evaluation or None
        What the warning is about.

    Notes
    -----
    Privacy: findings are computed from released values, so the warning costs nothing and tells no
    more about the rows than the result does.
    """

    result: Any = None

    def __init__(self, *findings: Any) -> None:
        super().__init__(*findings)

    @property
    def findings(self) -> tuple[Any, ...]:
        """What was found."""
        return self.args

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of findings, each once, which do not change between versions.

        They are "no rows" (labels match no class, or there are hardly any rows) and "missing
        column".
        """
        return tuple(dict.fromkeys(finding.kind for finding in self.findings))

    def __str__(self) -> str:
        return "; ".join(map(str, self.findings))


class ModelFileError(ValueError):
    """A file is not a privboost model, or was written by a version this one cannot read."""


class ClusterError(RuntimeError):
    """A cluster that was lost, or whose workers do not fit."""


class FederationError(RuntimeError):
    """A party refuses, or too many are lost; the message names the party and the rule."""


class DeviceError(RuntimeError):
    """A CUDA device is missing or unusable."""
