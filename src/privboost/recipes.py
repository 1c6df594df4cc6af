"""The recipes by name: what the package, the command line and the tests all go by.

Nothing is imported here, so that names are known before anything heavy is loaded.
"""

from __future__ import annotations

from typing import NamedTuple

ENDINGS = {"classes": "Classifier", "number": "Regressor"}
"""What an estimator's name ends with, by its task."""


class Recipe(NamedTuple):
    """One way of boosting.

    Attributes
    ----------
    name : str
        Its word on the command line, and its files: `boosting/<name>.py`, `estimators/<name>.py`.
    title : str
        What the names of its estimators begin with.
    tasks : tuple of str
        What it can predict: "classes", a "number".
    """

    name: str
    title: str
    tasks: tuple[str, ...] = ("classes", "number")

    @property
    def estimators(self) -> dict[str, str]:
        """The name of its estimator for each task."""
        return {task: self.title + ENDINGS[task] for task in self.tasks}


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe("privboost", "PrivBoost"),
        Recipe("sbdt", "SBDT"),
        Recipe("dpxgb", "DPXGB"),
        Recipe("sarus", "SarusXGB"),
        Recipe("lazybb", "LazyBB", tasks=("classes",)),
        Recipe("adassp", "BoostedAdaSSP"),
    )
}
"""All of them, the first the default."""

ESTIMATORS = {
    estimator: f"estimators.{recipe.name}"
    for recipe in RECIPES.values()
    for estimator in recipe.estimators.values()
}
"""Every estimator, and the module it is in."""
