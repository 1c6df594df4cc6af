"""Models in other forms: text for people."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from privboost.explanations.lists import INTERCEPT
from privboost.forms import in_quotes, listed
from privboost.grid import SCORE_STEPS, VOTE
from privboost.models.linear import LinearScores
from privboost.models.model import Model
from privboost.models.trees import TreeScores
from privboost.models.votes import OddsVotes, VoteScores
from privboost.tables.encoding import Encoder
from privboost.tables.features import (
    BooleanFeature,
    CategoricalFeature,
    ClassTarget,
    DateFeature,
    DurationFeature,
    Feature,
    OrdinalFeature,
)
from privboost.tables.times import DAY
from privboost.trees.tree import Tree


def model_text(model: Model, most_trees: int | None = None) -> str:
    """Write a model in words; see `Model.to_text`."""
    scores = model.scores
    if isinstance(scores, LinearScores):
        return _coefficients_text(model)
    if isinstance(scores, VoteScores) and scores.of_rules:
        return _card_text(model)
    assert isinstance(scores, TreeScores)
    return _trees_text(model, scores, most_trees)


def _trees_text(model: Model, scores: TreeScores, most_trees: int | None) -> str:
    """Write trees as conditions and leaves."""
    target = model.domain.target
    classes = isinstance(target, ClassTarget)
    middle, width = model.middle_and_half
    names = (
        [in_quotes(name) for name in model.classes] if classes and scores.n_outputs > 1 else [""]
    )
    start = ", ".join(
        f"{name}{': ' if name else ''}{value / SCORE_STEPS:+.4g}"
        for name, value in zip(names, scores.start, strict=True)
    )
    lines = [f"score at the start {start}"]
    if not isinstance(target, ClassTarget):
        first = middle + width * scores.start[0] / SCORE_STEPS
        lines = [f"{'log of the ' * (target.scale == 'log')}prediction at the start {first:.6g}"]
    for number, (tree, values) in enumerate(islice(scores.trees(), most_trees), 1):
        own = [k for k in range(len(values)) if values[k].any()] or [0]
        for output in own:
            of = f" of class {names[output]}" if names[output] else ""
            lines.append(f"tree {number}{of}")
            lines += _branch(model.encoder, tree, values[output] * width / SCORE_STEPS, 0, 1)
    if most_trees is not None and most_trees < scores.n_trees:
        lines.append(f"… and {scores.n_trees - most_trees} trees more")
    return "\n".join([*lines, *_worth_of_votes(model)])


def vote_card(model: Model) -> pa.Table:
    """Write a vote of rules as a table; see `Model.explain`."""
    scores = model.scores
    if not isinstance(scores, VoteScores):
        raise AttributeError("only votes of rules have a card; see effects()")
    if not scores.of_rules:
        raise AttributeError("only votes of rules have a card; these are trees: see to_text()")
    votes: Counter[tuple[int, str, str]] = Counter()
    for tree, values in scores.trees():
        output = int(np.abs(values).max(axis=1).argmax())
        feature, turns = int(tree.feature[0]), tree.goes_right[0]
        if turns[: model.encoder.layout.n_codes[feature]].any():
            name = model.domain.features[feature].name
            words = conditions(model.encoder, feature, turns)[1].removeprefix(f"{name} ")
            votes[output, name, words] += int(values[output, 1]) // VOTE
        else:
            votes[output, "(every row)", ""] += int(values[output, 0]) // VOTE
    lines = sorted((-abs(count), key) for key, count in votes.items() if count)
    columns: dict[str, list[Any]] = {
        "votes": [votes[key] for _, key in lines],
        "feature": [name for _, (_, name, _) in lines],
        "value": [words for _, (_, _, words) in lines],
    }
    if scores.n_outputs > 1:
        columns["class"] = [model.classes[output] for _, (output, _, _) in lines]
    return pa.table(columns)


def _card_text(model: Model) -> str:
    """Write a vote of rules as a card."""
    several = model.scores.n_outputs > 1
    lines = [
        f"{line['votes']:+5d}  {line['feature']} {line['value']}".rstrip()
        + (f"  (for {line['class']})" if several else "")
        for line in vote_card(model).to_pylist()
    ]
    wins = "the class with the most votes" if several else f"{model.classes[1]} with more than 0"
    wins = "" if isinstance(model.scores, OddsVotes) else f"; {wins} wins"
    ends = [f"votes count against where a line does not hold{wins}", *_worth_of_votes(model)]
    return "\n".join(["votes", *lines, *ends])


def _worth_of_votes(model: Model) -> list[str]:
    """Say what votes mean, where it was released."""
    scores = model.scores
    if not isinstance(scores, OddsVotes):
        return []
    names = model.classes if scores.n_outputs > 1 else model.classes[1:]
    return [
        f"log-odds of {name}: {start:+.4g}, and {worth:.4g} for each vote"
        for name, start, worth in zip(
            names, scores.start / SCORE_STEPS, scores.worth / SCORE_STEPS, strict=True
        )
    ]


def coefficient_table(model: Model) -> pa.Table:
    """Write a linear model as a table; see `Model.coefficients`."""
    scores, target = model.scores, model.domain.target
    if not isinstance(scores, LinearScores):
        raise AttributeError("coefficients: only linear models have them; see effects()")
    with np.errstate(over="ignore", invalid="ignore"):  # bounds may be any numbers
        own = scores.on_own_scale()
        if not isinstance(target, ClassTarget):
            middle, half = model.middle_and_half
            own = own * half
            constant = [own.feature == INTERCEPT for own in scores.coordinates]
            own[:, constant] += middle
    columns: dict[str, list[Any]] = {
        "feature": [one.feature for one in scores.coordinates] * len(own),
        "value": [one.value for one in scores.coordinates] * len(own),
        "coefficient": own.reshape(-1).tolist(),
    }
    if len(own) > 1:
        columns["class"] = [name for name in model.classes for _ in scores.coordinates]
    return pa.table(columns)


def coefficient_units(model: Model) -> list[str]:
    """Say for each line of `coefficient_table` for how much of a number it is; else nothing."""
    scores = model.scores
    assert isinstance(scores, LinearScores)
    declared = {feature.name: feature for feature in model.domain.features}
    units = [_unit(declared.get(one.feature)) if one.slope else "" for one in scores.coordinates]
    return units * scores.n_outputs


def _unit(feature: Feature | None) -> str:
    match feature:
        case DateFeature():
            return "per day" if feature.step == DAY else "per second"
        case DurationFeature():
            return "per second"
        case OrdinalFeature():
            return "per rank"
        case BooleanFeature():
            return "is true"
        case _:
            return "per 1"


def _coefficients_text(model: Model) -> str:
    """Write a linear model as a list of coefficients."""
    lines = [
        f"{line['coefficient']:+12.5g}  {line['feature']} {per or line['value']}".rstrip()
        + (f"  (for {line['class']})" if "class" in line else "")
        for line, per in zip(
            coefficient_table(model).to_pylist(), coefficient_units(model), strict=True
        )
    ]
    return "\n".join(["coefficients", *lines])


def _branch(encoder: Encoder, tree: Tree, values: np.ndarray, node: int, depth: int) -> list[str]:
    """Write the part of a tree below a node; leaves are numbered after the inner nodes."""
    inner, indent = len(tree.feature), "  " * depth
    if node >= inner:
        return [f"{indent}{values[node - inner]:+.4g}"]
    turns = tree.goes_right[node]
    if not turns[: encoder.layout.n_codes[tree.feature[node]]].any():
        return _branch(encoder, tree, values, 2 * node + 1, depth)
    left, right = conditions(encoder, int(tree.feature[node]), turns)
    return [
        f"{indent}{left}",
        *_branch(encoder, tree, values, 2 * node + 1, depth + 1),
        f"{indent}{right}",
        *_branch(encoder, tree, values, 2 * node + 2, depth + 1),
    ]


def conditions(encoder: Encoder, feature: int, turns: np.ndarray) -> tuple[str, str]:
    """Say which values of a feature go left, and which right."""
    declared = encoder.domain.features[feature]
    turns = turns[: encoder.layout.n_codes[feature]]
    missing = ", or missing"
    if isinstance(declared, CategoricalFeature):
        names = [*map(str, declared.categories), "other", "missing"]
        chosen = [name for name, turn in zip(names, turns, strict=True) if turn]
        others = [name for name, turn in zip(names, turns, strict=True) if not turn]
        if len(chosen) <= len(others) or not others:
            there, elsewhere = _one_of(chosen)
            return f"{declared.name} {elsewhere}", f"{declared.name} {there}"
        there, elsewhere = _one_of(others)
        return f"{declared.name} {there}", f"{declared.name} {elsewhere}"
    values = turns[:-1]
    on_right = missing if turns[-1] else ""
    on_left = "" if turns[-1] else missing
    if not values.any():
        return f"{declared.name} is there", f"{declared.name} is missing"
    if values.all() and not turns[-1]:
        return f"{declared.name} is missing", f"{declared.name} is there"
    if isinstance(declared, BooleanFeature) and not values.all():
        own, other = declared.names[:: 1 if values[0] else -1]
        return f"{declared.name} is {other}{on_left}", f"{declared.name} is {own}{on_right}"
    name, right = declared.name, np.flatnonzero(values)
    first, last = int(right[0]), int(right[-1])
    low = encoder.edge(feature, first - 1) if first else "-inf"
    if last == len(values) - 1:
        return f"{name} ≤ {low}{on_left}", f"{name} > {low}{on_right}"
    high = encoder.edge(feature, last)
    if first == 0:
        return f"{name} > {high}{on_left}", f"{name} ≤ {high}{on_right}"
    outside, inside = f"≤ {low} or > {high}", f"> {low} and ≤ {high}"
    return f"{name} {outside}{on_left}", f"{name} {inside}{on_right}"


def _one_of(names: list[str]) -> tuple[str, str]:
    """Say that a value is one of these, and that it is not."""
    if len(names) == 1:
        own = in_quotes(names[0])
        return f"is {own}", f"is not {own}"
    said = listed(names)
    return f"is one of: {said}", f"is none of: {said}"
