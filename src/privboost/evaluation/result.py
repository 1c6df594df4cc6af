"""Results of an evaluation: values with error bars, as text, tables and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa

from privboost._core.checks import did_you_mean, is_number, is_writable
from privboost.explanations.plots import draw_calibration, draw_reliability
from privboost.explanations.terms import Finding
from privboost.models.findings import no_rows
from privboost.reports.report import PrivacyReport, write_text

NO_ROWS = "no rows to speak of"
"""Text in place of measures where the noisy number of rows does not exceed its noise."""
AT_LEAST, AT_MOST = "at least", "at most"
LOWER, HIGHER = "lower", "higher"
"""Which values of a measure are better."""
_JSON_KEYS = {"predicted": "promised"}
_BIN_KEYS = {key: name for name, key in _JSON_KEYS.items()}
"""Keys of a bin in JSON that differ from its attributes."""
ERRORS = 2.0
"""Standard errors on each side of an interval."""
_CLEAR = 2.0
"""Standard deviations of its noise that a number of rows must exceed."""


def stands_out(rows: float, noise: float) -> bool:
    """Whether a noisy number of rows exceeds its noise."""
    return rows > _CLEAR * noise


@dataclass(frozen=True)
class Value:
    """A number with its error bar.

    Attributes
    ----------
    value : float
        The estimate.
    std : float
        Its standard error, due to the noise and to the rows being a sample. For a number of rows,
        due to the noise alone.
    width : float
        Largest error in addition, because scores were counted in cells.
    """

    value: float
    std: float
    width: float = 0.0

    @property
    def bars(self) -> tuple[float, float]:
        """Lengths of the error bar below and above: the standard error."""
        return self.std, self.std

    @property
    def columns(self) -> dict[str, float | None]:
        """Numbers of the value in a table, by the suffix of their column."""
        return {"": self.value, "_std": self.std}

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{_short(self.value, self.std)} ± {_short(self.std, self.std)}"


@dataclass(frozen=True)
class BoundedValue(Value):
    """A number with its error bar and 95 % interval.

    The estimate is of clipped residuals; the interval includes two standard errors, and what may
    lie beyond the clip.

    Attributes
    ----------
    lower, upper : float or None
        Ends of the interval; None where there is none.
    one_sided : {"at least", "at most"} or None
        The only informative end, where more may lie beyond the clip than within it.
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

    @property
    def bars(self) -> tuple[float, float]:
        """Lengths down and up to the ends of the interval; 0 for a missing end."""
        low, high = (self.value if end is None else end for end in (self.lower, self.upper))
        return max(self.value - low, 0.0), max(high - self.value, 0.0)

    @property
    def columns(self) -> dict[str, float | None]:
        """Numbers of the value in a table, by the suffix of their column."""
        return super().columns | {"_lower": self.lower, "_upper": self.upper}


@dataclass(frozen=True)
class Residuals:
    """How residuals and labels were bounded where the target is a number.

    Attributes
    ----------
    clip : float or None
        Clip of residuals; None where they were not clipped.
    bounds : (float, float)
        The target's bounds, to which labels are clipped.
    labels_outside : int or None
        Number of labels beyond the bounds; for public rows only.
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
    """One bin of a reliability table.

    Attributes
    ----------
    of : str
        The class.
    low, high : float
        Interval of predicted probabilities.
    predicted : float
        Mean predicted probability, approximately; "promised" in JSON and in tables.
    observed : Value
        Observed rate of the class.
    rows : Value
        Number of rows.
    """

    of: str
    low: float
    high: float
    predicted: float
    observed: Value
    rows: Value

    @property
    def columns(self) -> dict[str, Any]:
        """The bin as a row of a table."""
        return {
            "class": self.of,
            "low": self.low,
            "high": self.high,
            "promised": self.predicted,
            "observed": self.observed.value,
            "observed_std": self.observed.std,
            "rows": self.rows.value,
            "rows_std": self.rows.std,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {_JSON_KEYS.get(name, name): value for name, value in asdict(self).items()}


@dataclass(frozen=True)
class CalibrationBin:
    """A tenth of the rows of a number, by prediction.

    Attributes
    ----------
    low, high : float
        Interval of predictions; its ends follow from noisy counts of rows by prediction.
    predicted : float
        Mean prediction; approximately, on private rows.
    observed : Value
        Mean label: the mean prediction plus the mean residual.
    residual : Value
        Mean residual, label less prediction: above 0 where predictions are too low.
    rows : Value
        Number of rows.
    """

    low: float
    high: float
    predicted: float
    observed: Value
    residual: Value
    rows: Value

    @property
    def known(self) -> bool:
        """Whether the noisy number of rows exceeds its noise."""
        return stands_out(self.rows.value, self.rows.std)

    @property
    def columns(self) -> dict[str, Any]:
        """The tenth as a row of a table; means of rows that noise hides are null."""
        ends = ("", "_std", "_lower", "_upper")
        means: dict[str, float | None] = {}
        for name, own in (("observed", self.observed), ("residual", self.residual)):
            numbers = dict.fromkeys(ends) | (own.columns if self.known else {})
            means |= {f"{name}{end}": number for end, number in numbers.items()}
        places = {"low": self.low, "high": self.high, "predicted": self.predicted}
        return places | means | {"rows": self.rows.value, "rows_std": self.rows.std}


@dataclass(frozen=True)
class Measures:
    """Measures of some rows.

    Attributes
    ----------
    values : mapping from str to Value
        By name: "rows"; of classes "accuracy", "auc", "log_loss", "brier", "calibration_error",
        "prevalence" (beyond two classes "share of …" and "auc of …" for each); of a number "rmse",
        "mae", "bias", "r2", of labels that are never negative "mean_ratio" and "gini", and those
        that were asked for: "deviance", "pinball", "share_below"; of survival times "events",
        "concordance", and at the horizon "survival", "predicted_survival", "calibration_error" and
        "censored_before".
    reliability : tuple of Bin
        Reliability table, where there are probabilities.
    calibration : tuple of CalibrationBin
        Of a number: mean predictions and labels by tenths of the prediction.
    """

    values: Mapping[str, Value]
    reliability: tuple[Bin, ...] = ()
    calibration: tuple[CalibrationBin, ...] = ()

    @property
    def known(self) -> bool:
        """Whether the noisy number of rows exceeds its noise."""
        rows = self.values.get("rows")
        return rows is None or stands_out(rows.value, rows.std)

    def text(self, name: str) -> str:
        """Return a measure as text, "" if the rows do not exceed their noise."""
        return str(self[name]) if self.known or name == "rows" else ""

    def line(self, names: Sequence[str]) -> list[str]:
        """Return the texts of measures; missing ones are explained once."""
        cells = list(map(self.text, names))
        for place in [place for place, cell in enumerate(cells) if not cell][:1]:
            cells[place] = NO_ROWS
        return cells

    def __getitem__(self, name: str) -> Value:
        if name not in self.values:
            message = f"there is no {name!r} among {', '.join(self.values)}"
            hint = did_you_mean(name, list(self.values))
            raise KeyError(f"{message}; {hint}" if hint else message)
        return self.values[name]

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        document: dict[str, Any] = {name: asdict(value) for name, value in self.values.items()}
        if self.reliability:
            document["reliability"] = [one.to_dict() for one in self.reliability]
        if self.calibration:
            document["calibration"] = [asdict(one) for one in self.calibration]
        return document

    @classmethod
    def from_dict(cls, document: Any) -> Measures:
        """Read what `to_dict` gave; raises ValueError, TypeError or KeyError if it cannot."""
        tables = ("reliability", "calibration")
        values = {_text(name): value for name, value in document.items() if name not in tables}
        return cls(
            {name: _read_value(value) for name, value in values.items()},
            tuple(map(_read_bin, document.get("reliability", ()))),
            tuple(map(_read_tenth, document.get("calibration", ()))),
        )


@dataclass(frozen=True)
class Group:
    """Rows that have one value of a feature.

    Attributes
    ----------
    feature, value : str
        The feature, and its value as text.
    measures : Measures
        Measures of the group.
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
        Name of the target.
    measures : Measures
        Measures of all rows; `evaluation["auc"]` is short for `evaluation.measures["auc"]`.
    groups : tuple of Group
        Measures of each group of each feature of `by`.
    privacy : PrivacyReport
        Cost of the evaluation, in addition to training.
    residuals : Residuals or None
        How residuals and labels were bounded; None for classes.
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
        """Reliability table of all rows."""
        return self.measures.reliability

    @property
    def calibration(self) -> tuple[CalibrationBin, ...]:
        """Mean predictions and labels of all rows by tenths of the prediction; for a number."""
        return self.measures.calibration

    @property
    def horizon(self) -> float | None:
        """The time at which survival is measured; None of other targets."""
        at: Any = self.privacy.parameters.get("horizon")
        return float(at) if is_number(at) else None

    def label(self, name: str) -> str:
        """Return a measure's name in words, with the horizon where it is measured there."""
        text = name.replace("_", " ")
        if self.horizon is None or name not in _AT_HORIZON:
            return text
        at = "" if name == "censored_before" else "at "
        return f"{text} {at}{self.horizon:.6g}"

    @property
    def note(self) -> str:
        """How residuals and labels were bounded, in words; may be empty."""
        text = "" if self.residuals is None else str(self.residuals)
        values = self.measures.values.values()
        if self.measures.known and any(getattr(each, "one_sided", None) for each in values):
            text += f". {_TWO_ENDS}"
        return text

    def findings(self) -> tuple[Finding, ...]:
        """Return a warning if there seem to be no rows with a known label.

        It follows from the noisy number of rows, and costs nothing.
        """
        if self.measures.known:
            return ()
        own = {"rmse": "number", "concordance": "survival"}
        task = next((own[name] for name in own if name in self.measures.values), "classes")
        return (no_rows(task, self.privacy.public_rows),)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        document = {
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
            document["residuals"] = asdict(self.residuals)
        return document

    @classmethod
    def from_dict(cls, document: Any) -> Evaluation:
        """Read what `to_dict` gave; raises ValueError if it cannot."""
        try:
            groups = [dict(group) for group in document["groups"]]
            return cls(
                _text(document["target"]),
                Measures.from_dict(document["all"]),
                tuple(
                    Group(
                        _text(group.pop("feature")),
                        _text(group.pop("value")),
                        Measures.from_dict(group),
                    )
                    for group in groups
                ),
                PrivacyReport.from_dict(document["privacy"]),
                _read_residuals(document["residuals"]) if "residuals" in document else None,
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
        return write_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

    def to_table(self) -> pa.Table:
        """Return the measures as a table, for a data frame: `to_table().to_pandas()`.

        Returns
        -------
        pyarrow.Table
            A row for the whole table, whose feature and value are null, then one for each group.
            Columns feature, value, and for each measure its estimate and standard error: auc,
            auc_std; for a number on private rows also the ends of its interval: rmse_lower,
            rmse_upper. Where the noisy number of rows does not exceed two standard deviations of
            its noise, all other measures are null.
        """
        lines = []
        for which, measures in self._parts():
            for name in self.measures.values:
                value, shown = measures[name], measures.known or name == "rows"
                for suffix, number in value.columns.items():
                    which[name + suffix] = number if shown else None
            lines.append(which)
        return _table(lines, _GROUP, [name for name in lines[0] if name not in _GROUP])

    def reliability_table(self) -> pa.Table:
        """Return the reliability bins as a table.

        Returns
        -------
        pyarrow.Table
            A row for each class and bin of probabilities, first of the whole table (feature and
            value are null), then of each group. Columns feature, value, class, low, high, promised,
            observed, observed_std, rows, rows_std: see `Bin`. Empty where there are no
            probabilities.
        """
        numbers = ("low", "high", "promised", "observed", "observed_std", "rows", "rows_std")
        lines = [
            which | own.columns for which, measures in self._parts() for own in measures.reliability
        ]
        return _table(lines, (*_GROUP, "class"), numbers)

    def calibration_table(self) -> pa.Table:
        """Return the calibration of a number as a table.

        Returns
        -------
        pyarrow.Table
            A row for each tenth of the prediction, first of the whole table (feature and value are
            null), then of each group. Columns feature, value, low, high, predicted, observed,
            residual, rows: see `CalibrationBin`; observed and residual have standard errors
            (observed_std) and the ends of their intervals (observed_lower, observed_upper), rows a
            standard error. Means are null where the number of rows does not exceed its noise, and
            ends where rows are public. Empty for classes, and without `curves`.
        """
        ends = ("", "_std", "_lower", "_upper")
        means = [f"{name}{end}" for name in ("observed", "residual") for end in ends]
        lines = [
            which | own.columns for which, measures in self._parts() for own in measures.calibration
        ]
        return _table(lines, _GROUP, ["low", "high", "predicted", *means, "rows", "rows_std"])

    def _parts(self) -> list[tuple[dict[str, Any], Measures]]:
        """Return feature and value, with measures: of all rows, then of each group."""
        whole: list[tuple[dict[str, Any], Measures]]
        whole = [(dict.fromkeys(_GROUP), self.measures)]
        groups = [
            ({"feature": group.feature, "value": group.value}, group.measures)
            for group in self.groups
        ]
        return whole + groups

    def plot(self, ax: Any = None, *, residuals: bool = False) -> Any:
        """Draw the reliability of classes, or the calibration of a number; return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Axes to draw on; new ones by default.
        residuals : bool
            For a number: mean residuals by mean prediction, in place of mean labels.

        Raises
        ------
        ValueError
            If there is nothing to draw: scores are no log-odds, or `curves` was False.
        """
        if self.calibration:
            return draw_calibration(self.calibration, residuals, ax)
        if residuals:
            raise ValueError("residuals: this evaluation has no calibration by tenths")
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
        return "\n".join([*text, *filter(None, [self.note])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *lines = self._table()
        rows = [_html_row(head, "th"), *(_html_row(line, "td") for line in lines)]
        caption = escape(f"{self.target}: {self.privacy.guarantee}")
        if self.note:
            caption += f"<br>{escape(self.note)}"
        return f"<table><caption>{caption}</caption>{''.join(rows)}</table>"

    def _table(self) -> list[list[str]]:
        """Return the measures as rows of text: one for all rows, and one for each group."""
        names = list(self.measures.values)
        lines = [["", *map(self.label, names)]]
        parts = [("all", self.measures)]
        parts += [(f"{group.feature}: {group.value}", group.measures) for group in self.groups]
        return lines + [[label, *own.line(names)] for label, own in parts]


def _read_value(document: Any) -> Value:
    if "lower" not in document:
        value = Value(**document)
        return Value(*map(_number, (value.value, value.std, value.width)))
    own = BoundedValue(**document)
    at, std, width = map(_number, (own.value, own.std, own.width))
    low, high = (None if end is None else _number(end) for end in (own.lower, own.upper))
    if own.one_sided not in (None, AT_LEAST, AT_MOST):
        raise ValueError("a value is one-sided at least or at most")
    return BoundedValue(at, std, width, low, high, own.one_sided)


def _read_residuals(document: Any) -> Residuals:
    own = Residuals(**document)
    low, high = map(_number, own.bounds)
    outside = own.labels_outside
    if outside is not None and (type(outside) is not int or outside < 0):
        raise TypeError("a number of rows is needed")
    return Residuals(None if own.clip is None else _number(own.clip), (low, high), outside)


def _read_bin(document: Any) -> Bin:
    own = Bin(**{_BIN_KEYS.get(key, key): value for key, value in document.items()})
    low, high, mean = map(_number, (own.low, own.high, own.predicted))
    return Bin(_text(own.of), low, high, mean, _read_value(own.observed), _read_value(own.rows))


def _read_tenth(document: Any) -> CalibrationBin:
    own = CalibrationBin(**document)
    low, high, mean = map(_number, (own.low, own.high, own.predicted))
    observed, residual, rows = map(_read_value, (own.observed, own.residual, own.rows))
    return CalibrationBin(low, high, mean, observed, residual, rows)


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
    """Return a number with two digits of its error."""
    if not error > 0:
        return f"{value:.6g}"
    places = min(max(1 - math.floor(math.log10(error)), 0), 8)
    return f"{value:.{places}f}"


_AT_HORIZON = ("survival", "predicted_survival", "calibration_error", "censored_before")
"""Measures of survival times that depend on the horizon."""

_TWO_ENDS = (
    "A larger epsilon, more rows, or narrower bounds of the target (public knowledge) give the "
    "missing ends"
)
"""Hint where values have one end."""

_GROUP = ("feature", "value")
"""Columns of the group; both are null for all rows."""


def _table(lines: list[dict[str, Any]], texts: Sequence[str], numbers: Sequence[str]) -> pa.Table:
    schema = [(name, pa.string()) for name in texts] + [(name, pa.float64()) for name in numbers]
    return pa.Table.from_pylist(lines, pa.schema(schema))
