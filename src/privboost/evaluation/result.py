"""What an evaluation says: values with their error bars, in words, tables and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

from privboost.explanations.lists import Finding
from privboost.files import write_file
from privboost.forms import did_you_mean, is_writable
from privboost.models.findings import no_rows
from privboost.reports.report import PrivacyReport

NO_ROWS = "no rows to speak of"
"""What is said in place of measures where noise alone would count as many rows."""
AT_LEAST, AT_MOST = "at least", "at most"
_CLEAR = 2.0
"""Rows that do not exceed their noise by so many of its deviations say nothing."""


def stands_out(rows: float, noise: float) -> bool:
    """Whether a noisy number of rows says that there are some."""
    return rows > _CLEAR * noise


@dataclass(frozen=True)
class Value:
    """A number with its error bar.

    Attributes
    ----------
    value : float
        The estimate.
    std : float
        Its standard error: of the noise, and of the rows being a sample of those that might come.
        Of a number of rows it is that of the noise alone.
    width : float
        By how much at most it is off, beside that, because scores were told apart by cells only.
    """

    value: float
    std: float
    width: float = 0.0

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{_short(self.value, self.std)} ± {_short(self.std, self.std)}"


@dataclass(frozen=True)
class BoundedValue(Value):
    """A number with its error bar, and between which ends it lies in 95 % of evaluations.

    Residuals were clipped, so that the estimate is of clipped ones; the ends include two standard
    errors, and what may lie beyond the clip.

    Attributes
    ----------
    lower, upper : float or None
        The ends; None where there is none.
    one_sided : {"at least", "at most"} or None
        Which end alone is worth stating, where more may lie beyond the clip than was found within
        it.
    """

    lower: float | None = None
    upper: float | None = None
    one_sided: str | None = None

    def __str__(self) -> str:
        if self.one_sided is not None:
            end = self.lower if self.one_sided == AT_LEAST else self.upper
            return f"{self.one_sided} {self._end(end)}"
        return f"{super().__str__()} ({self._end(self.lower)} to {self._end(self.upper)})"

    def _end(self, end: float | None) -> str:
        return "?" if end is None else _short(end, self.std)


@dataclass(frozen=True)
class Residuals:
    """How residuals and labels were bounded where the target is a number.

    Attributes
    ----------
    clip : float or None
        What residuals were clipped to; None where they were not.
    bounds : (float, float)
        The target's bounds: labels beyond them count as they.
    labels_outside : int or None
        How many labels lay beyond the bounds; of public rows alone.
    """

    clip: float | None
    bounds: tuple[float, float]
    labels_outside: int | None = None

    def __str__(self) -> str:
        low, high = (f"{end:.6g}" for end in self.bounds)
        if self.clip is not None:
            return (
                f"residuals clipped at {self.clip:.6g}; ends in brackets, after 'at least' and "
                f"'at most' allow for what may lie beyond. Labels are clipped to {low} and {high}: "
                "of labels as they are, errors may be larger"
            )
        if self.labels_outside:
            return f"{self.labels_outside} labels beyond {low} and {high} were clipped to them"
        return ""


@dataclass(frozen=True)
class Bin:
    """One line of a reliability table: what was promised, and what came.

    Attributes
    ----------
    of : str
        The class.
    low, high : float
        Between which probabilities its rows were given.
    promised : float
        Their mean probability, about.
    observed : Value
        The share of them that are of the class.
    rows : Value
        How many they are.
    """

    of: str
    low: float
    high: float
    promised: float
    observed: Value
    rows: Value


@dataclass(frozen=True)
class Measures:
    """What is said of some rows.

    Attributes
    ----------
    values : mapping from str to Value
        By name: "rows"; of classes "accuracy", "auc", "log_loss", "brier", "calibration_error",
        "prevalence" (beyond two classes "share of …" and "auc of …" for each); of a number "rmse",
        "mae", "bias", "r2".
    reliability : tuple of Bin
        Of probabilities: how often what was promised came.
    """

    values: Mapping[str, Value]
    reliability: tuple[Bin, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether there are rows to speak of: more than noise alone would count."""
        rows = self.values.get("rows")
        return rows is None or stands_out(rows.value, rows.std)

    def words(self, name: str) -> str:
        """Write a measure; without rows to speak of there is nothing but their number."""
        return str(self[name]) if self.tells or name == "rows" else ""

    def line(self, names: Sequence[str]) -> list[str]:
        """Write measures side by side; what is not there is said once."""
        cells = list(map(self.words, names))
        for place in [place for place, cell in enumerate(cells) if not cell][:1]:
            cells[place] = NO_ROWS
        return cells

    def __getitem__(self, name: str) -> Value:
        if name not in self.values:
            said = f"there is no {name!r} among {', '.join(self.values)}"
            hint = did_you_mean(name, list(self.values))
            raise KeyError(f"{said}; {hint}" if hint else said)
        return self.values[name]

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        form: dict[str, Any] = {name: asdict(value) for name, value in self.values.items()}
        if self.reliability:
            form["reliability"] = [asdict(one) for one in self.reliability]
        return form

    @classmethod
    def from_dict(cls, form: Any) -> Measures:
        """Read what `to_dict` gave; raise ValueError, TypeError or KeyError for what is none."""
        values = {_text(name): value for name, value in form.items() if name != "reliability"}
        return cls(
            {name: _read_value(value) for name, value in values.items()},
            tuple(map(_read_bin, form.get("reliability", ()))),
        )


@dataclass(frozen=True)
class Group:
    """Rows that have one value of a feature.

    Attributes
    ----------
    feature, value : str
        The feature, and its value in words.
    measures : Measures
        What is said of them.
    """

    feature: str
    value: str
    measures: Measures

    def __getitem__(self, name: str) -> Value:
        return self.measures[name]


@dataclass(frozen=True)
class Evaluation:
    """How good a model is on some rows.

    Attributes
    ----------
    target : str
        What is predicted.
    measures : Measures
        Of all rows; `evaluation["auc"]` is short for `evaluation.measures["auc"]`.
    groups : tuple of Group
        The same by group, for each feature of `by`.
    privacy : PrivacyReport
        What the evaluation spent, beside what training did.
    residuals : Residuals or None
        How residuals and labels were bounded; None of classes.
    """

    target: str
    measures: Measures
    groups: tuple[Group, ...]
    privacy: PrivacyReport
    residuals: Residuals | None = None

    def __getitem__(self, name: str) -> Value:
        return self.measures[name]

    @property
    def reliability(self) -> tuple[Bin, ...]:
        """The reliability table of all rows."""
        return self.measures.reliability

    def findings(self) -> tuple[Finding, ...]:
        """Return what a user must act on: that no rows with a known label seem to be there.

        It follows from the released number of rows, and costs nothing.
        """
        if self.measures.tells:
            return ()
        return (no_rows("rmse" not in self.measures.values, self.privacy.public_rows),)

    def to_dict(self) -> dict[str, Any]:
        """Return a form for JSON."""
        form = {
            "target": self.target,
            "all": self.measures.to_dict(),
            "groups": [
                {"feature": group.feature, "value": group.value} | group.measures.to_dict()
                for group in self.groups
            ],
            "warnings": [asdict(finding) for finding in self.findings()],
            "privacy": self.privacy.to_dict(),
        }
        if self.residuals is not None:
            form["residuals"] = asdict(self.residuals)
        return form

    @classmethod
    def from_dict(cls, form: Any) -> Evaluation:
        """Read what `to_dict` gave; raise ValueError for what cannot be an evaluation."""
        try:
            groups = [dict(group) for group in form["groups"]]
            return cls(
                _text(form["target"]),
                Measures.from_dict(form["all"]),
                tuple(
                    Group(
                        _text(group.pop("feature")),
                        _text(group.pop("value")),
                        Measures.from_dict(group),
                    )
                    for group in groups
                ),
                PrivacyReport.from_dict(form["privacy"]),
                _read_residuals(form["residuals"]) if "residuals" in form else None,
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError("an evaluation has target, all, groups and privacy") from None

    @classmethod
    def from_json(cls, path: str | Path) -> Evaluation:
        """Read the file that `to_json` wrote; its errors name the path."""
        try:
            return cls.from_dict(json.loads(Path(path).read_bytes()))
        except (ValueError, RecursionError):
            raise ValueError(
                f"{path} holds no evaluation as JSON: write one with Evaluation.to_json, or "
                "`privboost evaluate --json`"
            ) from None

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the evaluation as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        if path is not None:
            write_file(path, text.encode())
        return text

    def to_table(self) -> pa.Table:
        """Return the measures as a table, for a data frame: `to_table().to_pandas()`.

        Returns
        -------
        pyarrow.Table
            A line for all rows, whose feature and value are null, then one for each group. Columns
            feature, value, and for each measure its estimate and standard error: auc, auc_std;
            of a number on private rows also the ends of its interval: rmse_lower, rmse_upper.
            Where the released number of rows does not exceed two errors of its noise, there are no
            rows to speak of, and all but it is null.
        """
        from privboost.evaluation.result_tables import measure_table

        return measure_table(self)

    def reliability_table(self) -> pa.Table:
        """Return how often what was promised came, as a table.

        Returns
        -------
        pyarrow.Table
            A line for each class and span of probabilities, first of all rows (feature and value
            are null), then of each group. Columns feature, value, class, low, high, promised,
            observed, observed_std, rows, rows_std: see `Bin`. Without lines where there are no
            probabilities.
        """
        from privboost.evaluation.result_tables import reliability_table

        return reliability_table(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the reliability diagram of all rows; return the axes.

        Raises
        ------
        ValueError
            If there is none: the target is a number, or scores are no log-odds.
        """
        from privboost.explanations.curves import draw_reliability

        if not self.reliability:
            raise ValueError("there are no probabilities to draw")
        return draw_reliability(self.reliability, ax)

    def __str__(self) -> str:
        head, *lines = self._table()
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        text = [f"Evaluation of {self.target}: {self.privacy.guarantee}"]
        for line in (head, *lines):
            cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
            text.append("  ".join(cells).rstrip())
        if self.residuals is not None and str(self.residuals):
            text.append(str(self.residuals))
        return "\n".join(text)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *lines = self._table()
        rows = [_html_row(head, "th"), *(_html_row(line, "td") for line in lines)]
        said = escape(f"{self.target}: {self.privacy.guarantee}")
        if self.residuals is not None and str(self.residuals):
            said += f"<br>{escape(str(self.residuals))}"
        return f"<table><caption>{said}</caption>{''.join(rows)}</table>"

    def _table(self) -> list[list[str]]:
        """Return the measures as a table: one line for all rows, and one for each group."""
        names = list(self.measures.values)
        lines = [["", *(name.replace("_", " ") for name in names)]]
        parts = [("all", self.measures)]
        parts += [(f"{group.feature}: {group.value}", group.measures) for group in self.groups]
        return lines + [[said, *own.line(names)] for said, own in parts]


def _read_value(form: Any) -> Value:
    if "lower" not in form:
        value = Value(**form)
        return Value(*map(_number, (value.value, value.std, value.width)))
    own = BoundedValue(**form)
    at, std, width = map(_number, (own.value, own.std, own.width))
    low, high = (None if end is None else _number(end) for end in (own.lower, own.upper))
    if own.one_sided not in (None, AT_LEAST, AT_MOST):
        raise ValueError("a value is one-sided at least or at most")
    return BoundedValue(at, std, width, low, high, own.one_sided)


def _read_residuals(form: Any) -> Residuals:
    own = Residuals(**form)
    low, high = map(_number, own.bounds)
    outside = own.labels_outside
    if outside is not None and (type(outside) is not int or outside < 0):
        raise TypeError("a number of rows is needed")
    return Residuals(None if own.clip is None else _number(own.clip), (low, high), outside)


def _read_bin(form: Any) -> Bin:
    own = Bin(**form)
    low, high, promised = map(_number, (own.low, own.high, own.promised))
    return Bin(_text(own.of), low, high, promised, _read_value(own.observed), _read_value(own.rows))


def _text(value: Any) -> str:
    if not is_writable(value):
        raise ValueError("a text is needed")
    return str(value)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("a number is needed")
    return float(value)


def _html_row(cells: list[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _short(value: float, error: float) -> str:
    """Write a number as far as its error lets it be known, to two digits of that."""
    if not error > 0:
        return f"{value:.6g}"
    places = min(max(1 - math.floor(math.log10(error)), 0), 8)
    return f"{value:.{places}f}"
