"""A party's checks of queries, updates and events: of their shapes, and of their sensitivity.

Kernels do not check shapes, and a failure must not depend on the rows: it would reveal them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privboost.engine.queries import (
    CellSums,
    GramSums,
    LinearSums,
    NodeHistograms,
    Query,
    Sample,
    TreeSums,
    VoteCounts,
)
from privboost.engine.updates import (
    AddCellValues,
    AddTreeValues,
    SetLinearScores,
    SetSpan,
    SetTerms,
    Start,
    Update,
    UseLoss,
)
from privboost.errors import FederationError, ModelFileError
from privboost.estimators.stream_checks import check_tree
from privboost.grid import SCORE_STEPS
from privboost.losses import LossTable
from privboost.models.checks import (
    largest,
    need,
    need_array,
    need_list,
    need_number,
    need_scores,
    need_whole,
)
from privboost.tables.layout import Layout
from privboost.vectors.terms import Terms

_PLACE = "messages"


class CommandChecker:
    """Checks queries and updates against the columns, and tracks the state they depend on.

    Parameters
    ----------
    layout : Layout
        The columns of the rows.
    n_outputs : int
        Number of scores of a row.
    """

    def __init__(self, layout: Layout, n_outputs: int) -> None:
        self._layout, self._n_outputs = layout, n_outputs
        self._started = self._has_loss = False
        self._terms: Terms | None = None
        self._most = np.full(n_outputs, SCORE_STEPS, dtype=np.int64)

    def check_query(self, query: Query) -> None:
        """Refuse a query that does not fit the columns, or comes before `Start`."""
        try:
            need(self._started, _PLACE, "rows begin before they answer queries")
            self._check_query(query)
        except (ValueError, TypeError, AttributeError) as error:
            raise _federation_error(error) from None

    def check_update(self, update: Update) -> None:
        """Refuse an update that does not fit the columns; else record the state after it."""
        try:
            self._follow(update)
        except (ValueError, TypeError, AttributeError) as error:
            raise _federation_error(error) from None

    def _check_query(self, query: Query) -> None:
        lossless = isinstance(query, GramSums | VoteCounts)
        need(self._has_loss or lossless, _PLACE, "rows have no loss yet")
        if isinstance(query, LinearSums | GramSums):
            need(self._terms is not None, _PLACE, "rows are no vectors yet")
            if isinstance(query, LinearSums):
                self._check_output(query.output)
            return
        self._check_output(query.output)
        if query.sample is not None:
            _check_sample(query.sample)
        if isinstance(query, TreeSums):
            self._check_trees(query.trees)
        if isinstance(query, NodeHistograms | VoteCounts):
            check_tree(query.tree, self._layout)
        if isinstance(query, CellSums | NodeHistograms | VoteCounts):
            query.cells.check(self._layout)
        if isinstance(query, VoteCounts):
            need_array(query.node_of_leaf, _PLACE, np.uint16, (query.tree.n_leaves,))
            need_whole(query.votes, _PLACE, 0)

    def _follow(self, update: Update) -> None:
        if isinstance(update, Start):
            need(update.n_outputs == self._n_outputs, _PLACE, "states of each output are needed")
            if update.loss is not None:
                _check_loss(update.loss)
            self._started, self._has_loss = True, update.loss is not None
            self._most[:] = SCORE_STEPS
        elif isinstance(update, UseLoss):
            _check_loss(update.loss)
            self._has_loss = True
        elif isinstance(update, SetTerms):
            self._check_terms(update.terms)
            self._terms = update.terms
        elif isinstance(update, AddCellValues):
            update.cells.check(self._layout)
            values = update.value_of
            parts = [
                values[first : first + part.n_cells]
                for part, first in zip(update.cells.parts, update.cells.first, strict=True)
            ]
            self._add(update.output, sum(int(largest(part, axis=0)) for part in parts))
        elif isinstance(update, AddTreeValues):
            trees = self._check_trees(update.trees)
            shape = (len(trees), trees[0].n_leaves)
            values = need_array(update.value_of, _PLACE, np.int32, shape)
            self._add(update.output, int(largest(values, axis=1).sum()))
        elif isinstance(update, SetLinearScores):
            self._set(update)
        else:
            need(isinstance(update, SetSpan), _PLACE, "an unknown update")

    def _set(self, update: SetLinearScores) -> None:
        terms = self._terms
        need(terms is not None and self._started, _PLACE, "rows are no vectors yet")
        assert terms is not None
        self._check_output(update.output)
        need_array(update.coefficients, _PLACE, np.int32, (terms.n_coordinates,))
        self._most[update.output] = SCORE_STEPS
        self._add(update.output, terms.most_score(update.coefficients))

    def _add(self, output: int, most: int) -> None:
        need(self._started, _PLACE, "rows begin before their scores change")
        self._check_output(output)
        self._most[output] += most
        need_scores(self._most, _PLACE)

    def _check_output(self, output: Any) -> None:
        need_whole(output, _PLACE, 0, self._n_outputs - 1)

    def _check_trees(self, trees: Any) -> list[Any]:
        listed = need_list(trees, _PLACE)
        for tree in listed:
            check_tree(tree, self._layout)
        need(len({tree.n_leaves for tree in listed}) == 1, _PLACE, "trees of one depth are needed")
        return listed

    def _check_terms(self, terms: Terms) -> None:
        terms.check()
        n_codes = self._layout.n_codes
        for pair, *arrays in zip(terms.features, terms.coordinate, terms.value, strict=True):
            first, second = need_list(pair, _PLACE, 2)
            need_whole(first, _PLACE, 0, len(n_codes) - 1)
            need_whole(second, _PLACE, -1, len(n_codes) - 1)
            size = n_codes[first] * (1 if second == -1 else n_codes[second])
            for array in arrays:
                need_array(array, _PLACE, np.int32, (size,))


def _check_loss(loss: Any) -> None:
    """Refuse a table of another shape; the curator bounds its entries."""
    need(isinstance(loss, LossTable), _PLACE, "a loss is needed")
    gradient = need_array(loss.gradient, _PLACE, np.int32, (3, None))
    size = gradient.shape[1]
    need(size > 0, _PLACE, "an entry for each score is needed")
    need_array(loss.hessian, _PLACE, np.int32, (3, size))
    need_whole(loss.shift, _PLACE, 0, 31)
    if loss.taking_part is not None:
        need_array(loss.taking_part, _PLACE, np.uint8, (3, size), 0, 1)


def _check_sample(sample: Sample) -> None:
    need_array(sample.key, _PLACE, np.uint8, (32,))
    need_number(sample.rate, _PLACE, 0, 1, above=True)


def _federation_error(error: Exception) -> FederationError:
    """Return the error of a message; these checks see no rows."""
    text = str(error) if isinstance(error, ModelFileError) else f"{_PLACE}: {error}"
    return FederationError(text.replace("log.trees", _PLACE))
