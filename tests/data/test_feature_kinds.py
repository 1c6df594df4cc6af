"""A kind of feature is one class: everything else follows from it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

from privboost import Domain, PrivBoostClassifier
from privboost._core.errors import DomainError
from privboost._core.hooks import resolve
from privboost.data import features
from privboost.data.encoding import Encoder
from privboost.data.features import FEATURE_KINDS, NumericFeature
from privboost.data.loading import RowLoader, read_loader
from privboost.data.values import read_numbers


@dataclass(frozen=True)
class PercentFeature(NumericFeature):
    """A percentage, as a string such as "12 %"."""

    kind: ClassVar[str] = "percent"
    example: ClassVar[str] = '"bounds": [0, 100], in percent'
    column_type: ClassVar[str] = ""
    reads_plain_numbers: ClassVar[bool] = False

    def read(self, column):
        """Return numbers of percent."""
        texts = [None if each is None else each.rstrip(" %") for each in column.to_pylist()]
        return read_numbers(pa.array(texts, pa.string()), self.name)

    def format_value(self, value):
        """Format a percentage."""
        return f"{value:g} %"


@pytest.fixture
def percent(monkeypatch):
    monkeypatch.setitem(FEATURE_KINDS, "percent", PercentFeature)


def payload():
    return {
        "version": 1,
        "features": {"share": {"kind": "percent", "bounds": [0, 100], "edges": [10, 50]}},
        "target": {"name": "ill", "classes": ["no", "yes"]},
    }


def test_a_kind_owns_its_json_coding_and_descriptions(percent):
    domain = Domain.from_dict(payload())
    assert domain.to_dict() == payload()
    encoder = Encoder.of(domain)
    codes = encoder.code({"share": pa.array(["5 %", "10 %", "60 %", "120 %", "?", None])})
    assert codes.column(0).tolist() == [0, 0, 2, 2, 3, 3]
    described = [text for text, _ in encoder.spans(0, np.arange(4))]
    assert described == ["x ≤ 10 %", "10 % < x ≤ 50 %", "50 % < x", "missing"]
    assert "share  percent" in str(domain)
    table = pa.table({"share": ["5 %", "120 %", None], "ill": ["no", "yes", "no"]})
    (found, _) = domain.check(table, public_rows=True).strays
    assert (found.missing, found.above) == (1, 1)
    with pytest.raises(DomainError, match=r"features\.share\.bounds: to be filled in"):
        Domain.from_dict(payload() | {"features": {"share": PercentFeature.skeleton()}})


def test_models_are_trained_on_a_kind(percent):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 100, 400)
    table = pa.table(
        {"share": [f"{v} %" for v in values], "ill": np.where(values > 50, "yes", "no")}
    )
    estimator = PrivBoostClassifier(
        epsilon=100.0, delta=1e-6, domain=Domain.from_dict(payload()), random_state=0
    )
    assert estimator.fit(table).score(table, table["ill"]) > 0.9


def test_every_kind_has_all_that_a_skeleton_needs():
    for name, kind in FEATURE_KINDS.items():
        assert kind.kind == name
        assert kind.example
        assert set(kind.skeleton()) == {"kind", *kind.required, "missing"}
    assert features.OPEN_KIND.split(" | ") == list(FEATURE_KINDS)


def test_objects_of_upper_packages_are_found_by_name():
    assert resolve("Domain.learn").__name__ == "learn_domain"
    for magic in ("PVBLOAD1", "PVBPART1", "PVBSIZE1", "PVBEVAL1"):
        assert resolve(f"loader {magic}").magic == magic.encode()
    assert resolve("loader PVBLOAD1") is RowLoader
    with pytest.raises(ValueError, match="no loader's"):
        read_loader(b"PVBNONE1 and more")
