"""Explanations of a model and of rows; see `Model.explain_global` and `Model.explain_local`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from privboost._core.grid import BLOCK_ROWS
from privboost.data.features import CategoricalFeature, Feature, OrderedFeature
from privboost.data.rows import Codes
from privboost.data.sources import check_columns_present, open_table
from privboost.data.targets import ClassTarget
from privboost.explanations.explanation import Explanation, LocalExplanation
from privboost.explanations.spans import COUNTS, Spans
from privboost.explanations.terms import Importance, Leaf, Pair, Shape, Split, TreeSummary
from privboost.models.findings import find
from privboost.models.parts import JointTable, JointTree, ScoreParts, Shapley
from privboost.models.scores import ModelView, draw_rows, effect_unit
from privboost.models.trees import conditions

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
        model.scale_ if model.scores.time_scale is not None else None,
    )


def explain_rows(model: ModelView, data: Any) -> LocalExplanation:
    """Return the explanation of rows; see `Model.explain_local`."""
    view = _View(model)
    parts, codes = view.parts, view.model.encoder.layout.n_codes
    shapley = Shapley(parts, view.probabilities)
    terms = [*view.names, *(" × ".join(view.names[k] for k in p.features) for p in parts.pairs)]
    terms += ["trees"] * bool(parts.trees)
    no_rows = Codes.empty(view.model.encoder.layout, 0), np.empty((0, len(codes)))
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
        tuple(_spans(view, k, np.arange(n)[None])[0].words for k, n in enumerate(codes)),
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
            if isinstance(feature, OrderedFeature) and not feature.labels:
                own = feature.read(batch[feature.name])
                numbers[:, k] = np.clip(own, *feature.number.bounds)
        yield view.model.encoder.code(batch), numbers


def _number_format(feature: Feature) -> Callable[[float], str] | None:
    """Return the format of a feature's numbers, if its codes are bins of numbers or dates."""
    if isinstance(feature, OrderedFeature) and not feature.labels:
        return feature.format_value
    return None


@dataclass(frozen=True, eq=False)
class _View:
    """A model with the quantities that all parts of an explanation need."""

    model: ModelView

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
            return f"log of {target.name}" if self.model.scale_name == "log" else target.name
        if self.model.link == "softmax":
            return f"{self.model.scores.unit} against the mean of all classes"
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
        found = []
        for k, codes in enumerate(self.model.encoder.layout.n_codes):
            declared = codes - (1 if self.model.domain.features[k].ordered else 2)
            found.append(np.repeat([1 / declared, 0.0], [declared, codes - declared]))
        return tuple(found)


def _importance(view: _View) -> Importance:
    scores = view.model.scores
    if view.weights == EVEN:
        return Importance(view.names, _movements(view), None, view.model.privacy.public_rows)
    stds = _floats(scores.importance_errors()) if scores.has_errors else None
    return Importance(view.names, _floats(scores.importances()), stds, True)


def _movements(view: _View) -> tuple[float, ...]:
    """Return each feature's share in the variance of the scores of evenly drawn rows."""
    rows, others = draw_rows(view.probabilities)
    layout, moved = view.model.encoder.layout, np.zeros(len(rows))
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
            spans, first = _spans(view, k, by_code)
            mass = None if masses is None else masses[k][output]
            yield Shape(
                spans,
                _floats(values[first] * view.step),
                None if noise is None else _floats(noise[first] * view.step),
                None if mass is None else _floats(np.add.reduceat(mass, first)),
                view.of(output),
            )


def _spans(view: _View, feature: int, by_code: np.ndarray) -> tuple[Spans, np.ndarray]:
    """Return the bins of a feature, split wherever a released effect changes, and their codes.

    Each bin's code is its first.
    """
    declared, codes = view.model.domain.features[feature], np.arange(by_code.shape[1])
    if isinstance(declared, CategoricalFeature):
        return Spans(declared.name, (*map(str, declared.categories), "other", "missing")), codes
    new = np.ones(len(codes), dtype=bool)
    new[1:-1] = (np.diff(by_code[:, :-1], axis=1) != 0).any(axis=0)
    first, (low, high) = codes[new], declared.number.bounds
    inner = view.model.encoder.edges[feature][first[1:-1] - 1]
    ends = (float(low), *_floats(inner), float(high))
    texts = tuple(own for own, _ in view.model.encoder.spans(feature, np.cumsum(new)))
    log, unit = declared.number.scale == "log", COUNTS[declared.counted_in]
    return Spans(declared.name, texts, ends, log, unit, declared.names), first


def _pair(view: _View, pair: JointTable) -> Pair:
    assert pair.output is not None
    assert pair.noise is not None
    sides, cells = [], []
    for feature, cell_of in zip(pair.features, pair.cell_of, strict=True):
        spans, first = _spans(view, feature, cell_of[None].astype(np.int64))
        sides.append(spans)
        cells.append(cell_of[first])
    grid = np.ix_(*cells)
    effects, stds = (
        tuple(map(_floats, own[grid] * view.step)) for own in (pair.values[pair.output], pair.noise)
    )
    return Pair(sides[0], sides[1], effects, stds, view.of(pair.output))


def _trees(view: _View) -> Iterator[TreeSummary]:
    """Yield the trees of several features, once for each output with values."""
    for tree in view.parts.trees:
        for output in np.flatnonzero(tree.values.any(axis=1)).tolist():
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
    goes_right = own.goes_right[node, : view.model.encoder.layout.n_codes[feature]]
    arriving = reach.get(feature, np.ones(len(goes_right), dtype=bool))
    children = [
        (2 * node + 1 + side, reach | {feature: arriving & (goes_right == side)})
        for side in (0, 1)
        if (arriving & (goes_right == side)).any()
    ]
    below = [_node(view, tree, output, child, open_) for child, open_ in children]
    if len(below) == 1:
        return below[0]
    left, right = conditions(view.model.encoder, feature, goes_right)
    return Split(view.names[feature], left, right, (below[0], below[1]))


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())
