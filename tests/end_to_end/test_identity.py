"""One seed gives the same model, byte for byte, however the rows are held."""

from functools import partial

import numpy as np
import polars as pl
import pytest

from privboost.models.model import model_bytes
from tests import fits
from tests.fits import ROWS, bytes_of, fit_stream
from tests.hostile import HostileBackend
from tests.tables import make_frame

pytestmark = pytest.mark.usefixtures("eager_threads")


def same_everywhere(fit):
    """Check that threads, partitions, deaths and order do not change the bytes of a fit."""
    expected = bytes_of(fit())
    assert bytes_of(fit(n_jobs=2)) == expected
    seed = list(fits.ALL).index(fit.name) if fit.name in fits.ALL else 0
    hostile = partial(HostileBackend, seed=seed, death_rate=0.2)
    assert bytes_of(fit(backend=hostile)) == expected
    # Samples are drawn, and rows put aside, by a row's place, or by its unit.
    if not {"subsample", "conformal_fraction"} & fit.parameters.keys():
        assert bytes_of(fit(fit.frame().sample(frac=1, random_state=1))) == expected


def test_every_recipe_is_the_same_everywhere(any_fit):
    """A party that dies receives every update again."""
    same_everywhere(any_fit)


@pytest.mark.parametrize("name", sorted(fits.RANDOM_TREES.keys() - fits.ALL.keys()))
def test_random_trees_are_the_same_everywhere(name):
    same_everywhere(fits.RANDOM_TREES[name])


@pytest.mark.parametrize("name", [f"privboost, {target}" for target in fits.TARGETS])
def test_seeds_and_rows_change_a_model(name):
    fit = fits.ALL[name]
    model = fit().model_
    assert model.scores.kind == "compound"
    assert bytes_of(fit(random_state=8)) != model_bytes(model)
    assert bytes_of(fit(fit.frame().iloc[1:])) != model_bytes(model)


@pytest.mark.parametrize("subsample", [1.0, 0.3])
def test_streams_are_the_same_everywhere(subsample):
    def run(**where):
        return bytes_of(fit_stream(subsample, **where))

    expected = run()
    assert run(n_jobs=2) == expected
    for seed in range(2):
        assert run(backend=partial(HostileBackend, seed=seed, death_rate=0.2)) == expected


def test_files_and_frames_give_the_same_model(tmp_path):
    fit = fits.ALL["privboost, two classes"]._replace(weighted=True)
    frame = make_frame(ROWS)
    expected = bytes_of(fit(frame))
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=501)
    for table in (tmp_path / "t.csv", str(tmp_path / "t.parquet"), pl.DataFrame(frame)):
        assert bytes_of(fit(table)) == expected


def test_secure_noise_is_the_default_and_never_repeats():
    fit = fits.ALL["privboost, two classes"]
    one, two = (fit(epsilon=1.0, random_state=None) for _ in range(2))
    assert model_bytes(one.model_) != model_bytes(two.model_)
    assert not one.privacy_.seeded
    assert one.privacy_.guarantee == "(1, 1e-06)-differential privacy"
    assert fit().privacy_.guarantee == "no privacy guarantee: seeded"


def test_predictions_are_those_of_the_rows_states():
    """Scores that shards followed during training are the scores the model gives afterwards."""
    kept = []

    class Keep(HostileBackend):
        def close(self):
            for shard in self._shards:
                for block, state in zip(shard._rows, shard._state, strict=True):
                    kept.append((block, state))
            super().close()

    # Calibration comes last, and tells the rows nothing.
    model = fits.ALL["privboost, three classes"](backend=Keep, calibration_share=0).model_
    for block, state in kept:
        np.testing.assert_array_equal(model.scores.scores(block.codes), state)
