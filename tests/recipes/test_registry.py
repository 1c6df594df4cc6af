"""One list of recipes: the package, the command line, the files and the pages go by it."""

from importlib import import_module
from pathlib import Path

import pytest

import privboost
from privboost.cli.options import Recipe as Option
from privboost.estimators.base import PrivateEstimator
from privboost.recipes import ESTIMATORS, RECIPES
from tests import fits

ROOT = Path(__file__).parents[2]
SOURCE = Path(privboost.__file__).parent


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_a_recipe_has_one_name_everywhere(recipe):
    """Its files, functions and classes are named for it; its estimators say what they predict."""
    modules = [f"recipes.{recipe.name}", f"estimators.{recipe.name}"]
    held = {name for own in modules for name in vars(import_module(f"privboost.{own}"))}
    assert {f"boost_{recipe.name}", f"plan_{recipe.name}"} <= held
    assert {f"{recipe.name}plan", f"{recipe.name}parameters"} <= {name.lower() for name in held}
    for task, estimator in recipe.estimators.items():
        kind = getattr(privboost, estimator)
        assert issubclass(kind, PrivateEstimator)
        assert kind._task == task


def test_no_recipe_is_left_out():
    made = {path.stem.partition("_")[0] for path in (SOURCE / "recipes").glob("[a-z]*.py")}
    assert set(RECIPES) == made == {str(option) for option in Option}
    assert set(ESTIMATORS) <= set(privboost.__all__)
    page = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    for recipe in RECIPES.values():
        assert recipe.estimators["classes"] in page or f"{recipe.title}*" in page, recipe.title


def test_fits_that_are_offered_are_tested():
    """Tests skip what a recipe refuses, by its preview: these are not refused."""
    units = {f"{name}, units" for name in RECIPES} - {"lazybb, units"}
    for name in units | {"privboost, pure", "sarus, pure", "lazybb, pure"}:
        assert fits.refusal(name) is None
    whole = {name for name in fits.BASIC if not name.endswith(("units", "pure"))}
    assert not any(fits.refusal(name) for name in whole)
