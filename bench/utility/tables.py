"""The tables that methods are measured on, each with what is to be predicted."""

from __future__ import annotations

from functools import lru_cache

import pandas as pd

from bench import data
from bench.papers import synthetic
from bench.papers.protocol import TWO_CLASSES
from bench.papers.protocol import table as two_classes
from privboost import ClassTarget, Domain

TABLES = {
    "abalone": "Abalone",
    "interactions:1": "interactions, problem 1",
    "interactions:2": "interactions, problem 2",
    "telco_churn": "Telco churn",
    "mushroom": "Mushroom",
    "spambase": "Spambase",
    "cardio": "Cardio",
    "pol": "Pol",
    "pol:two": "Pol, two classes",
    "adult": "Adult",
    "jannis_subset": "Jannis",
    "jannis_subset:two": "Jannis, two classes",
    "diabetes130us": "Diabetes 130-US",
    "diabetes130us:two": "Diabetes 130-US, two classes",
    "cod_rna": "cod-rna",
    "creditcard_fraud": "Credit card fraud",
    "bioresponse": "Bioresponse",
    "covtype:two": "Covtype, two classes",
    "covtype": "Covtype",
}
"""By name, small ones first. After a colon: "two", its question of two classes, or a number."""


def kind(name: str) -> str:
    """Return what a table asks for: "two" classes, "several", or a "number"."""
    base, *words = name.split(":")
    if base == "interactions" or "two" in words:
        return "two"
    target = data.domain(base).target
    if not isinstance(target, ClassTarget):
        return "number"
    return "two" if len(target.classes) == 2 else "several"


def title(name: str) -> str:
    """Return a table's name in words; of some of its rows, with what is said of them."""
    if name in TABLES:
        return TABLES[name]
    base, *words = name.split(":")
    known = {"complete": "complete ones", "two": "two classes"}
    said = [f"first {int(w):,} rows" if w.isdigit() else known.get(w, w) for w in words]
    return ", ".join([TABLES.get(base, base), *said])


def load(name: str, seed: int) -> tuple[pd.DataFrame, Domain]:
    """Return a table, and what is public about it.

    Parameters
    ----------
    name : str
        One of `TABLES`. Further words change it: "adult:1000" is its first thousand rows (and
        see `bench.papers.protocol.table`).
    seed : int
        Of tables that are made up.
    """
    base, *words = name.split(":")
    if base == "interactions":
        return synthetic.table(name, seed)
    if "two" in words or base not in TWO_CLASSES:
        return two_classes(":".join([base, *(word for word in words if word != "two")]))
    frame, domain = _own(base)
    for word in words:
        frame = frame.iloc[: int(word)]
    return frame, domain


@lru_cache(maxsize=2)
def _own(name: str) -> tuple[pd.DataFrame, Domain]:
    """Return a data set with the target it came with."""
    return data.load(name)
