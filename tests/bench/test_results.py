"""The page of results is what the committed summaries say, and comparisons are fair."""

from __future__ import annotations

import pytest

import privboost
from bench.page import pages
from bench.page.comparisons import by_point, losses, ranks, same_score
from bench.page.markdown import budget, figure, number, table
from bench.papers.peers import NEEDS
from bench.speed import cores, fits, growth, scale
from privboost import Domain
from privboost._core.grid import CLIP_STEPS
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, open_source
from privboost.engine.backend import open_local
from privboost.engine.queries import COUNT, TreeSums
from privboost.engine.updates import Start
from privboost.losses.base import loss_of
from privboost.trees.tree import stump

KNOWN = {0.1: 0.7, 0.3: 0.65, 1.0: 0.8}


def summary(method: str, value: float, error: float | None = 0.01, name: str = "adult") -> dict:
    return {
        "table": name,
        "method": method,
        "epsilon": 1.0,
        "delta": 1e-6,
        "scores": {"AUC": [value, error]},
        "margins": {},
    }


def test_the_page_and_the_readme_are_those_of_the_summaries():
    """If this fails, run `make results`."""
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page()
    readme = pages.README.read_text(encoding="utf-8")
    assert readme == pages.with_block(readme, pages.readme_block())


@pytest.mark.parametrize("name", ["scores", "in_short", "same_score"])
def test_the_pictures_are_those_of_the_summaries(name):
    """If this fails, run `make results` where matplotlib is installed."""
    assert pages.digest() in (pages.PICTURES / f"{name}.svg").read_text(encoding="utf-8")


def test_a_page_without_measurements_says_so(tmp_path):
    assert pages.page(tmp_path).count("*Not measured yet.*") >= 5


def test_the_same_score_is_read_off_the_curve_in_log_epsilon():
    assert same_score(KNOWN, 0.75, "AUC").epsilon == pytest.approx(0.3 * (1 / 0.3) ** 0.5)
    assert same_score(KNOWN, 0.8, "AUC") == (pytest.approx(1), "")
    assert same_score(KNOWN, 0.69, "AUC") == (0.1, "<")
    assert same_score(KNOWN, 0.81, "AUC") == (1, ">")
    errors = {epsilon: 1 - score for epsilon, score in KNOWN.items()}
    assert same_score(errors, 0.25, "RMSE") == same_score(KNOWN, 0.75, "AUC")


def test_ranks_are_of_tables_that_all_methods_have():
    known = [summary("privboost", 0.9), summary("sbdt", 0.9), summary("dp_ebm", 0.95)]
    known += [summary("privboost", 0.5, name="cardio"), summary("sbdt", 0.6, name="cardio")]
    found = ranks(by_point(known), "two", "AUC", 1.0, 1e-6)
    assert found == (1, {"privboost": 2.5, "sbdt": 2.5, "dp_ebm": 1.0})
    assert ranks(by_point(known), "two", "log-loss", 1.0, 1e-6) is None


def test_a_loss_is_more_than_two_standard_errors_of_the_difference():
    known = [summary("privboost", 0.9), summary("sbdt", 0.925), summary("dpxgb", 0.93)]
    known += [summary("sarus", 0.89), summary("adassp", 0.95, error=None)]
    found, compared = losses(by_point(known))
    assert [loss.point.method for loss in found] == ["dpxgb"]
    assert found[0].errors == pytest.approx(0.03 / (0.01 * 2**0.5))
    assert compared == 3  # one has no standard error
    known[1]["margins"] = {"AUC": [0.025, 0.005]}
    assert [loss.point.method for loss in losses(by_point(known))[0]] == ["sbdt", "dpxgb"]


def test_numbers_are_short():
    assert [number(x) for x in (0.8125, -0.04, 2.714, 25.06)] == [".812", "-.040", "2.71", "25.1"]
    assert [budget(x) for x in (0.1, 0.119, 1.0, 100.0)] == [".1", ".119", "1", "100"]
    assert figure([0.9, 0.001], bold=True) == "**.900** ± .001"
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert table(["a"], []) == ""


def test_the_contenders_of_speed_can_be_made():
    for case in fits.CASES:
        assert {name for name, _ in case.peers.values()} <= set(NEEDS)
        for name, how in case.ours.values():
            assert getattr(privboost, name)(1.0, 1e-6, **how).get_params()["n_jobs"] is None
    for kind, how in growth.RECIPES.values():
        kind(1.0, 1e-6, **how)
    for name, how in scale.RECIPES.values():
        getattr(privboost, name)(1.0, 1e-9, **how)


def test_the_rounds_of_speed_can_be_asked():
    table, label, form = growth.made_up(200, cores.COLUMNS)
    encoder = Encoder.of(Domain.from_dict(form))
    source, roles = open_source(encoder.domain, table, label, None)
    backend = open_local([Load(RowLoader(encoder, roles), source)])
    backend.apply(Start(loss_of("classes", "logistic").table(1.0, 0.25)))
    for act in cores.ROUNDS.values():
        act(backend, encoder)
    sums = backend.sum(TreeSums((stump(),), statistics=COUNT))
    assert sums.tolist() == [[[200 * CLIP_STEPS]]]
