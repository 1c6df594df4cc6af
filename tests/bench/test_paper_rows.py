"""The rows and bounds of published runs, by the words that name them."""

from __future__ import annotations

import math

import pytest

from bench.papers.protocol import SBDT_BOUNDS, table
from bench.papers.sbdt_points import as_coded


def test_words_change_a_table_one_by_one() -> None:
    frame, domain = table("adult:32561:complete:sbdt")
    assert len(frame) == 30_162  # as S-BDT's authors have it
    numbers = [feature for feature in domain.features if feature.kind == "numeric"]
    assert {tuple(feature.bounds) for feature in numbers} == {(0.0, SBDT_BOUNDS["adult"])}
    whole, stated = table("adult")
    assert len(whole) == 48_842
    assert stated.target == domain.target


@pytest.mark.parametrize("share", [0.04, 0.1, 0.5])
def test_noise_of_their_code_has_half_the_scale_for_hessians_alone(share: float) -> None:
    how = as_coded(1.0, share)
    precision = how["epsilon"] ** 2  # about, of both sums together
    assert precision * how["hessian_share"] == pytest.approx(4 * share)
    assert precision * (1 - how["hessian_share"]) == pytest.approx(1 - share)
    assert how["epsilon"] > math.sqrt(1 + 2.9 * share)
