"""A model as one SELECT, of nothing but sums, CASE and subqueries of one row."""

from __future__ import annotations

from privboost.export.formula import Formula
from privboost.export.names import free_name
from privboost.export.sql_cases import case, identifier, number, sum_of, text
from privboost.export.sql_joint import joint_score
from privboost.grid import SCORE_STEPS
from privboost.models.model import Model
from privboost.tables.features import ClassTarget

_MOST = 700
"""Of exponents: what is further off makes no difference that a double could hold."""


def sql_text(model: Model, table: str = "rows") -> str:
    """Write a model as a SELECT that adds columns to a table.

    They are `prediction` and, for classes, scores and (where scores are log-odds) probabilities.

    Parameters
    ----------
    table : str
        The name of the table.
    """
    formula = Formula.of(model)
    taken = set(model.domain.feature_names)
    named = [identifier(free_name(name, taken)) for name in _score_names(model)]
    scores = [_score(formula, output) for output in range(len(formula.start))]
    inner = ",\n  ".join(
        f"({score}) / {number(SCORE_STEPS)} AS {name}"
        for name, score in zip(named, scores, strict=True)
    )
    outer = ",\n  ".join(
        f"{what} AS {identifier(free_name(name, taken))}"
        for name, what in _results(model, named).items()
    )
    return (
        f"-- A model of {model.domain.target.name}, written by privboost. "
        f"{' '.join(model.privacy.guarantee.split())}\n"
        f"SELECT *,\n  {outer}\nFROM (SELECT *,\n  {inner}\nFROM {identifier(table)}) AS scored\n"
    )


def _score_names(model: Model) -> list[str]:
    """Return names that no column of a table has by chance: one would be taken for the score."""
    if not isinstance(model.domain.target, ClassTarget):
        return ["privboost score"]
    classes = model.classes if model.scores.n_outputs > 1 else model.classes[1:]
    return [f"privboost score of {label}" for label in classes]


def _score(formula: Formula, output: int) -> str:
    """Write one score of a row, in whole steps."""
    terms = [str(int(formula.start[output]))]
    for reading, own in zip(formula.readings, formula.alone, strict=True):
        terms.append(case(reading, [str(int(value)) for value in own[output]]))
    terms.append(joint_score(formula, output))
    return sum_of([term for term in terms if term not in ("0", "")] or ["0"])


def _results(model: Model, scores: list[str]) -> dict[str, str]:
    """Return what scores mean, under the names of columns."""
    target = model.domain.target
    if not isinstance(target, ClassTarget):
        (middle, half), (low, high) = model.middle_and_half, model.scaled_bounds
        found = f"{number(middle)} + {number(half)} * {scores[0]}"
        clipped = f"CASE WHEN {found} < {number(low)} THEN {number(low)}"
        clipped += f" WHEN {found} > {number(high)} THEN {number(high)} ELSE {found} END"
        return {"prediction": _from_scale(clipped, target.way_back)}
    labels = model.classes.tolist()
    names = [text(label) if isinstance(label, str) else str(label).upper() for label in labels]
    results = {"prediction": _prediction(scores, names)}
    if model.has_chances:
        own = _chances(scores)
        results |= {f"probability of {label}": p for label, p in zip(labels, own, strict=True)}
    return results


def _from_scale(place: str, way_back: str) -> str:
    """Write the number that has a place on the scale on which it was learned."""
    if way_back == "same":
        return place
    above, below = f"EXP({place})", f"EXP(0e0 - ({place}))"
    if way_back == "exp":
        return above
    if way_back == "mirrored":
        return f"0e0 - {below}"
    return f"CASE WHEN ({place}) < 0e0 THEN 1e0 - {below} ELSE {above} - 1e0 END"


def _prediction(scores: list[str], names: list[str]) -> str:
    """Write the class with the highest score, the first of those that are equal."""
    if len(scores) == 1:
        return f"CASE WHEN {scores[0]} > 0e0 THEN {names[1]} ELSE {names[0]} END"
    lines = []
    for place, (score, name) in enumerate(zip(scores[:-1], names[:-1], strict=True)):
        wins = " AND ".join(f"{score} >= {other}" for other in scores[place + 1 :])
        lines.append(f"WHEN {wins} THEN {name}")
    return f"CASE {' '.join(lines)} ELSE {names[-1]} END"


def _chances(scores: list[str]) -> list[str]:
    """Write the probability of each class; see `Model.predict_proba`."""
    if len(scores) == 1:
        own = f"1e0 / (1e0 + exp({_least(f'0e0 - {scores[0]}')}))"
        return [f"1e0 - {own}", own]
    logs = [
        f"(CASE WHEN {s} < 0e0 THEN {s} - ln(1e0 + exp({s})) "
        f"ELSE 0e0 - ln(1e0 + exp(0e0 - {s})) END)"
        for s in scores
    ]
    chances = []
    for own in logs:
        others = [f"exp({_least(f'{other} - {own}')})" for other in logs]
        chances.append(f"1e0 / ({sum_of(others)})")
    return chances


def _least(term: str) -> str:
    """Write the lesser of a term and what an exponent may be."""
    return f"CASE WHEN {term} < {_MOST}e0 THEN {term} ELSE {_MOST}e0 END"
