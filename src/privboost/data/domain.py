"""`Domain`: public facts about a table, and its JSON.

A `Domain` states, before any row is read, what is public: the features with their bounds or
categories, the target, and the protected unit. Nothing in it is ever computed from the data, except
by private domain inference (`Domain.learn`), which is charged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any

from privboost._core.checks import list_problems
from privboost._core.errors import DomainError
from privboost._core.files import write_file
from privboost._core.hooks import resolve
from privboost._core.pickling import DeclaredState
from privboost._core.unit import Unit, describe_unit
from privboost.data.domain_json import VERSION, Parts, domain_json, read_json, read_parts
from privboost.data.feature_base import faults
from privboost.data.features import Feature
from privboost.data.schema import Comparison, compare, make_skeleton, with_outside_counts
from privboost.data.sources import open_table
from privboost.data.targets import Target
from privboost.reports.report import PrivacyReport


@dataclass(frozen=True)
class Domain(DeclaredState):
    """Public facts about a table: features, target and protected unit.

    Parameters
    ----------
    features : tuple of features
        Each a `NumericFeature`, `CategoricalFeature`, `OrdinalFeature`, `BooleanFeature`,
        `DateFeature` or `DurationFeature`, in the order in which models use them; a numpy array has
        its columns in this order.
    target : ClassTarget, NumberTarget or SurvivalTarget
        The column to predict.
    unit : Unit, optional
        The protected unit; one row by default.
    privacy : PrivacyReport, optional
        The cost of private domain inference; None for a domain that was written by hand. It is
        stored with the domain, so that every fit on the same rows adds it.

    Examples
    --------
    >>> domain = Domain.from_dict({
    ...     "version": 1,
    ...     "features": {
    ...         "age": {"kind": "numeric", "bounds": [17, 90]},
    ...         "job": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
    ...     },
    ...     "target": {"name": "income", "classes": ["<=50K", ">50K"]},
    ... })
    >>> print(domain)
    Domain: 2 features -> income
      age  numeric      17 … 90
      job  categorical  2 categories, missing expected
      target income: classes '<=50K', '>50K'
      protected unit: one row
    """

    features: tuple[Feature, ...]
    target: Target
    unit: Unit | None = None
    privacy: PrivacyReport | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        unit = None if self.unit is None else self.unit.column
        for fault in faults(self.feature_names, self.target.name, unit, self.target.event_column):
            raise DomainError(fault)
        if self.privacy is not None and self.privacy.public_rows:
            raise DomainError("privacy: a domain is learned with noise, at a price, or written")

    @property
    def inferences(self) -> frozenset[str]:
        """The identifiers of the private inferences that parts of it come from."""
        unit = () if self.unit is None else (self.unit,)
        return inferences_of((*self.features, self.target, *unit))

    def check_price(self) -> None:
        """Raise DomainError if a part was inferred privately and its cost is not recorded."""
        if not self.inferences <= reported_inferences(self.privacy):
            raise DomainError(
                'domain: a part of it was learned privately, but its price ("privacy") is not '
                "there: pass the learned domain whole, or say why that part is public"
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the features, in order."""
        return tuple(feature.name for feature in self.features)

    @classmethod
    def from_dict(cls, payload: Mapping[str, Any]) -> Domain:
        """Build a domain from its JSON payload; an error names all open and wrong places.

        The columns in a skeleton's "leave_out" only matter to domain inference; a domain reads no
        column that it does not name.
        """
        parts = read_parts(payload)
        if parts.target is None or parts.holes or parts.wrong:
            raise DomainError(list_problems(parts.holes, parts.wrong))
        return cls(parts.features, parts.target, parts.unit, parts.privacy)

    @classmethod
    def learn(
        cls,
        frame: Any,
        target: str,
        epsilon: float,
        delta: float,
        *,
        y: Any = None,
        task: str | None = None,
        given: Mapping[str, Any] | Domain | str | Path | None = None,
        random_state: int | None = None,
        ledger: str | Path | None = None,
        budget: Any = None,
    ) -> Domain:
        """Infer a domain privately, where bounds and categories are not public knowledge.

        Parameters
        ----------
        frame : data frame, array, or path of a Parquet or CSV file
            The rows. The columns and their types are taken to be public.
        target : str
            The column to predict.
        epsilon, delta : float
            The budget of this step alone; it adds to what training spends. With a delta of 0
            (pure DP) bounds of numbers are inferred; categories and classes must be given.
        y : one-dimensional, optional
            The target, if it is no column of `frame`.
        task : {"classes", "number"}, optional
            What the target is. By default strings and booleans are classes, numbers a number.
        given : mapping, Domain or path, optional
            The public part of the domain's JSON payload ("features", "target", "unit"). A feature
            may give its "kind" alone ("numeric", "categorical" or "duration"); the rest is
            inferred. Without a kind, a column of Python objects or of a CSV file counts as
            categorical. A skeleton is accepted, whose None stands for what is inferred. A target
            may give its "scale" alone, and a unit of "weighting" "units" its "column", with None as
            "max_rows". "leave_out" lists columns that are no features.
        random_state : int, optional
            A seed, for tests; with it there is no guarantee.
        ledger : path, optional
            A file that records the charges.
        budget : BudgetAccount, optional
            The account of these rows, which is charged first. The domain records the entry, so that
            training with the same account does not charge it again.

        Returns
        -------
        Domain
            Its attribute `privacy` is the report of what was spent.

        Raises
        ------
        DomainError
            If fewer than two classes exceed the noise (the budget is spent), or if delta is 0 and
            the categories of a column are not given (nothing is spent).

        Privacy
        -------
        Spends (epsilon, delta): the noisy number of rows, noisy counts of numbers by power of two,
        and the categories whose noisy counts exceed a threshold. With a delta of 0 only the counts
        of numbers are released, with Laplace noise. Where "max_rows" of a unit is inferred, so are
        noisy counts of units by number of rows.

        Examples
        --------
        >>> from privboost.datasets import load_adult
        >>> domain = Domain.learn(load_adult().train, "income", epsilon=1.0, delta=1e-6)
        >>> domain.target.classes
        ('<=50K', '>50K')
        """
        inferred: Domain = resolve("Domain.learn")(
            frame, target, epsilon, delta, y, task, given, random_state, ledger, budget
        )
        return inferred

    @staticmethod
    def skeleton(
        frame: Any,
        target: str,
        *,
        leave_out: Sequence[str] = (),
        task: str | None = None,
        unit: str | None = None,
        header: bool = False,
        event: str | None = None,
    ) -> dict[str, Any]:
        """Return a domain's JSON payload to fill in, from a table's schema alone.

        Names and types of columns are read, and no row. Parts of a schema that describe the rows
        (lists of categories, statistics) are not used.

        Parameters
        ----------
        frame : data frame, or path of a Parquet or CSV file
            The table. The columns and their types are taken to be public.
        target : str
            The column to predict.
        leave_out : sequence of str
            Columns that are no features.
        task : {"classes", "number", "survival"}, optional
            What the target is; by default its type decides, or both are left open. It is a survival
            time where `event` is given.
        unit : str, optional
            The column that identifies protected units, which is no feature.
        header : bool
            Whether the first line of a CSV file is known to name its columns: it could be a record.
        event : str, optional
            The column that tells whether the event was observed at the time `target`, which is no
            feature.

        Returns
        -------
        dict
            The JSON payload, with None where something must be filled in from public knowledge, and
            with all kinds where a column's type does not determine one. `from_dict` refuses it
            until then; `learn` accepts it as `given`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"age": [31], "smoker": [True], "ill": ["no"]})
        >>> Domain.skeleton(table, "ill")["features"]["age"]
        {'kind': 'numeric', 'bounds': None, 'missing': False}
        """
        return make_skeleton(
            open_table(frame, ()), target, leave_out, task, header, unit, event
        ).form

    def check(self, frame: Any, *, public_rows: bool = False, header: bool = False) -> Comparison:
        """Compare the domain with a table's schema, and with its values if they are public.

        Parameters
        ----------
        frame : data frame, or path of a file
            The table.
        public_rows : bool
            Whether you declare all rows public: then values that would be clipped, missing or
            unknown are counted, exactly, and a column that is missing in more than 99 % of rows
            does not fit.
        header : bool
            Whether the first line of a CSV file is known to name its columns: it could be a record.

        Returns
        -------
        Comparison
            Its attributes are fits, absent, unfit and more, and for public rows strays and empty.

        Privacy
        -------
        Costs nothing: names and types of columns are public. With `public_rows` nothing is
        protected.

        Examples
        --------
        >>> import pyarrow as pa
        >>> form = {"version": 1, "features": {"age": {"kind": "numeric", "bounds": [0, 99]}}}
        >>> domain = Domain.from_dict(form | {"target": {"name": "ill", "classes": ["no", "yes"]}})
        >>> domain.check(pa.table({"age": [31, 120]})).absent
        ('ill',)
        >>> table = pa.table({"age": [31, 120], "ill": ["no", "yes"]})
        >>> domain.check(table, public_rows=True).strays[0].above
        1
        """
        if not isinstance(public_rows, bool):  # a string such as "no" declares nothing
            raise ValueError("public_rows must be True or False")
        table, parts = open_table(frame, ()), self.parts()
        found = compare(parts, table)
        if table.is_text and not header:  # whose first line may be a record
            found = replace(found, more=())
        return with_outside_counts(found, parts, table) if public_rows and found.fits else found

    def parts(self) -> Parts:
        """Return the domain as the complete parts of a JSON payload."""
        unit = () if self.unit is None else (self.unit.column,)
        columns = (*self.feature_names, *self.target.readers, *unit)
        return Parts(columns, self.features, self.target, self.unit)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON payload."""
        payload: dict[str, Any] = {
            "version": VERSION,
            "features": {feature.name: feature.to_dict() for feature in self.features},
            "target": self.target.to_dict(),
        }
        if self.unit is not None:
            payload["unit"] = self.unit.to_dict()
        if self.privacy is not None:
            payload["privacy"] = self.privacy.to_dict()
        return payload

    @classmethod
    def from_json(cls, source: str | Path) -> Domain:
        """Read a domain from a JSON file, or from a JSON string."""
        return cls.from_dict(read_json(source))

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the JSON text, one feature a line, and write it to `path` if one is given."""
        text = domain_json(self.to_dict())
        if path is not None:
            write_file(path, text.encode())
        return text

    def __repr__(self) -> str:
        return f"<Domain: {len(self.features)} features -> {self.target.name}>"

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><td>{escape(own.name)}</td><td>{own.kind}</td><td>{escape(own.range)}</td>"
            f"<td>{'expected' if own.missing else ''}</td><td>{escape(own.reason)}</td></tr>"
            for own in self.features
        )
        cells = ("feature", "kind", "values", "missing", "known from")
        head = "".join(f"<th>{cell}</th>" for cell in cells)
        about = f"{self.target.name}: {self.target.describe()}"
        notes = [about, f"protected unit: {describe_unit(self.unit)}"]
        if self.privacy is not None:
            notes.append(f"learned at: {self.privacy.guarantee}")
        footer = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return f"<table><tr>{head}</tr>{lines}</table>{footer}"

    def __str__(self) -> str:
        width = max(len(feature.name) for feature in self.features)
        lines = [f"Domain: {len(self.features)} features -> {self.target.name}"]
        for feature in self.features:
            note = ", missing expected" if feature.missing else ""
            lines.append(f"  {feature.name:<{width}}  {feature.kind:<11}  {feature.range}{note}")
        lines.append(f"  target {self.target.name}: {self.target.range}")
        lines.append(f"  protected unit: {describe_unit(self.unit)}")
        if self.privacy is not None:
            lines.append(f"  learned at: {self.privacy.guarantee}")
        return "\n".join(lines)


INFERRED_REASON = "learned privately from the rows, in lesson "
"""Prefix of the reason of an inferred part; the inference's identifier follows."""


def inferences_of(parts: Iterable[Feature | Target | Unit]) -> frozenset[str]:
    """Return the identifiers of the private inferences that parts of a domain come from."""
    inferred = (
        part.reason for part in parts if part.reason.startswith(INFERRED_REASON.split(",")[0])
    )
    return frozenset(reason.removeprefix(INFERRED_REASON) for reason in inferred)


def reported_inferences(price: PrivacyReport | None) -> frozenset[str]:
    """Return the identifiers of the private inferences that a report accounts for."""
    named = "" if price is None else price.parameters.get("lessons", "")
    return frozenset(named.split() if isinstance(named, str) else ())
