"""What plans share: one way from releases to noise, and no recipe that leans on another."""

import ast
from pathlib import Path

import pytest

from privboost import recipes
from privboost.accounting.events import Planned, SampledGroup, Selection
from privboost.accounting.noisy_sums import GaussianRelease, LaplaceRelease
from privboost.data.encoding import Encoder
from privboost.recipes import RECIPES
from privboost.recipes.common.plan import Budget, Draft
from tests.tables import make_domain

SOURCE = Path(recipes.__file__).parent
MODULES = sorted([*SOURCE.glob("[a-z]*.py"), *SOURCE.glob("common/*.py")])


def imported(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_only_a_recipe_imports_its_own_files(path):
    for module in imported(path):
        package, _, name = module.removeprefix("privboost.").partition(".")
        recipe = name.partition("_")[0]
        if package == "recipes" and recipe in RECIPES:
            assert path.stem.partition("_")[0] == recipe


def a_draft(epsilon=1.0, delta=1e-6, weight_bound=None, accountant="auto"):
    return Draft(Encoder.of(make_domain()), weight_bound, Budget(epsilon, delta), accountant)


def sums(kind=GaussianRelease, **how):
    return kind("sums", 1.0, **({"cells": 1, "shares": (0.5, 0.5), **a_draft().bound} | how))


def test_releases_share_what_is_spent_and_those_without_a_share_are_left_out():
    wanted = [
        ("first", Planned(sums(), 4), 0.75),
        ("none", Planned(sums(), 4), 0.0),
        ("never", Planned(sums(), 0), 0.5),
        ("last", Planned(Selection("a choice", 1.0), 1), 0.25),
    ]
    made = a_draft().share(wanted)
    assert made.names == ("first", "last")
    assert made.get("none") is None
    assert [made["first"], made["last"]] == [planned.event for planned in made.releases]
    assert 4 / made["first"].noise ** 2 == pytest.approx(3 / made["last"].noise ** 2 / 4)
    cost = made.accountant.compose(made.releases).epsilon(1e-6)
    assert 0.99 <= cost <= 1.0


def test_one_factor_keeps_the_noise_of_releases_in_proportion():
    other = sums().scaled(3.0)
    made = a_draft().scale([("one", Planned(sums(), 2)), ("other", Planned(other, 5))])
    assert made["other"].noise == pytest.approx(3 * made["one"].noise, rel=1e-12)
    assert made.fields["releases"] == made.releases
    assert made.fields["task"].n_outputs == 1


def test_what_a_unit_adds_is_that_of_its_rows_and_weights():
    domain = make_domain(unit={"column": "person", "max_rows": 3})
    plain, weighted = (Draft(Encoder.of(domain), w, Budget(1, 0), "auto") for w in (None, 2.0))
    assert plain.bound["rows"] == 3
    assert weighted.bound["steps"] == 2**8 * plain.bound["steps"] == 3 * 2**24
    assert plain.n_numbers == 3


def grouped():
    inner = (Planned(Selection("a choice", 1.0), 1), Planned(sums(LaplaceRelease), 1))
    return SampledGroup.of("a tree", inner, 0.5)


@pytest.mark.parametrize(
    ("event", "epsilon", "delta"),
    [
        (sums(LaplaceRelease), 1e9, 0.0),
        (sums(LaplaceRelease), 1e-9, 0.0),
        (grouped(), 1e9, 0.0),
        (grouped(), 1e-9, 0.0),
    ],
)
def test_noise_that_does_not_fit_the_grid_is_refused(event, epsilon, delta):
    with pytest.raises(ValueError, match="noise of 'sums' would not fit the integer grid"):
        a_draft(epsilon, delta).scale([("it", Planned(event, 1))])


def test_a_share_so_small_that_its_noise_leaves_the_grid_is_refused():
    wanted = [("one", Planned(sums(), 1), 1.0), ("other", Planned(sums(), 1), 1e-18)]
    with pytest.raises(ValueError, match="a share of it, is too small"):
        a_draft().share(wanted)
