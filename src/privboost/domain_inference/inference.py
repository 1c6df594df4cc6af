"""Private domain inference (`Domain.learn`): plan, releases, and report.

The columns of a table and their types are its schema, which is public; of a boolean column nothing
else is needed. A column of Python objects, or of a text file, counts as strings unless the caller
declares numbers: its values must not decide. Everything else is released with noise:

- where `max_rows` of a unit is left open, units by number of rows (see `unit_rows`);
- the number of rows (Gaussian), for a warning about δ;
- the bounds of numbers (Gaussian; see `bounds`);
- for each column of strings, the values whose noisy counts exceed a threshold (see
  `curator.noisy_threshold`).

Of a unit that weighs one, one row is used, drawn at random.

Under pure DP (δ = 0) only units by number of rows and the bounds of numbers are released, with
Laplace noise: releasing which strings occur needs a δ, so classes and categories must be given.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from privboost._core.checks import MAX_INT, check_file, check_text, is_writable
from privboost._core.errors import BudgetError, DomainError, SchemaError
from privboost._core.grid import CLIP_STEPS, Contribution
from privboost._core.unit import UNITS, Unit, column_of, unit_assumptions
from privboost._core.warnings import delayed_warnings, warn_of_parameters
from privboost.accounting.accountants import Accountant, GdpAccountant, PureAccountant
from privboost.accounting.calibration import by_shares, calibrate
from privboost.accounting.events import Event, Planned
from privboost.accounting.ledger import Ledger
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease, ThresholdRelease
from privboost.accounts.account import PendingCharge, check_account
from privboost.data.contribution_bound import UnitRule
from privboost.data.domain import INFERRED_REASON, Domain, inferences_of, reported_inferences
from privboost.data.domain_json import read_privacy
from privboost.data.feature_base import MAX_CATEGORIES, MAX_CLASSES
from privboost.data.features import (
    BooleanFeature,
    CategoricalFeature,
    DurationFeature,
    Feature,
    NumericFeature,
)
from privboost.data.files import are_files, check_header, is_number
from privboost.data.loading import Load
from privboost.data.sources import attach_columns, check_columns_present, open_table
from privboost.data.table import Batch, Table
from privboost.data.targets import ClassTarget, NumberTarget, Target
from privboost.data.values import column_kind, label_kind
from privboost.distributed.frames import open_backend_of, open_remote
from privboost.domain_inference.bounds import (
    NO_BOUNDS,
    Bounds,
    InferenceLoader,
    learn_bounds,
    plan_sizes,
)
from privboost.domain_inference.partial_domain import (
    NOTHING_TO_INFER,
    categories_without_delta,
    check_columns,
    load_partial_domain,
    read_partial_domain,
    too_few_classes,
    warn_of_empty_columns,
    warn_of_objects,
    warn_of_untyped,
)
from privboost.domain_inference.unit_rows import learn_max_rows, plan_unit_rows
from privboost.engine.backend import OpenBackend
from privboost.engine.queries import COUNT, TreeSums
from privboost.engine.updates import Start
from privboost.losses.squared import SQUARED_NUMBER
from privboost.mechanisms.curator import Curator
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget, check_grid, within_account
from privboost.reports.report import PrivacyReport
from privboost.reports.writing import add_domain_inference, check_domain_inference, write_report
from privboost.trees.tree import stump

_INDEX = re.compile(r"__index_level_[0-9]+__")
"""Name that pandas gives to an unnamed index in files; it is no feature."""
_DELTA_SHARE = 0.5
"""The fraction of δ for thresholds."""
PARTS = {"units": 0.1, "rows": 0.1, "numbers": 0.45, "words": 0.45}
"""Shares of the budget (of μ², under pure DP of ε) by part."""


@dataclass(frozen=True)
class InferencePlan:
    """Plan of an inference: public, made before a row is read.

    Attributes
    ----------
    known : dict from name to Feature
        Features that are given.
    numbers, strings : tuples of str
        Columns whose bounds, and whose categories or classes, are inferred; the target is among
        them unless it is given.
    features : tuple of str
        All features, in order.
    target : Target or str
        The target, or its column.
    kinds : dict
        Types of columns: "text", "number", "duration", "bool" or "object" (see
        `values.column_kind`), or "untyped" for an undeclared column of a text file.
    releases : tuple of Planned
        The releases by part, calibrated (or not yet).
    scale : str
        The scale of a number to predict whose bounds are inferred.
    unit_is_open : bool
        Whether `max_rows` of the unit is inferred, by the first release.
    """

    known: dict[str, Feature]
    numbers: tuple[str, ...]
    strings: tuple[str, ...]
    features: tuple[str, ...]
    target: Target | str
    kinds: dict[str, str]
    unit: Unit | None
    releases: tuple[Planned, ...]
    scale: str = "linear"
    unit_is_open: bool = False

    @property
    def durations(self) -> tuple[str, ...]:
        """The columns of durations among the numbers."""
        return tuple(name for name in self.numbers if self.kinds[name] == "duration")

    @property
    def given(self) -> tuple[Feature | Target | Unit, ...]:
        """The given features, and the target and the unit if they are given."""
        known = () if isinstance(self.target, str) else (self.target,)
        unit = () if self.unit is None else (self.unit,)
        return (*self.known.values(), *known, *unit)

    @property
    def target_name(self) -> str:
        """The target's column."""
        return self.target if isinstance(self.target, str) else self.target.name

    @property
    def contribution(self) -> Contribution:
        """The contribution of one protected unit."""
        return _contribution(self.unit)

    @property
    def pure(self) -> bool:
        """Whether all releases are pure DP."""
        return all(planned.event.pure is not None for planned in self.releases)

    @property
    def accountant(self) -> Accountant:
        """The accountant that composes the releases exactly."""
        return PureAccountant() if self.pure else GdpAccountant()

    @property
    def digest(self) -> str:
        """SHA-256 of the plan."""
        form = [self.features, self.target_name, self.numbers, self.strings, sorted(self.known)]
        events = [[p.count, p.event.to_dict()] for p in self.releases]
        return hashlib.sha256(json.dumps([form, events]).encode()).hexdigest()


def open_without_domain(data: Any, labels: Any, target: str) -> Table:
    """Open a table to infer a domain from; labels are attached if they are no column of it."""
    if isinstance(data, list | tuple) and not are_files(data):
        raise SchemaError(
            "a list has no columns of its own: to learn a domain, pass a data frame or an array"
        )
    table = open_table(data, _array_names(data))
    return table if labels is None else attach_columns(table, {"y": labels}, {"y": target})


def plan_inference(
    table: Table,
    target: str,
    task: str | None,
    given: Mapping[str, Any],
    delta: float,
    weights: str | None = None,
    threshold_delta: float = math.inf,
) -> InferencePlan:
    """Read a table's schema and plan the releases, with noise of relative size.

    Parameters
    ----------
    table : Table
        See `open_without_domain`.
    target, task, given
        See `Domain.learn`.
    delta : float
        The whole δ, half of which is for thresholds. With 0, categories and classes must be given.
    weights : str, optional
        The column of sample weights, which is no feature.
    threshold_delta : float
        The largest δ of thresholds.
    """
    part = read_partial_domain(given, target)
    known, declared, known_target, unit = part.features, part.kinds, part.target, part.unit
    if table.is_text:
        check_header(table.columns, target)
    if known_target is None:
        check_columns_present(table, [target])  # first, so that the error names this column
    event = None if known_target is None else known_target.event_column
    apart = [name for name in (event, unit.column if unit else None) if name is not None]
    for name in [*known, *declared, *part.leave_out, *apart]:
        if name not in table.columns:
            raise SchemaError(f"the table has no column {name!r}, which was given")
    skip = {target, weights, *part.leave_out, *apart}
    skip |= {name for name in table.columns if _INDEX.fullmatch(name) and name not in known}
    features = tuple(name for name in table.columns if name not in skip)
    if not features:
        raise SchemaError("the table has no feature columns")
    for name in (*features, target):
        check_text(name, "a column's name")
    unknown = [name for name in features if name not in known]
    judged = {*features, target, *apart}
    batch = table.no_rows([name for name in table.columns if name in judged])
    kinds = {
        name: column_kind(batch[name], name) for name in unknown if name not in declared
    } | declared
    if table.is_text:
        kinds |= {name: "untyped" for name in unknown if name not in declared}
    known = known | {
        name: BooleanFeature(name, missing=True, reason=_BOOLEAN_REASON)
        for name in unknown
        if kinds[name] == "bool"
    }
    known = {name: known[name] for name in features if name in known}
    check_columns(batch, known, declared, known_target, unit)
    unknown = [name for name in unknown if name not in known]
    numbers = [name for name in unknown if kinds[name] in ("number", "duration")]
    strings = [name for name in unknown if name not in numbers]
    if known_target is None:
        kinds[target], classes = _target_type(table, batch, target, task or part.task)
        if classes and part.scale != "linear":
            raise DomainError("target.scale: classes have none")
        (strings if classes else numbers).append(target)
    if delta == 0 and strings:
        raise DomainError(categories_without_delta(strings, kinds, target))
    if delta == 0 and not numbers and not part.unit_is_open:
        raise DomainError(NOTHING_TO_INFER)
    sizes = (_contribution(unit), len(numbers), len(strings), part.unit_is_open)
    return InferencePlan(
        known,
        tuple(numbers),
        tuple(strings),
        features,
        known_target or target,
        kinds,
        unit,
        _releases(*sizes, delta, threshold_delta),
        part.scale,
        part.unit_is_open,
    )


def _target_type(table: Table, batch: Batch, target: str, task: str | None) -> tuple[str, bool]:
    """Return the type of the target's column, and whether classes are to be predicted."""
    kind = label_kind(batch[target], target)
    if kind == "duration":
        raise SchemaError(f"column {target!r} holds durations: turn the target into a number")
    if table.is_text and task == "number":
        kind = "number"
    classes = task == "classes" if task else kind != "number"
    if not classes and kind == "text":
        raise SchemaError(f"column {target!r} holds text; a number to predict is needed")
    return kind, classes


def learn(
    plan: InferencePlan, table: Table, open_backend: OpenBackend, ledger: Ledger, stream: KeyStream
) -> tuple[Domain, float | None]:
    """Make the planned releases; return the domain and, unless pure, the noisy number of rows.

    Privacy
    -------
    Spends exactly `plan.releases`, which must be reserved. Raises, and warns, by released values
    alone.
    """
    warn_of_objects([name for name in plan.strings if plan.kinds.get(name) == "object"])
    warn_of_untyped("untyped" in plan.kinds.values())
    rule = UnitRule.of(_bounded(plan.unit), stream.child("units"))
    max_rows = None
    if plan.unit_is_open:
        assert rule is not None
        event = plan.releases[0].event
        assert isinstance(event, GaussianRelease | LaplaceRelease)
        counting = InferenceLoader((), (), replace(rule, counts_rows=True), table.columns[0])
        own = stream.child("units by number of rows")
        with _curator(plan, Load(counting, table), open_backend, ledger, own) as curator:
            max_rows = learn_max_rows(curator, event)
    loader = InferenceLoader(plan.numbers, plan.strings, rule, table.columns[0], plan.durations)
    own = stream.child("releases")
    with _curator(plan, Load(loader, table), open_backend, ledger, own) as curator:
        return _release(plan, curator, ledger, stream, max_rows)


def _bounded(unit: Unit | None) -> Unit | None:
    """Return the unit of which rows are used: one row of a unit that weighs one."""
    return replace(unit, max_rows=1) if unit is not None and unit.weighting == UNITS else unit


def _contribution(unit: Unit | None) -> Contribution:
    """Return the bound of what one unit contributes to an inference."""
    bounded = _bounded(unit)
    return Contribution() if bounded is None else bounded.contribution()


@contextmanager
def _curator(
    plan: InferencePlan, load: Load, open_backend: OpenBackend, ledger: Ledger, stream: KeyStream
) -> Iterator[Curator]:
    """Open rows, and start counting them."""
    backend = open_backend([load])
    try:
        curator = Curator(backend, ledger, stream, plan.contribution)
        curator.publish(Start(SQUARED_NUMBER.table(1.0, 1.0)))
        yield curator
    finally:
        backend.close()


def _release(
    plan: InferencePlan,
    curator: Curator,
    ledger: Ledger,
    stream: KeyStream,
    max_rows: int | None,
) -> tuple[Domain, float | None]:
    """Make the other releases, and return the domain, with `max_rows` of its unit if inferred."""
    events = iter([planned.event for planned in plan.releases[plan.unit_is_open :]])
    n = None
    if not plan.pure:
        event = next(events)
        assert isinstance(event, GaussianRelease)
        counts = curator.sums(TreeSums((stump(),), statistics=COUNT), event)
        n = float(counts[0, 0, 0]) / CLIP_STEPS
    bounds: dict[str, Bounds] = {}
    if plan.numbers:
        event = next(events)
        assert isinstance(event, GaussianRelease | LaplaceRelease)
        bounds = learn_bounds(plan.numbers, curator, event)
    values: dict[str, list[str]] = {}
    if plan.strings:
        event = next(events)
        assert isinstance(event, ThresholdRelease)
        values = _read_values(
            plan, curator.threshold(len(plan.strings), event, stream.child("values"))
        )
    if plan.target_name in values:
        released = _classes(values[plan.target_name], plan.kinds[plan.target_name])
        if len(released) < 2:
            raise DomainError(too_few_classes(ledger))
    silent = [name for name, found in bounds.items() if found is NO_BOUNDS]
    silent += [name for name, found in values.items() if not found and name in plan.features]
    warn_of_empty_columns(silent)
    identifier = f"{int(stream.child('lesson').words(1)[0]):016x}"
    return _assemble(plan, bounds, values, identifier, max_rows), n


def _releases(
    contribution: Contribution,
    numbers: int,
    strings: int,
    unit_is_open: bool,
    delta: float,
    threshold_delta: float,
) -> tuple[Planned, ...]:
    if delta == 0:
        own: list[tuple[Event, str]] = [(plan_unit_rows(pure=True), "units")] * unit_is_open
        own += [(plan_sizes(contribution, numbers, pure=True), "numbers")] * (numbers > 0)
        whole = sum(PARTS[part] for _, part in own)
        return tuple(Planned(event, 1).scaled(whole / PARTS[part]) for event, part in own)
    steps, rows = CLIP_STEPS * contribution.rows, contribution.rows
    count = GaussianRelease("the number of rows", 1.0, steps, 1, rows, (1.0,))
    parts: list[tuple[Event, str]] = [(plan_unit_rows(pure=False), "units")] * unit_is_open
    parts.append((count, "rows"))
    if numbers:
        parts.append((plan_sizes(contribution, numbers, pure=False), "numbers"))
    if strings:
        what = f"values that occur in {strings} columns of words"
        share = min(delta * _DELTA_SHARE, threshold_delta)
        if not share > 0:
            raise BudgetError(
                "the account has nothing left of its delta for values of words: write the domain, "
                "or give them"
            )
        event = ThresholdRelease(what, 1.0, steps, strings, rows, (1.0,), delta_of_threshold=share)
        parts.append((event, "words"))
    return by_shares([(Planned(event, 1), PARTS[part]) for event, part in parts])


def _read_values(plan: InferencePlan, released: Sequence[bytes]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {name: [] for name in plan.strings}
    for key in released:
        number, _, value = key.partition(b" ")
        text = value.decode(errors="surrogateescape")
        if is_writable(text):  # else a domain cannot hold it
            values[plan.strings[int(number)]].append(text)
    return values


def _assemble(
    plan: InferencePlan,
    bounds: Mapping[str, Bounds],
    values: Mapping[str, list[str]],
    identifier: str,
    max_rows: int | None,
) -> Domain:
    reason = INFERRED_REASON + identifier
    features: list[Feature] = []
    for name in plan.features:
        if name in plan.known:
            features.append(plan.known[name])
        elif name in bounds:
            low, high, scale = bounds[name]
            kind = DurationFeature if name in plan.durations else NumericFeature
            features.append(kind(name, (low, high), scale, missing=True, reason=reason))
        else:
            released = tuple(values[name][:MAX_CATEGORIES]) or (_NOBODY,)
            features.append(CategoricalFeature(name, released, missing=True, reason=reason))
    target = plan.target
    if isinstance(target, str) and target in bounds:
        target = NumberTarget(target, bounds[target][:2], reason, plan.scale)
    elif isinstance(target, str):
        target = ClassTarget(target, _classes(values[target], plan.kinds[target]), reason=reason)
    unit = plan.unit
    if max_rows is not None:
        assert unit is not None
        unit = replace(unit, max_rows=max_rows, reason=reason)
    return Domain(tuple(features), target, unit)


def _classes(released: list[str], kind: str) -> tuple[Any, ...]:
    """Return classes in the type of their column."""
    if kind == "bool" or (kind == "object" and set(released) == {"False", "True"}):
        return (False, True)
    classes: list[Any] = list(released)
    if kind == "number" or (kind == "object" and all(map(is_number, released))):
        finite = [float(word) for word in released if is_number(word)]
        small = {x: x == int(x) and abs(x) < MAX_INT for x in finite}
        classes = [int(x) if whole else x for x, whole in small.items()]
    return tuple(classes[:MAX_CLASSES])


_BOOLEAN_REASON = "the column holds truth values by its type"
_NOBODY = "(no value stood out)"
"""The only category of a column in which no value exceeded the threshold."""


def _array_names(data: Any) -> tuple[str, ...]:
    """Name the columns of an array, which has no names."""
    shape = getattr(data, "shape", None)
    if shape is None and hasattr(data, "__array__"):
        shape = np.shape(np.asarray(data))
    return tuple(f"x{k}" for k in range(shape[1])) if shape is not None and len(shape) == 2 else ()


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
    given: Any,
    random_state: int | None,
    ledger: str | Path | None,
    account: Any,
) -> Domain:
    """Infer a domain; see `Domain.learn`."""
    _check(target, task, ledger)
    budget, account = Budget(epsilon, delta), check_account("budget", account, random_state)
    threshold_delta = math.inf
    if account is not None:
        budget = within_account(budget, account)
        threshold_delta = account.balance().threshold_delta_left
    epsilon, delta, part = budget.epsilon, budget.delta, load_partial_domain("given", given)
    stream = KeyStream.of(random_state)
    warn_of_parameters(epsilon, delta, random_state)
    table = open_without_domain(open_remote(frame), y, target)
    plan = plan_inference(table, target, task, part, delta, threshold_delta=threshold_delta)
    # The cost of the given part if it was inferred, assumed to be from the same rows.
    earlier = None if part.get("privacy") is None else read_privacy(part["privacy"])
    if not inferences_of(plan.given) <= reported_inferences(earlier):
        raise DomainError(
            'given: a part was learned privately, but its price ("privacy") is not there: give the '
            "learned domain whole"
        )
    if earlier is not None:
        check_domain_inference(earlier, plan.unit)
    accountant = plan.accountant
    made = calibrate(plan.releases, epsilon, delta, accountant)
    plan = replace(plan, releases=tuple(made))
    check_grid(planned.event for planned in plan.releases)
    pending_charge = None
    if account is not None:
        pending_charge = PendingCharge(account, "Domain.learn", column_of(plan.unit), earlier)
    book = Ledger(epsilon, delta, accountant, ledger, pending_charge)
    book.reserve(plan.releases)
    with delayed_warnings() as held:
        domain, _ = learn(plan, table, open_backend_of(1), book, stream)
    report = report_inference(book, plan, domain, random_state is not None)
    if earlier is not None:
        report = add_domain_inference(earlier, report, "learning the rest of it")
    learned = replace(domain, privacy=report)
    held.say(learned)
    return learned


def report_inference(
    ledger: Ledger, plan: InferencePlan, domain: Domain, seeded: bool
) -> PrivacyReport:
    """Return the report of an inference, with the identifiers of all inferences in the domain."""
    assumed = (*_ASSUMED, *(unit_assumptions(domain.unit) if domain.unit else ()))
    parameters = {"target": plan.target_name, "lessons": " ".join(sorted(domain.inferences))}
    return write_report(
        ledger, domain.unit, assumed, seeded, parameters, plan.digest, "Domain.learn"
    )


def _check(target: Any, task: Any, ledger: Any) -> None:
    """Check parameters before a row is read."""
    if not isinstance(target, str) or not target:
        raise TypeError(f"target must be the name of the column to predict; {target!r} is not")
    if task not in (None, "classes", "number"):
        raise ValueError(f'task must be "classes" or "number"; {task!r} is not')
    if ledger is not None and not isinstance(ledger, str | Path):
        raise TypeError("ledger must be the path of a file, or None")
    if ledger is not None:
        check_file("ledger", ledger)
