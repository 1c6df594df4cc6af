"""What columns add to scores, as SQL on their codes.

A query that reads a column again in every node of every tree takes a database minutes. So columns
are turned into codes first, and everything else looks at those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from privboost.export.formula import Branching, Formula
from privboost.export.parts import Pair
from privboost.export.sql_cases import case, runs


class CodeWriter:
    """Writes terms of scores on codes, and remembers the columns whose codes they look at.

    Parameters
    ----------
    formula : Formula
        The scores.
    columns, codes : str
        The alias of the table that has the columns, and that of the one that has their codes.
    """

    def __init__(self, formula: Formula, columns: str, codes: str) -> None:
        self._formula, self._columns, self._codes = formula, columns, codes
        self._used: set[int] = set()

    def terms(self, output: int) -> list[str]:
        """Write what columns, pairs and trees add to one score of a row, in whole steps."""
        formula = self._formula
        terms = [self._case(place, _words(own[output])) for place, own in enumerate(formula.alone)]
        terms += [self._pair(pair) for pair in formula.pairs if pair.output == output]
        terms += [self._branch(tree, 0, output) for tree in formula.trees]
        return [term for term in terms if term != "0"]

    def codes(self) -> dict[str, str]:
        """Write the codes that terms have looked at, by name; a constant where none has been."""
        readings = self._formula.readings
        return {
            _name(place): case(
                readings[place], _words(range(readings[place].n_codes)), self._columns
            )
            for place in sorted(self._used)
        } or {_name(0): "0"}

    def _pair(self, pair: Pair) -> str:
        """Write what two columns add together."""
        (first, second), (own, other) = pair.features, pair.cell_of
        lines = [self._case(second, _words(values[other])) for values in pair.values]
        return self._case(first, [lines[cell] for cell in own])

    def _branch(self, tree: Branching, node: int, output: int) -> str:
        """Write the part of a tree below a node."""
        inner = len(tree.splits)
        if node >= inner:
            return str(int(tree.values[output, node - inner]))
        split = self._formula.splits[tree.splits[node]]
        ways = [self._branch(tree, 2 * node + 1 + side, output) for side in (0, 1)]
        return self._case(split.reading, [ways[turn] for turn in split.turns])

    def _case(self, place: int, results: Sequence[str]) -> str:
        """Write the result that a row has, given one for each code of a column."""
        spans = list(runs(results))
        if len(spans) == 1:
            return results[0]
        self._used.add(place)
        name = f"{self._codes}.{_name(place)}"
        if len(set(results)) > 2:
            lines = [f"WHEN {name} <= {last} THEN {results[last]}" for _, last in spans[:-1]]
            return f"CASE {' '.join(lines)} ELSE {results[-1]} END"
        held = spans[len(spans) % 2 :: 2]  # of an odd number, the fewer
        within = " OR ".join(_within(name, span, len(results) - 1) for span in held)
        other = results[0] if len(spans) % 2 else results[-1]
        return f"CASE WHEN {within} THEN {results[held[0][0]]} ELSE {other} END"


def _name(place: int) -> str:
    return f"c{place}"


def _within(name: str, span: tuple[int, int], most: int) -> str:
    first, last = span
    if first == 0:
        return f"{name} <= {last}"
    if last == most:
        return f"{name} >= {first}"
    return f"{name} = {first}" if first == last else f"{name} BETWEEN {first} AND {last}"


def _words(values: Iterable[int]) -> list[str]:
    return [str(int(value)) for value in values]
