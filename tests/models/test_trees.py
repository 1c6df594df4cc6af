import numpy as np
import pytest

from privboost import SBDTClassifier, SBDTRegressor, load_model
from privboost._core.grid import SCORE_STEPS
from privboost.data.encoding import Encoder
from privboost.models.model import model_bytes
from tests.recipes.test_sbdt import leaf_of
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame


def fit(target=CLASSES, rows=400, **how):
    kind = SBDTRegressor if "bounds" in target else SBDTClassifier
    how = {"n_estimators": 12, "max_depth": 4, "random_state": 3, "epsilon": 5.0} | how
    return kind(domain=make_domain(target), **how).fit(make_frame(rows, target=target))


@pytest.mark.parametrize("target", [CLASSES, THREE, NUMBER])
@pytest.mark.parametrize("features", ["cyclical", "uniform", 2])
def test_scores_are_the_sum_of_the_leaves(target, features):
    model = fit(target, features=features, batch_size=3).model_
    frame = make_frame(60, 9)
    _, block = Encoder.of(model.domain).feature_codes(frame)
    expected = np.repeat(model.scores.start[:, None], 60, axis=1)
    stages = []
    for number, (tree, values) in enumerate(model.scores.trees(), 1):
        expected = expected + values[:, leaf_of(tree, block)]
        if number % 3 == 0:
            stages.append(expected)
    np.testing.assert_array_equal(model.scores.scores(block), expected)
    for stage, expected in zip(model.scores.staged_scores(block), stages, strict=True):
        np.testing.assert_array_equal(stage, expected)


def test_staged_predictions_end_with_the_prediction():
    frame = make_frame(50, 4)
    for target in (CLASSES, THREE, NUMBER):
        model = fit(target)
        *_, last = model.staged_predict(frame)
        np.testing.assert_array_equal(last, model.predict(frame))
        assert sum(1 for _ in model.staged_predict(frame)) == 12
    *_, last = fit(THREE).staged_predict_proba(frame)
    np.testing.assert_array_equal(last, fit(THREE).predict_proba(frame))


def test_a_file_keeps_the_trees_bit_for_bit(tmp_path):
    for target in (THREE, NUMBER):
        model = fit(target, features="uniform")
        model.save(tmp_path / "m")
        back = load_model(tmp_path / "m")
        assert model_bytes(back) == model_bytes(model.model_)
        frame = make_frame(50, 4)
        np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
        with pytest.raises(ValueError, match="read-only"):
            back.scores.forests[0].values[:] = 0


def test_trees_of_one_feature_have_effects_and_others_do_not():
    model = fit(features="cyclical", init_share=0.0).model_
    effects = model.effects().to_pandas()
    low = effects[effects["feature"] == "flag"].set_index("values")["effect"]
    frame = make_frame(2).assign(flag=[0, 1])
    frame.loc[1] = frame.loc[0].to_dict() | {"flag": 1}
    change = np.diff(model.decision_function(frame))[0]
    np.testing.assert_allclose(low["1"] - low["0"], change)
    with pytest.raises(AttributeError, match="cyclical"):
        fit(features="uniform").model_.effects()


def test_trees_in_words_are_the_trees():
    """Follow the words of each tree by hand, for a row of plain values."""
    row = {"age": 30.0, "gain": 10.0, "step": 2.0, "job": "b", "flag": 1, "place": "p7"}
    frame = make_frame(1).assign(**row)
    kinds = {"job", "flag", "place"}

    def holds(words):
        name, rest = words.split(" ", 1)
        if name in kinds:
            negated = rest.startswith(("is not ", "is none of: "))
            listed = rest.split(": ")[1].split(", ") if ": " in rest else [rest.split(" ")[-1]]
            return (str(row[name]) in listed) != negated
        if rest in ("is there", "is missing"):
            return rest == "is there"
        sign, edge = rest.split(",")[0].split(" ")
        return row[name] <= float(edge) if sign == "≤" else row[name] > float(edge)

    for target, unit in ((CLASSES, 1.0), (NUMBER, 5.0)):
        model = fit(target, features="uniform").model_
        lines = model.to_text().splitlines()
        total, depth = float(lines[0].split(" ")[-1]), 0
        for line in lines[1:]:
            indent = (len(line) - len(line.lstrip(" "))) // 2
            if line.startswith("tree"):
                depth = 1
            elif indent == depth:
                words = line.strip()
                if words[0] in "+-" or words == "0":
                    total += float(words)
                    depth = 0
                elif holds(words):
                    depth += 1
        expected = model.decision_function(frame)[0] * unit + (5.0 if target is NUMBER else 0.0)
        assert abs(total - expected) < 0.02
        assert model.to_text(2).endswith("… and 10 trees more")
    text = fit(THREE).model_.to_text()
    assert "of class high" in text


def test_importances_follow_released_values():
    model = fit(features="cyclical", n_estimators=6, epsilon=100.0, rows=3000).model_
    importances = model.feature_importances()
    assert importances.sum() == pytest.approx(1)
    assert importances.argmax() == 0  # the label depends on age


def test_a_model_without_trees_has_no_stages():
    from privboost import PrivBoostClassifier

    model = PrivBoostClassifier(1.0, 1e-6, make_domain(), n_estimators=2).fit(make_frame(20))
    with pytest.raises(AttributeError, match="stages"):
        next(model.model_.staged_predict(make_frame(3)))


def test_the_score_grid_is_kept():
    model = fit(NUMBER, rows=100).model_
    scores = model.decision_function(make_frame(20, 1)) * SCORE_STEPS
    np.testing.assert_array_equal(scores, np.rint(scores))
