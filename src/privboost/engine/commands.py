"""Queries and updates as bytes, for rows that are held elsewhere.

A message is made anew where it is read, so it is checked as it was when it was first made.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from privboost import codec
from privboost.engine.queries import (
    CellSums,
    GramSums,
    LinearSums,
    NodeHistograms,
    Query,
    Sample,
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
from privboost.losses import LossTable
from privboost.trees.cell_map import CellMap, CellPart
from privboost.trees.tree import Tree
from privboost.vectors.terms import Terms

_MAGIC = b"PVBMSG01"
_KINDS = {
    kind.__name__: kind
    for kind in (
        CellSums,
        TreeSums,
        NodeHistograms,
        ScoreCounts,
        VoteCounts,
        LinearSums,
        GramSums,
        Start,
        SetSpan,
        UseLoss,
        SetTerms,
        SetLinearScores,
        Terms,
        AddCellValues,
        AddTreeValues,
        OpenBudgets,
        CloseBudgets,
        Price,
        Charge,
        Sample,
        Tree,
        CellMap,
        CellPart,
        LossTable,
    )
}


def to_bytes(message: Query | Update) -> bytes:
    """Write a message for another process."""
    return codec.dump(_to_form(message), _MAGIC)


def from_bytes(data: bytes) -> Any:
    """Read a message; only the kinds of this module are known."""
    return _from_form(codec.load(data, _MAGIC))


def _to_form(value: Any) -> Any:
    if is_dataclass(value):
        form = {field.name: _to_form(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__, **form}
    if isinstance(value, tuple):
        return [_to_form(entry) for entry in value]
    return value


def _from_form(value: Any) -> Any:
    if isinstance(value, dict):
        entries = {name: _from_form(entry) for name, entry in value.items() if name != "kind"}
        return _KINDS[value["kind"]](**entries)
    if isinstance(value, list):
        return tuple(_from_form(entry) for entry in value)
    return value
