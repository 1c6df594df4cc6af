"""A column's codes as conditions of SQL.

NULL is missing, and NaN is: databases disagree on how it compares, so that no condition here is
true of it. `0e0 - x < -e` is `x > e`, but never true of NaN, whether it is above all numbers or
compares with none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from privboost.export.formula import Reading
from privboost.export.spellings import spellings
from privboost.tables.features import CategoricalFeature, DateFeature
from privboost.tables.times import SECOND


def case(reading: Reading, results: Sequence[str]) -> str:
    """Write the result that a row has, given one for each code of a column."""
    if len(set(results)) == 1:
        return results[0]
    if isinstance(reading.feature, CategoricalFeature):
        return _case_of_labels(reading, reading.feature, results)
    spans, missing = list(runs(results[:-1])), results[-1]
    column, edges = _column(reading), _edges(reading)
    if len(set(results)) == 2:
        held = [span for span in spans if results[span[0]] != missing]
        conditions = " OR ".join(_within(edges, column, span) for span in held)
        return f"CASE WHEN {conditions} THEN {results[held[0][0]]} ELSE {missing} END"
    lines = [
        f"WHEN {column} <= {number(edges[last])} THEN {results[last]}" for _, last in spans[:-1]
    ]
    first, last = spans[-1]
    lines.append(f"WHEN {_within(edges, column, (first, last))} THEN {results[last]}")
    return f"CASE {' '.join(lines)} ELSE {missing} END"


def runs(results: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of neighbouring codes that have the same result."""
    first = 0
    for code in range(1, len(results) + 1):
        if code == len(results) or results[code] != results[first]:
            yield first, code - 1
            first = code


def _column(reading: Reading) -> str:
    """Write a column as a number: seconds since 1970, of dates, and seconds, of durations.

    What is extracted is the same in every zone that a session may have.
    """
    name = identifier(reading.name)
    read = name if reading.counts == "numbers" else f"EXTRACT(EPOCH FROM {name})"
    return f"CAST({read} AS DOUBLE PRECISION)"


def _edges(reading: Reading) -> np.ndarray:
    """Return the greatest double that lies on the near side of each edge."""
    if not isinstance(reading.feature, DateFeature):
        return reading.edges
    seconds = reading.feature.step // SECOND
    beyond = (np.floor(reading.edges) + 1) * seconds  # whole steps count: where the next begins
    edges: np.ndarray = np.nextafter(beyond, -np.inf)
    return edges


def _within(edges: np.ndarray, column: str, span: tuple[int, int]) -> str:
    """Write that a number has one of neighbouring codes; true of no NULL and no NaN."""
    first, last = span
    above = "" if first == 0 else f"0e0 - {column} < {number(-edges[first - 1])}"
    below = "" if last == len(edges) else f"{column} <= {number(edges[last])}"
    if above and below:
        return f"({above} AND {below})"
    return above or below or f"({column} <= 0e0 OR 0e0 - {column} < 0e0)"


def _case_of_labels(reading: Reading, feature: CategoricalFeature, results: Sequence[str]) -> str:
    """Write the result of each category; the last is that of all other values."""
    *codes, other, missing = reading.codes.tolist()
    column, labels = _labels(reading, feature)
    groups: dict[str, list[str]] = {}
    for label, place in labels.items():
        groups.setdefault(results[codes[place]], []).append(label)
    conditions = {each: f"{column} IN ({', '.join(own)})" for each, own in groups.items()}
    absent = f"{column} IS NULL"
    if not reading.of_text:
        absent += f" OR NOT ({column} <= 0e0 OR 0e0 - {column} < 0e0)"
    listed = conditions.get(results[missing])  # in one line: a result may be a whole tree
    conditions[results[missing]] = f"{listed} OR {absent}" if listed else absent
    conditions.pop(results[other], None)
    lines = [f"WHEN {condition} THEN {each}" for each, condition in conditions.items()]
    return f"CASE {' '.join(lines)} ELSE {results[other]} END"


def _labels(reading: Reading, feature: CategoricalFeature) -> tuple[str, dict[str, int]]:
    """Return a column of categories, and how each of them is written."""
    name = identifier(feature.name)
    if reading.of_text:
        words = {text(word): place for word, place in spellings(feature).items()}
        return f"CAST({name} AS VARCHAR)", words
    numbers = {number(float(label)): place for place, label in enumerate(feature.categories)}
    return f"CAST({name} AS DOUBLE PRECISION)", numbers


def sum_of(terms: Sequence[str]) -> str:
    """Write a sum whose brackets are nested as little as can be: parsers have their limits."""
    if len(terms) <= 8:
        return "\n    + ".join(terms)
    half = len(terms) // 2
    return f"({sum_of(terms[:half])})\n    + ({sum_of(terms[half:])})"


def identifier(name: str) -> str:
    """Write the name of a column."""
    return '"' + name.replace('"', '""') + '"'


def text(word: str) -> str:
    """Write a text."""
    return "'" + word.replace("'", "''") + "'"


def number(value: float) -> str:
    """Write a double, exactly: with an exponent, since without one it would be a decimal."""
    written = repr(float(value))
    return written if "e" in written else f"{written}e0"
