"""Checks of the parts of a file, on which kernels and users rely.

Each check returns its argument, or raises `ModelFileError` with the place in the file and the rule.
Messages quote no value: a stream's file is private.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from privboost._core.checks import is_writable
from privboost._core.errors import ModelFileError
from privboost._core.grid import MAX_SCORE, SCORE_STEPS
from privboost.data.domain import Domain
from privboost.data.encoding import Encoder
from privboost.data.features import CategoricalFeature, Feature
from privboost.data.rows import Layout
from privboost.losses.base import KINDS_OF_ROWS, LossTable
from privboost.reports.report import PrivacyReport
from privboost.trees.tree import Tree

_LEAST_TIME_SCALE = 1e-6
_RANGE = "a scale from 1e-6 to 1e6 is needed"
_MOST_SIZE = 2.0**200
"""A size that no sum, mean or noise on the grid reaches; its square is finite."""
_SCORE = np.iinfo(np.int32)
_MOST_SCORE = (MAX_SCORE - 64) * SCORE_STEPS
"""The largest score of a row after calibration, in score steps."""
_NEAR = 1e-9
"""The tolerance of edges in parts of the bounds: logarithms differ between machines."""


def need(rule_holds: bool, place: str, rule: str) -> None:
    """Raise unless a rule holds."""
    if not rule_holds:
        raise ModelFileError(f"{place}: {rule}")


def need_array(
    value: Any,
    place: str,
    element: type[np.generic],
    shape: tuple[int | None, ...],
    least: int | None = None,
    most: int | None = None,
) -> np.ndarray:
    """Check an array: its dtype, its shape (None for any length), and the range of entries."""
    need(
        isinstance(value, np.ndarray)
        and value.dtype == element
        and value.ndim == len(shape)
        and all(want in (None, side) for want, side in zip(shape, value.shape, strict=True)),
        place,
        f"an array of {np.dtype(element)} is needed, of the shape that the other parts give",
    )
    array: np.ndarray = value
    if array.size:
        need(least is None or array.min() >= least, place, f"entries of at least {least}")
        need(most is None or array.max() <= most, place, f"entries of at most {most}")
    return array


def need_finite(
    value: Any, place: str, shape: tuple[int | None, ...], least: float = -math.inf
) -> np.ndarray:
    """Check an array of float64 with finite squares, none below the least."""
    array = need_array(value, place, np.float64, shape)
    fine = bool((np.abs(array) <= _MOST_SIZE).all())  # false for NaN
    need(fine, place, "finite numbers are needed, far from the largest there are")
    need(bool((array >= least).all()), place, f"entries of at least {least:g}")
    return array


def need_whole(value: Any, place: str, least: int, most: int = 2**63 - 1) -> int:
    """Check a whole number."""
    fine = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    need(fine, place, f"a whole number from {least} to {most} is needed")
    return int(value)


def need_number(
    value: Any, place: str, least: float = -math.inf, most: float = math.inf, *, above: bool = False
) -> float:
    """Check a finite number in a closed range; with `above`, the lower end is excluded."""
    rule = f"a finite number {'above' if above else 'from'} {least:g} to {most:g} is needed"
    need(isinstance(value, int | float) and not isinstance(value, bool), place, rule)
    inside = least < value <= most if above else least <= value <= most
    need(inside and abs(value) <= sys.float_info.max, place, rule)
    return float(value)


def need_text(value: Any, place: str) -> str:
    """Check a string without control characters: it is printed on terminals."""
    need(is_writable(value), place, "a text without control characters is needed")
    return str(value)


def need_flag(value: Any, place: str) -> bool:
    """Check a boolean."""
    need(isinstance(value, bool), place, "true or false is needed")
    return bool(value)


def need_list(value: Any, place: str, length: int | None = None) -> list[Any]:
    """Check a list."""
    fine = isinstance(value, list | tuple) and length in (None, len(value))
    need(fine, place, "a list is needed" + ("" if length is None else f", of {length}"))
    return list(value)


def need_keys(
    value: Any, place: str, keys: Iterable[str], optional: Iterable[str] = ()
) -> dict[str, Any]:
    """Check a mapping that has exactly these keys, and perhaps optional ones."""
    keys, known = sorted(keys), set(optional)
    fine = isinstance(value, dict) and sorted(key for key in value if key not in known) == keys
    need(fine, place, f"a mapping is needed, with {', '.join(keys)}")
    return dict(value)


def largest(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the largest absolute entry along an axis, as int64."""
    high, low = values.max(axis=axis), values.min(axis=axis)
    sizes: np.ndarray = np.maximum(high.astype(np.int64), -low.astype(np.int64))
    return sizes


def within_grid(slope: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return the slopes, limited so that scores of these sizes stay on the grid."""
    fitting: np.ndarray = np.minimum(slope, _MOST_SCORE / np.maximum(sizes, 1))
    return fitting


def read_row_count(payload: dict[str, Any]) -> np.ndarray | None:
    """Return the noisy row count of scores, or None for files of earlier versions."""
    if "rows" not in payload:
        return None
    rows = need_finite(payload["rows"], "scores.rows", (2,))
    need_finite(rows[1:], "scores.rows", (1,), least=0)
    return rows


def read_mean(payload: dict[str, Any]) -> np.ndarray | None:
    """Return what is known of the mean of a number; None where nothing was released about it."""
    if "mean" not in payload:
        return None
    mean = need_finite(payload["mean"], "scores.mean", (5,))
    need_finite(mean[1:2], "scores.mean", (1,), least=0)
    return mean


def read_label_shares(payload: dict[str, Any]) -> np.ndarray | None:
    """Return unusual shares of labels; None where there are none."""
    if "label_shares" not in payload:
        return None
    shares = need_finite(payload["label_shares"], "scores.label_shares", (3,), least=-1)
    need(bool((shares <= 1).all()), "scores.label_shares", "shares are needed")
    return shares


def read_time_scale(payload: dict[str, Any]) -> np.ndarray | None:
    """Return the scale of log times around scores; None where the target is no survival time."""
    if "time_scale" not in payload:
        return None
    scale = need_finite(payload["time_scale"], "scores.time_scale", (1,))
    need(bool(_LEAST_TIME_SCALE <= scale[0] <= 1 / _LEAST_TIME_SCALE), "scores.time_scale", _RANGE)
    return scale


def need_scores(most: Any, place: str) -> None:
    """Check that scores of these largest sizes fit into int32."""
    need(np.max(most) <= _SCORE.max, place, "the scores of some rows would overflow")


def read_encoder(domain: Any, edges: Any) -> Encoder:
    """Return the encoder of a domain and the edges of its bins, which must match the domain."""
    known = Domain.from_dict(domain)
    listed = need_list(edges, "edges", len(known.features))
    for feature, own in zip(known.features, listed, strict=True):
        _check_edges(own, feature, f"edges of {feature.name!r}")
    return Encoder(known, tuple(listed))


def _check_edges(value: Any, feature: Feature, place: str) -> None:
    expected = feature.fine_edges()
    edges = need_array(value, place, np.float64, (len(expected),))
    rule = "edges must increase, and be those that the domain describes"
    need(bool(np.isfinite(edges).all() and (np.diff(edges) > 0).all()), place, rule)
    number = None if isinstance(feature, CategoricalFeature) else feature.number
    exact = number is None or number.edges is not None
    far = 0.0 if exact else _NEAR * max(map(abs, number.bounds))  # type: ignore[union-attr]
    need(bool((np.abs(edges - expected) <= far).all()), place, rule)


def read_report(payload: Any, place: str = "privacy") -> PrivacyReport:
    """Return a checked privacy report."""
    try:
        return PrivacyReport.from_dict(payload)
    except ValueError as error:
        raise ModelFileError(f"{place}: it is not a privacy report ({error})") from None
    except (TypeError, KeyError, AttributeError):
        raise ModelFileError(f"{place}: it is not a privacy report") from None


def check_loss_table(loss: Any, place: str, lines: int = KINDS_OF_ROWS) -> LossTable:
    """Check the shape of a table, not its entries: see `losses.base.within_steps`."""
    need(isinstance(loss, LossTable), place, "a loss is needed")
    table: LossTable = loss
    gradient = need_array(table.gradient, place, np.int32, (lines, None))
    need(table.size > 0, place, "an entry for each score is needed")
    need_array(table.hessian, place, np.int32, gradient.shape)
    need_whole(table.shift, place, 0, 31)
    if table.taking_part is not None:
        need_array(table.taking_part, place, np.uint8, gradient.shape, 0, 1)
    return table


def check_tree(tree: Any, layout: Layout) -> None:
    """Check a tree: its features are the layout's, and every code of them goes left or right."""
    place = "log.trees"
    need(isinstance(tree, Tree), place, "a tree is needed")
    nodes = len(tree.feature)
    feature = need_array(tree.feature, place, np.uint16, (nodes,), 0, len(layout.n_codes) - 1)
    table = need_array(tree.goes_right, place, np.uint8, (nodes, None), 0, 1)
    n_codes = np.array(layout.n_codes)
    wide = not nodes or n_codes[feature].max() <= table.shape[1]
    need(bool(wide), place, "a turn for each code of the features is needed")
    need(table.shape[1] <= n_codes.max(), place, "a node has more entries than codes")
