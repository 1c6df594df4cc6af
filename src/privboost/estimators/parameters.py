"""Arguments of estimators: those that all share, and constructors and docstrings of all.

Each estimator's constructor is made from one declaration, the dataclass of its arguments: recipe
parameters (`recipes.<name>`), and the arguments below.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, fields, is_dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from privboost._core.checks import did_you_mean
from privboost.estimators.foreign_parameters import foreign_name_hint
from privboost.recipes.common.parameters import BY_TASK, declared, parameter

_P = ParamSpec("_P")
_Estimator = TypeVar("_Estimator")
_Kind = TypeVar("_Kind", bound=type)


@dataclass(frozen=True)
class RunArguments:
    """Arguments of every estimator."""

    epsilon: float = parameter(
        1.0,
        "float",
        "ε of the privacy budget. It covers `fit`, not a search around it: exact scores on private "
        "rows are private at no ε.",
    )
    delta: float = parameter(
        1e-6,
        "float",
        "δ of the privacy budget. Choose it far below one over the number of protected units.",
    )
    domain: Any = parameter(
        None,
        "Domain, dict or path",
        "Public description of the table. Without it, `fit` infers one privately (see "
        "`domain_share`); then `y` must be given.",
    )
    _: KW_ONLY
    domain_given: Any = parameter(
        None,
        "mapping, Domain or path",
        "Known part of a domain whose rest is inferred: see `given` of `Domain.learn`. With a "
        "delta of 0 only bounds of numbers can be inferred; classes and categories must be given.",
    )
    domain_share: float = parameter(
        0.1,
        "float",
        "Share of the budget that private domain inference takes where there is no domain: of μ², "
        "so that a tenth is about 0.3 of ε by itself (of ε and δ where training is not all "
        "Gaussian).",
    )
    domain_rows: str = parameter(
        "same",
        '{"same", "other"}',
        'Rows from which an inferred domain was inferred. "same" adds its cost to the report; use '
        '"other" only if no protected unit of these rows was among those of the inference.',
    )
    public_rows: bool = parameter(
        False,
        "bool",
        "Whether all rows are public. It goes with `epsilon=math.inf`, and only with it: the same "
        "recipe without noise, and without privacy.",
    )
    accountant: str = parameter("auto", "str", "Accountant of the releases.")
    random_state: int | None = parameter(
        None,
        "int",
        "Seed. None is secure noise; a number makes a reproducible run without a privacy "
        "guarantee, and a warning that says so.",
    )
    n_jobs: int | None = parameter(
        None,
        "int",
        "Most threads in training and in predictions: at most one for each core that the process "
        "may use, and fewer for few rows. None and -1 allow all cores, -2 all but one. The model "
        "does not depend on it.",
    )
    backend: Any = parameter(
        "auto",
        '"auto", "cuda" or callable',
        'Where the rows are held during a fit: "auto" is the cluster where they lie, or this '
        'machine; "cuda" is this machine\'s GPUs, all that CUDA_VISIBLE_DEVICES shows. The model '
        "does not depend on it.",
    )
    ledger: Any = parameter(
        None,
        "path",
        "File that records the reservation, and every charge before its release.",
    )
    budget: Any = parameter(
        None,
        "BudgetAccount",
        "Account of these rows, to which the whole plan is charged before a row is read; it "
        "refuses a plan that exceeds its limit. See `BudgetStore`.",
    )
    verbose: bool = parameter(
        False,
        "bool",
        "Whether to show progress: bytes that were read, and rounds; compilation of functions, on "
        "the first fit of a machine; at a terminal, also calibration of the noise.",
    )


@dataclass(frozen=True, kw_only=True)
class WeightArguments:
    """Arguments of recipes whose rows may have weights."""

    sample_weight_bound: float | None = parameter(
        None,
        "float",
        "Public bound of sample weights; needed if weights are passed to `fit`.",
    )


def classes_argument(tasks: tuple[str, ...] = ("classes", "number")) -> Any:
    """Declare the classes of a target without a domain."""
    return parameter(
        None,
        "sequence",
        "Classes of the target, such as [0, 1], where there is no domain: they are public then and "
        "cost nothing, and a rare one cannot be missed. Where a domain declares classes they must "
        "be the same. A number has none.",
        tasks=tasks,
    )


@dataclass(frozen=True, kw_only=True)
class ClassArguments:
    """Arguments about classes."""

    classes: Any = classes_argument()


@dataclass(frozen=True, kw_only=True)
class ClassWeightArguments(ClassArguments, WeightArguments):
    """Arguments about classes and their weights."""

    class_weight: Mapping[Any, float] | None = parameter(
        None,
        "mapping",
        'Public weights of all classes, such as {"no": 1, "yes": 5}: rows weigh by their label, '
        "and noise grows with the largest. Probabilities are then those of a table in which "
        'classes have these weights. "balanced" is refused: it needs counts of classes, which are '
        "private. A number has none.",
    )


CLIPS_OF_A_NUMBER = """\
Clips are in parts of half the width of the target clipping range.

Where labels are skewed (counts, amounts), clipped gradients draw predictions towards the median;
the last release (`calibration_share`) corrects their mean, but for its noise, and `findings` say
how far it was off. A target on a log scale is no cure: its predictions are geometric means, near
the median. See "Skewed labels" in docs/sharp_edges.md."""
"""Paragraphs in the docstring of every regressor."""

_OF_SURVIVAL = {
    "domain": "Public description of the table. It must be given: times have public bounds. "
    "`Domain.learn` infers the features around such a target privately (`given`).",
    "domain_given": "Of no use here: `fit` infers no domain.",
    "domain_share": "Of no use here: `fit` infers no domain.",
}
"""Documentation of arguments that differ for survival models."""

_ATTRIBUTES = """\
Attributes
----------
privacy_ : PrivacyReport
    Spent budget: on which releases, under which assumptions.
model_ : Model
    Released model.
domain_ : Domain
    Domain of the training, declared or inferred."""


def accountants(*names: str) -> Any:
    """Declare the accountants that cover a recipe's releases."""
    listed = ", ".join(f'"{name}"' for name in ("auto", *names))
    doc = 'How releases are composed; "auto" is the tightest accountant that covers them.'
    return parameter("auto", f"{{{listed}}}", doc)


def constructor(
    arguments: Callable[_P, Any],
) -> Callable[[Callable[[_Estimator], None]], Callable[Concatenate[_Estimator, _P], None]]:
    """Return a decorator that gives an `__init__` the arguments of a dataclass.

    The constructor keeps each argument as an attribute of that name, as scikit-learn wants it.
    Checks follow in `fit`.
    """

    def decorate(
        init: Callable[[_Estimator], None],
    ) -> Callable[Concatenate[_Estimator, _P], None]:
        made: Callable[Concatenate[_Estimator, _P], None] = _constructor(arguments, None)
        return made

    return decorate


def documented(kind: _Kind) -> _Kind:
    """Complete an estimator: the constructor of its task, and the docstring's sections."""
    arguments, task = kind.__init__.arguments, kind._task  # type: ignore[misc, attr-defined]
    kind.__init__ = _constructor(arguments, task)  # type: ignore[misc]
    summary, _, examples = inspect.cleandoc(kind.__doc__ or "").partition("\nExamples\n")
    about = [CLIPS_OF_A_NUMBER] if task == "number" else []
    entries = [_entry(each, task) for each in _ordered(arguments, task)]
    listed = "\n".join(["Parameters", "----------", *entries])
    kind.__doc__ = "\n\n".join(
        [summary.strip(), *about, listed, _ATTRIBUTES, f"Examples\n{examples}"]
    )
    return kind


def _constructor(arguments: Any, task: str | None) -> Any:
    """Return an `__init__` with the arguments of a task, or of all tasks."""
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY
            if each.kw_only
            else inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=_default(each, task),
            annotation=_annotation(each),
        )
        for each in _ordered(arguments, task)
    ]
    signature = inspect.Signature([own, *known])

    def __init__(self: Any, *by_place: Any, **by_name: Any) -> None:
        bound = signature.bind(self, *by_place, **by_name)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    vars(__init__).update(__signature__=signature, arguments=arguments)
    return __init__


def _annotation(each: Any) -> str:
    """Return the type in a signature, with None where that stands for a default."""
    known = str(each.type)
    return (
        f"{known} | None" if each.default is None and not known.endswith(("None", "Any")) else known
    )


def _default(each: Any, task: str | None) -> Any:
    """Return the default in a signature."""
    return declared(each).by_task.get(task or "") if each.default is BY_TASK else each.default


def _ordered(arguments: Any, task: str | None) -> list[Any]:
    """List the fields that a task has: positional ones, those of the recipe, those of all."""
    rank: dict[str, int] = {}
    for number, base in enumerate(arguments.__mro__):
        if is_dataclass(base):
            rank |= {each.name: number for each in fields(base)}
    known = [each for each in fields(arguments) if task is None or task in declared(each).tasks]
    return sorted(known, key=lambda each: (each.kw_only, rank[each.name] if each.kw_only else 0))


def _entry(each: Any, task: str) -> str:
    """Return the entry of an argument in the docstring of a task's estimator."""
    about = declared(each)
    optional = ", optional" if each.default is None else ""
    text = about.doc if task != "survival" else _OF_SURVIVAL.get(each.name, about.doc)
    if about.by_task and each.default is None and "default" not in text.lower():
        first, second = (about.by_task[kind] for kind in ("classes", "number"))
        text += f" Default {first} for classes, {second} for a number."
    lines = textwrap.wrap(text, 92, break_long_words=False, break_on_hyphens=False)
    return "\n    ".join([f"{each.name} : {about.type}{optional}", *lines])


def check_arguments(kind: type, by_place: tuple[Any, ...], by_name: Mapping[str, Any]) -> None:
    """Raise if a constructor does not have these arguments, with the estimator's name.

    Python would name the function that constructors share.
    """
    signature = inspect.signature(kind.__init__)  # type: ignore[misc]
    known = list(signature.parameters.values())[1:]
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in known):
        names = [parameter.name for parameter in known]
        for name, value in by_name.items():
            if name not in names:
                hint = foreign_name_hint(name, names, value=value) or did_you_mean(name, names)
                hint = hint or f"there are {', '.join(names)}"
                raise TypeError(f"{kind.__name__} has no parameter {name!r}; {hint}")
    try:
        signature.bind(None, *by_place, **by_name)
    except TypeError as error:
        placed = [p.name for p in known if p.kind is p.POSITIONAL_OR_KEYWORD]
        raise TypeError(
            f"{kind.__name__}: {error}; by position it takes {', '.join(placed)}, and all others "
            "by name"
        ) from None
