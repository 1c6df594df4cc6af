"""LazyBB: against a plain reference without noise, and what it says of itself."""

import math

import numpy as np
import pandas as pd
import pytest

from privboost import Domain, DomainError, LazyBBClassifier, load_model
from privboost.data.encoding import Encoder
from privboost.data.rows import join
from privboost.losses.base import UNKNOWN_LABEL
from privboost.recipes.common.candidates import even_thresholds, splits_of
from privboost.recipes.common.plan import Budget
from privboost.recipes.lazybb import density_for, rate_for, votes_for
from privboost.trees.tree import find_leaves
from tests.tables import CLASSES, NUMBER, THREE, encode_training, make_domain, make_frame

QUIET = {"epsilon": 1e7, "delta": 0.0, "random_state": 0, "calibration_share": 0.0}
"""So large a budget that the best candidate is always chosen."""


def rows_of(frame, target=CLASSES):
    encoder = Encoder.of(make_domain(target))
    block = join(encode_training(encoder, frame).blocks)
    return encoder, block


def weights_of(margin, known, density, rate):
    """The Bregman projection, by bisection; rows of unknown label have the margin 0."""
    raw = density * np.exp(-rate * np.where(known, margin, 0.0))
    target = density * len(margin)
    if np.minimum(raw, 1).sum() >= target:
        return np.minimum(raw, 1) * target / np.minimum(raw, 1).sum()
    low, high = 1.0, 1e30
    for _ in range(300):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if np.minimum(middle * raw, 1).sum() < target else (low, middle)
    return np.minimum(high * raw, 1)


def literals(encoder, block, count):
    splits = splits_of(encoder, even_thresholds(encoder, count), tuple(range(6)))
    turns = [splits.goes_right(k) for k in range(splits.total)]
    allowed = splits.allowed(splits.start_reach())[0]
    return [
        right[block.column(f)].astype(bool) if fine else None
        for (f, right), fine in zip(turns, allowed, strict=True)
    ]


@pytest.mark.parametrize(("density", "rate"), [(0.3, 0.5), (0.7, 0.2), (1.0, 0.3)])
def test_without_noise_it_chooses_what_errs_least(density, rate):
    frame = make_frame(500)
    encoder, block = rows_of(frame)
    known = block.label != UNKNOWN_LABEL
    sign = np.where(block.label == 1, 1, -1)
    model = LazyBBClassifier(
        domain=make_domain(),
        n_estimators=8,
        density=density,
        learning_rate=rate,
        n_candidates=9,
        **QUIET,
    ).fit(frame)
    votes = np.zeros(len(frame), dtype=int)
    every = literals(encoder, block, 9)
    staged = model.model_.staged_decision_function(frame)
    for now in staged:
        weight = weights_of(sign * votes, known, density, rate) * known
        errors = []
        for literal in every:
            if literal is not None:
                errors += [weight[literal != (sign > 0)].sum(), weight[literal == (sign > 0)].sum()]
        cast = now - votes
        assert set(np.unique(cast)) <= {-1.0, 1.0}
        assert weight[cast * sign < 0].sum() == pytest.approx(min(errors), abs=1e-3)
        votes = now.astype(int).copy()


def gini(up, down):
    return 4 * up * down / max(up + down, 1e-300)


def test_without_noise_a_tree_lowers_the_impurity_most():
    frame = make_frame(600, 3)
    encoder, block = rows_of(frame)
    known, sign = block.label != UNKNOWN_LABEL, np.where(block.label == 1, 1, -1)
    model = LazyBBClassifier(
        domain=make_domain(),
        n_estimators=1,
        learner="tree",
        n_splits=4,
        density=0.5,
        n_candidates=9,
        **QUIET,
    ).fit(frame)
    weight = np.where(known, 0.5, 0.0)
    every = [each for each in literals(encoder, block, 9)[1:] if each is not None]
    leaves = [np.ones(len(frame), dtype=bool)]

    def worth(leaf):
        return gini(weight[leaf & (sign > 0)].sum(), weight[leaf & (sign < 0)].sum())

    for _ in range(4):
        best = max(
            (worth(leaf) - worth(leaf & each) - worth(leaf & ~each), k, j)
            for k, leaf in enumerate(leaves)
            for j, each in enumerate(every)
        )
        leaf = leaves.pop(best[1])
        leaves += [leaf & every[best[2]], leaf & ~every[best[2]]]
    expected = sum(map(worth, leaves))
    tree = next(model.model_.scores.trees())[0]
    node = find_leaves(block.codes, tree)
    found = [node == k for k in np.unique(node)]
    assert sum(map(worth, found)) == pytest.approx(expected, abs=1e-3)
    predicted = model.decision_function(frame)
    for leaf in found:
        up, down = weight[leaf & (sign > 0)].sum(), weight[leaf & (sign < 0)].sum()
        if up != down:
            assert (predicted[leaf] == (1 if up > down else -1)).all()


def learnable(rows=4000, classes=("no", "yes")):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (rows, 3))
    k = np.minimum((x[:, 0] * len(classes)).astype(int), len(classes) - 1)
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=np.array(classes)[k])
    numeric = {"kind": "numeric", "bounds": [0, 1]}
    form = {"version": 1, "features": dict.fromkeys("abc", numeric)}
    return frame, Domain.from_dict(form | {"target": {"name": "y", "classes": list(classes)}})


@pytest.mark.parametrize("learner", ["rule", "tree"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_it_learns(learner, delta, tmp_path):
    frame, domain = learnable()
    how = {"learner": learner, "n_estimators": 5, "random_state": 1, "calibration_share": 0.0}
    model = LazyBBClassifier(1.0, delta, domain, **how)
    model.fit(frame)
    assert (model.predict(frame) == frame["y"]).mean() > 0.9
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="votes are no log-odds"):
        model.predict_proba(frame)
    with pytest.raises(AttributeError) as refused:
        model.model_.predict_proba(frame)
    assert "not log-odds" in str(refused.value.__cause__)
    model.save(tmp_path / "m")
    back = load_model(tmp_path / "m")
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    assert model.privacy_.relation == "replace one protected unit"
    assert any(
        "number of rows that can be read is public" in said for said in model.privacy_.assumptions
    )
    assert model.privacy_.epsilon <= 1.0
    if learner == "tree":
        assert "tree 1" in model.model_.to_text()
        with pytest.raises(AttributeError, match="only votes of rules have a summary"):
            model.explain()


def test_three_classes_split_the_budget():
    frame, domain = learnable(9000, ("a", "b", "c"))
    model = LazyBBClassifier(2.0, 1e-6, domain, n_estimators=9, learning_rate=0.5, random_state=1)
    model.fit(frame)
    assert model.privacy_.releases[0].count == 27
    assert (model.predict(frame) == frame["y"]).mean() > 0.8
    card = model.explain()
    assert card.column_names == ["votes", "feature", "value", "class"]
    assert set(card["class"].to_pylist()) <= {"a", "b", "c"}


def test_the_card_adds_up_to_the_votes():
    frame = make_frame(500)
    model = LazyBBClassifier(
        2.0,
        0.0,
        make_domain(),
        n_estimators=15,
        n_candidates=5,
        random_state=4,
        calibration_share=0.0,
    ).fit(frame)
    card = model.explain().to_pylist()
    assert [abs(line["votes"]) for line in card] == sorted(
        (abs(line["votes"]) for line in card), reverse=True
    )
    _, block = model.model_.encoder.feature_codes(frame)
    total = np.zeros(len(frame))
    for tree, values in model.model_.scores.trees():
        right = tree.goes_right[0][block.column(int(tree.feature[0]))]
        total += values[0][right] / 2**16
    np.testing.assert_array_equal(total, model.decision_function(frame))
    assert sum(abs(line["votes"]) for line in card) <= 15
    assert (sum(abs(line["votes"]) for line in card) - 15) % 2 == 0


def test_sparsity_and_the_card_in_words():
    frame, domain = learnable(3000)
    how = {"n_estimators": 7, "random_state": 1, "calibration_share": 0.0}
    model = LazyBBClassifier(5.0, 0.0, domain, **how).fit(frame)
    figures = model.sparsity()
    assert figures["votes"] == 7
    assert figures["rules"] == model.explain().num_rows
    assert 1 <= figures["features"] <= figures["of_features"] == 3
    text = model.model_.to_text()
    assert text.startswith("votes\n")
    assert "yes with more than 0 wins" in text
    assert "a > 0." in text


def test_a_constant_is_a_line_of_its_own():
    frame, domain = learnable(500)
    model = LazyBBClassifier(domain=domain, n_estimators=1, **QUIET).fit(frame.assign(y="yes"))
    assert model.explain().to_pylist() == [{"votes": 1, "feature": "(every row)", "value": ""}]
    assert (model.predict(frame) == "yes").all()
    assert model.sparsity()["features"] == 0


def test_one_class_is_no_domain():
    form = learnable(5)[1].to_dict()
    with pytest.raises(DomainError, match="classes"):
        Domain.from_dict(form | {"target": {"name": "y", "classes": ["no"]}})


def test_a_tie_is_a_vote_for_the_first_class():
    frame, domain = learnable(50)
    plain = {"delta": 0.0, "domain": domain, "calibration_share": 0.0}
    model = LazyBBClassifier(1e-3, n_estimators=2, random_state=0, **plain).fit(frame)
    tied = model.decision_function(frame) == 0
    for seed in range(30):
        model = LazyBBClassifier(1e-3, n_estimators=2, random_state=seed, **plain).fit(frame)
        tied = model.decision_function(frame) == 0
        if tied.any():
            assert (model.predict(frame)[tied] == "no").all()
            return
    raise AssertionError("no tie in thirty fits")


def test_defaults_follow_the_budget_and_the_rows():
    """More budget or more rows: more votes, on fewer rows; and always an odd number."""
    for n_outputs in (1, 3):
        densities, votes = [], []
        for epsilon, rows in ((0.05, 5000), (0.4, 30000), (1.0, 60000), (5.0, 10**6)):
            budget = Budget(epsilon, 1e-6)
            densities.append(density_for(budget, rows, n_outputs))
            votes.append(votes_for(budget, rows, densities[-1], n_outputs))
        assert densities == sorted(densities, reverse=True)
        assert votes == sorted(votes)
        assert all(count % 2 for count in votes)
    assert rate_for(5) > rate_for(25) > rate_for(99) > 0.1
    pure, other = (votes_for(Budget(1.0, delta), 30000, 0.3, 1) for delta in (0.0, 1e-6))
    assert pure < other


@pytest.mark.parametrize("rows", [0, 1, 2, 30])
def test_few_rows_give_a_valid_model(rows):
    frame, domain = learnable(50)
    for learner in ("rule", "tree"):
        model = LazyBBClassifier(1.0, 0.0, domain, learner=learner).fit(frame.iloc[:rows])
        assert model.predict(frame).shape == (50,)


def test_rows_of_unknown_labels_count_for_nothing_but_weight():
    frame = make_frame(200).assign(income=None)
    model = LazyBBClassifier(1.0, 0.0, make_domain(), n_estimators=3).fit(frame)
    assert model.predict(frame).shape == (200,)


def test_a_domain_can_be_learned_on_the_way():
    frame, _ = learnable(3000)
    model = LazyBBClassifier(5.0, 1e-3, domain_share=0.3, n_estimators=9, random_state=1)
    with pytest.warns(UserWarning, match="delta exceeds"):
        model.fit(frame[["a", "b", "y"]], "y")
    report = model.privacy_
    assert report.relation == "replace one protected unit"
    assert 4.5 < report.epsilon <= 5.0
    assert report.delta <= 1e-3
    assert (model.predict(frame) == frame["y"]).mean() > 0.8


HUGE = Domain.from_dict(
    {
        "version": 1,
        "features": {
            name: {"kind": "categorical", "categories": [f"c{j}" for j in range(60000)]}
            for name in "abc"
        },
        "target": CLASSES,
    }
)
"""Categories keep all their cells, whatever n_candidates says."""


class Untouchable:
    def __len__(self):
        return 1000

    def __getattr__(self, name):
        raise AssertionError(f"the data were touched: {name}")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"density": 0.0}, "density"),
        ({"density": 1.2}, "density"),
        ({"density": "half"}, "density"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": 2.0, "n_estimators": 999}, "learning_rate . n_estimators"),
        ({"n_estimators": 0}, "n_estimators"),
        ({"n_estimators": 5000}, "n_estimators"),
        ({"learner": "forest"}, "learner"),
        ({"n_splits": 0}, "n_splits"),
        ({"n_splits": 50}, "n_splits"),
        ({"label_share": 1.0}, "label_share"),
        ({"n_candidates": 0}, "n_candidates"),
        ({"domain": HUGE, "n_estimators": 1000, "density": 0.5, "learning_rate": 0.1}, "too large"),
        ({"accountant": "gdp"}, "does not cover"),
        ({"domain": make_domain(CLASSES, {"column": "person", "max_rows": 1})}, "n_estimators"),
        ({"domain": make_domain(CLASSES, {"column": "person", "max_rows": 2})}, "several rows"),
        (
            {
                "domain": make_domain(CLASSES, {"column": "person", "max_rows": 2}),
                "n_estimators": 5,
                "density": 0.5,
            },
            "several rows",
        ),
    ],
)
def test_bad_parameters_are_refused_before_rows_are_read(parameters, words):
    how = {"epsilon": 1.0, "delta": 1e-6, "domain": make_domain()} | parameters
    with pytest.raises(ValueError, match=words):
        LazyBBClassifier(**how).fit(Untouchable())


def test_numbers_are_refused():
    with pytest.raises(DomainError, match="a classifier needs"):
        LazyBBClassifier(domain=make_domain(NUMBER)).fit(Untouchable())


def test_units_of_one_row():
    domain = make_domain(THREE, {"column": "person", "max_rows": 1})
    model = LazyBBClassifier(1.0, 0.0, domain, n_estimators=3, density=0.5)
    model.fit(make_frame(200, target=THREE))
    assert model.privacy_.unit.column == "person"
    assert any("number of units is public" in said for said in model.privacy_.assumptions)
