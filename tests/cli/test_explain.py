"""Explanations on the command line."""

import json
import sys

import pytest

from privboost import LazyBBClassifier, PrivBoostRegressor
from tests.cli.test_commands import command, run  # noqa: F401  # fixtures
from tests.tables import NUMBER, make_domain, make_frame


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    LazyBBClassifier(5.0, domain=make_domain(), n_estimators=5, random_state=1).fit(
        make_frame(200)
    ).save(folder / "vote.privboost")
    PrivBoostRegressor(5.0, domain=make_domain(NUMBER), interactions=False, random_state=1).fit(
        make_frame(200, target=NUMBER)
    ).save(folder / "number.privboost")
    return folder


@pytest.mark.parametrize("name", ["vote", "number"])
def test_text_and_json(models, name, run, tmp_path):  # noqa: F811
    path = models / f"{name}.privboost"
    said = run("explain", path).stdout
    assert said.startswith("income")
    assert "\nimportance" in said
    form = json.loads(run("explain", path, "--json").stdout)
    assert form["target"] == "income"
    assert {finding["kind"] for finding in form["findings"]} <= {
        "no signal",
        "label bounds",
        "wasted share",
        "wide bounds",
    }
    out = tmp_path / "out.json"
    said = run("explain", path, "--json", "--out", out).stdout
    assert json.loads(said) == {"out": str(out)}
    assert json.loads(out.read_text()) == form


def test_files_are_not_written_over(models, run, tmp_path):  # noqa: F811
    path, out = models / "vote.privboost", tmp_path / "out.txt"
    out.write_text("mine")
    assert "--force" in run("explain", path, "--out", out, code=3).stderr
    assert out.read_text() == "mine"
    run("explain", path, "--out", out, "--force")
    assert out.read_text().startswith("income: ")
    assert "different" in run("explain", path, "--out", path, "--force", code=2).stderr


def test_pictures(models, run, tmp_path):  # noqa: F811
    pytest.importorskip("matplotlib")
    for suffix, head in ((".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")):
        picture = tmp_path / f"picture{suffix}"
        run("explain", models / "vote.privboost", "--plot", picture, "--most", "2")
        assert picture.read_bytes().startswith(head)


def test_what_cannot_be_drawn_is_said_in_a_line(models, run, tmp_path, monkeypatch):  # noqa: F811
    path = models / "vote.privboost"
    assert ".png" in run("explain", path, "--plot", tmp_path / "a.txt", code=2).stderr
    wrong = run("explain", path, "--plot", tmp_path / "a.png", "--most", "-1", code=2)
    assert "--most" in wrong.stderr
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    said = run("explain", path, "--plot", tmp_path / "a.png", code=1).stderr
    assert "privboost[plot]" in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.iterdir())
