"""Scores, individual budgets and samples of the rows on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from privboost._core.grid import BUDGET_STEPS, FULL_RANGE, SCORE_STEPS, WEIGHT_STEPS
from privboost.cuda.aes import ROUND_TABLE, round_keys
from privboost.cuda.device import (
    CHARGE,
    LINES,
    LOOK_UP,
    PAIRS,
    PREDICTIONS,
    SAMPLE,
    START,
    Task,
    spread,
)
from privboost.cuda.rows import DeviceRows
from privboost.data.rows import RelativeResiduals, nonconformity
from privboost.engine.look_ups import NO_EDGES, need_lines, need_no_bins, need_same_lines
from privboost.engine.protocol import BaseShard, Summand
from privboost.losses.base import LossTable
from privboost.randomness.sampling import Sample


class DeviceState(BaseShard):
    """The part of a CUDA shard that holds the rows' scores, their budgets, and the loss.

    Attributes
    ----------
    rows : DeviceRows
        The rows.
    n_outputs : int
        The number of scores of a row; 0 before a start.
    """

    def __init__(self, rows: DeviceRows) -> None:
        super().__init__(rows.layout)
        self.rows = rows
        self.n_outputs, self._range, self._edges = 0, FULL_RANGE, NO_EDGES
        self._lines: Any = None
        self._active: Any = None
        self._left: Any = None
        self._state: list[Any] = []
        self._loss: LossTable | None = None
        self._tables: dict[tuple[str, ...], Any] = {}
        self._prices: dict[int, tuple[np.ndarray, ...]] = {}

    def state(self, output: int) -> Any:
        """Return the scores of one output."""
        if not self._state:
            raise RuntimeError("a shard needs a Start before its rows have scores")
        return self._state[output]

    def own(self, output: int) -> int:
        """Return the class of an output."""
        return 1 if self.n_outputs == 1 else output

    def start(self, loss: LossTable | None, n_outputs: int) -> None:
        """Reset the scores of all rows, and use a loss from now on."""
        need_lines(loss, self._edges, n_outputs)
        self.n_outputs = n_outputs
        self._loss, self._tables = loss, {}
        self._lines = self._find_lines() if len(self._edges) else None
        if self._active is not None:
            self._active = self.rows.allocate(
                np.uint8
            )  # a charge under another loss pays for nothing
        self._state = [self.rows.allocate(np.int32) for _ in range(n_outputs)]
        for output in range(n_outputs):
            self.reset(output)

    def reset(self, output: int) -> None:
        """Reset the scores of one output."""
        task = self._about_start(Task(START, state=self.rows.device.target(self._state[output])))
        self.rows.device.launch("begin_states", task, **spread(self.rows.device, self.rows.n))

    def bounded_predictions(self, output: int, limit: int) -> tuple[Any, Any]:
        """Return predictions within ± `limit`, and the states of such predictions."""
        rows, device = self.rows, self.rows.device
        kept, bounded = rows.allocate(np.int32), rows.allocate(np.int32)
        task = self._about_start(Task(PREDICTIONS, state=device.address(self.state(output))))
        task.set(kept=device.target(kept), bounded=device.target(bounded), limit=limit)
        device.launch("bound_predictions", task, **spread(device, rows.n))
        return kept, bounded

    def _about_start(self, task: Task) -> Task:
        """Add to a task what rows' states at the start follow from."""
        rows, (low, high) = self.rows, self._range
        binned = self._lines is not None  # then states start at 0
        task.set(minus_label=0 if binned else rows.device.address(rows.minus_label), n=rows.n)
        task.set(middle=(low + high) // 2, half=(high - low) // 2, steps=SCORE_STEPS)
        return task

    def use_loss(self, loss: LossTable) -> None:
        """Use another loss from now on."""
        need_same_lines(loss, self._loss)
        self._loss, self._tables = loss, {}

    def clip_labels(self, low: int, high: int) -> None:
        """Clip numeric labels to a range from the next start on."""
        self._range = low, high

    def bin_labels(self, edges: np.ndarray) -> None:
        """Look up numeric labels by bin from the next start on."""
        self._edges = edges

    def _find_lines(self) -> Any:
        """Return the bin of each label, as `data.rows.lines_of_labels` does."""
        rows, device, edges = self.rows, self.rows.device, self._edges
        if rows.n and rows.minus_label is None:
            raise RuntimeError("only numeric labels have bins")
        lines = rows.allocate(np.uint8)
        task = Task(LINES, label=device.address(rows.label), out=device.target(lines), n=rows.n)
        task.set(minus_label=device.address(rows.minus_label))
        task.set(n_edges=len(edges), edges=task.put(edges))
        device.launch("label_lines", task, **spread(device, rows.n))
        return lines

    @property
    def _line_label(self) -> Any:
        """The labels, or their bins, by which lines of the loss are found."""
        return self.rows.label if self._lines is None else self._lines

    def use_part(
        self, put_aside: Sample, aside: bool, relative: RelativeResiduals | None = None
    ) -> None:
        """Have only the rows put aside count, with nonconformity as states, or only others.

        Once or twice in a fit, so the host computes it.
        """
        need_no_bins(self._lines)
        rows, device = self.rows, self.rows.device
        rows.use_part(put_aside, aside)
        if aside and self._state:
            states = np.stack([rows.to_host(state) for state in self._state])
            minus_label = None if rows.minus_label is None else rows.to_host(rows.minus_label)
            own = nonconformity(states, rows.all_labels, minus_label, self._range, relative)
            device.write(self._state[0], 0, own)

    def open_budgets(self) -> None:
        """Give each row a lifetime budget."""
        if self._left is not None:
            raise RuntimeError("lifetime budgets can be opened once only")
        self._left, self._active = self.rows.allocate(np.int32), self.rows.allocate(np.uint8)
        self._left.fill(BUDGET_STEPS)

    def close_budgets(self) -> None:
        """Let every row count again."""
        self._active = None

    def set_price(self, number: int, tables: tuple[np.ndarray, ...]) -> None:
        """Store the charges of a kind of release."""
        self._prices[number] = tables

    def charge(self, price: int, output: int) -> None:
        """Charge every row that can afford a price; the others do not count."""
        if self._loss is None or self._left is None or self._active is None:
            raise RuntimeError("a shard needs a Start and OpenBudgets before it can charge")
        tables = [self.rows.device.put(table) for table in self._prices[price]]
        for begin, end, cohort in self.rows.cohorts:
            if cohort < len(tables):
                self._charge(self._loss, tables[cohort], output, begin, end)
            else:
                self.rows.device.clear(self._active, begin, end)

    def _charge(self, loss: LossTable, table: Any, output: int, begin: int, end: int) -> None:
        rows, device = self.rows, self.rows.device
        task = Task(CHARGE, weight=device.address(rows.weight))
        task.set(label=device.address(self._line_label), lines=loss.lines)
        task.set(state=device.address(self._state[output]), left=device.target(self._left))
        task.set(active=device.target(self._active), table=device.address(table))
        task.set(begin=begin, end=end, own=self.own(output), size=loss.size, shift=loss.shift)
        task.set(steps=len(table), weight_steps=WEIGHT_STEPS)
        device.launch("charge_rows", task, **spread(device, end - begin))

    def look_up(self, summand: Summand, active: Any, state: Any = None) -> np.ndarray:
        """Return the arguments by which kernels look up what each active row adds.

        The rows' own states are looked up unless others are given.
        """
        loss, rows, device = self._loss, self.rows, self.rows.device
        statistics, output = summand.statistics, summand.output
        if loss is None:
            raise RuntimeError("a shard needs a Start before it can answer")
        if statistics not in self._tables:
            self._tables[statistics] = device.put(_pairs(loss, statistics))
        look_up = np.zeros((), dtype=LOOK_UP)
        look_up["label"], look_up["weight"] = (
            device.address(self._line_label),
            device.address(rows.weight),
        )
        look_up["state"], look_up["active"] = (
            device.address(self._state[output] if state is None else state),
            device.address(active),
        )
        look_up["table"] = device.address(self._tables[statistics])
        look_up["n"], look_up["own"] = rows.n, self.own(output)
        look_up["lines"], look_up["size"], look_up["shift"] = loss.lines - 1, loss.size, loss.shift
        return look_up

    def pairs(self, look_up: np.ndarray) -> Any:
        """Return the pairs of statistics of all rows."""
        rows, device = self.rows, self.rows.device
        out = rows.scratch(np.int64)
        task = Task(PAIRS, look=look_up, out=device.address(out))
        device.launch("row_pairs", task, **spread(device, rows.n, 4))
        return out

    def counted(self, sample: Sample | None) -> Any:
        """Return which rows count: those charged (with budgets) and in the sample; None for all."""
        if sample is None:
            return self._active
        rows, device = self.rows, self.rows.device
        if rows.first_id is None:
            raise RuntimeError("rows without ids cannot be sampled")
        if not 0 < sample.rate <= 1:
            raise ValueError("rate must be above 0 and at most 1")
        if sample.rate == 1:
            return self._active
        out = rows.scratch(np.uint8)
        task = Task(SAMPLE, ids=device.address(rows.ids), first_id=rows.first_id, n=rows.n)
        task.set(active=device.address(self._active), out=device.address(out))
        task.set(limit=int(sample.rate * 2**32), round_table=task.put(ROUND_TABLE))
        task.set(round_keys=task.put(round_keys(sample.key.tobytes())))
        device.launch("sample_rows", task, **spread(device, rows.n, 4))
        return out


def _pairs(loss: LossTable, statistics: tuple[str, ...]) -> np.ndarray:
    """Return the pairs of all lines but that of unknown labels (int32); one alone is second."""
    tables = [loss.statistic(name) for name in statistics]
    if any(table[-1].any() for table in tables):
        raise ValueError("a row with an unknown label must add nothing")
    pairs = np.zeros((loss.lines - 1, loss.size, 2), dtype=np.int32)
    for index, table in zip(range(2 - len(tables), 2), tables, strict=True):
        pairs[:, :, index] = table[:-1]
    return pairs
