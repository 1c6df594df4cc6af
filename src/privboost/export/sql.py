"""A model as one SELECT, of nothing but sums and CASE, whatever columns its table has.

Nobody knows which columns a table has besides those of the model: old scores, `C0`, anything. So
what is computed never stands beside `*` in a table that is read from again. Columns are turned
into codes; each combination of codes that occurs is scored once, in tables that have no other
columns; and rows find their results by their codes. Every column is named with its table, so that
one that is missing is an error (SQLite would take its name for a text).
"""

from __future__ import annotations

from privboost.export.formula import Formula
from privboost.export.names import check_sql_names, free_name, sql_names
from privboost.export.sql_cases import identifier, joined, number, sum_of, text
from privboost.export.sql_joint import CodeWriter
from privboost.grid import SCORE_STEPS
from privboost.models.model import Model
from privboost.tables.features import ClassTarget

_MOST = 700
"""Of exponents: what is further off makes no difference that a double could hold."""
_TERMS = 12
"""Of a column of sums: databases plan some twenty small expressions faster than a large one."""


def sql_text(model: Model, table: str = "rows") -> str:
    """Write a model as a SELECT that adds columns to a table.

    They stand last: for classes scores, `prediction`, and (where scores are log-odds)
    probabilities. Their names differ from those of the domain's columns and from each other, in
    more than case and within 63 bytes; underscores are added where need be.

    Parameters
    ----------
    table : str
        The name of the table.

    Raises
    ------
    ValueError
        If two features have names that a database takes for one.
    """
    domain = model.domain
    check_sql_names(domain.feature_names)
    base, codes, parts, scored = (
        free_name(f"privboost_{part}", [table.lower()])
        for part in ("rows", "codes", "parts", "scores")
    )
    formula = Formula.of(model)
    writer, sums, scores = CodeWriter(formula, "r", "c"), dict[str, str](), list[str]()
    for output, start in enumerate(formula.start):
        terms, own = writer.terms(output), [f"CAST({int(start)} AS BIGINT)"]
        for first in range(0, len(terms), _TERMS):
            own.append(f"p{len(sums)}")
            sums[own[-1]] = sum_of(terms[first : first + _TERMS])
        scores.append(f"CAST({sum_of(own)} AS DOUBLE PRECISION) / {number(SCORE_STEPS)}")
    coded = writer.codes()
    named = {f"s{output}": score for output, score in enumerate(scores)}
    results = _results(model, [f"s.{name}" for name in named])
    new = sql_names(results, [*domain.feature_names, domain.target.name])
    added = {identifier(name): what for name, what in zip(new, results.values(), strict=True)}
    on = joined([f"s.{name} = {code}" for name, code in coded.items()], " AND ")
    return (
        f"-- A model of {domain.target.name}, written by privboost. "
        f"{' '.join(model.privacy.guarantee.split())}\n"
        f"SELECT scored.* FROM (WITH {base} AS MATERIALIZED (SELECT * FROM {identifier(table)}),\n"
        f"{codes} AS (SELECT DISTINCT\n  {_listed(coded)}\nFROM {base} AS r),\n"
        f"{parts} AS (SELECT\n  {_listed(dict.fromkeys(coded, '') | sums)}\nFROM {codes} AS c),\n"
        f"{scored} AS MATERIALIZED (SELECT\n  {_listed(dict.fromkeys(coded, '') | named)}\n"
        f"FROM {parts} AS p)\n"
        f"SELECT r.*,\n  {_listed(added)}\n"
        f"FROM {base} AS r LEFT JOIN {scored} AS s ON\n  {on}) AS scored\n"
    )


def _listed(columns: dict[str, str]) -> str:
    """Write columns, each with its name; one of the same name as before has none of its own."""
    return ",\n  ".join(f"{what} AS {name}" if what else name for name, what in columns.items())


def _results(model: Model, scores: list[str]) -> dict[str, str]:
    """Return scores and what they mean, by what their columns are to be called."""
    target = model.domain.target
    if not isinstance(target, ClassTarget):
        (middle, half), (low, high) = model.middle_and_half, model.scaled_bounds
        found = f"{number(middle)} + {number(half)} * {scores[0]}"
        clipped = f"CASE WHEN {found} < {number(low)} THEN {number(low)}"
        clipped += f" WHEN {found} > {number(high)} THEN {number(high)} ELSE {found} END"
        return {"privboost score": scores[0], "prediction": _from_scale(clipped, target.way_back)}
    labels = model.classes.tolist()
    scored = labels if len(scores) > 1 else labels[1:]
    results = {f"privboost score of {label}": s for label, s in zip(scored, scores, strict=True)}
    results["prediction"] = _prediction(scores, [_label(label) for label in labels])
    if model.has_chances:
        own = _chances(scores)
        results |= {f"probability of {label}": p for label, p in zip(labels, own, strict=True)}
    return results


def _label(label: str | float) -> str:
    """Write a class."""
    if isinstance(label, str):
        return text(label)
    return number(label) if isinstance(label, float) else str(label).upper()


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
        own = f"1e0 / (1e0 + {_exp(f'0e0 - {scores[0]}')})"
        return [f"1e0 - {own}", own]
    logs = [
        f"(CASE WHEN {s} < 0e0 THEN {s} - ln(1e0 + {_exp(s)}) "
        f"ELSE 0e0 - ln(1e0 + {_exp(f'0e0 - {s}')}) END)"
        for s in scores
    ]
    chances = []
    for own in logs:
        others = [_exp(f"{other} - {own}") for other in logs]
        chances.append(f"1e0 / ({sum_of(others)})")
    return chances


def _exp(term: str) -> str:
    """Write an exponential that neither overflows nor underflows: PostgreSQL raises on both."""
    most = f"WHEN {term} > {_MOST}e0 THEN {_MOST}e0 WHEN {term} < -{_MOST}e0 THEN -{_MOST}e0"
    return f"exp(CASE {most} ELSE {term} END)"
