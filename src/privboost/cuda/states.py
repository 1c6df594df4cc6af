"""What the rows on a card know of themselves: scores, budgets, and who takes part in a query."""

from __future__ import annotations

from typing import Any

import numpy as np

from privboost.cuda.card import spread
from privboost.cuda.cipher import TURNS, round_keys
from privboost.cuda.rows import CardRows
from privboost.cuda.tasks import CHARGE, LOOK_UP, PAIRS, SAMPLE, START, Task
from privboost.engine.queries import Sample
from privboost.engine.updates import Charge, Price, Start
from privboost.grid import BUDGET_STEPS, SCORE_STEPS, WEIGHT_STEPS, WHOLE_SPAN
from privboost.losses import UNKNOWN, LossTable


class CardStates:
    """The states of rows, their budgets, and the loss by which both are looked up.

    Attributes
    ----------
    n_outputs : int
        How many states a row has; 0 before a start.
    span : (int, int)
        Within which a number's labels are told apart.
    active : array or None
        Who paid for the next release; None without budgets.
    """

    def __init__(self, rows: CardRows) -> None:
        self._rows = rows
        self.n_outputs, self.span = 0, WHOLE_SPAN
        self.active: Any = None
        self._left: Any = None
        self._state: list[Any] = []
        self._loss: LossTable | None = None
        self._tables: dict[tuple[str, ...], Any] = {}
        self._prices: dict[int, Price] = {}

    def state(self, output: int) -> Any:
        """Return the states of one output."""
        return self._state[output]

    def own(self, output: int) -> int:
        """Return the class that is an output's own."""
        return 1 if self.n_outputs == 1 else output

    def use(self, loss: LossTable | None) -> None:
        """Go on with another loss."""
        self._loss, self._tables = loss, {}

    def start(self, update: Start) -> None:
        """Put all states to where boosting begins."""
        self.n_outputs = update.n_outputs
        self.use(update.loss)
        if self.active is not None:
            self.active = self._rows.room(np.uint8)  # a charge under another loss pays for nothing
        self._state = [self._rows.room(np.int32) for _ in range(update.n_outputs)]
        for output in range(update.n_outputs):
            self.begin(output)

    def begin(self, output: int) -> None:
        """Put the states of one output to where boosting begins."""
        rows, card, (low, high) = self._rows, self._rows.card, self.span
        task = Task(START, start=card.address(rows.start), state=card.target(self._state[output]))
        task.set(middle=(low + high) // 2, half=(high - low) // 2, steps=SCORE_STEPS, n=rows.n)
        card.launch("begin_states", task, **spread(card, rows.n))

    def open_budgets(self) -> None:
        """Give each row a budget for life."""
        if self._left is not None:
            raise RuntimeError("budgets are for life: they are opened once")
        self._left, self.active = self._rows.room(np.int32), self._rows.room(np.uint8)
        self._left.fill(BUDGET_STEPS)

    def price(self, price: Price) -> None:
        """Remember what a kind of release costs."""
        self._prices[price.number] = price

    def charge(self, update: Charge) -> None:
        """Charge every row that can afford it; the others sit out."""
        if self._loss is None or self._left is None or self.active is None:
            raise RuntimeError("a shard needs a Start and OpenBudgets before it can charge")
        tables = [self._rows.card.put(table) for table in self._prices[update.price].tables]
        for begin, end, cohort in self._rows.cohorts:
            if cohort < len(tables):
                self._charge(self._loss, tables[cohort], update.output, begin, end)
            else:
                self._rows.card.clear(self.active, begin, end)

    def _charge(self, loss: LossTable, table: Any, output: int, begin: int, end: int) -> None:
        rows, card = self._rows, self._rows.card
        task = Task(CHARGE, label=card.address(rows.label), weight=card.address(rows.weight))
        task.set(state=card.address(self._state[output]), left=card.target(self._left))
        task.set(active=card.target(self.active), table=card.address(table), begin=begin, end=end)
        task.set(own=self.own(output), size=loss.size, shift=loss.shift, steps=len(table))
        task.set(weight_steps=WEIGHT_STEPS)
        card.launch("charge_rows", task, **spread(card, end - begin))

    def look_up(self, statistics: tuple[str, ...], output: int, active: Any) -> np.ndarray:
        """Return where rows' pairs of statistics are looked up."""
        loss, rows, card = self._loss, self._rows, self._rows.card
        if loss is None:
            raise RuntimeError("a shard needs a Start before it can answer")
        if statistics not in self._tables:
            self._tables[statistics] = card.put(_pairs(loss, statistics))
        look_up = np.zeros((), dtype=LOOK_UP)
        look_up["label"], look_up["weight"] = card.address(rows.label), card.address(rows.weight)
        look_up["state"], look_up["active"] = (
            card.address(self._state[output]),
            card.address(active),
        )
        look_up["table"] = card.address(self._tables[statistics])
        look_up["n"], look_up["own"] = rows.n, self.own(output)
        look_up["size"], look_up["shift"] = loss.size, loss.shift
        return look_up

    def pairs(self, look_up: np.ndarray) -> Any:
        """Return the pairs of all rows."""
        rows, card = self._rows, self._rows.card
        out = rows.scratch(np.int64)
        task = Task(PAIRS, look=look_up, out=card.address(out))
        card.launch("row_pairs", task, **spread(card, rows.n, 4))
        return out

    def taking_part(self, sample: Sample | None) -> Any:
        """Return who counts: rows that paid, if there are budgets, and are in the sample."""
        if sample is None:
            return self.active
        rows, card = self._rows, self._rows.card
        if rows.first_id is None:
            raise RuntimeError("rows without ids cannot be sampled")
        if not 0 < sample.rate <= 1:
            raise ValueError("rate must lie above 0, and be at most 1")
        if sample.rate == 1:
            return self.active
        out = rows.scratch(np.uint8)
        task = Task(SAMPLE, ids=card.address(rows.ids), first_id=rows.first_id, n=rows.n)
        task.set(active=card.address(self.active), out=card.address(out))
        task.set(limit=int(sample.rate * 2**32), turns=task.put(TURNS))
        task.set(round_keys=task.put(round_keys(sample.key.tobytes())))
        card.launch("sample_rows", task, **spread(card, rows.n, 4))
        return out


def _pairs(loss: LossTable, statistics: tuple[str, ...]) -> np.ndarray:
    """Return the pairs of rows of another class and of the own (int32); one alone is second."""
    tables = [loss.statistic(name) for name in statistics]
    if any(table[UNKNOWN].any() for table in tables):
        raise ValueError("a row of an unknown label adds nothing")
    pairs = np.zeros((2, loss.size, 2), dtype=np.int32)
    for place, table in zip(range(2 - len(tables), 2), tables, strict=True):
        pairs[:, :, place] = table[:UNKNOWN]
    return pairs
