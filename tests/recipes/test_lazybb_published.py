"""LazyBB as it was published: presets, theory's rule, intervals, sparsity, larger trees."""

import math

import numpy as np
import pandas as pd
import pytest

from privboost import Domain, LazyBBClassifier
from privboost.data.encoding import Encoder
from privboost.recipes.lazybb import MOST_DEPTH, MOST_SPLITS, literals_of, votes_of_theory
from tests.recipes.test_lazybb import QUIET, Untouchable, learnable
from tests.tables import make_domain


@pytest.mark.parametrize(
    ("name", "epsilon", "density", "rate", "votes"),
    [
        ("adult_0.05", 0.05, 0.5, 0.5, 5),
        ("adult_0.35", 0.35, 0.3, 0.45, 9),
        ("adult_0.4", 0.4, 0.35, 0.5, 9),
        ("adult_1", 1.0, 0.35, 0.45, 39),
        ("adult_5", 5.0, 0.35, 0.45, 75),
        ("cod_rna_0.45", 0.45, 0.5, 0.4, 65),
        ("cod_rna_1", 1.0, 0.4, 0.5, 99),
        ("cod_rna_3", 3.0, 0.3, 0.4, 99),
        ("mushroom_0.1", 0.1, 0.5, 0.4, 9),
        ("mushroom_0.25", 0.25, 0.3, 0.4, 9),
        ("mushroom_1", 1.0, 0.25, 0.3, 29),
        ("mushroom_3", 3.0, 0.2, 0.2, 75),
        ("figure_5.3", 1.0, 0.25, 0.25, 99),
    ],
)
def test_presets_are_the_thesis_settings(name, epsilon, density, rate, votes):
    model = LazyBBClassifier.from_preset(name)
    assert (model.epsilon, model.delta) == (epsilon, 0.0)
    assert (model.density, model.learning_rate, model.n_estimators) == (density, rate, votes)
    assert (model.learner, model.literals, model.n_candidates) == ("rule", "intervals", 9)


def test_there_is_a_preset_for_every_epsilon_of_each_table():
    presets = LazyBBClassifier._presets
    epsilons = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 1, 3, 5]
    names = {f"{table}_{e:g}" for table in ("adult", "cod_rna", "mushroom") for e in epsilons}
    assert set(presets) == names | {"figure_5.3"}
    grid = [p for name, p in presets.items() if name in names]
    assert {p["learning_rate"] for p in grid} <= {0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5}
    assert {p["density"] for p in grid} <= {0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5}
    assert {p["n_estimators"] for p in grid} <= {5, 9, 15, 19, 25, 29, 39, 49, 65, 75, 99}


def test_theory_has_its_rule():
    """τ ≥ 16·ln(1/κ)/γ², λ = γ/4; the thesis' example: γ = 1/20, κ = 1/2, some 4,000 rounds."""
    assert votes_of_theory(0.05, 0.5) == math.ceil(16 * math.log(2) / 0.0025) == 4437
    for gamma, kappa in ((0.2, 0.35), (0.3, 0.2), (0.49, 0.99)):
        model = LazyBBClassifier.from_advantage(gamma, kappa, epsilon=0.5)
        least = 16 * math.log(1 / kappa) / gamma**2
        assert least <= model.n_estimators <= least + 2
        assert model.n_estimators % 2 == 1
        assert (model.learning_rate, model.density, model.epsilon) == (gamma / 4, kappa, 0.5)
    assert LazyBBClassifier.from_advantage(0.2, 0.35, n_estimators=7).n_estimators == 7
    for gamma, kappa, words in (
        (0.05, 0.5, "4437 votes"),
        (0.5, 0.5, "advantage"),
        (0, 0.5, "advantage"),
        (0.2, 1.0, "density"),
    ):
        with pytest.raises(ValueError, match=words):
            LazyBBClassifier.from_advantage(gamma, kappa)


def test_an_interval_is_found_by_one_rule():
    frame, domain = learnable(4000)
    inside = frame["a"].between(0.4, 0.5)
    how = {"domain": domain, "n_estimators": 1, "n_candidates": 9} | QUIET
    planted = frame.assign(y=np.where(inside, "yes", "no"))
    # Few rows are inside, so that the constant is nearly as good: leave out most others.
    planted = planted[inside | (np.arange(4000) % 9 == 0)]
    rule = LazyBBClassifier(literals="intervals", **how).fit(planted)
    assert (rule.predict(planted) == planted["y"]).mean() > 0.97
    card = rule.explain().to_pylist()
    assert [(line["votes"], line["feature"]) for line in card] == [(1, "a")]
    low, high = (float(words.split()[-1]) for words in card[0]["value"].split(" and "))
    assert (low, high) == (pytest.approx(0.4, abs=0.01), pytest.approx(0.5, abs=0.01))
    threshold = LazyBBClassifier(**how).fit(planted)
    assert (threshold.predict(planted) == planted["y"]).mean() < 0.9


def test_intervals_in_words():
    """The lines of a card say which rows they are about, at both ends of a number as well."""
    frame, domain = learnable(300)
    lines = set()
    for seed in range(8):
        model = LazyBBClassifier(
            1e-3,
            0.0,
            domain,
            n_estimators=9,
            literals="intervals",
            n_candidates=3,
            random_state=seed,
            calibration_share=0.0,
        ).fit(frame)
        total = np.zeros(len(frame), dtype=int)
        for line in model.explain().to_pylist():
            lines.add(line["value"])
            if line["feature"] == "(every row)":
                total += line["votes"]
                continue
            number, true = frame[line["feature"]], np.ones(len(frame), dtype=bool)
            for words in line["value"].split(" and "):
                sign, edge = words.split()
                true &= (number > float(edge)) if sign == ">" else (number <= float(edge))
            total += np.where(true, line["votes"], -line["votes"])
        np.testing.assert_array_equal(total, model.decision_function(frame))
    assert {"≤ 0.25", "> 0.75", "> 0.25 and ≤ 0.5"} <= lines


def test_literals_are_one_hot_codes():
    encoder = Encoder.of(make_domain())
    splits = literals_of(encoder, 9, "intervals")
    numbers = [k for k, f in enumerate(encoder.domain.features) if hasattr(f, "bounds")]
    for place, candidate in enumerate(splits.candidates.place[1:], start=1):
        feature, right = splits.goes_right(place)
        if candidate in numbers:
            cell = np.flatnonzero(right)
            assert (np.diff(cell) == 1).all()  # one span
    for feature in numbers:
        own = [
            splits.goes_right(k)[1]
            for k in range(1, splits.total)
            if splits.goes_right(k)[0] == feature
        ]
        np.testing.assert_array_equal(np.sum(own, axis=0), 1)  # each code in one literal
    same = literals_of(encoder, 9, "thresholds")
    assert same.cells.same_as(splits.cells)


def test_the_share_of_literals():
    frame, domain = learnable(3000)
    for literals, count in (("intervals", 30), ("thresholds", 27)):
        model = LazyBBClassifier(
            5.0, 0.0, domain, n_estimators=7, n_candidates=9, literals=literals, random_state=1
        ).fit(frame)
        figures, card = model.sparsity(), model.explain()
        assert figures["literals"] == count
        named = [name for name in card["feature"].to_pylist() if name in "abc"]
        assert figures["share"] == pytest.approx(len(named) / count)
        assert figures["votes"] == 7
    constant = LazyBBClassifier(domain=domain, n_estimators=1, **QUIET).fit(frame.assign(y="yes"))
    assert constant.sparsity()["share"] == 0
    wild = Encoder.of(make_domain())
    splits = literals_of(wild, 9, "intervals")
    declared = sum(
        len(f.categories) + 1 + f.missing for f in wild.domain.features if hasattr(f, "categories")
    )
    bins = [min(len(edges) + 1, 10) for edges in wild.edges]  # of one, the edges are given
    numbers = sum(
        own + f.missing
        for f, own in zip(wild.domain.features, bins, strict=True)
        if hasattr(f, "bounds")
    )
    assert splits.allowed(splits.start_reach())[0, 1:].sum() == declared + numbers


def test_entropy_is_refused_with_the_reason():
    for criterion, words in (("entropy", "logarithm"), ("accuracy", "criterion"), (3, "criterion")):
        with pytest.raises(ValueError, match=words):
            LazyBBClassifier(domain=make_domain(), learner="tree", criterion=criterion).fit(
                Untouchable()
            )
    with pytest.raises(ValueError, match="literals"):
        LazyBBClassifier(domain=make_domain(), literals="spans").fit(Untouchable())


def test_trees_of_many_splits():
    frame, domain = learnable(4000)
    stripes = frame.assign(y=np.where((frame["a"] * 16).astype(int) % 2, "yes", "no"))
    how = {"domain": domain, "learner": "tree", "n_estimators": 1} | QUIET
    few, many = (LazyBBClassifier(n_splits=n, **how).fit(stripes) for n in (3, MOST_SPLITS))
    right = [(model.predict(stripes) == stripes["y"]).mean() for model in (few, many)]
    assert right[1] > right[0] + 0.15
    with pytest.raises(ValueError, match="n_splits"):
        LazyBBClassifier(n_splits=MOST_SPLITS + 1, **how).fit(Untouchable())


def test_no_leaf_is_deeper_than_trees_can_be():
    """Each split parts off one category of the first leaf: a chain, as long as it may be."""
    names = [f"c{k:02}" for k in range(40)]
    rows = [(name, "yes" if k % 2 else "no") for k, name in enumerate(names) for _ in range(1 + k)]
    frame = pd.DataFrame(rows, columns=["x", "y"])
    form = {"version": 1, "features": {"x": {"kind": "categorical", "categories": names}}}
    domain = Domain.from_dict(form | {"target": {"name": "y", "classes": ["no", "yes"]}})
    model = LazyBBClassifier(
        domain=domain, learner="tree", n_splits=20, n_estimators=2, density=0.5, **QUIET
    ).fit(frame)
    depths = {tree.depth for tree, _ in model.model_.scores.trees()}
    assert depths == {MOST_DEPTH}
