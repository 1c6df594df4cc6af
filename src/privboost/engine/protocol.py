"""The protocol of the engine: messages, and the methods by which a shard reacts to them.

A query asks a shard for exact integer sums, an update tells it what has been released. Both are
frozen dataclasses that call methods of `BaseShard`, so a shard never asks what kind of message it
has. The CPU shard and the CUDA shard implement these methods; a check of a log of updates
implements those of `ShardState`. A row's state is its int32 score, less its label where the target
is a number without bins of labels; see `data.rows.initial_states`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from privboost._core import codec
from privboost.data.design_matrix import Terms
from privboost.data.rows import Layout, RelativeResiduals
from privboost.losses.base import LossTable
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap, CellPart
from privboost.trees.tree import Tree

MAGIC = b"PVBMSG01"

_TYPES: dict[str, type] = {
    "Sample": Sample,
    "Tree": Tree,
    "CellMap": CellMap,
    "CellPart": CellPart,
    "LossTable": LossTable,
    "Terms": Terms,
    "RelativeResiduals": RelativeResiduals,
}
"""Types that are read from bytes, by their tag: values that messages contain, and messages."""

_Kind = TypeVar("_Kind", bound="Message")


class Message:
    """A frozen dataclass that travels as bytes.

    A subclass with a `tag` can be read by `from_bytes`; its `__post_init__` checks the fields again
    where they are read.
    """

    def __init_subclass__(cls, tag: str | None = None) -> None:
        if tag is not None:
            _TYPES[tag] = cls

    def to_bytes(self) -> bytes:
        """Return the message as bytes."""
        tags = {kind: tag for tag, kind in _TYPES.items()}
        return codec.dump(_encode(self, tags), MAGIC)

    @classmethod
    def from_bytes(cls: type[_Kind], data: bytes) -> _Kind:
        """Read a message of this class or of a subclass.

        Raises
        ------
        ValueError, LookupError, TypeError or AttributeError
            If the bytes are anything else.
        """
        message = _decode(codec.load(data, MAGIC))
        if not isinstance(message, cls):
            raise ValueError(f"the message must be of type {cls.__name__}")
        return message


def _encode(value: Any, tags: dict[type, str]) -> Any:
    if is_dataclass(value):
        entries = {field.name: _encode(getattr(value, field.name), tags) for field in fields(value)}
        return {"kind": tags[type(value)], **entries}
    if isinstance(value, tuple):
        return [_encode(entry, tags) for entry in value]
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        entries = {name: _decode(entry) for name, entry in value.items() if name != "kind"}
        return _TYPES[value["kind"]](**entries)
    if isinstance(value, list):
        return tuple(_decode(entry) for entry in value)
    return value


class Summand(NamedTuple):
    """What each row adds to its cells.

    Attributes
    ----------
    statistics : tuple of str
        The names of one or two statistics.
    output : int
        The index of the score (the class, in one-vs-rest).
    sample : Sample or None
        The Poisson sample of rows that are added up; None for all rows.
    """

    statistics: tuple[str, ...]
    output: int
    sample: Sample | None = None

    def same_as(self, other: Summand) -> bool:
        """Whether two summands are equal, the keys of their samples included."""
        if self[:2] != other[:2]:
            return False
        if self.sample is None or other.sample is None:
            return self.sample is other.sample
        return self.sample.same_as(other.sample)


class Shrinkage(NamedTuple):
    """How the softmax statistics of a row are computed; see `engine.softmax.SoftmaxQuery`.

    `clip_steps` is the clip of a gradient in steps of sums.
    """

    n_outputs: int
    clip: int
    clip_steps: int
    hessian_clip: int
    absolute: bool
    slope: int


class ShardState:
    """State that follows updates: the row scores of a shard, or what a check of a log tracks.

    An update calls one of these methods. Each refuses its update unless a subclass overrides it.
    """

    def refuse(self) -> NoReturn:
        """Refuse an update that this state does not follow."""
        raise ValueError("this update is not allowed here")

    def start(self, loss: LossTable | None, n_outputs: int) -> None:
        """Reset states to score 0, less the label of a number; use a loss from now on."""
        self.refuse()

    def use_loss(self, loss: LossTable) -> None:
        """Use another loss from now on; scores stay."""
        self.refuse()

    def clip_labels(self, low: int, high: int) -> None:
        """Clip numeric labels to a range, in `grid.LABEL_STEPS`, from the next start on."""
        self.refuse()

    def bin_labels(self, edges: np.ndarray) -> None:
        """Look up numeric labels by bin from the next start on; see `updates.SetLabelBins`."""
        self.refuse()

    def use_part(
        self, put_aside: Sample, aside: bool, relative: RelativeResiduals | None = None
    ) -> None:
        """Have only the rows put aside count, with nonconformity as states, or only others."""
        self.refuse()

    def add_cell_values(self, cells: CellMap, values: np.ndarray, output: int) -> None:
        """Add to each row's score the value of its cell in each part."""
        self.refuse()

    def add_tree_values(self, trees: tuple[Tree, ...], values: np.ndarray, output: int) -> None:
        """Add to each row's score the value of its leaf in each tree."""
        self.refuse()

    def set_terms(self, terms: Terms) -> None:
        """Define the vectors of rows in a linear model."""
        self.refuse()

    def set_linear_scores(self, coefficients: np.ndarray, output: int) -> None:
        """Set each row's score to the product of its vector and the coefficients."""
        self.refuse()

    def open_budgets(self) -> None:
        """Give each row a lifetime budget of `grid.BUDGET_STEPS`."""
        self.refuse()

    def close_budgets(self) -> None:
        """Let every row count again, whatever it has spent."""
        self.refuse()

    def set_price(self, number: int, tables: tuple[np.ndarray, ...]) -> None:
        """Store the charges of a kind of release."""
        self.refuse()

    def charge(self, price: int, output: int) -> None:
        """Charge every row that can afford a price; the others do not count until the next one."""
        self.refuse()


class BaseShard(ShardState, ABC):
    """Rows and their scores, on any hardware.

    Sums are exact integers; they depend neither on threads nor on the device. Those of a `Summand`
    are returned as pairs of two statistics; a statistic that is alone is the second.
    """

    def __init__(self, layout: Layout | None) -> None:
        self._layout = layout

    def _check_cells(self, cells: CellMap) -> None:
        """Refuse cells that were not made for these rows; kernels do not check."""
        if self._layout is not None:
            cells.check(self._layout)

    @abstractmethod
    def sum_by_cell(self, cells: CellMap, summand: Summand) -> np.ndarray:
        """Return sums by cell (int64, of shape (cells, 2))."""

    @abstractmethod
    def sum_by_leaf(self, trees: tuple[Tree, ...], summand: Summand) -> np.ndarray:
        """Return sums by leaf of each tree (int64, of shape (trees · leaves, 2))."""

    @abstractmethod
    def sum_by_node(self, tree: Tree, cells: CellMap, summand: Summand) -> np.ndarray:
        """Return sums by leaf of a tree and cell (int64, of shape (leaves, cells, 2))."""

    @abstractmethod
    def sum_by_score(self, edges: np.ndarray, classes: int, summand: Summand) -> np.ndarray:
        """Return sums by interval of the score and class (int64, of shape (…, 2))."""

    @abstractmethod
    def sum_by_prediction(self, edges: np.ndarray, limit: int, summand: Summand) -> np.ndarray:
        """Return sums by interval of the prediction, which is kept within ± `limit`."""

    @abstractmethod
    def count_votes(
        self, tree: Tree, node_of_leaf: np.ndarray, cells: CellMap, votes: int, output: int
    ) -> np.ndarray:
        """Return the counts that `VoteCounts` describes, of its shape."""

    @abstractmethod
    def sum_softmax_by_cell(self, cells: CellMap, shrinkage: Shrinkage) -> np.ndarray:
        """Return softmax sums by cell (int64, of shape (cells, classes, 2))."""

    @abstractmethod
    def sum_softmax_by_leaf(self, trees: tuple[Tree, ...], shrinkage: Shrinkage) -> np.ndarray:
        """Return softmax sums by leaf (int64, of shape (trees · leaves, classes, 2))."""

    @abstractmethod
    def count_labels(self, n_outputs: int) -> np.ndarray:
        """Return counts of rows by class (int64)."""

    @abstractmethod
    def count_top_classes(self, n_outputs: int, edges: np.ndarray) -> np.ndarray:
        """Return counts by largest probability, and whether that class is the row's own (int64)."""

    @abstractmethod
    def sum_gradients(self, summand: Summand) -> np.ndarray:
        """Return the sum of the rows' vectors, each times its gradient (int64)."""

    @abstractmethod
    def sum_products(self, factor: np.ndarray) -> np.ndarray:
        """Return the sum of the outer products of the rows' vectors with themselves (int64)."""
