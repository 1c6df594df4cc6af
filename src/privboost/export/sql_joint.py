"""What several columns add together, as SQL that reads each of them once.

A query that reads a column again in every node of every tree takes a database minutes. So codes
are computed in a subquery of one row, what looks at them stands around it, and all of it is one
number: a table's own columns need no mention, and no column of codes stays behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from privboost.export.formula import Branching, Formula
from privboost.export.names import free_name
from privboost.export.parts import Pair
from privboost.export.sql_cases import case, identifier, runs, sum_of

_TERMS = 12
"""Of a column of sums: databases plan some twenty small expressions faster than a large one."""


def joint_score(formula: Formula, output: int) -> str:
    """Write what pairs and trees add to one score of a row, in whole steps; "" if nothing."""
    writer = _Writer(formula, output)
    terms = [writer.pair(pair) for pair in formula.pairs if pair.output == output]
    terms += [writer.branch(tree, 0) for tree in formula.trees]
    if not terms:
        return ""
    groups = [terms[first : first + _TERMS] for first in range(0, len(terms), _TERMS)]
    parts = ", ".join(f"{sum_of(own)} AS p{place}" for place, own in enumerate(groups))
    total = sum_of([f"p{place}" for place in range(len(groups))])
    # DISTINCT changes nothing of one row, but keeps PostgreSQL from writing out each code wherever
    # it is looked at.
    return (
        f"(SELECT {total}\n    FROM (SELECT {parts}\n"
        f"      FROM (SELECT DISTINCT {writer.codes()}) AS coded) AS parts)"
    )


class _Writer:
    """Writes conditions on codes, and remembers which columns they are of."""

    def __init__(self, formula: Formula, output: int) -> None:
        self._formula, self._output = formula, output
        taken = formula.model.domain.feature_names
        self._names = [free_name(f"c{place}", taken) for place in range(len(formula.readings))]
        self._used: set[int] = set()

    def codes(self) -> str:
        """Write the codes that have been looked at; some column, where none has."""
        readings = self._formula.readings
        return ", ".join(
            f"{case(readings[place], _words(range(readings[place].n_codes)))}"
            f" AS {identifier(self._names[place])}"
            for place in sorted(self._used) or [0]
        )

    def pair(self, pair: Pair) -> str:
        """Write what two columns add together."""
        (first, second), (own, other) = pair.features, pair.cell_of
        lines = [self._case(second, _words(values[other])) for values in pair.values]
        return self._case(first, [lines[cell] for cell in own])

    def branch(self, tree: Branching, node: int) -> str:
        """Write the part of a tree below a node."""
        inner = len(tree.splits)
        if node >= inner:
            return str(int(tree.values[self._output, node - inner]))
        split = self._formula.splits[tree.splits[node]]
        ways = [self.branch(tree, 2 * node + 1 + side) for side in (0, 1)]
        return self._case(split.reading, [ways[turn] for turn in split.turns])

    def _case(self, place: int, results: Sequence[str]) -> str:
        """Write the result that a row has, given one for each code of a column."""
        spans = list(runs(results))
        if len(spans) == 1:
            return results[0]
        self._used.add(place)
        name = identifier(self._names[place])
        if len(set(results)) > 2:
            lines = [f"WHEN {name} <= {last} THEN {results[last]}" for _, last in spans[:-1]]
            return f"CASE {' '.join(lines)} ELSE {results[-1]} END"
        held = spans[len(spans) % 2 :: 2]  # of an odd number, the fewer
        within = " OR ".join(_within(name, span, len(results) - 1) for span in held)
        other = results[0] if len(spans) % 2 else results[-1]
        return f"CASE WHEN {within} THEN {results[held[0][0]]} ELSE {other} END"


def _within(name: str, span: tuple[int, int], most: int) -> str:
    first, last = span
    if first == 0:
        return f"{name} <= {last}"
    if last == most:
        return f"{name} >= {first}"
    return f"{name} = {first}" if first == last else f"{name} BETWEEN {first} AND {last}"


def _words(values: Iterable[int]) -> list[str]:
    return [str(int(value)) for value in values]
