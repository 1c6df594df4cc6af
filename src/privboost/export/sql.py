"""A model as one SELECT of sums, CASE and a join, whatever other columns its table has.

A table may have any columns besides the model's: old scores, `C0`, anything. Computed columns
therefore never stand beside `*` in a table that is read again. Columns are turned into codes (a
query that reads a column anew in every node of every tree takes a database minutes); each
combination of codes that occurs is scored once, in tables without other columns; and rows find
their results by their codes. Every column is qualified with its table, so that a missing column is
an error (SQLite would take its name for a string).

NULL is missing, and so is NaN: databases disagree on how it compares, so no condition here is true
of it. `0e0 - x < -e` is `x > e`, but false for NaN, whether it sorts above all numbers or compares
with none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from privboost._core.grid import SCORE_STEPS
from privboost.data.features import CategoricalFeature, DateFeature
from privboost.data.targets import ClassTarget
from privboost.data.times import SECOND
from privboost.export.formula import (
    BOOLEANS,
    Column,
    Formula,
    PairTerm,
    TreeTerm,
    free_name,
    spellings,
)
from privboost.models.intervals import EXPORTED_COVERAGE
from privboost.models.model import LOG, SOFTMAX, Model

_LARGEST_EXPONENT = 700
"""Exponents beyond it make no difference that a double could hold."""
_TERMS = 12
"""Terms of one column of sums: databases plan some twenty small expressions faster than one."""
_NAME_BYTES = 63
"""PostgreSQL truncates longer column names without an error."""
_BEYOND_DATES = 1e300
"""A number of seconds beyond every date."""


def export(model: Model) -> bytes:
    """Return `sql_text` as the content of a file."""
    return sql_text(model).encode()


def sql_text(model: Model, table: str = "rows") -> str:
    """Return a SELECT that appends a model's results to the columns of a table.

    The new columns are, for classes, scores, `prediction`, and (where scores are log-odds)
    probabilities; for a number its score, `prediction`, and `lower` and `upper`, the ends of the
    90 % prediction interval of a model that has intervals; where it has sets of classes, for each
    class 1 if it is in the set of 90 %, else 0 ("in set high"). Their names differ from those of
    the domain's columns and from each other, in more than case and within 63 bytes; underscores
    are added where needed.

    Parameters
    ----------
    table : str
        The name of the table.

    Raises
    ------
    ValueError
        If two features have names that a database does not distinguish.
    """
    domain = model.domain
    _check_names(domain.feature_names)
    base, codes, parts, scored = (
        free_name(f"privboost_{part}", [table.lower()])
        for part in ("rows", "codes", "parts", "scores")
    )
    formula = Formula.of(model)
    writer, sums, scores = _TermWriter(formula, "r", "c"), dict[str, str](), list[str]()
    for output, start in enumerate(formula.start):
        terms, own = writer.terms(output), [f"CAST({int(start)} AS BIGINT)"]
        for first in range(0, len(terms), _TERMS):
            own.append(f"p{len(sums)}")
            sums[own[-1]] = _sum_of(terms[first : first + _TERMS])
        scores.append(f"CAST({_sum_of(own)} AS DOUBLE PRECISION) / {_number(SCORE_STEPS)}")
    coded = writer.codes()
    named = {f"s{output}": score for output, score in enumerate(scores)}
    own_scores = [f"s.{name}" for name in named]
    results = _results(model, own_scores)
    if model.nonconformity is not None:
        about = _sets if isinstance(domain.target, ClassTarget) else _interval_ends
        results |= about(model, own_scores)
    new = _new_names(results, [*domain.feature_names, domain.target.name])
    added = {_identifier(name): what for name, what in zip(new, results.values(), strict=True)}
    on = _joined([f"s.{name} = {code}" for name, code in coded.items()], " AND ")
    return (
        f"-- A model of {domain.target.name}, written by privboost. "
        f"{' '.join(model.privacy.guarantee.split())}\n"
        f"SELECT scored.* FROM (WITH {base} AS MATERIALIZED (SELECT * FROM {_identifier(table)}),\n"
        f"{codes} AS (SELECT DISTINCT\n  {_listed(coded)}\nFROM {base} AS r),\n"
        f"{parts} AS (SELECT\n  {_listed(dict.fromkeys(coded, '') | sums)}\nFROM {codes} AS c),\n"
        f"{scored} AS MATERIALIZED (SELECT\n  {_listed(dict.fromkeys(coded, '') | named)}\n"
        f"FROM {parts} AS p)\n"
        f"SELECT r.*,\n  {_listed(added)}\n"
        f"FROM {base} AS r LEFT JOIN {scored} AS s ON\n  {on}) AS scored\n"
    )


def _results(model: Model, scores: list[str]) -> dict[str, str]:
    """Return scores and what follows from them, by their wanted column names."""
    target = model.domain.target
    if not isinstance(target, ClassTarget):
        (middle, half), (low, high) = model.middle_and_half, model.scaled_bounds
        clipped = _clipped(f"{_number(middle)} + {_number(half)} * {scores[0]}", low, high)
        results = {
            "privboost score": scores[0],
            "prediction": _from_scale(clipped, model.inverse_scale_name),
        }
        if model.exposure is not None:
            rate = _clipped(scores[1], *model.scaled_rate_bounds)
            results["rate"] = _from_scale(rate, model.inverse_scale_name)
        return results
    labels = model.classes.tolist()
    scored = labels if len(scores) > 1 else labels[1:]
    results = {f"privboost score of {label}": s for label, s in zip(scored, scores, strict=True)}
    results["prediction"] = _prediction(scores, [_label(label) for label in labels])
    if model.has_probabilities:
        own = _probabilities(scores, model.link == SOFTMAX)
        results |= {f"probability of {label}": p for label, p in zip(labels, own, strict=True)}
    return results


def _interval_ends(model: Model, scores: list[str]) -> dict[str, str]:
    """Return the ends of the prediction interval; see `Model.predict_interval`."""
    target = model.domain.target
    assert not isinstance(target, ClassTarget)
    if model.link == LOG:
        return _relative_ends(model, scores[0])
    (middle, half), (low, high) = model.middle_and_half, target.scaled_bounds
    width = model.interval_half_width(EXPORTED_COVERAGE)
    ends = {"lower": _number(low), "upper": _number(high)}
    if width < math.inf:
        for name, moved in (("lower", f"- {_number(width)}"), ("upper", f"+ {_number(width)}")):
            found = f"{_number(middle)} + {_number(half)} * ({scores[0]} {moved})"
            ends[name] = _clipped(found, low, high)
    return {name: _from_scale(own, target.inverse_scale_name) for name, own in ends.items()}


def _relative_ends(model: Model, score: str) -> dict[str, str]:
    """Return the ends of the prediction interval with a log link."""
    (low, high), found = model.domain.target.bounds, model.nonconformity  # type: ignore[union-attr]
    terms = model.interval_terms(EXPORTED_COVERAGE)
    if terms is None:
        return {"lower": _number(low), "upper": _number(high)}
    assert found is not None
    assert found.scale is not None
    scaled = _clipped(score, *found.scale.limits)
    power = _number(found.scale.power / 2)
    ends = {}
    for name, (mean, spread, more) in zip(("lower", "upper"), terms, strict=True):
        end = f"{_number(mean)} * EXP({scaled}) + {_number(spread)} * EXP({power} * ({scaled}))"
        ends[name] = _clipped(f"{end} + {_number(more)}", low, high)
    return ends


def _clipped(number: str, low: float, high: float) -> str:
    """Return a number within bounds."""
    clipped = f"CASE WHEN {number} < {_number(low)} THEN {_number(low)}"
    return f"{clipped} WHEN {number} > {_number(high)} THEN {_number(high)} ELSE {number} END"


def _sets(model: Model, scores: list[str]) -> dict[str, str]:
    """Return 1 for each class of the prediction set, and 0 for others; see `Model.predict_set`."""
    assert model.nonconformity is not None
    labels = model.classes.tolist()
    edge = model.nonconformity.threshold(EXPORTED_COVERAGE)
    names = [f"in set {label}" for label in labels]
    if edge is None:
        return dict.fromkeys(names, "1")
    least = -edge / SCORE_STEPS
    if len(scores) == 1:
        holds = [
            f"{scores[0]} <= 0e0 OR {scores[0]} < {_number(-least)}",
            f"{scores[0]} > 0e0 OR {scores[0]} > {_number(least)}",
        ]
    else:
        holds = []
        for k, score in enumerate(scores):
            best = [f"{score} > {other}" for other in scores[:k]]
            best += [f"{score} >= {other}" for other in scores[k + 1 :]]
            holds.append(f"{score} > {_number(least)} OR ({' AND '.join(best)})")
    return {n: f"CASE WHEN {own} THEN 1 ELSE 0 END" for n, own in zip(names, holds, strict=True)}


def _from_scale(scaled: str, inverse_scale_name: str) -> str:
    """Invert the scale of a numeric target."""
    if inverse_scale_name == "same":
        return scaled
    above, below = f"EXP({scaled})", f"EXP(0e0 - ({scaled}))"
    if inverse_scale_name == "exp":
        return above
    if inverse_scale_name == "mirrored":
        return f"0e0 - {below}"
    return f"CASE WHEN ({scaled}) < 0e0 THEN 1e0 - {below} ELSE {above} - 1e0 END"


def _prediction(scores: list[str], names: list[str]) -> str:
    """Return the class with the highest score, the first of equal ones."""
    if len(scores) == 1:
        return f"CASE WHEN {scores[0]} > 0e0 THEN {names[1]} ELSE {names[0]} END"
    lines = []
    for k, (score, name) in enumerate(zip(scores[:-1], names[:-1], strict=True)):
        wins = " AND ".join(f"{score} >= {other}" for other in scores[k + 1 :])
        lines.append(f"WHEN {wins} THEN {name}")
    return f"CASE {' '.join(lines)} ELSE {names[-1]} END"


def _probabilities(scores: list[str], are_logs: bool) -> list[str]:
    """Return the probability of each class; see `Model.predict_proba`.

    `are_logs` says whether scores of several classes are logarithms but for a constant.
    """
    if len(scores) == 1:
        own = f"1e0 / (1e0 + {_exp(f'0e0 - {scores[0]}')})"
        return [f"1e0 - {own}", own]
    logs = (
        scores
        if are_logs
        else [
            f"(CASE WHEN {s} < 0e0 THEN {s} - ln(1e0 + {_exp(s)}) "
            f"ELSE 0e0 - ln(1e0 + {_exp(f'0e0 - {s}')}) END)"
            for s in scores
        ]
    )
    found = []
    for own in logs:
        others = [_exp(f"{other} - {own}") for other in logs]
        found.append(f"1e0 / ({_sum_of(others)})")
    return found


def _exp(term: str) -> str:
    """Return an exponential that neither overflows nor underflows: PostgreSQL raises on both."""
    most = f"{_LARGEST_EXPONENT}e0"
    clipped = f"WHEN {term} > {most} THEN {most} WHEN {term} < -{most} THEN -{most}"
    return f"exp(CASE {clipped} ELSE {term} END)"


class _TermWriter:
    """Writes the terms of scores on codes, and records which columns' codes they use.

    `columns` is the alias of the table with the columns, `codes` of the table with their codes.
    """

    def __init__(self, formula: Formula, columns: str, codes: str) -> None:
        self._formula, self._columns, self._codes = formula, columns, codes
        self._used: set[int] = set()

    def terms(self, output: int) -> list[str]:
        """Return the terms of columns, pairs and trees for one score, in score steps."""
        formula = self._formula
        terms = [self._case(k, _integers(own[output])) for k, own in enumerate(formula.alone)]
        terms += [self._pair(pair) for pair in formula.pairs if pair.output == output]
        terms += [self._branch(tree, 0, output) for tree in formula.trees]
        return [term for term in terms if term != "0"]

    def codes(self) -> dict[str, str]:
        """Return the codes that terms have used, by name; a constant where there are none."""
        columns = self._formula.columns
        return {
            _code_name(k): _case_of_column(
                columns[k], _integers(range(columns[k].n_codes)), self._columns
            )
            for k in sorted(self._used)
        } or {_code_name(0): "0"}

    def _pair(self, pair: PairTerm) -> str:
        (first, second), (own, other) = pair.features, pair.cell_of
        lines = [self._case(second, _integers(values[other])) for values in pair.values]
        return self._case(first, [lines[cell] for cell in own])

    def _branch(self, tree: TreeTerm, node: int, output: int) -> str:
        """Return the subtree below a node."""
        inner = len(tree.splits)
        if node >= inner:
            return str(int(tree.values[output, node - inner]))
        split = self._formula.splits[tree.splits[node]]
        below = [self._branch(tree, 2 * node + 1 + side, output) for side in (0, 1)]
        return self._case(split.feature, [below[side] for side in split.goes_right])

    def _case(self, column: int, results: Sequence[str]) -> str:
        """Return the result of a row, from one result for each code of a column."""
        intervals = list(_intervals(results))
        if len(intervals) == 1:
            return results[0]
        self._used.add(column)
        name = f"{self._codes}.{_code_name(column)}"
        if len(set(results)) > 2:
            lines = [f"WHEN {name} <= {last} THEN {results[last]}" for _, last in intervals[:-1]]
            return f"CASE {' '.join(lines)} ELSE {results[-1]} END"
        held = intervals[len(intervals) % 2 :: 2]  # of an odd number, the fewer
        within = " OR ".join(_code_within(name, own, len(results) - 1) for own in held)
        other = results[0] if len(intervals) % 2 else results[-1]
        return f"CASE WHEN {within} THEN {results[held[0][0]]} ELSE {other} END"


def _code_name(column: int) -> str:
    return f"c{column}"


def _code_within(name: str, interval: tuple[int, int], last_code: int) -> str:
    first, last = interval
    if first == 0:
        return f"{name} <= {last}"
    if last == last_code:
        return f"{name} >= {first}"
    return f"{name} = {first}" if first == last else f"{name} BETWEEN {first} AND {last}"


def _integers(values: Iterable[int]) -> list[str]:
    return [str(int(value)) for value in values]


def _intervals(results: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the first and last code of each interval of codes with equal results."""
    first = 0
    for code in range(1, len(results) + 1):
        if code == len(results) or results[code] != results[first]:
            yield first, code - 1
            first = code


def _case_of_column(column: Column, results: Sequence[str], table: str) -> str:
    """Return the result of a row, from one result for each code of a column of a table."""
    if len(set(results)) == 1:
        return results[0]
    if isinstance(column.feature, CategoricalFeature):
        return _case_of_categories(column, column.feature, results, table)
    intervals, missing = list(_intervals(results[:-1])), results[-1]
    value, edges = _numeric_value(column, table), _double_edges(column)
    # PostgreSQL's date "infinity" has infinitely many seconds; other databases have none.
    begin = (
        f"CASE WHEN ABS({value}) > {_number(_BEYOND_DATES)} THEN {missing} "
        if isinstance(column.feature, DateFeature)
        else "CASE "
    )
    if len(set(results)) == 2:
        held = [own for own in intervals if results[own[0]] != missing]
        conditions = " OR ".join(_value_within(edges, value, own) for own in held)
        return f"{begin}WHEN {conditions} THEN {results[held[0][0]]} ELSE {missing} END"
    lines = [
        f"WHEN {value} <= {_number(edges[last])} THEN {results[last]}" for _, last in intervals[:-1]
    ]
    first, last = intervals[-1]
    lines.append(f"WHEN {_value_within(edges, value, (first, last))} THEN {results[last]}")
    return f"{begin}{' '.join(lines)} ELSE {missing} END"


def _numeric_value(column: Column, table: str) -> str:
    """Return a column as a number: dates as seconds since 1970, durations as seconds.

    EXTRACT gives the same result in every time zone of a session.
    """
    name = f"{table}.{_identifier(column.name)}"
    read = name if column.unit == "numbers" else f"EXTRACT(EPOCH FROM {name})"
    return f"CAST({read} AS DOUBLE PRECISION)"


def _double_edges(column: Column) -> np.ndarray:
    """Return the greatest double at or below each edge."""
    if not isinstance(column.feature, DateFeature):
        return column.edges
    seconds = column.feature.step // SECOND
    next_step = (np.floor(column.edges) + 1) * seconds
    edges: np.ndarray = np.nextafter(next_step, -np.inf)
    return edges


def _value_within(edges: np.ndarray, value: str, interval: tuple[int, int]) -> str:
    """Return the condition that a number has a code of an interval; false for NULL and NaN."""
    first, last = interval
    above = "" if first == 0 else f"0e0 - {value} < {_number(-edges[first - 1])}"
    below = "" if last == len(edges) else f"{value} <= {_number(edges[last])}"
    if above and below:
        return f"({above} AND {below})"
    return above or below or f"({value} <= 0e0 OR 0e0 - {value} < 0e0)"


def _case_of_categories(
    column: Column, feature: CategoricalFeature, results: Sequence[str], table: str
) -> str:
    """Return the result of each category; ELSE is that of all other values."""
    *codes, other, missing = column.codes.tolist()
    value, labels = _category_value(column, feature, table)
    groups: dict[str, list[str]] = {}
    for label, index in labels.items():
        groups.setdefault(results[codes[index]], []).append(label)
    conditions = {each: f"{value} IN ({', '.join(own)})" for each, own in groups.items()}
    absent = f"{value} IS NULL"
    if not column.has_strings:
        absent += f" OR NOT ({value} <= 0e0 OR 0e0 - {value} < 0e0)"
    listed = conditions.get(results[missing])  # in one line: a result may be a whole tree
    conditions[results[missing]] = f"{listed} OR {absent}" if listed else absent
    conditions.pop(results[other], None)
    lines = [f"WHEN {condition} THEN {each}" for each, condition in conditions.items()]
    return f"CASE {' '.join(lines)} ELSE {results[other]} END"


def _category_value(
    column: Column, feature: CategoricalFeature, table: str
) -> tuple[str, dict[str, int]]:
    """Return a column of categories, and the index of each literal."""
    written = f"CAST({table}.{_identifier(feature.name)} AS VARCHAR)"
    if column.has_strings:
        strings = {_string(string): index for string, index in spellings(feature).items()}
        return f"({written} || '')", strings  # SQLite may ignore case in a bare column
    numbers = {_number(float(label)): index for index, label in enumerate(feature.categories)}
    if set(feature.categories) <= {0, 1}:  # PostgreSQL casts no boolean to a number
        booleans = " ".join(
            f"WHEN {written} IN ({', '.join(map(_string, BOOLEANS[own]))}) THEN {_number(own)}"
            for own in (False, True)
        )
        booleans += f" WHEN {written} IN ('Inf', '-Inf') THEN 2e0"  # SQLite would read 0
        return f"(CASE {booleans} ELSE CAST({written} AS DOUBLE PRECISION) END)", numbers
    return f"CAST({table}.{_identifier(feature.name)} AS DOUBLE PRECISION)", numbers


def _listed(columns: dict[str, str]) -> str:
    """Return a list of columns with aliases; an empty expression means the column of that name."""
    return ",\n  ".join(f"{what} AS {name}" if what else name for name, what in columns.items())


def _sum_of(terms: Sequence[str]) -> str:
    return _joined(terms, "\n    + ")


def _joined(terms: Sequence[str], sign: str) -> str:
    """Join terms with balanced parentheses: parsers limit how deep expressions are nested."""
    if len(terms) <= 8:
        return sign.join(terms)
    half = len(terms) // 2
    return f"({_joined(terms[:half], sign)}){sign}({_joined(terms[half:], sign)})"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _number(value: float) -> str:
    """Return a double, exactly: without an exponent it would be a decimal."""
    written = repr(float(value))
    return written if "e" in written else f"{written}e0"


def _label(label: str | float) -> str:
    if isinstance(label, str):
        return _string(label)
    return _number(label) if isinstance(label, float) else str(label).upper()


def _new_names(wanted: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return column names that every database distinguishes from each other and from taken ones.

    A name is the first 63 bytes of what is wanted; where that is taken, in whatever case, it ends
    in underscores instead.
    """
    known = {_as_found(name) for name in taken}
    names = []
    for own in wanted:
        name, count = _truncated(own, _NAME_BYTES), 0
        while _as_found(name) in known:
            count += 1
            name = _truncated(own, _NAME_BYTES - count) + "_" * count
        known.add(_as_found(name))
        names.append(name)
    return names


def _check_names(columns: Iterable[str]) -> None:
    """Raise ValueError for columns that some database would silently identify."""
    known: dict[bytes, str] = {}
    for name in columns:
        other = known.setdefault(_as_found(name), name)
        if other != name:
            raise ValueError(
                f"SQL: databases do not distinguish the columns {other!r} and {name!r}: DuckDB and "
                f"SQLite ignore case, PostgreSQL ignores what follows {_NAME_BYTES} bytes; rename "
                "one and train again, or export to .onnx"
            )


def _as_found(name: str) -> bytes:
    """Return the key of a name in DuckDB and SQLite (no ASCII case) and PostgreSQL (63 bytes)."""
    return _truncated(name, _NAME_BYTES).encode().lower()


def _truncated(name: str, most: int) -> str:
    """Return the longest prefix of a name that fits into a number of bytes."""
    return name.encode()[:most].decode(errors="ignore")
