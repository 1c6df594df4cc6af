"""Node histograms level by level on a card: as `engine.growth`, without bundles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from privboost.cuda.places import Place
from privboost.cuda.routes import CardRoutes
from privboost.cuda.rows import CardRows
from privboost.cuda.sums import sum_by_node
from privboost.cuda.tasks import SIBLINGS, Task
from privboost.engine.growth import asks_children
from privboost.engine.queries import NodeHistograms
from privboost.trees.cell_map import CellMap


@dataclass
class CardGrower:
    """Answers `NodeHistograms` for the rows on one card."""

    rows: CardRows
    routes: CardRoutes
    _last: tuple[NodeHistograms, Any] | None = None

    def forget(self) -> None:
        """Drop what belongs to a tree: the rows' states have changed."""
        self._last = None

    def answer(self, query: NodeHistograms, pairs: Any) -> np.ndarray:
        """Return the exact histograms (nodes, cells, 2), given the pairs of rows."""
        rows, card = self.rows, self.rows.card
        out = card.zeros((*query.shape[:-1], 2), np.int64)
        self.routes.follow((query.tree,))
        places = places_apart(rows, query.cells)
        siblings = None
        if self._last is not None and asks_children(query, self._last[0]):
            siblings = self._siblings(out, self._last[1])
        chosen = None if siblings is None else siblings[1]
        weighted = rows.weight is not None
        sum_by_node(card, pairs, self.routes.nodes(0), chosen, places, out, rows.n, weighted)
        if siblings is not None:
            card.launch("subtract_siblings", siblings[0], blocks=card.processors)
        self._last = query, out
        return card.fetch(out)

    def _siblings(self, out: Any, parent: Any) -> tuple[Task, Any]:
        """Choose the siblings that are added up; the others are differences."""
        card, (leaves, cells) = self.rows.card, out.shape[:2]
        counts, chosen = self.routes.counts(), card.zeros(leaves, np.uint8)
        task = Task(SIBLINGS, leaves=leaves, cells=cells, counts=card.address(counts))
        task.set(chosen=card.address(chosen), out=card.address(out), parent=card.address(parent))
        card.launch("choose_siblings", task, blocks=1)
        return task, chosen


def places_apart(rows: CardRows, cells: CellMap) -> list[Place]:
    """Return the cells of each feature, of parts that are one feature each."""
    return [
        Place((rows.columns[part.features[0]],), part.cell_of, part.sizes, first)
        for part, first in zip(cells.parts, cells.first, strict=True)
    ]
