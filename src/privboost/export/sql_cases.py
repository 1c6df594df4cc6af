"""A column's codes as conditions of SQL.

NULL is missing, and NaN is: databases disagree on how it compares, so that no condition here is
true of it. `0e0 - x < -e` is `x > e`, but never true of NaN, whether it is above all numbers or
compares with none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from privboost.export.formula import Reading
from privboost.export.spellings import TRUTHS, spellings
from privboost.tables.features import CategoricalFeature, DateFeature
from privboost.tables.times import SECOND

_FAR = 1e300
"""Beyond every date."""


def case(reading: Reading, results: Sequence[str], table: str) -> str:
    """Write the result that a row has, given one for each code of a column of a table."""
    if len(set(results)) == 1:
        return results[0]
    if isinstance(reading.feature, CategoricalFeature):
        return _case_of_labels(reading, reading.feature, results, table)
    spans, missing = list(runs(results[:-1])), results[-1]
    column, edges = _column(reading, table), _edges(reading)
    # PostgreSQL counts seconds to its dates "infinity"; DuckDB has none, and no column of ours.
    begun = (
        f"CASE WHEN ABS({column}) > {number(_FAR)} THEN {missing} "
        if isinstance(reading.feature, DateFeature)
        else "CASE "
    )
    if len(set(results)) == 2:
        held = [span for span in spans if results[span[0]] != missing]
        conditions = " OR ".join(_within(edges, column, span) for span in held)
        return f"{begun}WHEN {conditions} THEN {results[held[0][0]]} ELSE {missing} END"
    lines = [
        f"WHEN {column} <= {number(edges[last])} THEN {results[last]}" for _, last in spans[:-1]
    ]
    first, last = spans[-1]
    lines.append(f"WHEN {_within(edges, column, (first, last))} THEN {results[last]}")
    return f"{begun}{' '.join(lines)} ELSE {missing} END"


def runs(results: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of neighbouring codes that have the same result."""
    first = 0
    for code in range(1, len(results) + 1):
        if code == len(results) or results[code] != results[first]:
            yield first, code - 1
            first = code


def _column(reading: Reading, table: str) -> str:
    """Write a column as a number: seconds since 1970, of dates, and seconds, of durations.

    What is extracted is the same in every zone that a session may have.
    """
    name = f"{table}.{identifier(reading.name)}"
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


def _case_of_labels(
    reading: Reading, feature: CategoricalFeature, results: Sequence[str], table: str
) -> str:
    """Write the result of each category; the last is that of all other values."""
    *codes, other, missing = reading.codes.tolist()
    column, labels = _labels(reading, feature, table)
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


def _labels(
    reading: Reading, feature: CategoricalFeature, table: str
) -> tuple[str, dict[str, int]]:
    """Return a column of categories, and how each of them is written."""
    written = f"CAST({table}.{identifier(feature.name)} AS VARCHAR)"
    if reading.of_text:
        words = {text(word): place for word, place in spellings(feature).items()}
        return f"({written} || '')", words  # of a column alone, SQLite may ignore case
    numbers = {number(float(label)): place for place, label in enumerate(feature.categories)}
    if set(feature.categories) <= {0, 1}:  # PostgreSQL casts no truth value to a number
        truths = " ".join(
            f"WHEN {written} IN ({', '.join(map(text, TRUTHS[truth]))}) THEN {number(truth)}"
            for truth in (False, True)
        )
        truths += f" WHEN {written} IN ('Inf', '-Inf') THEN 2e0"  # SQLite would read 0 in them
        return f"(CASE {truths} ELSE CAST({written} AS DOUBLE PRECISION) END)", numbers
    return f"CAST({table}.{identifier(feature.name)} AS DOUBLE PRECISION)", numbers


def sum_of(terms: Sequence[str]) -> str:
    """Write a sum."""
    return joined(terms, "\n    + ")


def joined(terms: Sequence[str], sign: str) -> str:
    """Join terms, with brackets that are nested as little as can be: parsers have their limits."""
    if len(terms) <= 8:
        return sign.join(terms)
    half = len(terms) // 2
    return f"({joined(terms[:half], sign)}){sign}({joined(terms[half:], sign)})"


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
