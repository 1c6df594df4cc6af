"""The rows on one card, with their state: answers and follows what `engine.shard` does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from privboost.cuda.card import Card, spread
from privboost.cuda.growth import CardGrower, places_apart
from privboost.cuda.places import Place, place_of_part, values_of_part
from privboost.cuda.routes import CardRoutes
from privboost.cuda.rows import CardRows
from privboost.cuda.states import CardStates
from privboost.cuda.sums import add_values, sum_by_node, sum_places
from privboost.cuda.tasks import CELLS, VOTES, Task
from privboost.cuda.vectors import CardVectors
from privboost.engine.growth import same_sample
from privboost.engine.queries import (
    CellSums,
    GramSums,
    LinearSums,
    NodeHistograms,
    Query,
    ScoreCounts,
    TreeSums,
    VoteCounts,
)
from privboost.engine.updates import (
    AddCellValues,
    AddTreeValues,
    Charge,
    CloseBudgets,
    OpenBudgets,
    Price,
    SetLinearScores,
    SetSpan,
    SetTerms,
    Start,
    Update,
    UseLoss,
)
from privboost.grid import VOTE
from privboost.tables.rows import Rows
from privboost.trees.cell_map import CellMap


class CardShard:
    """Blocks of rows on a card."""

    def __init__(self, card: Card, blocks: Sequence[Rows], n_threads: int = 1) -> None:
        self._card = card
        self._rows = CardRows(card, blocks, n_threads)
        card.settle()
        self._states = CardStates(self._rows)
        self._routes = CardRoutes(self._rows)
        self._grower = CardGrower(self._rows, self._routes)
        self._vectors: CardVectors | None = None
        self._pairs: tuple[NodeHistograms, Any] | None = None

    def apply(self, update: Update) -> None:
        """Follow what has been released."""
        self._forget()
        states = self._states
        if isinstance(update, Start):
            states.start(update)
        elif isinstance(update, SetSpan):
            states.span = update.low, update.high
        elif isinstance(update, OpenBudgets):
            states.open_budgets()
        elif isinstance(update, CloseBudgets):
            states.active = None
        elif isinstance(update, Price):
            states.price(update)
        elif isinstance(update, Charge):
            states.charge(update)
        elif isinstance(update, UseLoss):
            states.use(update.loss)
        elif isinstance(update, SetTerms):
            self._vectors = CardVectors(self._rows, states, update.terms)
        elif isinstance(update, SetLinearScores):
            self._need_vectors().set_scores(update)
        else:
            self._add(update)
        self._card.settle()

    def _forget(self) -> None:
        """Drop what belongs to a tree that grows."""
        self._grower.forget()
        self._pairs = None

    def _add(self, update: AddCellValues | AddTreeValues) -> None:
        """Add released values to states."""
        rows = self._rows
        if not rows.n:
            return
        if isinstance(update, AddCellValues):
            self._check_cells(update.cells)
            values = update.cells.split(update.value_of)
            parts = zip(update.cells.parts, values, strict=True)
            places = [values_of_part(rows, part, own) for part, own in parts]
        else:
            self._routes.follow(update.trees)
            places = [self._routes.values(k, own) for k, own in enumerate(update.value_of)]
        add_values(self._card, self._states.state(update.output), rows.n, places)

    def sum(self, query: Query) -> np.ndarray:
        """Answer with exact int64 sums over these rows."""
        answer = self._answer(query)
        self._card.settle()
        if not self._card.keeps:
            self._forget()
        return answer

    def _answer(self, query: Query) -> np.ndarray:
        if isinstance(query, LinearSums | GramSums):
            return self._add_up_vectors(query)
        if isinstance(query, CellSums | NodeHistograms | VoteCounts):
            self._check_cells(query.cells)
        if isinstance(query, VoteCounts):
            return self._count_votes(query)
        if not self._rows.n:
            return np.zeros(query.shape, dtype=np.int64)
        if isinstance(query, NodeHistograms):
            sums = self._grower.answer(query, self._pairs_of(query))
        else:
            sums = self._add_up(query)
        return sums.reshape(*query.shape[:-1], 2)[..., 2 - len(query.statistics) :]

    def _add_up(self, query: CellSums | TreeSums | ScoreCounts) -> np.ndarray:
        active = self._states.taking_part(query.sample)
        look_up = self._states.look_up(query.statistics, query.output, active)
        out = self._card.zeros((math.prod(query.shape[:-1]), 2), np.int64)
        weighted = self._rows.weight is not None
        sum_places(self._card, look_up, self._places(query), out, weighted)
        return self._card.fetch(out)

    def _places(self, query: CellSums | TreeSums | ScoreCounts) -> list[Place]:
        """Return the cells of rows, for each part of a query."""
        if isinstance(query, TreeSums):
            self._routes.follow(query.trees)
            leaves = query.trees[0].n_leaves
            return [self._routes.place(k, k * leaves) for k in range(len(query.trees))]
        if isinstance(query, CellSums):
            parts = zip(query.cells.parts, query.cells.first, strict=True)
            return [place_of_part(self._rows, part, first) for part, first in parts]
        rows, card = self._rows, self._card
        cells = rows.scratch(np.uint32)
        task = Task(CELLS, state=card.address(self._states.state(query.output)))
        task.set(label=card.address(rows.label), out=card.address(cells), n=rows.n)
        task.set(own=self._states.own(query.output), classes=query.classes)
        task.set(n_edges=len(query.edges), edges=task.put(query.edges))
        card.launch("score_cells", task, **spread(card, rows.n))
        return [Place((cells,), (None,), ((len(query.edges) + 1) * query.classes,))]

    def _pairs_of(self, query: NodeHistograms) -> Any:
        """Return the pairs of rows, which are remembered while a tree grows."""
        if self._pairs is not None:
            last, pairs = self._pairs
            same = (query.output, query.statistics) == (last.output, last.statistics)
            if same and same_sample(query.sample, last.sample):
                return pairs
        active = self._states.taking_part(query.sample)
        pairs = self._states.pairs(self._states.look_up(query.statistics, query.output, active))
        self._pairs = query, pairs
        return pairs

    def _count_votes(self, query: VoteCounts) -> np.ndarray:
        states, rows, card = self._states, self._rows, self._card
        if not states.n_outputs or query.sample is not None or states.active is not None:
            raise RuntimeError("votes are counted after a Start, of all rows")
        counts = np.zeros(query.shape, dtype=np.int64)
        if not rows.n:
            return counts
        self._routes.follow((query.tree,))
        node, pairs = rows.scratch(np.uint32), rows.scratch(np.int64)
        task = Task(VOTES, state=card.address(states.state(query.output)))
        task.set(label=card.address(rows.label), node=card.address(self._routes.nodes(0)))
        task.set(out=card.address(node), pairs=card.address(pairs), n=rows.n, votes=query.votes)
        task.set(own=states.own(query.output), vote_bits=VOTE.bit_length() - 1)
        task.set(node_of_leaf=task.put(query.node_of_leaf.astype(np.uint16)))
        card.launch("vote_nodes", task, **spread(card, rows.n))
        nodes, cells, sums, classes = query.shape
        out = card.zeros((nodes * sums * classes, cells - 1, 2), np.int64)
        places = places_apart(rows, query.cells)
        sum_by_node(card, pairs, node, None, places, out, rows.n, weighted=False)
        found = card.fetch(out)[:, :, 1].reshape(nodes, sums, classes, cells - 1)
        counts[:, :-1] = np.moveaxis(found, -1, 1)
        counts[0, -1, 0, 0] = rows.n_unknown
        return counts

    def _add_up_vectors(self, query: LinearSums | GramSums) -> np.ndarray:
        vectors = self._need_vectors()
        if not self._rows.n:
            return np.zeros(query.shape, dtype=np.int64)
        if isinstance(query, LinearSums):
            return vectors.sum_gradients(query)
        return vectors.sum_products(query)

    def _need_vectors(self) -> CardVectors:
        if self._vectors is None:
            raise RuntimeError("a shard needs a SetTerms before rows are vectors")
        return self._vectors

    def _check_cells(self, cells: CellMap) -> None:
        """Refuse cells that were not made for these rows."""
        if self._rows.layout is not None:
            cells.check(self._rows.layout)
