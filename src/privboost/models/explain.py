"""Exact Shapley values of a sum of tables and trees, for rows with independent features.

Shapley values of a sum add up. The value of a table of one feature is its effect less the mean
effect. A leaf of a tree is a product with one factor for each feature: whether the feature's code
leads there. Let a be that factor for a row, and p its mean; then the value of feature j is
v · (a_j − p_j) · ∫ Π_{k≠j} (p_k + t·(a_k − p_k)) dt, t from 0 to 1 (Owen's integral). The integrand
is a polynomial, so Gauss-Legendre quadrature with few points is exact.

Explanations of a model; see `Model.explain_global` and `Model.explain_local`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import Any

import numpy as np

from privboost._core.grid import BLOCK_ROWS
from privboost.data.encoding import Encoder
from privboost.data.features import (
    BooleanFeature,
    CategoricalFeature,
    DateFeature,
    DurationFeature,
    Feature,
    NumericFeature,
    OrderedFeature,
    OrdinalFeature,
)
from privboost.data.rows import Codes
from privboost.data.sources import check_columns_present, open_table
from privboost.data.targets import ClassTarget
from privboost.data.times import DAY
from privboost.explanations.explanation import Explanation, LocalExplanation
from privboost.explanations.spans import DAYS, INSTANTS, SECONDS, Spans
from privboost.explanations.terms import Importance, Leaf, Pair, Shape, Split, TreeSummary
from privboost.models import kernels
from privboost.models.findings import find
from privboost.models.scores import (
    JointTable,
    JointTree,
    ModelView,
    ScoreParts,
    draw_rows,
    effect_unit,
)
from privboost.models.trees import conditions

_ROWS = 4096
"""The number of rows of a block, whose intermediate results fit into a cache."""


class Shapley:
    """The Shapley values of a model.

    Parameters
    ----------
    parts : ScoreParts
        The model.
    probabilities : sequence of float arrays
        For each feature the probability of each code.
    """

    def __init__(self, parts: ScoreParts, probabilities: Sequence[np.ndarray]) -> None:
        self._parts, self._probabilities = parts, probabilities
        self._paths = [own for tree in parts.trees for own in _paths(tree, probabilities)]

    def baseline(self) -> np.ndarray:
        """Return the mean score of rows, in score steps: shape (outputs,)."""
        parts, probabilities = self._parts, self._probabilities
        total = parts.start.astype(np.float64)
        for table, own in zip(parts.tables, probabilities, strict=True):
            total += table @ own
        for pair in parts.pairs:
            total += pair.mean(probabilities)
        for path in self._paths:
            total += path.mean.prod() * path.values
        return total

    def values(self, codes: Codes) -> np.ndarray:
        """Return the Shapley values of rows, in score steps.

        Returns
        -------
        float array of shape (features, outputs, rows)
        """
        parts, probabilities = self._parts, self._probabilities
        found = np.empty((len(parts.tables), parts.n_outputs, len(codes)))
        for feature, (table, own) in enumerate(zip(parts.tables, probabilities, strict=True)):
            found[feature] = table[:, codes.column(feature)] - (table @ own)[:, None]
        for pair in parts.pairs:
            _add_pair(pair, probabilities, codes, found)
        columns = np.stack([codes.column(feature) for feature in range(len(found))])
        for first in range(0, len(codes), _ROWS):
            rows = slice(first, first + _ROWS)
            for path in self._paths:
                path.add(columns[:, rows], found[:, :, rows])
        return found


def _add_pair(
    pair: JointTable, probabilities: Sequence[np.ndarray], codes: Codes, found: np.ndarray
) -> None:
    """Add the Shapley values of a pair; the joint part is shared equally."""
    first, second = pair.cell_probabilities(probabilities)
    own, other = (
        cells[codes.column(feature)]
        for feature, cells in zip(pair.features, pair.cell_of, strict=True)
    )
    both = pair.values[:, own, other]
    given_first = (pair.values @ second)[:, own]
    given_second = np.einsum("oab,a->ob", pair.values, first)[:, other]
    nothing = pair.mean(probabilities)[:, None]
    found[pair.features[0]] += (both - given_second + given_first - nothing) / 2
    found[pair.features[1]] += (both - given_first + given_second - nothing) / 2


def _leaves(
    tree: JointTree, probabilities: Sequence[np.ndarray]
) -> Iterator[tuple[int, dict[int, np.ndarray]]]:
    """Yield each reachable leaf with a value, and the codes of each feature that lead there."""
    inner = len(tree.tree.feature)
    below: list[tuple[int, dict[int, np.ndarray]]] = [(0, {})]
    while below:
        node, reach = below.pop()
        if node >= inner:
            if tree.values[:, node - inner].any():
                yield node - inner, reach
            continue
        feature = int(tree.tree.feature[node])
        right = tree.tree.goes_right[node, : len(probabilities[feature])].astype(bool)
        before = reach.get(feature, np.True_)
        for child, side in ((2 * node + 1, ~right), (2 * node + 2, right)):
            codes = before & side
            if codes.any():
                below.append((child, reach | {feature: codes}))


@dataclass(frozen=True, eq=False)
class _Path:
    """The conditions of a leaf.

    Attributes
    ----------
    features : int array
        The features that decide whether a row reaches the leaf.
    reach, first : uint8 array, int array
        Whether each of their codes leads there, and the index of each feature's first code.
    mean : float array
        For each feature the probability of those codes.
    values : int array of shape (outputs,)
        The values of the leaf.
    """

    features: np.ndarray
    reach: np.ndarray
    first: np.ndarray
    mean: np.ndarray
    values: np.ndarray

    def add(self, columns: np.ndarray, found: np.ndarray) -> None:
        """Add the Shapley values of the leaf: Owen's integral, exactly."""
        points, weights = _quadrature(max((len(self.features) + 1) // 2, 1))
        arrays = (self.features, self.reach, self.first, self.mean, self.values)
        kernels.add_moves(*arrays, points, weights, columns, found)


def _paths(tree: JointTree, probabilities: Sequence[np.ndarray]) -> Iterator[_Path]:
    """Yield the conditions of each reachable leaf with a value."""
    for leaf, reach in _leaves(tree, probabilities):
        deciding = {feature: own for feature, own in reach.items() if not own.all()}
        codes = [own.astype(np.uint8) for own in deciding.values()]
        yield _Path(
            np.array([*deciding], dtype=np.int64),
            np.concatenate([np.zeros(0, dtype=np.uint8), *codes]),
            np.cumsum([0, *map(len, codes)])[:-1],
            np.array(
                [probabilities[feature] @ own for feature, own in deciding.items()], dtype=float
            ),
            tree.values[:, leaf].astype(np.int64),
        )


@cache
def _quadrature(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gauss-Legendre points between 0 and 1, and their weights."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1) / 2, weights / 2


RELEASED, EVEN = "released", "even"
"""The weights of values; see `Explanation`."""


def explain_model(model: ModelView) -> Explanation:
    """Return the explanation of a model; see `Model.explain_global`."""
    view = _View(model)
    return Explanation(
        model.domain.target.name,
        view.scored_in,
        view.classes,
        tuple(view.start.tolist()),
        view.weights,
        _importance(view),
        tuple(_shapes(view)),
        tuple(_pair(view, pair) for pair in view.parts.pairs if pair.noise is not None),
        tuple(_trees(view)),
        model.scores.coefficient_list(model),
        model.scores.vote_summary(model),
        find(model),
    )


def explain_rows(model: ModelView, data: Any) -> LocalExplanation:
    """Return the explanation of rows; see `Model.explain_local`."""
    view = _View(model)
    parts, codes = view.parts, view.encoder.layout.n_codes
    shapley = Shapley(parts, view.probabilities)
    terms = [*view.names, *(" × ".join(view.names[k] for k in p.features) for p in parts.pairs)]
    terms += ["trees"] * bool(parts.trees)
    no_rows = Codes.empty(view.encoder.layout, 0), np.empty((0, len(codes)))
    added, moved, read, numbers = [], [], [np.empty((0, len(codes)), dtype=np.uint16)], []
    for block, counted in chain([no_rows], _blocks(view, data)):
        added.append(parts.contributions(block))
        moved.append(shapley.values(block))
        read.append(np.stack([block.column(k) for k in range(len(codes))], axis=1))
        numbers.append(counted)
    return LocalExplanation(
        model.domain.target.name,
        view.scored_in,
        view.classes,
        view.start,
        tuple(terms),
        view.by_row(np.concatenate(added, axis=2)),
        view.level(shapley.baseline()),
        view.names,
        view.by_row(np.concatenate(moved, axis=2)),
        view.weights,
        np.concatenate(read),
        tuple(_spans(view, k, np.arange(n)[None]).words for k, n in enumerate(codes)),
        np.concatenate(numbers),
        tuple(map(_number_format, model.domain.features)),
    )


def _blocks(view: _View, data: Any) -> Iterator[tuple[Codes, np.ndarray]]:
    """Yield the codes of rows, with their numbers and dates, of shape (rows, features)."""
    names, features = view.names, view.model.domain.features
    table = open_table(data, names, every_line=True)
    check_columns_present(table, names)
    for batch in table.batches(names, BLOCK_ROWS):
        numbers = np.full((len(batch[names[0]]), len(names)), np.nan)
        for k, feature in enumerate(features):
            if isinstance(feature, NumericFeature | DateFeature):
                own = feature.read(batch[feature.name])
                numbers[:, k] = np.clip(own, *feature.number.bounds)
        yield view.encoder.code(batch), numbers


def _number_format(feature: Feature) -> Callable[[float], str] | None:
    """Return the format of a feature's numbers, if its codes are bins of numbers or dates."""
    return feature.format_value if isinstance(feature, NumericFeature | DateFeature) else None


@dataclass(frozen=True, eq=False)
class _View:
    """A model with the quantities that all parts of an explanation need."""

    model: ModelView

    @property
    def encoder(self) -> Encoder:
        return self.model.encoder

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.model.domain.feature_names)

    @cached_property
    def parts(self) -> ScoreParts:
        """The scores as one sum, with mean effects in the start where they are known."""
        own = self.model.scores.parts()
        if self.weights == EVEN or not self.model.scores.is_centred:
            return own
        return own.centred(self.probabilities)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The classes of the scores."""
        if not isinstance(self.model.domain.target, ClassTarget):
            return ()
        named = tuple(map(str, self.model.classes))
        return named if self.parts.n_outputs > 1 else named[1:]

    def of(self, output: int) -> str:
        """Return the class of an output, if there are several outputs."""
        return self.classes[output] if self.parts.n_outputs > 1 else ""

    @property
    def scored_in(self) -> str:
        target = self.model.domain.target
        if not isinstance(target, ClassTarget):
            return f"log of {target.name}" if target.scale == "log" else target.name
        return self.model.scores.unit

    @cached_property
    def noise(self) -> tuple[np.ndarray, ...] | None:
        """The standard deviation of the effects of features, if known."""
        return self.parts.noise if self.model.scores.knows_noise(self.model) else None

    @cached_property
    def step(self) -> float:
        """The size of a score step in units of effects."""
        return effect_unit(self.model)

    def level(self, scores: np.ndarray) -> np.ndarray:
        """Return whole scores; those of a number are relative to the middle of its range."""
        found: np.ndarray = self.model.middle_and_half[0] + scores * self.step
        return found

    @cached_property
    def start(self) -> np.ndarray:
        return self.level(self.parts.start)

    def by_row(self, values: np.ndarray) -> np.ndarray:
        """Return (terms, outputs, rows) as (rows, terms), or (rows, terms, outputs) of several."""
        turned = np.moveaxis(values, 2, 0) * self.step
        return turned[:, :, 0] if turned.shape[2] == 1 else turned

    @cached_property
    def _released(self) -> tuple[np.ndarray, ...] | None:
        try:
            return self.model.scores.code_probabilities()
        except AttributeError:  # no mass was released
            return None

    @property
    def weights(self) -> str:
        return EVEN if self._released is None else RELEASED

    @cached_property
    def probabilities(self) -> tuple[np.ndarray, ...]:
        """The probability of each code; even for declared values where no mass was released."""
        if self._released is not None:
            return self._released
        return tuple(
            _even(codes, 2 if isinstance(feature, CategoricalFeature) else 1)
            for codes, feature in zip(
                self.encoder.layout.n_codes, self.model.domain.features, strict=True
            )
        )


def _even(codes: int, undeclared: int) -> np.ndarray:
    found = np.zeros(codes)
    found[: codes - undeclared] = 1 / (codes - undeclared)
    return found


def _importance(view: _View) -> Importance:
    scores = view.model.scores
    if view.weights == EVEN:
        return Importance(view.names, _movements(view), None, view.model.privacy.public_rows)
    stds = _floats(scores.importance_errors()) if scores.has_errors else None
    return Importance(view.names, _floats(scores.importances()), stds, True)


def _movements(view: _View) -> tuple[float, ...]:
    """Return each feature's share in the variance of the scores of evenly drawn rows."""
    rows, others = draw_rows(view.probabilities)
    layout, moved = view.encoder.layout, np.zeros(len(rows))
    before = view.model.scores.scores(Codes.of(layout, rows)).astype(np.float64)
    for feature in range(len(rows)):
        changed = rows.copy()
        changed[feature] = others[feature]
        after = view.model.scores.scores(Codes.of(layout, changed))
        moved[feature] = ((after - before) ** 2).mean(axis=1).sum()
    return _floats(moved / moved.sum() if moved.any() else moved)


def _shapes(view: _View) -> Iterator[Shape]:
    """Yield the shapes of features with an effect of their own."""
    masses = view.model.scores.code_masses()
    for k, table in enumerate(view.parts.tables):
        if not (table.any() or view.model.scores.has_shapes):
            continue
        for output, values in enumerate(table):
            noise = None if view.noise is None else view.noise[k][output]
            by_code = values[None] if noise is None else np.stack([values, noise])
            first = _first_codes(view, k, by_code)
            mass = None if masses is None else masses[k][output]
            yield Shape(
                _spans(view, k, by_code),
                _floats(values[first] * view.step),
                None if noise is None else _floats(noise[first] * view.step),
                None if mass is None else _floats(np.add.reduceat(mass, first)),
                view.of(output),
            )


def _first_codes(view: _View, feature: int, by_code: np.ndarray) -> np.ndarray:
    """Return the first code of each bin, after merging neighbours with equal values by code."""
    codes = np.arange(by_code.shape[1])
    if isinstance(view.model.domain.features[feature], CategoricalFeature):
        return codes
    new = np.ones(len(codes), dtype=bool)
    new[1:-1] = (np.diff(by_code[:, :-1], axis=1) != 0).any(axis=0)
    return codes[new]


def _spans(view: _View, feature: int, by_code: np.ndarray) -> Spans:
    """Return the bins of a feature, split wherever a released effect changes."""
    declared, edges = view.model.domain.features[feature], view.encoder.edges[feature]
    if isinstance(declared, CategoricalFeature):
        return Spans(declared.name, (*map(str, declared.categories), "other", "missing"))
    first = _first_codes(view, feature, by_code)[:-1]
    low, high = declared.number.bounds
    ends = (float(low), *_floats(edges[first[1:] - 1]), float(high))
    number = np.zeros(by_code.shape[1], dtype=np.int64)
    number[first] = 1
    texts = [own for own, _ in view.encoder.spans(feature, np.cumsum(number))]
    log = declared.number.scale == "log"
    names = declared.names if isinstance(declared, BooleanFeature | OrdinalFeature) else ()
    return Spans(declared.name, tuple(texts), ends, log, _unit_of_edges(declared), names)


def _unit_of_edges(feature: OrderedFeature) -> str:
    if isinstance(feature, DateFeature):
        return DAYS if feature.step == DAY else INSTANTS
    return SECONDS if isinstance(feature, DurationFeature) else ""


def _pair(view: _View, pair: JointTable) -> Pair:
    assert pair.output is not None
    assert pair.noise is not None
    sides, cells = [], []
    for feature, cell_of in zip(pair.features, pair.cell_of, strict=True):
        by_code = cell_of[None].astype(np.int64)
        sides.append(_spans(view, feature, by_code))
        cells.append(cell_of[_first_codes(view, feature, by_code)])
    grid = np.ix_(*cells)
    effects, stds = (
        tuple(map(_floats, own[grid] * view.step)) for own in (pair.values[pair.output], pair.noise)
    )
    return Pair(sides[0], sides[1], effects, stds, view.of(pair.output))


def _trees(view: _View) -> Iterator[TreeSummary]:
    """Yield the trees of several features, once for each output with values."""
    for tree in view.parts.trees:
        outputs = [k for k, values in enumerate(tree.values) if values.any()]
        for output in outputs:
            yield TreeSummary(tree.number + 1, _node(view, tree, output, 0, {}), view.of(output))


def _node(
    view: _View, tree: JointTree, output: int, node: int, reach: dict[int, np.ndarray]
) -> Split | Leaf:
    """Return the subtree of a node; leaves are numbered after the inner nodes.

    Splits that send all codes that reach them to one side are left out.
    """
    own, inner = tree.tree, len(tree.tree.feature)
    if node >= inner:
        leaf = node - inner
        return Leaf(
            float(tree.values[output, leaf] * view.step),
            None if tree.noise is None else float(tree.noise[output, leaf] * view.step),
            None if tree.mass is None else float(tree.mass[output, leaf]),
        )
    feature = int(own.feature[node])
    goes_right = own.goes_right[node, : view.encoder.layout.n_codes[feature]]
    arriving = reach.get(feature, np.ones(len(goes_right), dtype=bool))
    children = [
        (2 * node + 1 + side, reach | {feature: arriving & (goes_right == side)})
        for side in (0, 1)
        if (arriving & (goes_right == side)).any()
    ]
    below = [_node(view, tree, output, child, open_) for child, open_ in children]
    if len(below) == 1:
        return below[0]
    left, right = conditions(view.encoder, feature, goes_right)
    return Split(view.names[feature], left, right, (below[0], below[1]))


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())
