"""What DP-XGB's paper reads off its figure 4, and the made-up tables of its figures 2 and 5."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench import runner
from bench.papers import dpxgb, dpxgb_zones, sarus, synthetic


@pytest.fixture
def figure_4(tmp_path, monkeypatch):
    """Two data sets; on the second, model B has no 100 trees."""
    cells = {
        ("one", "A"): {5: [0.5, 0.5], 100: [0.7, 0.9]},
        ("one", "B"): {5: [0.6, 0.6], 100: [0.6, 0.6]},
        ("two", "A"): {5: [0.9, 0.9], 100: [0.5, 0.5]},
        ("two", "B"): {5: [0.8, 0.8]},
    }
    results = [
        {"panel": data, "arm": arm, "x": float(trees), "mean": float(np.mean(runs)), "runs": runs}
        for (data, arm), found in cells.items()
        for trees, runs in found.items()
    ]
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "dpxgb.figure4.json").write_text(json.dumps({"results": results}))
    monkeypatch.setattr(runner, "RESULTS", tmp_path)


def test_ranks_are_means_over_the_data_sets_that_all_models_have(figure_4):
    assert dpxgb_zones.rank("A", 5.0, seed=0) == 1.5
    assert dpxgb_zones.rank("B", 5.0, seed=0) == 1.5
    assert dpxgb_zones.rank("A", 100.0, seed=0) == 1
    assert dpxgb_zones.rank("B", 100.0, seed=0) == 2


def test_a_zone_is_a_standard_deviation_below_the_best(figure_4):
    # A is best with 100 trees on the first data set (0.8, deviation 0.14), with 5 on the second.
    assert dpxgb_zones.zone("A", 0, 50, seed=0) == 25
    assert dpxgb_zones.zone("A", 0, 200, seed=0) == 50
    assert dpxgb_zones.zone("B", 0, 200, seed=0) == 100


def test_ranks_ask_for_the_figure_they_are_of(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="figure4 is not measured yet"):
        dpxgb_zones.rank("A", 5.0, seed=0)


@pytest.mark.parametrize("made", ["interactions:1", "interactions:2", "informative:2"])
def test_a_made_up_table_lies_within_its_domain(made):
    frame, domain = synthetic.table(made, 3)
    assert set(frame["y"]) == {0, 1}
    for feature in domain.features:
        low, high = feature.bounds
        assert frame[feature.name].between(low, high).mean() > 0.999


def test_only_informative_features_tell_of_the_labels():
    frame, _ = synthetic.table("informative:2", 0)
    gaps = frame.groupby("y").mean().diff().iloc[-1].abs().to_numpy()
    assert len(gaps) == synthetic.FEATURES
    assert gaps[:2].max() > 0.5
    assert gaps[2:].max() < 0.1


def test_to_compare_no_accountants_changes_no_model():
    how = dpxgb._published("XGB", 2, 1, synthetic.ROWS)
    plain = synthetic.run("interactions:1", **how, seed=0)
    assert dpxgb.quick_made("interactions:1", **how, seed=0) == plain


def test_published_figures_are_those_of_the_rows_that_were_published():
    figures = {figure.name: figure for figure in dpxgb.FIGURES + sarus.FIGURES}
    table = {(p.arm, p.x): p.published for p in figures["dpxgb.table1"].points if p.published}
    assert len(table) == 2 * len(dpxgb.COLUMNS)
    assert table["TR_cyc", "adult"] == 0.9039
    assert table["XGB_ada", "covtype"] == 0.9038
    assert {p.panel for p in figures["sarus.figure4"].points if p.published} == set(sarus.PUBLISHED)
