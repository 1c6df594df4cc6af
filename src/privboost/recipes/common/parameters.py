"""Declarations of parameters: name, type, range, default and documentation in one place.

A recipe declares its parameters as a frozen dataclass, one `parameter` a field. Everything else is
derived from the declaration: the signature and the docstring of estimators
(`estimators.parameters`), validation, and the parameters that a report and a plan's digest list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

from privboost._core.checks import (
    LEAST_SHARE,
    MOST_COUNT,
    MOST_SIZE,
    check_choice,
    check_choice_or_count,
    check_count,
    check_flag,
    check_number,
    check_part,
    check_share,
    check_size,
)
from privboost.losses.base import loss_of


class Constraint(NamedTuple):
    """Allowed values of a parameter: a check that returns plain Python, and the docstring's type.

    The check takes the parameter's name and a value, and raises if the value is not allowed.
    """

    check: Callable[[str, Any], Any]
    type: str


def count(least: int = 1, most: int = MOST_COUNT) -> Constraint:
    """Allow whole numbers from `least` to `most`."""
    return Constraint(partial(check_count, least=least, most=most), "int")


def size(below: float = MOST_SIZE) -> Constraint:
    """Allow numbers above 0: a clip, a learning rate, a bound."""
    return Constraint(partial(check_size, below=below), "float")


def share(or_else: int | None = None) -> Constraint:
    """Allow a share of a budget, strictly between 0 and 1, or the one number `or_else`."""
    return Constraint(partial(check_share, or_else=or_else), "float")


def part(or_else: int) -> Constraint:
    """Allow numbers strictly between 0 and 1, or the one of them that is `or_else`."""
    return Constraint(partial(check_part, or_else=or_else), "float")


def between(low: float, high: float) -> Constraint:
    """Allow numbers strictly between two others."""
    return Constraint(partial(check_number, above=low, below=high), "float")


def options(*choices: str) -> Constraint:
    """Allow one of a few strings."""
    listed = ", ".join(f'"{choice}"' for choice in choices)
    return Constraint(partial(check_choice, choices=choices), f"{{{listed}}}")


def options_or_count(*choices: str) -> Constraint:
    """Allow one of a few strings, or a whole number."""
    listed = ", ".join(f'"{choice}"' for choice in choices)
    return Constraint(partial(check_choice_or_count, choices=choices), f"{listed} or int")


def or_none(allowed: Constraint) -> Constraint:
    """Allow None as well, where it is not the default."""
    check = allowed.check
    return Constraint(
        lambda name, value: None if value is None else check(name, value), f"{allowed.type} or None"
    )


FLAG = Constraint(check_flag, "bool")

_SINGLE_SHARES = ("init_share", "calibration_share", "span_share")
"""Shares of releases outside the rounds, where a recipe has them."""

SPAN_SHARE = (
    share(or_else=0),
    "Share of the budget (of μ²; of ε under pure DP) of the target clipping range: where within "
    "its bounds a number's labels lie, to which they are then scaled and clipped. 0 leaves it out: "
    "then the bounds are the range.",
)
"""Constraint and documentation of `span_share`, which every recipe for numbers has."""

POWER = (
    between(1, 2),
    'With loss="tweedie", the power of the mean to which the variance is proportional, between '
    "1 and 2.",
)
QUANTILE = (
    between(0, 1),
    'With loss="quantile", the share of labels below the prediction, between 0 and 1.',
)

_LOSS_OF = {"power": "tweedie", "quantile": "quantile"}
"""The loss that each of these belongs to."""


def with_parameter(target: str, settings: Any) -> str | None:
    """Return the name of a loss, with the value of its parameter if it has one; see `loss_of`.

    Raises
    ------
    ValueError
        If the parameter of another loss was given.
    """
    if settings.loss is None:
        return None
    name = loss_of(target, settings.loss).parameter
    for each in fields(settings):
        own = _LOSS_OF.get(each.name)
        if own and each.name != name and getattr(settings, each.name) != each.default:
            raise ValueError(
                f'{each.name} is for loss="{own}", and the loss is "{settings.loss}": leave '
                f'{each.name} out, or say loss="{own}"'
            )
    return f"{settings.loss} {getattr(settings, name)!r}" if name else str(settings.loss)


TASKS = ("classes", "number", "survival")
"""Kinds of target. Defaults for survival times are those for a number."""

BY_TASK: Any = object()
"""Default of the signature that is the task's own, instead of None."""


class Declared(NamedTuple):
    """Declaration of one parameter, as `parameter` takes it.

    Without a constraint the code that uses the parameter checks it. `by_task` has the default for
    each of `TASKS` where it depends on the task.
    """

    constraint: Constraint | None
    doc: str
    type: str
    by_task: Mapping[str, Any]
    tasks: tuple[str, ...]


def parameter(
    default: Any,
    allowed: Constraint | str,
    doc: str,
    *,
    by_task: tuple[Any, ...] | None = None,
    tasks: tuple[str, ...] = TASKS,
) -> Any:
    """Declare a parameter as a field of a dataclass.

    Parameters
    ----------
    default : object
        Default in the signature; None may stand for `by_task`, and `BY_TASK` is replaced by it.
    allowed : Constraint or str
        Allowed values, or the type alone where other code checks them.
    doc : str
        Documentation; line breaks are up to the docstring.
    by_task : tuple, optional
        Defaults for classes, for a number and, if they differ from it, for survival times.
    tasks : tuple of str
        Tasks whose estimators have the parameter; for others it has its default.
    """
    constraint = None if isinstance(allowed, str) else allowed
    kind = allowed if isinstance(allowed, str) else allowed.type
    values = {} if by_task is None else dict(zip(TASKS, (*by_task, by_task[-1]), strict=False))
    declared = Declared(constraint, doc, kind, values, tasks)
    return field(default=default, metadata={"parameter": declared})


def declared(each: Any) -> Declared:
    """Return the declaration that a dataclass field carries."""
    found: Declared = each.metadata["parameter"]
    return found


@dataclass(frozen=True)
class Parameters:
    """Checked parameters of a recipe; only valid ones can be made."""

    _apart: ClassVar[tuple[str, ...]] = ()
    """Parameters that another part of the plan holds, such as the clips of a Newton step."""

    _where_set: ClassVar[tuple[str, ...]] = ()
    """Parameters that reports and digests list only where they are set: most runs have none."""

    def __post_init__(self) -> None:
        for each in fields(self):
            rule, value = declared(each).constraint, getattr(self, each.name)
            if rule is not None and not (value is None and each.default is None):
                object.__setattr__(self, each.name, rule.check(each.name, value))
        shares = {name: getattr(self, name) for name in _SINGLE_SHARES if hasattr(self, name)}
        if sum(shares.values()) > 1 - LEAST_SHARE:
            raise ValueError(f"{' and '.join(shares)} leave nothing for the rounds")

    @classmethod
    def read(cls, given: Mapping[str, Any], task: str, **defaults: Any) -> Self:
        """Return the checked parameters of an estimator.

        `given` has its arguments by name, among them those of every run. Where one is None,
        `defaults` come before the declared default of the task.
        """
        values = {}
        for each in fields(cls):
            value = given.get(each.name, each.default)
            if value is BY_TASK or (value is None and each.default is None):
                value = defaults.get(each.name, declared(each).by_task.get(task))
            values[each.name] = value
        return cls(**values)

    def chosen(self) -> dict[str, Any]:
        """Return the parameters for reports, without those that another part of the plan holds."""
        values = {
            each.name: getattr(self, each.name)
            for each in fields(self)
            if each.name not in self._apart
            and (each.name not in self._where_set or getattr(self, each.name))
        }
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
