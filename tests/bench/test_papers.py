"""The registry of published tables and figures: names, settings and published figures are sound."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bench
from bench.papers.__main__ import PAPERS
from bench.papers.figure import Figure, Point
from bench.papers.measuring import measure
from bench.papers.peers import NEEDS, on_scales, peer
from bench.papers.protocol import make
from privboost import Domain

WRITTEN = [paper for paper in PAPERS if find_spec(f"bench.papers.{paper}")]
DOMAINS = Path(bench.__file__).parent / "domains"


def figures(paper: str) -> tuple[Figure, ...]:
    return import_module(f"bench.papers.{paper}").FIGURES


def domain_of(data: str) -> Domain:
    return Domain.from_json(DOMAINS / f"{data.partition(':')[0]}.json")


class HereAndNow:
    """A pool that needs no processes."""

    map = staticmethod(map)


def twice(number: int, seed: int) -> dict[str, float]:
    twice.calls += 1  # type: ignore[attr-defined]
    return {"twice": 2.0 * number, "seed": float(seed)}


@pytest.mark.parametrize("paper", WRITTEN)
def test_a_figure_has_a_name_of_its_own(paper: str) -> None:
    names = [figure.name for figure in figures(paper)]
    assert names
    assert len(set(names)) == len(names)
    assert all(name.partition(".")[0] == paper for name in names)


@pytest.mark.parametrize("paper", WRITTEN)
def test_a_place_has_one_point_unless_the_best_or_the_mean_is_told(paper: str) -> None:
    for figure in figures(paper):
        assert figure.points
        assert figure.runs >= 1
        assert not (figure.best and figure.average)
        places = [(point.panel, point.arm, point.x) for point in figure.points]
        if not (figure.best or figure.average):
            assert len(set(places)) == len(places), figure.name


@pytest.mark.parametrize("paper", WRITTEN)
def test_a_point_can_be_sent_to_a_process_and_written_down(paper: str) -> None:
    for point in (point for figure in figures(paper) for point in figure.points):
        json.dumps(point.how)
        assert getattr(import_module(point.measure.__module__), point.measure.__name__)
        taken = inspect.signature(point.measure)
        taken.bind(**point.how, seed=0)
        assert point.published is None or isinstance(point.published, int | float)


@pytest.mark.parametrize("paper", WRITTEN)
def test_the_settings_of_a_point_make_an_estimator(paper: str) -> None:
    for point in _once(point for figure in figures(paper) for point in figure.points):
        how = dict(point.how.get("how", {}))
        domain = domain_of(point.how["data"]) if "data" in point.how else None
        name = point.how.get("name" if point.measure is peer else "peer")
        assert name is None or name in NEEDS
        if (kind := point.how.get("estimator")) and domain is not None:
            assert make(kind, how, domain, 0).get_params()["domain"] is domain


@pytest.mark.parametrize("paper", WRITTEN)
def test_the_public_facts_of_a_point_are_at_hand(paper: str) -> None:
    for figure in figures(paper):
        for data in {point.how["data"] for point in figure.points if "data" in point.how}:
            assert domain_of(data).features


def test_a_peer_with_bins_of_equal_width_has_numbers_on_their_scales() -> None:
    form = {
        "version": 1,
        "features": {
            "share": {"kind": "numeric", "bounds": [0, 100], "scale": "log"},
            "size": {"kind": "numeric", "bounds": [1, 100], "scale": "log"},
            "age": {"kind": "numeric", "bounds": [0, 10], "missing": True},
            "job": {"kind": "categorical", "categories": ["a"], "missing": True},
        },
        "target": {"name": "y", "classes": [0, 1]},
    }
    rows = pd.DataFrame(
        {"share": [0, 1, 200], "size": [0, 10, 1e9], "age": [1, None, 11], "job": ["a", None, "b"]}
    )
    made = on_scales(Domain.from_dict(form))(rows)
    assert made["share"].tolist() == pytest.approx([0, np.log(2), np.log(101)])
    assert made["size"].tolist() == pytest.approx([0, np.log(10), np.log(100)])
    assert made["age"].tolist() == [1, 5, 10]
    assert made["job"].tolist() == ["a", "missing", "b"]


def test_published_figures_stand_where_the_text_has_them() -> None:
    lazybb = {figure.name: figure for figure in figures("lazybb")}
    known = {
        (point.panel, point.x): point.published
        for point in lazybb["lazybb.figure5.2"].points
        if point.published is not None
    }
    assert known == {
        ("adult", 0.4): 0.82,
        ("adult", 1.0): 0.83,
        ("cod_rna", 1.0): 0.86,
        ("mushroom", 1.0): 0.98,
    }
    shares = {
        (point.panel, point.x): point.published
        for point in lazybb["lazybb.table5.2"].points
        if point.published is not None
    }
    assert shares["adult, features", 0.4] == 6.4
    assert shares["adult, %", 0.4] == 3.95
    assert shares["cod_rna, %", 5.0] == 40
    all_features = {"adult": 162, "cod_rna": 80, "mushroom": 117}
    for data, number in all_features.items():
        for epsilon in (0.05, 0.5, 5.0):
            part = 100 * shares[f"{data}, features", epsilon] / number
            assert part == pytest.approx(shares[f"{data}, %", epsilon], abs=0.01)
    assert not any(point.published for figure in figures("adassp") for point in figure.points)


def test_runs_are_shared_by_points_that_tell_of_one_fit() -> None:
    twice.calls = 0  # type: ignore[attr-defined]
    points = tuple(
        Point("arm", n, twice, {"number": n}, of=of) for n in (1, 2) for of in ("twice",)
    )
    seeds = tuple(Point("other", n, twice, {"number": n}, of="seed") for n in (1, 2))
    found = measure(Figure("a.figure", "", points + seeds), 3, HereAndNow())  # type: ignore[arg-type]
    assert twice.calls == 6  # type: ignore[attr-defined]
    assert [one["mean"] for one in found] == [2, 4, 1, 1]


def test_means_of_data_sets_are_taken_run_by_run() -> None:
    points = tuple(Point("arm", 1, twice, {"number": n}, of="twice") for n in (3, 4))
    (found,) = measure(Figure("b.figure", "", points, average=True), 2, HereAndNow())  # type: ignore[arg-type]
    assert found["runs"] == [7, 7]
    assert len(found["how"]) == 2


def _once(points: Any) -> list[Point]:
    """Keep one point of each settings: figures share many."""
    return list({json.dumps(point.how, sort_keys=True): point for point in points}.values())
