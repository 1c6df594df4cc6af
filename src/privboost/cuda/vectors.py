"""Rows on a card as vectors of a linear model: as `engine.linear`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privboost.cuda.card import spread
from privboost.cuda.places import Place, codes_of, put_places
from privboost.cuda.rows import CardRows
from privboost.cuda.states import CardStates
from privboost.cuda.sums import add_values, sum_places
from privboost.cuda.tasks import GRADIENTS, PRODUCTS, SCALES, VECTORS, Task
from privboost.engine import linear_kernels
from privboost.engine.linear import ROOTS, check_terms, squares_of
from privboost.engine.queries import GRADIENT_COUNT, GramSums, LinearSums
from privboost.engine.updates import SetLinearScores
from privboost.grid import CLIP_STEPS, FACTOR_STEPS, VECTOR_BITS, VECTOR_STEPS, WEIGHT_STEPS
from privboost.vectors.terms import Terms

_MOST_BYTES = 2**30
"""Of vectors that are written at once."""
_SHARE = 8
"""They take at most this part of what commands have beside rows: several may be under way."""
_SIDE, _PRODUCT_THREADS = 64, 256
_SLICE = 4096
"""Rows whose products one block adds up; so many vectors are written at once in any case."""


class CardVectors:
    """The vectors of rows on a card; they are made anew whenever they are needed."""

    def __init__(self, rows: CardRows, states: CardStates, terms: Terms) -> None:
        self._rows, self._states, self._terms = rows, states, terms
        if rows.layout is not None:
            check_terms(terms, rows.layout)
        self._scale = self._scales() if terms.shortens and rows.n else None

    def _scales(self) -> Any:
        """What each row's vector is multiplied by, so that it is not too long."""
        rows, card = self._rows, self._rows.card
        out = rows.room(np.uint16)
        task = Task(SCALES, out=card.target(out), steps=VECTOR_STEPS, n=rows.n)
        squares = squares_of(self._terms)
        put_places(card, task, [codes_of(rows, own, table) for own, table in squares.items()])
        card.launch("vector_scales", task, **spread(card, rows.n, 4))
        return out

    def set_scores(self, update: SetLinearScores) -> None:
        """Put each row's score to what coefficients give for its vector."""
        rows, tables = self._rows, self._terms.tables(update.coefficients)
        self._states.begin(update.output)
        places = [codes_of(rows, features, table) for features, table in tables.items()]
        add_values(rows.card, self._states.state(update.output), rows.n, places)

    def sum_gradients(self, query: LinearSums) -> np.ndarray:
        """Return the sum of vectors, each times its row's gradient."""
        rows, card, terms = self._rows, self._rows.card, self._terms
        finer = CLIP_STEPS // FACTOR_STEPS * (1 if rows.weight is None else WEIGHT_STEPS)
        bits = finer.bit_length() - 1 + (0 if self._scale is None else VECTOR_BITS)
        look_up = self._states.look_up(GRADIENT_COUNT, query.output, None)
        pairs = rows.scratch(np.int64)
        task = Task(GRADIENTS, look=look_up, scale=card.address(self._scale), bits=bits)
        task.set(out=card.address(pairs))
        card.launch("vector_gradients", task, **spread(card, rows.n, 4))
        look_up["pairs"] = card.address(pairs)
        total = np.zeros(query.shape, dtype=np.int64)
        places: list[Place] = []
        for features in terms.by_features:
            first = places[-1].first + places[-1].cells if places else 0
            places.append(replace(codes_of(rows, features), first=first))
        out = card.zeros((sum(place.cells for place in places), 2), np.int64)
        sum_places(card, look_up, places, out, weighted=False)
        sums = card.fetch(out)[:, 0]
        for place, numbers in zip(places, terms.by_features.values(), strict=True):
            by_code = sums[place.first : place.first + place.cells].copy()
            for number in numbers:
                linear_kernels.fold(by_code, terms.coordinate[number], terms.value[number], total)
        return total

    def sum_products(self, query: GramSums) -> np.ndarray:
        """Return the sum of the outer products of vectors with themselves."""
        rows, card, terms = self._rows, self._rows.card, self._terms
        tiles = -(-terms.n_coordinates // _SIDE)
        width = tiles * _SIDE
        step = max(min(_MOST_BYTES, card.spare // _SHARE) // (4 * width), _SLICE)
        out = card.zeros((width, width), np.int64)
        for begin in range(0, rows.n, step):
            end = min(begin + step, rows.n)
            vectors = card.zeros((end - begin, width), np.int32)
            self._write(query, vectors, begin, end, width)
            task = Task(PRODUCTS, vectors=card.address(vectors), out=card.address(out))
            task.set(rows=end - begin, width=width, tiles=tiles, slice=_SLICE)
            blocks = tiles * tiles * -(-(end - begin) // _SLICE)
            threads = min(_PRODUCT_THREADS, card.threads)
            card.launch("add_products", task, blocks, threads=threads)
        half = np.triu(card.fetch(out))[: terms.n_coordinates, : terms.n_coordinates]
        products: np.ndarray = half + np.triu(half, 1).T
        return products

    def _write(self, query: GramSums, vectors: Any, begin: int, end: int, width: int) -> None:
        rows, card = self._rows, self._rows.card
        task = Task(VECTORS, label=card.address(rows.label), weight=card.address(rows.weight))
        task.set(scale=card.address(self._scale), out=card.address(vectors), begin=begin, end=end)
        task.set(own=self._states.own(0), width=width, bits=VECTOR_BITS)
        task.set(factors=task.put(query.factor.astype(np.int32)), roots=task.put(ROOTS))
        put_places(
            card, task, [self._entries(number) for number in range(len(self._terms.features))]
        )
        card.launch("write_vectors", task, **spread(card, end - begin))

    def _entries(self, number: int) -> Place:
        """The coordinate and the value of each code of a term."""
        entries = np.stack([self._terms.coordinate[number], self._terms.value[number]], axis=1)
        return codes_of(self._rows, self._terms.features[number], entries.astype(np.int32))
