"""The examples, on few rows."""

import runpy
from pathlib import Path

from privboost.datasets import Dataset, load_adult

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_adult(tmp_path, capsys):
    adult = load_adult()
    few = Dataset(adult.train.slice(0, 2000), adult.test.slice(0, 500), adult.domain)
    example = runpy.run_path(str(EXAMPLES / "adult.py"))
    sweep = example["main"](tmp_path / "demo", few, n_estimators=20)
    assert len(sweep.points) == 3
    out = capsys.readouterr().out
    for line in ("What each ε buys: income", "majority class", "without privacy"):
        assert line in out
    written = {path.name for path in (tmp_path / "demo").iterdir()}
    each = ("0.1", "1", "3")
    assert written == {
        "budgets.png",
        *(f"effects-{epsilon}.png" for epsilon in each),
        *(f"card-{epsilon}.html" for epsilon in each),
    }


def test_boosting_without_privacy():
    found = runpy.run_path(str(EXAMPLES / "adult.py"))["without_privacy"](load_adult())
    assert found["auc"] > 0.92
    assert found["accuracy"] > 0.865
