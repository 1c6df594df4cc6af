"""One seed gives the same model, byte for byte, however the rows are held."""

from functools import partial

import numpy as np
import polars as pl
import pytest

from privboost.models.model import model_bytes
from tests.hostile import HostileBackend
from tests.identity import (
    FLAGSHIP,
    GREEDY,
    OTHERS,
    ROWS,
    TASKS,
    TREES,
    bytes_of,
    fit,
    fit_greedy,
    fit_other,
    fit_stream,
    fit_trees,
)
from tests.tables import CLASSES, THREE, make_frame

pytestmark = pytest.mark.usefixtures("eager_threads")


@pytest.mark.parametrize(("target", "weighted", "epsilon"), FLAGSHIP)
def test_threads_partitions_deaths_and_order_change_nothing(target, weighted, epsilon):
    """A party that dies is told every answer again."""
    run = partial(fit, target, weighted, epsilon=epsilon)
    frame, plain = make_frame(ROWS, target=target), run().model_
    assert plain.scores.kind == "compound"
    expected = model_bytes(plain)
    assert model_bytes(run(n_jobs=2).model_) == expected
    for seed in range(2):
        assert model_bytes(run(backend=partial(HostileBackend, seed=seed)).model_) == expected
    assert model_bytes(run(frame.sample(frac=1, random_state=1)).model_) == expected
    assert model_bytes(run(random_state=8).model_) != expected
    assert model_bytes(run(frame.iloc[1:]).model_) != expected


@pytest.mark.parametrize("how", TREES, ids=lambda how: "-".join(map(str, how.values())))
@pytest.mark.parametrize(("target", "weighted"), TASKS)
def test_trees_of_every_kind_are_the_same_everywhere(target, weighted, how):
    expected = model_bytes(fit_trees(target, weighted, how).model_)
    assert model_bytes(fit_trees(target, weighted, how, n_jobs=2).model_) == expected
    hostile = partial(HostileBackend, seed=TREES.index(how))
    assert model_bytes(fit_trees(target, weighted, how, backend=hostile).model_) == expected


@pytest.mark.parametrize(("kind", "target", "weighted", "how"), GREEDY)
def test_greedy_trees_are_the_same_everywhere(kind, target, weighted, how):
    def run(**where):
        return bytes_of(fit_greedy(kind, target, weighted, how, **where))

    expected = run()
    assert run(n_jobs=2) == expected
    hostile = partial(HostileBackend, seed=GREEDY.index((kind, target, weighted, how)))
    assert run(backend=partial(hostile, death_rate=0.2)) == expected


@pytest.mark.parametrize(("kind", "target", "weighted", "how"), OTHERS)
def test_votes_and_linear_models_are_the_same_everywhere(kind, target, weighted, how):
    def run(frame, **where):
        return bytes_of(fit_other(kind, target, weighted, how, frame, **where))

    frame = make_frame(ROWS, target=target)
    expected = run(frame)
    assert run(frame.sample(frac=1, random_state=2), n_jobs=2) == expected
    hostile = partial(HostileBackend, seed=OTHERS.index((kind, target, weighted, how)))
    assert run(frame, backend=partial(hostile, death_rate=0.2)) == expected


@pytest.mark.parametrize("subsample", [1.0, 0.3])
def test_streams_are_the_same_everywhere(subsample):
    def run(**where):
        return bytes_of(fit_stream(subsample, **where))

    expected = run()
    assert run(n_jobs=2) == expected
    for seed in range(2):
        assert run(backend=partial(HostileBackend, seed=seed, death_rate=0.2)) == expected


def test_units_are_chosen_alike_everywhere():
    unit = {"column": "person", "max_rows": 50}
    expected = model_bytes(fit(CLASSES, True, unit=unit).model_)
    hostile = partial(HostileBackend, seed=3)
    assert model_bytes(fit(CLASSES, True, unit=unit, backend=hostile).model_) == expected
    shuffled = make_frame(ROWS).sample(frac=1, random_state=1)
    assert model_bytes(fit(CLASSES, True, shuffled, unit=unit, n_jobs=2).model_) == expected


def test_files_and_frames_give_the_same_model(tmp_path):
    frame = make_frame(ROWS)
    expected = model_bytes(fit(CLASSES, True, frame).model_)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=501)
    for table in (tmp_path / "t.csv", str(tmp_path / "t.parquet"), pl.DataFrame(frame)):
        assert model_bytes(fit(CLASSES, True, table).model_) == expected


def test_secure_noise_is_the_default_and_never_repeats():
    one, two = (fit(CLASSES, False, random_state=None) for _ in range(2))
    assert model_bytes(one.model_) != model_bytes(two.model_)
    assert not one.privacy_.seeded
    assert one.privacy_.guarantee == "(1, 1e-06)-differential privacy"
    assert fit(CLASSES, False).privacy_.guarantee == "no privacy guarantee: seeded"


def test_predictions_are_those_of_the_rows_states():
    """Scores that shards followed during training are the scores the model gives afterwards."""
    kept = []

    class Keep(HostileBackend):
        def close(self):
            for shard in self._shards:
                for block, state in zip(shard._blocks, shard._state, strict=True):
                    kept.append((block, state))
            super().close()

    # Calibration comes last, and tells the rows nothing.
    model = fit(THREE, True, backend=Keep, calibration_share=0).model_
    for block, state in kept:
        np.testing.assert_array_equal(model.scores.scores(block.codes), state)
