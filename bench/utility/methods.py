"""What is compared: our recipes as they come, DP-EBM, and LightGBM without privacy.

A method's package is imported when it is fitted, not before: machines need not have them all.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

import privboost
from bench import runner
from bench.papers import peers
from bench.papers.protocol import make
from bench.utility.tables import kind
from privboost import Domain, PrivacyWarning
from privboost.recipes import ENDINGS, RECIPES

Fit = Callable[[pd.DataFrame, Domain, float | None, float | None, int], Any]
"""From rows, domain, ε, δ and seed to a fitted model."""

FLAGSHIP = "privboost"
CEILING = "lightgbm"


@dataclass(frozen=True)
class Method:
    """One way to fit a model, with no setting but ε and δ.

    Attributes
    ----------
    title : str
        Its name in tables.
    kinds : tuple of str
        The kinds of tables that it can predict.
    package, release : str
        What is imported for it, and the name under which that is installed.
    fit : callable
        Returns a fitted model.
    private : bool
        Whether it has an ε.
    refused : tuple of str
        Data sets that it refuses as it comes.
    """

    title: str
    kinds: tuple[str, ...]
    package: str
    release: str
    fit: Fit
    private: bool = True
    refused: tuple[str, ...] = ()

    def takes(self, table: str) -> bool:
        """Return whether it can be fitted to a table."""
        return kind(table) in self.kinds and table.split(":")[0] not in self.refused

    @property
    def installed(self) -> bool:
        """Whether it can be measured here."""
        return find_spec(self.package) is not None

    @property
    def version(self) -> str:
        """What is measured: its release, and of ours the state of its source, too."""
        if self.package != "privboost":
            return f"{self.release} {runner.release(self.release)}"
        return f"{self.release} {privboost.__version__} ({_source()})"


@lru_cache(maxsize=1)
def _source() -> str:
    """Return a digest of all files of the package."""
    folder = Path(privboost.__file__).parent
    digest = sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:8]


def _ours(
    name: str,
    rows: pd.DataFrame,
    domain: Domain,
    epsilon: float | None,
    delta: float | None,
    seed: int,
) -> Any:
    end = ENDINGS["number" if hasattr(domain.target, "bounds") else "classes"]
    how = {"epsilon": epsilon, "delta": delta}
    model = make(RECIPES[name].title + end, how, domain, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of seeds, and of weak δ at large ε
        return model.fit(rows)


def _dp_ebm(
    rows: pd.DataFrame, domain: Domain, epsilon: float | None, delta: float | None, seed: int
) -> Any:
    return peers.fit("dp_ebm", {"epsilon": epsilon, "delta": delta}, rows, domain, seed)


def _lightgbm(
    rows: pd.DataFrame, domain: Domain, epsilon: float | None, delta: float | None, seed: int
) -> Any:
    how = {"n_estimators": 100, "num_leaves": 31, "learning_rate": 0.1}
    return peers.fit("lightgbm", how, rows, domain, seed)


_TITLES = {
    "privboost": "PrivBoost",
    "sbdt": "S-BDT",
    "dpxgb": "DP-XGB",
    "sarus": "Sarus",
    "lazybb": "LazyBB",
    "adassp": "BoostedAdaSSP",
}
_REFUSED = {"adassp": ("diabetes130us",)}  # more coordinates than products are kept of
_KINDS = {"classes": ("two", "several"), "number": ("number",)}

METHODS = {
    name: Method(
        _TITLES[name],
        tuple(one for task in recipe.tasks if task in _KINDS for one in _KINDS[task]),
        "privboost",
        "privboost",
        partial(_ours, name),
        refused=_REFUSED.get(name, ()),
    )
    for name, recipe in RECIPES.items()
} | {
    "dp_ebm": Method("DP-EBM", ("two", "number"), "interpret", "interpret-core", _dp_ebm),
    "lightgbm": Method(
        "LightGBM", ("two", "several", "number"), "lightgbm", "lightgbm", _lightgbm, private=False
    ),
}
"""By name, the flagship first and the ceiling last."""
