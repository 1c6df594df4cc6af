"""Where a number's labels lie: what counts tell, what it costs, and what every regressor gains."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from privboost import (
    BoostedAdaSSPRegressor,
    Domain,
    DPXGBRegressor,
    ModelFileError,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBRegressor,
    SBDTRegressor,
    load_model,
)
from privboost._core.grid import CLIP_STEPS, FULL_RANGE, LABEL_STEPS, SCORE_STEPS
from privboost.data.encoding import Encoder
from privboost.engine import shard
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import ScoreCounts
from privboost.engine.updates import SetClippingRange, Start
from privboost.losses.squared import SQUARED_NUMBER
from privboost.models.model import model_bytes, read_model
from privboost.recipes.common.label_counts import as_normal
from privboost.recipes.common.plan import Budget
from privboost.recipes.common.target_range import (
    CAREFUL,
    KEEN,
    PASSES,
    WHOLE_RANGE,
    find_target_range,
    full_cells,
)
from tests.hostile import HostileBackend
from tests.tables import NUMBER, encode_training, make_domain, make_frame

REGRESSORS = [
    PrivBoostRegressor,
    SBDTRegressor,
    DPXGBRegressor,
    SarusXGBRegressor,
    BoostedAdaSSPRegressor,
]
FEW = {"n_estimators": 5}  # looks come before the first round, so that rounds tell nothing of them


def table(rows=3300, seed=1):
    """Numbers that two features explain in part; what they can be in theory is 0 to 100."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.random((rows, 3)), columns=["a", "b", "c"])
    noise = rng.normal(0, 8, rows)
    return frame.assign(y=np.clip(40 + 30 * frame["a"] - 25 * frame["b"] + noise, 0, 100))


def domain_of(times=1, low_end=0.5):
    """Bounds that are so many times too wide; the numbers lie in their middle, or at one end."""
    features = {name: {"kind": "numeric", "bounds": [0, 1]} for name in "abc"}
    low = -low_end * 100 * (times - 1)
    target = {"name": "y", "bounds": [low, low + 100 * times]}
    return Domain.from_dict({"version": 1, "features": features, "target": target})


@pytest.mark.parametrize("caution", [CAREFUL, KEEN])
def test_full_cells_are_found_and_doubt_is_kept(caution):
    noise = np.random.default_rng(3).normal(0, 1, (50, 25))
    clear = np.zeros(25)
    clear[4:7] = 30, 80, 20
    ends = [full_cells(clear + own, caution) for own in noise]
    assert all(first <= 4 and behind >= 7 for first, behind in ends)
    assert np.mean([behind - first for first, behind in ends]) < 5
    for far in (0, 24):  # rows that are clearly there are kept, however far away
        apart = clear.copy()
        apart[far] = 40
        first, behind = full_cells(apart + noise[0], caution)
        assert first <= min(far, 4)
        assert behind >= max(far + 1, 7)
    # Of mere noise nothing is told, and most stays.
    kept = [np.subtract(*full_cells(own, caution)[::-1]) for own in noise]
    assert np.median(kept) > 15


def test_one_full_cell_hides_nothing_that_is_spread_out():
    """Half of the rows are zero, say, and the others lie in ten cells, each hardly above noise."""
    noise = np.random.default_rng(5).normal(0, 1, (100, 25))
    counts = np.zeros(25)
    counts[0], counts[1:11] = 25, 2.5
    behind = [full_cells(counts + own, CAREFUL)[1] for own in noise]
    assert np.mean(np.array(behind) >= 9) > 0.9


def test_counts_without_noise_are_believed():
    exact = np.zeros(25)
    assert full_cells(exact, KEEN) == (0, 25)
    exact[[3, 9]] = math.inf
    assert full_cells(exact, CAREFUL) == (3, 10)


def test_laplace_noise_passes_for_normal_noise_of_the_same_rank():
    noise = np.random.default_rng(4).laplace(0, 1, 20_000)
    normal = as_normal(noise)
    assert abs(normal.mean()) < 0.03
    assert abs(normal.std() - 1) < 0.03
    assert (np.argsort(normal) == np.argsort(noise)).all()
    assert np.isfinite(as_normal(np.array([-1e6, 0.0, 1e6]))).all()


def test_a_span_is_told_in_bytes_and_refused_where_it_is_none():
    span = SetClippingRange.from_bytes(SetClippingRange(-4, 2).to_bytes())
    assert (span.low, span.high) == (-4, 2)
    for low, high in [(0, 0), (2, -2), (0, 3), (-LABEL_STEPS - 2, 0), (0.0, 2.0), (False, 2)]:
        with pytest.raises(ValueError, match="a clipping range"):
            SetClippingRange(low, high)


def test_rows_follow_a_span_on_every_backend():
    encoder = Encoder.of(make_domain(NUMBER))
    blocks = encode_training(encoder, make_frame(300, target=NUMBER), block_rows=50).blocks
    edges = np.linspace(-SCORE_STEPS, SCORE_STEPS, 9).astype(np.int32)
    answers = []
    for backend in (LocalBackend(blocks), LocalBackend(blocks, 3), HostileBackend(blocks, 2)):
        backend.apply(SetClippingRange(0, LABEL_STEPS))
        backend.apply(Start(SQUARED_NUMBER.table(0.3, 1.0)))
        answers.append(backend.sum(ScoreCounts(edges, 1))[:, 0, 0] // CLIP_STEPS)
    known = np.concatenate([block.minus_label[block.label == 0] for block in blocks])
    half = LABEL_STEPS // 2
    states = np.trunc(np.clip(known + half, -half, half) / half * SCORE_STEPS)
    expected = np.bincount(np.searchsorted(edges, states, "right"), minlength=10)
    for answer in answers:
        assert answer.tolist() == expected.tolist()


class Noiseless:
    """A curator that tells exact counts, of rows that nobody protects."""

    def __init__(self, blocks):
        self.backend, self.asked, self.told = LocalBackend(blocks), [], []

    def sums(self, query, event):
        self.asked.append(event)
        return self.backend.sum(query)

    def publish(self, update):
        self.told.append(update)
        self.backend.apply(update)


@pytest.mark.parametrize("kind", REGRESSORS)
def test_each_regressor_looks_as_often_as_it_planned_and_no_more(kind):
    domain = domain_of(30, 0.1)
    delta = 0.0 if kind is SarusXGBRegressor else 1e-6
    plan = kind(1.0, delta, domain, **FEW)._plan(Encoder.of(domain), None, Budget(1.0, delta))
    planned = [p.count for p in plan.releases if p.event is plan.range_release]
    assert planned == [PASSES]
    assert plan.accountant.compose(plan.releases).epsilon(delta) <= 1.0
    curator = Noiseless(encode_training(plan.encoder, table()).blocks)
    span = find_target_range(curator, plan).ends
    assert curator.asked == [plan.range_release] * PASSES
    assert (curator.told[-1].low, curator.told[-1].high) == span
    # A thirtieth of the bounds is full.
    assert 1 / 60 < (span[1] - span[0]) / (2 * LABEL_STEPS) < 1 / 8
    off = kind(1.0, delta, domain, span_share=0.0, **FEW)
    off = off._plan(plan.encoder, None, Budget(1.0, delta))
    assert off.range_release is None
    assert find_target_range(None, off) is WHOLE_RANGE


@pytest.mark.parametrize("kind", REGRESSORS)
def test_published_settings_keep_the_bounds(kind):
    for settings in getattr(kind, "_presets", {}).values():
        assert settings["span_share"] == 0


def test_shares_that_no_plan_can_have_are_refused():
    domain = domain_of()
    classes = replace(make_domain(), unit=None)
    with pytest.raises(ValueError, match="span_share must be 0 for classes"):
        PrivBoostClassifier(1.0, 1e-6, classes, span_share=0.1).fit(None)
    for kind in REGRESSORS:
        with pytest.raises(ValueError, match="span_share"):
            kind(1.0, domain=domain, span_share=1.0).fit(None)
    for kind in REGRESSORS[:4]:
        with pytest.raises(ValueError, match="leave nothing"):
            kind(1.0, domain=domain, init_share=0.5, span_share=0.5).fit(None)


def test_a_shard_that_scales_labels_to_its_rows_is_caught(monkeypatch):
    """The twin takes the span from the rows themselves: one row moves where all the others are."""
    encoder = Encoder.of(domain_of(10, 0.1))
    frame = table(60)
    frame.loc[0, "y"] = 900.0
    edges = np.linspace(-SCORE_STEPS, SCORE_STEPS, 30).astype(np.int32)

    def change():
        sums = []
        for rows in (frame, frame.iloc[1:]):
            backend = LocalBackend(encode_training(encoder, rows).blocks)
            backend.apply(SetClippingRange(-LABEL_STEPS, 0))
            backend.apply(Start(SQUARED_NUMBER.table(0.3, 1.0)))
            sums.append(backend.sum(ScoreCounts(edges, 1)))
        return np.abs(sums[0] - sums[1]).sum()

    assert change() == CLIP_STEPS
    honest = shard.initial_states
    monkeypatch.setattr(
        shard,
        "initial_states",
        lambda start, span: honest(start, (-int(start.max()) // 2 * 2, -int(start.min()) // 2 * 2)),
    )
    assert change() > 10 * CLIP_STEPS


def error(model, test):
    return math.sqrt(((model.predict(test) - test["y"]) ** 2).mean())


def noisy_mean(train, test, width, epsilon):
    """The error of a mean with the least noise that the budget allows: that of pure DP here.

    Gaussian noise for δ = 1e-6 is about five times it, so no regressor is helped by this.
    """
    noise = width / 2 * math.sqrt(2) / (epsilon * len(train))
    return math.sqrt(((test["y"] - train["y"].mean()) ** 2).mean() + noise**2)


def fit(kind, times, low_end, epsilon, seed, **how):
    delta = {} if kind is SarusXGBRegressor else {"delta": 1e-6}
    model = kind(epsilon, domain=domain_of(times, low_end), random_state=seed, **delta, **how)
    return model.fit(table())


@pytest.mark.parametrize("kind", REGRESSORS)
def test_bounds_a_hundred_times_too_wide_ruin_no_regressor(kind):
    train, test = table(), table(seed=2)
    model = fit(kind, 100, 0.1, 1.0, 5)
    assert error(model, test) < 2 * noisy_mean(train, test, 100, 1.0)
    assert error(fit(kind, 100, 0.1, 1.0, 5, span_share=0.0), test) > 2 * error(model, test)
    low, high = model.model_.bounds
    assert low < 30 < 50 < high
    assert high - low < 400
    assert ((model.predict(test) >= low) & (model.predict(test) <= high)).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_no_regressor_is_worse_than_a_noisy_mean(kind, epsilon):
    """With bounds that fit, and ten and a hundred times too wide, in the middle and off it."""
    train, test = table(), table(seed=2)
    for times, low_end in [(1, 0.5), (10, 0.5), (10, 0.03), (100, 0.5), (100, 0.03)]:
        errors = [error(fit(kind, times, low_end, epsilon, seed), test) for seed in range(8)]
        bar = 2 * np.std(errors) / math.sqrt(len(errors) - 1)
        assert np.mean(errors) <= noisy_mean(train, test, 100 * times, epsilon) + bar


@pytest.mark.parametrize("kind", REGRESSORS)
def test_public_rows_all_lie_within_the_span(kind):
    frame = table(500)
    delta = {} if kind is SarusXGBRegressor else {"delta": 1e-6}
    how = {"domain": domain_of(50, 0.2), "public_rows": True, "random_state": 1} | delta | FEW
    if kind is PrivBoostRegressor:
        how["interactions"] = False  # without noise there are thousands
    low, high = kind(math.inf, **how).fit(frame).model_.bounds
    assert low <= frame["y"].min()
    assert frame["y"].max() <= high
    assert high - low < 1000
    empty = kind(math.inf, **how).fit(frame.iloc[:0]).model_
    assert empty.span == FULL_RANGE


@pytest.mark.parametrize("kind", REGRESSORS)
def test_a_model_keeps_its_span(kind, tmp_path):
    model = fit(kind, 20, 0.1, 1.0, 3, **FEW)
    assert model.model_.span != FULL_RANGE
    model.save(tmp_path / "model")
    loaded, test = load_model(tmp_path / "model"), table(50, 2)
    assert loaded.span == model.model_.span
    np.testing.assert_array_equal(loaded.predict(test), model.predict(test))
    middle, half = loaded.middle_and_half
    raw = middle + half * loaded.decision_function(test)
    np.testing.assert_allclose(np.clip(raw, *loaded.bounds), loaded.predict(test))


@pytest.mark.parametrize(
    "span", [[0, 0], [0, 3], [0], [0, 1, 2], ["a", 2], [-(2**30) - 2, 0], [0.0, 2.0], 4, [True, 3]]
)
def test_a_span_that_is_none_is_refused(span):
    model = fit(PrivBoostRegressor, 20, 0.1, 1.0, 3, n_estimators=2).model_
    forged = replace(model, span=tuple(span) if isinstance(span, list) else span)
    with pytest.raises((ModelFileError, TypeError)):
        read_model(model_bytes(forged), "file")


def test_classes_have_no_span():
    frame = make_frame(100)
    model = PrivBoostClassifier(1.0, 1e-6, make_domain(), random_state=1, n_estimators=2)
    forged = replace(model.fit(frame).model_, span=(0, 2))
    with pytest.raises(ModelFileError, match="span: classes have none"):
        read_model(model_bytes(forged), "file")


def test_a_stream_keeps_the_span_of_its_first_batch(tmp_path):
    frame = table()
    stream = SBDTRegressor(1.0, 1e-6, domain_of(30, 0.1), n_estimators=20, random_state=2)
    stream.partial_fit(frame.iloc[:2000])
    span = stream.model_.span
    assert span != FULL_RANGE
    looks = "rows by label"
    assert any(looks in str(one) for one in stream.privacy_.to_dict()["releases"])
    stream.save_stream(tmp_path / "state")
    stream.partial_fit(frame.iloc[2000:])
    assert stream.model_.span == span
    other = SBDTRegressor(1.0, 1e-6, domain_of(30, 0.1), n_estimators=20, random_state=2)
    other.load_stream(tmp_path / "state").partial_fit(frame.iloc[2000:])
    np.testing.assert_array_equal(other.predict(frame), stream.predict(frame))
    forged = replace(stream.model_, span=(0, 2))
    stream.model_ = forged
    stream.save_stream(tmp_path / "forged")
    with pytest.raises(ModelFileError, match="the clipping range is that of the model"):
        other.load_stream(tmp_path / "forged")
