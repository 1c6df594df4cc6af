"""The errors and warnings users meet. They name a parameter, a column or a rule, never a value."""


class DomainError(ValueError):
    """A domain (what is public about a table) is written wrongly; the message names the place."""


class SchemaError(ValueError):
    """A table does not have the columns, or the kinds of columns, that its domain declares."""


class BudgetError(ValueError):
    """A release would cost more than what was reserved or allowed; nothing was released."""


class StoreError(ValueError):
    """A store of budgets cannot be read or written; what it says is as it was."""


class PrivacyWarning(UserWarning):
    """Something that a careful user would want to know before trusting or sharing a result."""


class ModelFileError(ValueError):
    """A file is not a privboost model, or was written by a version this one cannot read."""


class ClusterError(RuntimeError):
    """A cluster that was lost, or whose workers do not fit."""


class FederationError(RuntimeError):
    """A party refuses, or too many are lost; the message names the party and the rule."""


class CardError(RuntimeError):
    """A graphics card that is not there, or that cannot be used."""
