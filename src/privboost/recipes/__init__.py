"""Registry of recipes: names for the package, the command line and the tests.

One recipe is one module of this package, with its parameters, plan, boosting loop and presets. The
registry imports none of them, so that their names are known before anything heavy is loaded.
"""

from __future__ import annotations

from typing import NamedTuple

ENDINGS = {"classes": "Classifier", "number": "Regressor", "survival": "Survival"}
"""Ending of an estimator's name, by task."""


class Recipe(NamedTuple):
    """Registration of one recipe.

    Attributes
    ----------
    name : str
        Name on the command line, and of two modules: `recipes.<name>` and `estimators.<name>`.
    title : str
        Beginning of its estimators' names.
    tasks : tuple of str
        Kinds of target that it can predict: "classes", "number", "survival".
    """

    name: str
    title: str
    tasks: tuple[str, ...] = ("classes", "number")

    @property
    def estimators(self) -> dict[str, str]:
        """Name of the estimator for each task."""
        return {task: self.title + ENDINGS[task] for task in self.tasks}


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("privboost", "PrivBoost", tasks=("classes", "number", "survival")),
        Recipe("sbdt", "SBDT"),
        Recipe("dpxgb", "DPXGB"),
        Recipe("sarus", "SarusXGB"),
        Recipe("lazybb", "LazyBB", tasks=("classes",)),
        Recipe("adassp", "BoostedAdaSSP"),
    )
}
"""All recipes by name; the first is the default."""

ESTIMATORS = {
    estimator: f"estimators.{recipe.name}"
    for recipe in RECIPES.values()
    for estimator in recipe.estimators.values()
}
"""Module of every estimator."""
