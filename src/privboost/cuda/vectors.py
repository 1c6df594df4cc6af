"""Vectors of a linear model of the rows on a device: as `engine.linear`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from privboost.cuda.card import spread
from privboost.cuda.places import Part, part_of_features, put_parts
from privboost.cuda.states import DeviceState
from privboost.cuda.sums import add_values, sum_parts
from privboost.cuda.tasks import GRADIENTS, PRODUCTS, SCALES, VECTORS, Task
from privboost.engine import linear_kernels
from privboost.engine.linear import ROOTS, check_terms, squares_of
from privboost.engine.protocol import Summand
from privboost.grid import CLIP_STEPS, FACTOR_STEPS, VECTOR_BITS, VECTOR_STEPS, WEIGHT_STEPS
from privboost.vectors.terms import Terms

_MOST_BYTES = 2**30
"""Bytes of vectors that are written at once."""
_SHARE = 8
"""They take at most this part of the spare memory: several streams may use it."""
_SIDE, _PRODUCT_THREADS = 64, 256
_SLICE = 4096
"""Rows whose products one block adds up, and the fewest vectors that are written at once."""


class DeviceVectors:
    """The vectors of rows on a device; they are computed whenever they are needed."""

    def __init__(self, shard: DeviceState, terms: Terms) -> None:
        rows = shard.rows
        self._rows, self._shard, self.terms = rows, shard, terms
        if rows.layout is not None:
            check_terms(terms, rows.layout)
        self._scale = self._scales() if terms.shortens and rows.n else None

    def _scales(self) -> Any:
        """Return the factor by which each row's vector is shortened."""
        rows, device = self._rows, self._rows.device
        out = rows.allocate(np.uint16)
        task = Task(SCALES, out=device.target(out), steps=VECTOR_STEPS, n=rows.n)
        squares = squares_of(self.terms)
        put_parts(
            device, task, [part_of_features(rows, own, table) for own, table in squares.items()]
        )
        device.launch("vector_scales", task, **spread(device, rows.n, 4))
        return out

    def set_scores(self, coefficients: np.ndarray, output: int) -> None:
        """Set each row's score to the product of its vector and the coefficients."""
        rows, tables = self._rows, self.terms.tables(coefficients)
        self._shard.reset(output)
        parts = [part_of_features(rows, features, table) for features, table in tables.items()]
        add_values(rows.device, self._shard.state(output), rows.n, parts)

    def sum_gradients(self, summand: Summand) -> np.ndarray:
        """Return the sum of vectors, each times its row's gradient."""
        rows, device, terms = self._rows, self._rows.device, self.terms
        finer = CLIP_STEPS // FACTOR_STEPS * (1 if rows.weight is None else WEIGHT_STEPS)
        bits = finer.bit_length() - 1 + (0 if self._scale is None else VECTOR_BITS)
        look_up = self._shard.look_up(summand, None)
        pairs = rows.scratch(np.int64)
        task = Task(GRADIENTS, look=look_up, scale=device.address(self._scale), bits=bits)
        task.set(out=device.address(pairs))
        device.launch("vector_gradients", task, **spread(device, rows.n, 4))
        look_up["pairs"] = device.address(pairs)
        total = np.zeros(terms.n_coordinates, dtype=np.int64)
        parts: list[Part] = []
        for features in terms.by_features:
            first = parts[-1].first + parts[-1].cells if parts else 0
            parts.append(replace(part_of_features(rows, features), first=first))
        out = device.zeros((sum(part.cells for part in parts), 2), np.int64)
        sum_parts(device, look_up, parts, out, weighted=False)
        sums = device.fetch(out)[:, 0]
        for part, numbers in zip(parts, terms.by_features.values(), strict=True):
            by_code = sums[part.first : part.first + part.cells].copy()
            for number in numbers:
                linear_kernels.fold(by_code, terms.coordinate[number], terms.value[number], total)
        return total

    def sum_products(self, factor: np.ndarray) -> np.ndarray:
        """Return the sum of the outer products of vectors with themselves."""
        rows, device, terms = self._rows, self._rows.device, self.terms
        tiles = -(-terms.n_coordinates // _SIDE)
        width = tiles * _SIDE
        step = max(min(_MOST_BYTES, device.spare // _SHARE) // (4 * width), _SLICE)
        out = device.zeros((width, width), np.int64)
        for begin in range(0, rows.n, step):
            end = min(begin + step, rows.n)
            vectors = device.zeros((end - begin, width), np.int32)
            self._write(factor, vectors, begin, end, width)
            task = Task(PRODUCTS, vectors=device.address(vectors), out=device.address(out))
            task.set(rows=end - begin, width=width, tiles=tiles, slice=_SLICE)
            blocks = tiles * tiles * -(-(end - begin) // _SLICE)
            threads = min(_PRODUCT_THREADS, device.threads)
            device.launch("add_products", task, blocks, threads=threads)
        half = np.triu(device.fetch(out))[: terms.n_coordinates, : terms.n_coordinates]
        products: np.ndarray = half + np.triu(half, 1).T
        return products

    def _write(self, factor: np.ndarray, vectors: Any, begin: int, end: int, width: int) -> None:
        rows, device = self._rows, self._rows.device
        task = Task(VECTORS, label=device.address(rows.label), weight=device.address(rows.weight))
        task.set(
            scale=device.address(self._scale), out=device.address(vectors), begin=begin, end=end
        )
        task.set(own=self._shard.own(0), width=width, bits=VECTOR_BITS)
        task.set(factors=task.put(factor.astype(np.int32)), roots=task.put(ROOTS))
        put_parts(
            device, task, [self._entries(number) for number in range(len(self.terms.features))]
        )
        device.launch("write_vectors", task, **spread(device, end - begin))

    def _entries(self, number: int) -> Part:
        """Return the coordinate and the value of each code of a term."""
        entries = np.stack([self.terms.coordinate[number], self.terms.value[number]], axis=1)
        return part_of_features(self._rows, self.terms.features[number], entries.astype(np.int32))
