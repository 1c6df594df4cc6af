"""From a model to what it says of itself; see `Model.explain_global` and `Model.explain_local`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from privboost.explanations.explanation import Explanation
from privboost.explanations.lists import (
    INTERCEPT,
    Card,
    Coefficient,
    Coefficients,
    Importance,
    Rule,
)
from privboost.explanations.local import LocalExplanation
from privboost.explanations.shapes import Pair, Shape
from privboost.explanations.spans import DAYS, INSTANTS, SECONDS, Spans
from privboost.explanations.tree_cards import Leaf, Split, TreeCard
from privboost.grid import BLOCK_ROWS, SCORE_STEPS
from privboost.models.additive import AdditiveScores
from privboost.models.compound import CompoundScores
from privboost.models.export import (
    coefficient_table,
    coefficient_units,
    conditions,
    vote_card,
)
from privboost.models.importance import draw_rows
from privboost.models.linear import MISSING, LinearScores
from privboost.models.model import Model
from privboost.models.pairs import PairValues
from privboost.models.parts import JointTree
from privboost.models.shapley import Shapley
from privboost.models.votes import OddsVotes, VoteScores
from privboost.tables.features import (
    BooleanFeature,
    CategoricalFeature,
    ClassTarget,
    DateFeature,
    DurationFeature,
    Feature,
    NumericFeature,
    OrderedFeature,
    OrdinalFeature,
)
from privboost.tables.rows import Codes
from privboost.tables.sources import need_columns, open_table
from privboost.tables.times import DAY

RELEASED, EVEN = "released", "even"
"""By what values are weighted."""


def explain_model(model: Model) -> Explanation:
    """Say what a model has learned; see `Model.explain_global`."""
    view = _View(model)
    return Explanation(
        model.domain.target.name,
        view.scored_in,
        view.classes,
        tuple(view.start.tolist()),
        view.weights,
        _importance(view),
        tuple(_shapes(view)),
        tuple(_pairs(view)),
        tuple(_trees(view)),
        _coefficients(view),
        _card(view),
        model.findings(),
    )


def explain_rows(model: Model, data: Any) -> LocalExplanation:
    """Say why rows have the scores that they have; see `Model.explain_local`."""
    view = _View(model)
    parts, codes = view.parts, view.encoder.layout.n_codes
    shapley = Shapley(parts, view.chances)
    terms = [*view.names, *(" × ".join(view.names[k] for k in p.features) for p in parts.pairs)]
    terms += ["trees"] * bool(parts.trees)
    nobody = Codes.empty(view.encoder.layout, 0), np.empty((0, len(codes)))
    added, moved, read, numbers = [], [], [np.empty((0, len(codes)), dtype=np.uint16)], []
    for block, counted in chain([nobody], _blocks(view, data)):
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
        tuple(map(_writer, model.domain.features)),
    )


def _blocks(view: _View, data: Any) -> Iterator[tuple[Codes, np.ndarray]]:
    """Yield rows as codes, with what is counted of them as numbers, of shape (rows, features)."""
    names, features = view.names, view.model.domain.features
    table = open_table(data, names, every_line=True)
    need_columns(table, names)
    for batch in table.batches(names, BLOCK_ROWS):
        numbers = np.full((len(batch[names[0]]), len(names)), np.nan)
        for k, feature in enumerate(features):
            if isinstance(feature, NumericFeature | DateFeature):
                own = feature.read(batch[feature.name])
                numbers[:, k] = np.clip(own, *feature.number.bounds)
        yield view.encoder.code(batch), numbers


def _writer(feature: Feature) -> Callable[[float], str] | None:
    """Return how numbers of a feature are written, where its codes are spans of them."""
    return feature.format_value if isinstance(feature, NumericFeature | DateFeature) else None


@dataclass(frozen=True, eq=False)
class _View:
    """A model, with what explanations of every kind look at."""

    model: Model

    @property
    def encoder(self) -> Any:
        return self.model.encoder

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.model.domain.feature_names)

    @cached_property
    def parts(self) -> Any:
        """All that adds up to a score.

        The level of what a feature adds means nothing, so where it is known how many rows have
        which value, it goes to the start. A linear model has its own zero, the middle of bounds,
        from where its coefficients and their errors count.
        """
        own = self.model.scores.parts()
        if self.weights == EVEN or isinstance(self.model.scores, LinearScores):
            return own
        return own.centred(self.chances)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Whose scores there are."""
        if not isinstance(self.model.domain.target, ClassTarget):
            return ()
        named = tuple(map(str, self.model.classes))
        return named if self.parts.n_outputs > 1 else named[1:]

    def of(self, output: int) -> str:
        """Return the class of an output, where there are several."""
        return self.classes[output] if self.parts.n_outputs > 1 else ""

    @property
    def scored_in(self) -> str:
        scores, target = self.model.scores, self.model.domain.target
        if not isinstance(target, ClassTarget):
            return f"log of {target.name}" if target.scale == "log" else target.name
        if isinstance(scores, VoteScores) and not isinstance(scores, OddsVotes):
            return "votes"
        return "log-odds" if scores.log_odds else "score"

    @property
    def adds_alone(self) -> bool:
        """Whether every feature has a place of its own, whatever it adds."""
        return isinstance(self.model.scores, AdditiveScores | CompoundScores | LinearScores)

    @cached_property
    def noise(self) -> tuple[np.ndarray, ...] | None:
        """What noise gives to what features add alone, where it can be told.

        Not of a linear model of an earlier version whose scores were put on a released line: the
        error of its slope, the largest for strong coefficients, is not in what it kept.
        """
        scores = self.model.scores
        on_line = self.model.privacy.parameters.get("calibration_share") != 0
        if isinstance(scores, LinearScores) and on_line and not scores.knows_line:
            return None
        found: tuple[np.ndarray, ...] | None = self.parts.noise
        return found

    @cached_property
    def step(self) -> float:
        """What a score step is worth; of a number, on the scale on which its errors count."""
        return self.model.middle_and_half[1] / SCORE_STEPS

    def level(self, scores: np.ndarray) -> np.ndarray:
        """Return whole scores, of which a number's begin in the middle of its span."""
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
            return self.model.scores.chances()
        except AttributeError:  # nothing was released about how many rows have which value
            return None

    @property
    def weights(self) -> str:
        return EVEN if self._released is None else RELEASED

    @cached_property
    def chances(self) -> tuple[np.ndarray, ...]:
        """How likely the codes of each feature are; even for declared values, if nobody knows."""
        if self._released is not None:
            return self._released
        return tuple(
            _even(codes, 2 if isinstance(feature, CategoricalFeature) else 1)
            for codes, feature in zip(
                self.encoder.layout.n_codes, self.model.domain.features, strict=True
            )
        )


def _even(codes: int, undeclared: int) -> np.ndarray:
    chances = np.zeros(codes)
    chances[: codes - undeclared] = 1 / (codes - undeclared)
    return chances


def _importance(view: _View) -> Importance:
    if view.weights == EVEN:
        return Importance(view.names, _movements(view), None, view.model.privacy.public_rows)
    model = view.model
    if not model.has_errors:
        return Importance(view.names, tuple(model.feature_importances().tolist()), None, True)
    shares, stds = model.feature_importances(return_std=True)
    return Importance(view.names, tuple(shares.tolist()), tuple(stds.tolist()), True)


def _movements(view: _View) -> tuple[float, ...]:
    """Return the variance that each feature brings into the scores of rows drawn evenly."""
    rows, others = draw_rows(view.chances)
    layout, moved = view.encoder.layout, np.zeros(len(rows))
    before = view.model.scores.scores(Codes.of(layout, rows)).astype(np.float64)
    for feature in range(len(rows)):
        changed = rows.copy()
        changed[feature] = others[feature]
        after = view.model.scores.scores(Codes.of(layout, changed))
        moved[feature] = ((after - before) ** 2).mean(axis=1).sum()
    return tuple((moved / moved.sum() if moved.any() else moved).tolist())


def _shapes(view: _View) -> Iterator[Shape]:
    """Write out features that anything looks at alone."""
    masses = _masses(view)
    for k, table in enumerate(view.parts.tables):
        if not (table.any() or view.adds_alone):
            continue
        for output, values in enumerate(table):
            noise = None if view.noise is None else view.noise[k][output]
            told = values[None] if noise is None else np.stack([values, noise])
            first = _first_codes(view, k, told)
            mass = None if masses is None else masses[k][output]
            yield Shape(
                _spans(view, k, told),
                _floats(values[first] * view.step),
                None if noise is None else _floats(noise[first] * view.step),
                None if mass is None else _floats(np.add.reduceat(mass, first)),
                view.of(output),
            )


def _masses(view: _View) -> tuple[np.ndarray, ...] | None:
    """Return what was released about each code of each feature, where it was about codes."""
    scores = view.model.scores
    alone = scores.alone if isinstance(scores, CompoundScores) else scores
    return alone.mass if isinstance(alone, AdditiveScores) else None


def _first_codes(view: _View, feature: int, told: np.ndarray) -> np.ndarray:
    """Return where spans begin: neighbouring bins of a number of which the same is told are one."""
    codes = np.arange(told.shape[1])
    if isinstance(view.model.domain.features[feature], CategoricalFeature):
        return codes
    new = np.ones(len(codes), dtype=bool)
    new[1:-1] = (np.diff(told[:, :-1], axis=1) != 0).any(axis=0)
    return codes[new]


def _spans(view: _View, feature: int, told: np.ndarray) -> Spans:
    """Return the spans of a feature that what is told parts."""
    declared, edges = view.model.domain.features[feature], view.encoder.edges[feature]
    if isinstance(declared, CategoricalFeature):
        return Spans(declared.name, (*map(str, declared.categories), "other", "missing"))
    first = _first_codes(view, feature, told)[:-1]
    low, high = declared.number.bounds
    ends = (float(low), *_floats(edges[first[1:] - 1]), float(high))
    number = np.zeros(told.shape[1], dtype=np.int64)
    number[first] = 1
    words = [own for own, _ in view.encoder.spans(feature, np.cumsum(number))]
    log = declared.number.scale == "log"
    names = declared.names if isinstance(declared, BooleanFeature | OrdinalFeature) else ()
    return Spans(declared.name, tuple(words), ends, log, _counted(declared), names)


def _counted(feature: OrderedFeature) -> str:
    """Say what the numbers of a feature count."""
    if isinstance(feature, DateFeature):
        return DAYS if feature.step == DAY else INSTANTS
    return SECONDS if isinstance(feature, DurationFeature) else ""


def _pairs(view: _View) -> Iterator[Pair]:
    scores = view.model.scores
    if isinstance(scores, CompoundScores):
        for pair, joint in zip(scores.pairs, view.parts.pairs, strict=True):
            yield _pair(view, pair, joint.values[pair.output])


def _pair(view: _View, pair: PairValues, values: np.ndarray) -> Pair:
    sides, cells = [], []
    for feature, cell_of in zip(pair.features, pair.cell_of, strict=True):
        told = cell_of[None].astype(np.int64)
        sides.append(_spans(view, feature, told))
        cells.append(cell_of[_first_codes(view, feature, told)])
    grid = np.ix_(*cells)
    effects, stds = (tuple(map(_floats, own[grid] * view.step)) for own in (values, pair.noise))
    return Pair(sides[0], sides[1], effects, stds, view.of(pair.output))


def _trees(view: _View) -> Iterator[TreeCard]:
    """Write out trees that join features, once for each output that they add to."""
    for tree in view.parts.trees:
        outputs = [k for k, values in enumerate(tree.values) if values.any()]
        for output in outputs:
            yield TreeCard(tree.number + 1, _node(view, tree, output, 0, {}), view.of(output))


def _node(
    view: _View, tree: JointTree, output: int, node: int, reach: dict[int, np.ndarray]
) -> Split | Leaf:
    """Write out what lies at a node and below; leaves are numbered after the inner nodes.

    Splits at which all codes that the way here leaves open go one way are left out.
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
    turns = own.goes_right[node, : view.encoder.layout.n_codes[feature]]
    came = reach.get(feature, np.ones(len(turns), dtype=bool))
    children = [
        (2 * node + 1 + side, reach | {feature: came & (turns == side)})
        for side in (0, 1)
        if (came & (turns == side)).any()
    ]
    below = [_node(view, tree, output, child, open_) for child, open_ in children]
    if len(below) == 1:
        return below[0]
    left, right = conditions(view.encoder, feature, turns)
    return Split(view.names[feature], left, right, (below[0], below[1]))


def _coefficients(view: _View) -> Coefficients | None:
    scores = view.model.scores
    if not isinstance(scores, LinearScores):
        return None
    stds = _coefficient_errors(view, scores)
    lines = coefficient_table(view.model).to_pylist()
    return Coefficients(
        tuple(
            Coefficient(
                line["feature"],
                line["value"],
                line["coefficient"],
                std,
                str(line["class"]) if "class" in line else "",
                per,
            )
            for line, std, per in zip(lines, stds, coefficient_units(view.model), strict=True)
        )
    )


def _coefficient_errors(view: _View, scores: LinearScores) -> list[float | None]:
    """Return what noise gives to coefficients on the scale of the table.

    That of the intercept, and of a missing number, stands for others as well: how their errors go
    together is not kept.
    """
    if scores.noise is None or view.noise is None:
        return [None] * scores.coefficients.size
    numbers = {own.feature for own in scores.coordinates if own.slope}
    return [
        None
        if own.feature == INTERCEPT or (own.value == MISSING and own.feature in numbers)
        else float(noise) * scores.scale * abs(own.slope or 1.0) * view.step  # perhaps infinite
        for by_output in scores.noise_by_output
        for own, noise in zip(scores.coordinates, by_output, strict=True)
    ]


def _card(view: _View) -> Card | None:
    scores = view.model.scores
    if not (isinstance(scores, VoteScores) and scores.of_rules):
        return None
    return Card(
        tuple(
            Rule(line["votes"], line["feature"], line["value"], str(line.get("class", "")))
            for line in vote_card(view.model).to_pylist()
        )
    )


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())
