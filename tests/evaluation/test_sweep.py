"""What each ε buys: kept, told with its price, and drawn."""

import json
import math

import pytest

from privboost import (
    BudgetError,
    Evaluation,
    PrivBoostClassifier,
    PrivBoostRegressor,
    Sweep,
    evaluate,
    load_model,
)
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame


def point(epsilon, target=CLASSES, evaluated=0.5, **how):
    kind = PrivBoostRegressor if "bounds" in target else PrivBoostClassifier
    model = kind(epsilon, 1e-6, make_domain(target), n_estimators=2, **how)
    model.fit(make_frame(300, 1, target))
    public = {"public_rows": True} if evaluated == math.inf else {}
    return model, evaluate(model, make_frame(300, 2, target), epsilon=evaluated, **public)


@pytest.fixture(scope="module")
def sweep():
    found = Sweep()
    for epsilon in (2.0, 1.0):
        found.add(*point(epsilon))
    found.refer("a limit", auc=0.9, accuracy=0.8)
    return found


def test_models_stand_by_epsilon_with_what_they_cost_together(sweep):
    assert [round(own.training.epsilon, 3) for own in sweep.points] == [1.0, 2.0]
    one, two = (own.training for own in sweep.points)
    assert sweep.training_cost() == one + two
    assert two.epsilon < sweep.training_cost().epsilon < 3
    assert sweep.evaluation_cost().epsilon == pytest.approx(1.0)
    text = sweep.to_text()
    assert text == str(sweep)
    assert sweep.training_cost().guarantee in text
    assert sweep.evaluation_cost().guarantee in text
    assert text.splitlines()[2].split() == [
        *("1,", "δ", "=", "1e-06"),
        *str(one_value(sweep, "auc")).split(),
        *("private", "rows,", "0.5-differential", "privacy", "(pure)"),
    ]
    assert "majority class" in text
    assert "a limit" in text
    assert "a limit" not in sweep.to_text("brier")


def one_value(sweep, measure):
    return sweep.points[0].evaluation[measure]


def test_the_majority_class_is_known_from_released_shares(sweep):
    shares = [own.evaluation["prevalence"].value for own in sweep.points]
    most = sum(max(share, 1 - share) for share in shares) / 2
    assert f"{most:.4g}" in sweep.to_text("accuracy")
    three = Sweep()
    three.add(*point(2.0, THREE))
    values = one_value(three, "share of mid"), one_value(three, "share of low")
    line = next(own for own in three.to_text("accuracy").splitlines() if "majority" in own)
    assert float(line.split()[-1]) >= max(map(float, values)) - 1e-3


def test_what_is_written_is_read(sweep, tmp_path):
    sweep.to_json(tmp_path / "sweep.json")
    again = Sweep.from_json(tmp_path / "sweep.json")
    assert again.points == sweep.points
    assert again.references == sweep.references
    assert again.to_text("log_loss") == sweep.to_text("log_loss")


def test_models_and_evaluations_may_come_from_files(sweep, tmp_path):
    model, evaluation = point(1.0)
    model.save(tmp_path / "m.privboost")
    evaluation.to_json(tmp_path / "e.json")
    found = Sweep()
    found.add(load_model(tmp_path / "m.privboost"), Evaluation.from_json(tmp_path / "e.json"))
    found.add(model.privacy_, evaluation)
    assert found.points[0] == found.points[1]


def damaged(form):
    yield "no JSON", None
    yield "version, points and references", []
    yield "version, points and references", {"version": 1}
    yield "version is not 1", form | {"version": 2}
    yield "not as it was written", form | {"points": [{}]}
    yield "not as it was written", form | {"points": 3}
    for part in ("training", "evaluation"):
        yield "not as it was written", form | {"points": [form["points"][0] | {part: {}}]}
    for references in ({"a": {"auc": "x"}}, {"a": {"auc": math.nan}}, {"a\n": {}}, {"a": 1}, []):
        yield "not as it was written", form | {"references": references}


def test_a_damaged_file_is_told_by_its_path(sweep, tmp_path):
    path = tmp_path / "sweep.json"
    for words, form in damaged(sweep.to_dict()):
        path.write_text("{" if form is None else json.dumps(form))
        with pytest.raises(ValueError, match="holds no sweep") as caught:
            Sweep.from_json(path)
        assert str(path) in str(caught.value)
        assert form is None or words in str(caught.value)
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="holds no sweep"):
        Sweep.from_json(path)
    with pytest.raises(FileNotFoundError):
        Sweep.from_json(tmp_path / "nothing.json")


def test_what_does_not_belong_is_refused(sweep):
    model, evaluation = point(2.0, NUMBER)
    for given in ((None, evaluation), (model, model.privacy_)):
        with pytest.raises(TypeError, match="must be"):
            Sweep().add(*given)
    with pytest.raises(ValueError, match="of another model"):
        Sweep().add(point(2.0)[0], point(2.0)[1])
    own = Sweep.from_dict(sweep.to_dict())
    with pytest.raises(ValueError, match="have to predict income"):
        own.add(model, evaluation)
    with pytest.raises(KeyError, match="did you mean 'auc'"):
        own.to_text("AUC")
    for empty in (Sweep().to_text, Sweep().plot):
        with pytest.raises(ValueError, match="no models yet"):
            empty()
    assert "without models" in repr(Sweep())
    with pytest.raises(ValueError, match="finite number"):
        own.refer("a limit", auc=math.inf)
    with pytest.raises(ValueError, match="text of one line"):
        own.refer("", auc=0.5)


def test_public_rows_cost_nothing_and_are_a_line():
    found = Sweep()
    found.add(*point(math.inf, evaluated=math.inf, public_rows=True))
    with pytest.raises(BudgetError, match="declared public"):
        found.training_cost()
    assert "not added up (nothing: the rows were declared public)" in found.to_text()
    assert "without noise" in found.to_text()
    with pytest.raises(ValueError, match="finite ε"):
        found.plot()
    found.add(*point(1.0, evaluated=math.inf))
    assert found.training_cost().epsilon == pytest.approx(1.0)
    assert found.points[-1].training.public_rows


@pytest.mark.filterwarnings("ignore::privboost.PrivacyWarning")
def test_a_seed_is_told():
    found = Sweep()
    found.add(*point(1.0, random_state=1))
    assert "seeded: no guarantee" in found.to_text()
    assert "together: no privacy guarantee: seeded" in found.to_text()


def test_it_is_drawn_by_epsilon_with_lines_beside(sweep):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    own = Sweep.from_dict(sweep.to_dict())
    own.add(*point(1.0))
    ax = own.plot()
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "2"]
    assert ax.get_ylabel() == "auc"
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["majority class 0.5", "a limit 0.9"]
    assert own.plot("log_loss", ax=plt.subplots()[1]).get_legend() is None
    number = Sweep()
    number.add(*point(2.0, NUMBER))
    assert number.plot().get_ylabel() == "rmse"
    plt.close("all")
