import json

import numpy as np
import pytest

import privboost
from privboost import load_model
from privboost.models.model import model_bytes
from privboost.recipes import RECIPES
from tests.stored import FOLDER, MOST_BYTES, answers_of, table_of, write

MODELS = sorted(FOLDER.glob("*/*.model"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_stored_model_says_what_it_said(path):
    rows = table_of(json.loads((path.parent / "rows.json").read_text()))
    said, now = json.loads(path.with_suffix(".json").read_text()), load_model(path)
    answers = answers_of(now, rows)
    assert answers["scores"] == said["scores"]
    assert answers.keys() == said.keys()
    if isinstance(said["predictions"][0], str):
        assert answers["predictions"] == said["predictions"]
    else:  # what comes after scores is not whole numbers: the last bit is the processor's
        np.testing.assert_allclose(answers["predictions"], said["predictions"], rtol=1e-14)
    np.testing.assert_allclose(answers.get("chances", 0), said.get("chances", 0), rtol=1e-12)
    assert len(path.read_bytes()) < MOST_BYTES


def test_every_recipe_is_stored_by_this_version():
    stored = {p.stem.split("_")[0] for p in MODELS if p.parent.name == privboost.__version__}
    assert stored == set(RECIPES)


def test_a_file_of_this_version_is_written_the_same_way_again():
    for path in (FOLDER / privboost.__version__).glob("*.model"):
        assert model_bytes(load_model(path)) == path.read_bytes()


def test_what_is_stored_is_never_written_again():
    with pytest.raises(FileExistsError):
        write(FOLDER / privboost.__version__)
