"""Roots are on the safe side, whatever the root finder says."""

import pytest

from privboost.accounting import formulas
from privboost.accounting.events import Planned, Relation, SampledGroup, Selection
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease


@pytest.mark.parametrize("wrong_by", [0.0, -1e-6, 1e-6])
def test_a_root_is_moved_until_the_promise_holds(wrong_by, monkeypatch):
    """A root finder that errs to the unsafe side is not believed."""
    monkeypatch.setattr(formulas, "brentq", lambda *how, **more: 2.0 + wrong_by)
    root = formulas.safe_root(
        lambda x: x - 2, (0.0, 5.0), holds=lambda x: x >= 2, nudge=lambda x: x + 1e-7
    )
    assert root >= 2
    assert root == pytest.approx(2.0, abs=2e-6)


def test_the_real_root_finder_is_asked_with_tolerances():
    root = formulas.safe_root(
        lambda x: x * x - 2, (0.0, 2.0), lambda x: x * x <= 2, lambda x: x * (1 - 1e-14), xtol=1e-15
    )
    assert root * root <= 2
    assert root == pytest.approx(2**0.5, rel=1e-12)


def test_every_event_says_who_takes_part():
    sums = {"steps": 1, "cells": 1, "rows": 3, "shares": (1.0,)}
    plain = GaussianRelease("sums", 1.0, **sums)
    assert (plain.sampling_rate, plain.unit_rows, Selection("one", 1.0).unit_rows) == (1.0, 3, 1)
    sampled = LaplaceRelease("sums", 1.0, **(sums | {"rows": 1}), sampling_rate=0.5)
    assert sampled.sampling_rate == Selection("one", 1.0, 0.5).sampling_rate == 0.5
    with pytest.raises(ValueError, match="units of one row"):
        SampledGroup.of("a tree", (Planned(LaplaceRelease("sums", 1.0, **sums), 1),), 0.5)


def test_a_relation_is_one_of_two_and_is_written_as_its_words():
    one = Selection("one", 1.0, relation="replace one protected unit")
    assert one.relation is Relation.REPLACE_ONE
    assert type(one.to_dict()["relation"]) is str
    with pytest.raises(ValueError, match="not a valid Relation"):
        Selection("one", 1.0, relation="some other")
