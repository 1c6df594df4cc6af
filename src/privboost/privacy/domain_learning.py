"""Learning a domain privately, for those who know no bounds.

Which columns there are, and whether a column holds numbers or words, is the table's schema, which
is public. A column of Python objects, or of a text file, holds words unless the caller says that
it holds numbers: to tell would take a look at the cells. Everything else is released with noise:

- the number of rows (Gaussian);
- for each number, counts of rows by signed power of two (Gaussian, all numbers at once: a row lies
  in one bin of each, so the L2 sensitivity is √p). The bounds are those of the bins whose noisy
  counts stand out; that is post-processing;
- for each column of words, the values whose noisy counts exceed a threshold (see
  `mechanisms.noisy_threshold`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from privboost.cells import column_kind, read_numbers, read_texts
from privboost.domain import (
    LEARNED,
    CategoricalFeature,
    ClassTarget,
    Domain,
    Feature,
    NumberTarget,
    NumericFeature,
    Target,
    Unit,
)
from privboost.domain_checks import (
    MAX_CATEGORIES,
    MAX_CLASSES,
    MAX_INT,
    check_text,
    is_writable,
)
from privboost.encoding import number_units
from privboost.engine import kernels
from privboost.engine.backend import LocalBackend
from privboost.engine.block import Block
from privboost.engine.commands import COUNT, NodeHistograms, Start, TreeSums
from privboost.engine.layout import Layout
from privboost.engine.tree import stump
from privboost.errors import DomainError, SchemaError
from privboost.grid import BLOCK_ROWS, UNIT, Contribution
from privboost.losses import squared
from privboost.privacy.calibration import by_shares
from privboost.privacy.events import Planned
from privboost.privacy.keystream import KeyStream
from privboost.privacy.ledger import Ledger
from privboost.privacy.lessons import (
    check_header,
    is_number,
    read_given,
    too_few_classes,
    warn_of_cells,
    warn_of_objects,
    warn_of_silence,
)
from privboost.privacy.mechanisms import Curator, noisy_threshold
from privboost.privacy.sum_events import GaussianRelease, ThresholdRelease
from privboost.privacy.units import kept_rows
from privboost.tables import CsvTable, count_rows, open_table, open_vector, slice_vector
from privboost.unit_names import read_unit_names

SMALLEST, LARGEST = -30, 62
"""Powers of two between which the size of a number is told."""
_EDGES = np.array(
    [-(2.0**k) for k in range(LARGEST, SMALLEST - 1, -1)]
    + [np.nextafter(0.0, -1.0), 0.0]
    + [2.0**k for k in range(SMALLEST, LARGEST + 1)]
)
_CODES = len(_EDGES) + 2
_BOUND = 2.0 ** (LARGEST + 1)
_FALSE_ALARM = 0.01
"""The chance that any empty bin of any number passes for a full one."""
_DELTA_SHARE = 0.5
"""The part of δ that goes to thresholds."""
PARTS = {"rows": 0.1, "numbers": 0.45, "words": 0.45}
"""How the budget of learning (on μ²) is divided."""


@dataclass(frozen=True)
class LearningPlan:
    """What will be learned: public, decided before a row is read.

    Attributes
    ----------
    known : dict from name to Feature
        Features that were given.
    numbers, words : tuples of str
        Columns to be learned, the target among them where it is not given.
    features : tuple of str
        All features, in order.
    target : Target or str
        The target, or its column.
    kinds : dict
        What the columns hold: "text", "number", "bool" or "object" (see `cells.column_kind`), or
        "cell": a text file's feature of which nothing was said.
    unit : Unit or None
        Who is protected.
    releases : tuple of Planned
        The releases by part, calibrated (or not yet).
    """

    known: dict[str, Feature]
    numbers: tuple[str, ...]
    words: tuple[str, ...]
    features: tuple[str, ...]
    target: Target | str
    kinds: dict[str, str]
    unit: Unit | None
    releases: tuple[Planned, ...]

    @property
    def target_name(self) -> str:
        """The target's column."""
        return self.target if isinstance(self.target, str) else self.target.name

    @property
    def contribution(self) -> Contribution:
        """What one protected unit may add."""
        return Contribution(rows=1 if self.unit is None else self.unit.max_rows)

    @property
    def digest(self) -> str:
        """SHA-256 of the plan."""
        form = [self.features, self.target_name, self.numbers, self.words, sorted(self.known)]
        events = [[p.count, p.event.to_dict()] for p in self.releases]
        return hashlib.sha256(json.dumps([form, events]).encode()).hexdigest()

    def with_releases(self, releases: Sequence[Planned]) -> LearningPlan:
        """Return the plan with calibrated releases."""
        return replace(self, releases=tuple(releases))


def plan_learning(
    data: Any,
    labels: Any,
    target: str,
    task: str | None,
    given: Mapping[str, Any],
    delta: float,
) -> LearningPlan:
    """Read a table's schema and plan the releases, with noise of relative size.

    Parameters
    ----------
    data : table
        See `tables.open_table`.
    labels : one-dimensional, optional
        The target, if it is no column of the table.
    target : str
        The target's name.
    task : {"classes", "number"}, optional
        What the target is; by default words and truth values are classes, numbers a number.
    given : mapping
        A part of a domain's JSON form, whose features, target and unit are not learned. A feature
        that gives its "kind" alone is learned as one of that kind.
    delta : float
        The whole δ; half of it goes to thresholds.
    """
    known, said, known_target, unit = read_given(given, target)
    if isinstance(data, list | tuple):
        raise SchemaError(
            "a list has no columns of its own: to learn a domain, pass a data frame or an array"
        )
    table = open_table(data, _array_names(data))
    if isinstance(table, CsvTable):
        check_header(table.columns, target)
    for name in [*known, *said, *([unit.column] if unit else [])]:
        if name not in table.columns:
            raise SchemaError(f"the table has no column {name!r}, which was given")
    skip = {target} | ({unit.column} if unit else set())
    features = tuple(name for name in table.columns if name not in skip)
    if not features:
        raise SchemaError("the table has no feature columns")
    for name in (*features, target):
        check_text(name, "a column's name")
    unknown = [name for name in features if name not in known]
    batch = next(table.batches([c for c in table.columns if c in {*unknown, target}], 1), {})
    kinds = {name: column_kind(batch[name], name) for name in unknown} | said
    if isinstance(table, CsvTable):
        kinds |= {name: "cell" for name in unknown if name not in said}
    numbers = [name for name in unknown if kinds[name] in ("number", "bool")]
    words = [name for name in unknown if name not in numbers]
    if known_target is None:
        column = batch.get(target)
        if labels is not None:
            column = slice_vector(open_vector(labels, "y"), 0, 1)
        if column is None:
            raise SchemaError(f"the table has no column {target!r}; name the target, or give y")
        kinds[target] = column_kind(column, target)
        classes = task == "classes" if task else kinds[target] != "number"
        if not classes and kinds[target] == "text":
            raise SchemaError(f"column {target!r} holds text; a number to predict is needed")
        (words if classes else numbers).append(target)
    contribution = Contribution(rows=1 if unit is None else unit.max_rows)
    return LearningPlan(
        known,
        tuple(numbers),
        tuple(words),
        features,
        known_target or target,
        kinds,
        unit,
        _releases(contribution, len(numbers), len(words), delta * _DELTA_SHARE),
    )


def check_beside(data: Any, beside: Mapping[str, Any]) -> None:
    """Refuse labels or weights that do not go with a table: a schema that nothing is spent on.

    Parameters
    ----------
    data : table
        See `tables.open_table`.
    beside : mapping from str to one-dimensional, str or None
        What stands beside the features, by the parameter that holds it.
    """
    table = open_table(data, _array_names(data))
    for name, values in beside.items():
        if isinstance(values, str) and values not in table.columns:
            raise SchemaError(f"the table has no column {values!r}, which {name} names")
        if isinstance(values, str) or values is None:
            continue
        if isinstance(table, CsvTable):
            raise SchemaError(f"{name} of a CSV file must be one of its columns")
        if len(open_vector(values, name)) != count_rows(data):
            raise SchemaError(f"X and {name} have different numbers of rows")


def learn(
    plan: LearningPlan, data: Any, labels: Any, ledger: Ledger, stream: KeyStream
) -> tuple[Domain, float]:
    """Make the planned releases; return the domain and the noisy number of rows.

    Privacy
    -------
    Spends exactly `plan.releases`, which must be reserved. Raises, and warns, by released values
    alone.
    """
    warn_of_objects([name for name in plan.features if plan.kinds.get(name) == "object"])
    warn_of_cells("cell" in plan.kinds.values())
    rows = _read_rows(plan, data, labels)
    keep = np.ones(sum(map(len, rows.blocks)), dtype=np.bool_)
    if plan.unit is not None:
        units, _ = number_units(rows.units)
        keep = kept_rows(rows.blocks, units, plan.unit.max_rows, stream.child("units"))
    ends = np.cumsum([len(block) for block in rows.blocks])
    kept = [b.take(keep[end - len(b) : end]) for b, end in zip(rows.blocks, ends, strict=True)]
    releases = stream.child("releases")
    curator = Curator(LocalBackend(kept), ledger, releases, plan.contribution)
    curator.publish(Start(squared(1.0, 1.0)))

    events = iter(plan.releases)
    n = (
        float(curator.gaussian(TreeSums((stump(),), statistics=COUNT), _next(events))[0, 0, 0])
        / UNIT
    )
    bounds: dict[str, tuple[float, float, str]] = {}
    if plan.numbers:
        event = _next(events)
        sums = curator.gaussian(_sizes(len(plan.numbers)), event)[0, :, 0] / UNIT
        bounds = _read_bounds(plan, sums, float(event.sigmas[0]) / UNIT)
    values: dict[str, list[str]] = {}
    if plan.words:
        event = _next(events)
        assert isinstance(event, ThresholdRelease)
        counts = _count_values(rows.words, keep)
        values = _read_values(plan, noisy_threshold(counts, event, ledger, stream.child("values")))
    if plan.target_name in values:
        told = _classes(values[plan.target_name], plan.kinds[plan.target_name])
        if len(told) < 2:
            raise DomainError(too_few_classes(ledger))
    silent = [name for name, found in bounds.items() if found is _NO_BOUNDS]
    silent += [name for name, found in values.items() if not found and name in plan.features]
    warn_of_silence(silent)
    return _assemble(plan, bounds, values), n


@dataclass(frozen=True, eq=False)
class _Rows:
    """Sizes of numbers as codes, texts of words by column, names of units; batch by batch."""

    blocks: list[Block]
    words: dict[str, list[pa.Array]]
    units: list[pa.Array]


def _read_rows(plan: LearningPlan, data: Any, labels: Any) -> _Rows:
    table = open_table(data, _array_names(data))
    vector = None if labels is None else open_vector(labels, "y")
    if vector is not None and isinstance(table, CsvTable):
        raise SchemaError("y of a CSV file must be one of its columns")
    wanted = {*plan.numbers, *plan.words} | ({plan.unit.column} if plan.unit else set())
    names = [name for name in table.columns if name in wanted]
    layout = Layout((_CODES,) * len(plan.numbers))
    rows = _Rows([], {name: [] for name in plan.words}, [])
    done = 0
    for batch in table.batches(names or table.columns[:1], BLOCK_ROWS):
        size = len(next(iter(batch.values())))
        columns = dict(batch)
        if vector is not None:
            columns[plan.target_name] = slice_vector(vector, done, done + size)
            if len(columns[plan.target_name]) != size:
                break  # told below, without saying how many rows there are
        done += size
        codes = np.empty((len(plan.numbers), size), dtype=np.uint8)
        for out, name in zip(codes, plan.numbers, strict=True):
            kernels.bin_numbers(read_numbers(columns[name], name), _EDGES, _CODES - 1, out)
        nothing = np.zeros((0, size), dtype=np.uint16)
        rows.blocks.append(Block(layout, codes, nothing, np.zeros(size, dtype=np.uint8)))
        for name in plan.words:
            rows.words[name].append(read_texts(columns[name], name))
        if plan.unit is not None:
            rows.units.append(read_unit_names(columns[plan.unit.column], plan.unit.column))
    if vector is not None and len(vector) != done:
        raise SchemaError("X and y have different numbers of rows")
    return rows


def _releases(
    contribution: Contribution, numbers: int, words: int, delta: float
) -> tuple[Planned, ...]:
    units, rows = UNIT * contribution.rows, contribution.rows
    parts = [(GaussianRelease("the number of rows", 1.0, units, 1, rows, (1.0,)), "rows")]
    if numbers:
        what = f"rows by size of {numbers} numbers"
        parts.append((GaussianRelease(what, 1.0, units, numbers, rows, (1.0,)), "numbers"))
    if words:
        what = f"values that occur in {words} columns of words"
        event = ThresholdRelease(what, 1.0, units, words, rows, (1.0,), delta_of_threshold=delta)
        parts.append((event, "words"))
    return by_shares([(Planned(event, 1), PARTS[part]) for event, part in parts])


def _sizes(numbers: int) -> NodeHistograms:
    """Ask for the rows by size of every number."""
    cells = np.arange(_CODES, dtype=np.uint32)  # many numbers have more cells than two bytes hold
    cell_of = tuple((k * _CODES + cells).astype(np.uint32) for k in range(numbers))
    return NodeHistograms(
        stump(), tuple(range(numbers)), cell_of, numbers * _CODES, statistics=COUNT
    )


def _read_bounds(
    plan: LearningPlan, counts: np.ndarray, sigma: float
) -> dict[str, tuple[float, float, str]]:
    """Take the span of the bins that stand out; a log scale where most rows are far smaller."""
    chance = _FALSE_ALARM / len(counts)
    threshold = 1 + sigma * float(ndtri(1 - chance))
    lows = [-_BOUND, *_EDGES]
    highs = [*_EDGES, _BOUND]
    found = {}
    for k, name in enumerate(plan.numbers):
        own = counts[k * _CODES : (k + 1) * _CODES - 1]
        full = np.flatnonzero(own > threshold)
        if len(full) == 0:
            found[name] = _NO_BOUNDS
            continue
        low, high = lows[full[0]], highs[full[-1]]
        low = 0.0 if abs(low) < 1e-300 else low  # the bin of zero itself
        high = 1.0 if low == high else high
        weight = np.maximum(own, 0) * (own > threshold)
        size = np.maximum(np.abs(lows), np.abs(highs))
        small = weight[size <= max(abs(low), abs(high)) / 16].sum()
        found[name] = (low, high, "log" if small > 0.8 * weight.sum() else "linear")
    return found


def _count_values(words: Mapping[str, list[pa.Array]], keep: np.ndarray) -> dict[bytes, int]:
    """Count the values that occur, each under its column's number."""
    counts = {}
    for k, column in enumerate(words.values()):
        kept = pa.chunked_array(column, pa.large_binary()).filter(pa.array(keep))
        for entry in kept.drop_null().value_counts().to_pylist():
            counts[f"{k} ".encode() + entry["values"]] = entry["counts"]
    return counts


def _read_values(plan: LearningPlan, told: Sequence[bytes]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {name: [] for name in plan.words}
    for key in told:
        number, _, value = key.partition(b" ")
        text = value.decode(errors="surrogateescape")
        if is_writable(text):  # what is no text cannot stand in a domain
            values[plan.words[int(number)]].append(text)
    return values


def _assemble(
    plan: LearningPlan,
    bounds: Mapping[str, tuple[float, float, str]],
    values: Mapping[str, list[str]],
) -> Domain:
    reason = LEARNED
    features: list[Feature] = []
    for name in plan.features:
        if name in plan.known:
            features.append(plan.known[name])
        elif name in bounds:
            low, high, scale = bounds[name]
            features.append(NumericFeature(name, (low, high), scale, missing=True, reason=reason))
        else:
            told = tuple(values[name][:MAX_CATEGORIES]) or (_NOBODY,)
            features.append(CategoricalFeature(name, told, missing=True, reason=reason))
    target = plan.target
    if isinstance(target, str) and target in bounds:
        target = NumberTarget(target, bounds[target][:2], reason=reason)
    elif isinstance(target, str):
        target = ClassTarget(target, _classes(values[target], plan.kinds[target]), reason=reason)
    return Domain(tuple(features), target, plan.unit)


def _classes(told: list[str], kind: str) -> tuple[Any, ...]:
    """Return classes in the type of their column."""
    if kind == "bool":
        return (False, True)
    classes: list[Any] = list(told)
    if kind == "number" or (kind == "object" and all(map(is_number, told))):
        finite = [float(word) for word in told if is_number(word)]
        small = {x: x == int(x) and abs(x) < MAX_INT for x in finite}
        classes = [int(x) if whole else x for x, whole in small.items()]
    return tuple(classes[:MAX_CLASSES])


_NO_BOUNDS = (-1.0, 1.0, "linear")
"""Stands for the bounds of a number of which nothing was told."""
_NOBODY = "(no value stood out)"
"""Stands for a list of values of which none was told."""


def _next(events: Iterator[Planned]) -> GaussianRelease:
    event = next(events).event
    assert isinstance(event, GaussianRelease)
    return event


def _array_names(data: Any) -> tuple[str, ...]:
    """Name the columns of an array, which has no names."""
    shape = getattr(data, "shape", None)
    if shape is None and hasattr(data, "__array__"):
        shape = np.shape(np.asarray(data))
    return tuple(f"x{k}" for k in range(shape[1])) if shape is not None and len(shape) == 2 else ()
