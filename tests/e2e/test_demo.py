"""The demonstration, on few rows of Adult where it can be."""

import os
import re
import signal
import sys
from xml.etree import ElementTree

import pytest

from privboost.cli.main import main
from privboost.datasets import Dataset, load_adult
from privboost.demo import run
from privboost.demo.pictures import draw_shapes
from privboost.demo.results import limit_result, majority_result
from privboost.demo.svg import even_ticks
from privboost.explanations.shapes import Shape
from privboost.explanations.spans import Spans


@pytest.fixture(scope="module")
def few():
    adult = load_adult()
    return Dataset(adult.train.slice(0, 2000), adult.test.slice(0, 500), adult.domain)


@pytest.fixture
def command(monkeypatch, capsys, tmp_path, few):
    """Run `privboost demo` on few rows, in an empty folder; return its status and what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "load_adult", lambda: few)

    def act(*arguments):
        monkeypatch.setattr(sys, "argv", ["privboost", "demo", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code or 0, *capsys.readouterr()

    return act


def test_a_page_that_needs_nothing_else(monkeypatch, tmp_path, few, capsys):
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)  # as where it is not installed
    results = run.run_demo(tmp_path / "page.html", few, n_estimators=20)
    run.print_results(results, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img)|(src|href)=|url\(|@import", page)
    pictures = re.findall("<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) == 2 + 3 + 3 * 4
    for picture in pictures:
        assert "nan" not in ElementTree.tostring(ElementTree.fromstring(picture), "unicode")
    assert page.count("srcdoc=") == 3
    assert page.count("Privacy report") >= 3
    assert "What to look at" in page
    out = capsys.readouterr().out
    for name in ("majority class", "epsilon = 0.1", "epsilon = 1", "epsilon = 3"):
        assert name in out
        assert name in page
    assert str(tmp_path / "page.html") in out


def test_it_writes_into_a_folder_of_its_own_and_replaces_nothing_unasked(command, tmp_path):
    path = os.path.join("demo", "report.html")
    (tmp_path / "demo").mkdir()
    (tmp_path / path).write_text("mine")
    status, _, err = command()
    assert status == 3
    assert err == f"privboost: {path} exists already: --force replaces it\n"
    assert (tmp_path / path).read_text() == "mine"
    status, out, err = command("--force")
    assert (status, err) == (0, "")  # no terminal, no progress
    assert path in out
    assert "What each ε buys" in (tmp_path / path).read_text(encoding="utf-8")
    assert [own.name for own in (tmp_path / "demo").iterdir()] == ["report.html"]


def test_an_interruption_is_said_in_a_line(command, monkeypatch, tmp_path):
    monkeypatch.setattr(run, "compile_flagship", lambda data: signal.raise_signal(signal.SIGINT))
    assert command() == (130, "", "privboost: interrupted\n")
    assert list((tmp_path / "demo").iterdir()) == []


def test_what_private_models_lie_between():
    adult = load_adult()
    least, limit = majority_result(adult), limit_result(adult)
    assert (least.auc, round(least.accuracy, 4)) == (0.5, 0.7638)
    assert limit.auc > 0.92
    assert limit.accuracy > 0.865


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-1.3, 2.4, [-1, 0, 1, 2]),
        (17, 90, [20, 40, 60, 80]),
        (3, 3, [3]),
    ],
)
def test_ticks_are_round_numbers(low, high, ticks):
    assert even_ticks(low, high) == ticks


def test_shapes_of_one_feature_share_a_scale():
    words = ("a", "b", "missing")
    spans = Spans("x < y", words, (-1000.0, 0.0, 10000.0), log=True)
    small, large = (Shape(spans, (0.0, size, 0.0), (0.1, 0.1, 0.0)) for size in (1.0, 4.0))
    alone, beside = draw_shapes([small])[0], draw_shapes([small, large])[0]
    assert alone != beside
    for picture in (alone, beside):
        texts = [own.text for own in ElementTree.fromstring(picture).iter() if own.text]
        assert "x < y" in texts
        assert {"0", "10k"} <= set(texts)
