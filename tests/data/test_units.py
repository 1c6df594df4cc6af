"""Which rows of a unit are kept: at random, by the unit's own rows and the key alone."""

from collections import Counter
from dataclasses import dataclass, fields, replace
from itertools import combinations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from privboost import Domain, PrivBoostClassifier, SBDTRegressor
from privboost._core.errors import DomainError
from privboost._core.grid import WEIGHT_STEPS, Contribution, SharedContribution
from privboost._core.unit import Unit
from privboost.data import contribution_bound, kernels
from privboost.data.contribution_bound import UnitRule, bound_units, random_ranks
from privboost.data.encoding import Encoder
from privboost.data.loading import Load, RowLoader, Side, SplitLoader, load_rows, open_source
from privboost.data.rows import Codes, Layout, Rows, join
from privboost.data.sources import open_table
from privboost.distributed.partitions import read_rows, write_rows
from privboost.domain_inference import bounds
from privboost.domain_inference.bounds import InferenceLoader
from privboost.engine.backend import LocalBackend
from privboost.engine.updates import Start
from privboost.evaluation.outcomes import OutcomeLoader, open_groups
from privboost.evaluation.plan import plan_evaluation
from privboost.losses.squared import SQUARED_NUMBER
from privboost.randomness.keystream import KeyStream
from privboost.recipes.common.plan import Budget
from tests.hostile import HostileBackend
from tests.tables import CLASSES, NUMBER, encode_training, make_domain, make_frame

UNIT = {"column": "person", "max_rows": 3}
DOMAIN = make_domain(unit=UNIT)
KEYS = [KeyStream.seeded(seed).words(2) for seed in range(4)]


def bounded(frame, seed=1, block_rows=64):
    rows = encode_training(Encoder.of(DOMAIN), frame, block_rows=block_rows)
    return rows.bounded(UnitRule("u", 3, KeyStream.seeded(seed).words(2)))


def content(blocks):
    """Everything that rows carry, but for their ids, in an order of its own."""
    if not blocks:
        return []
    rows = join(blocks)
    columns = [*rows.codes.narrow, *rows.codes.wide, rows.label]
    columns += [each for each in (rows.weight, rows.minus_label) if each is not None]
    texts = [["" if t is None else repr(t) for t in each.to_pylist()] for each in rows.texts]
    return sorted(zip(*(each.tolist() for each in columns), *texts, strict=True))


def test_at_most_so_many_rows_of_each_and_none_without_a_unit():
    frame = make_frame(400)
    kept = sum(len(block) for block in bounded(frame))
    assert kept == frame["person"].value_counts().clip(upper=3).sum() == 30


def test_the_choice_depends_on_the_key_and_not_on_order_or_blocks():
    frame = make_frame(400)
    chosen = content(bounded(frame))
    assert content(bounded(frame.sample(frac=1, random_state=3), block_rows=17)) == chosen
    assert content(bounded(frame, seed=2)) != chosen


def test_one_unit_does_not_change_the_rows_of_another():
    frame = make_frame(400)
    fewer = frame[frame["person"] != "c"]
    own = content(bounded(frame[frame["person"] == "c"]))
    assert sorted(content(bounded(fewer)) + own) == content(bounded(frame))


SHARED = Unit("person", 7, weighting="units")


def weights_by_unit(frame, seed=1, weights=None, block_rows=64):
    """The weights of the rows that are kept, by unit, and all that the rows carry."""
    rows = encode_training(Encoder.of(DOMAIN), frame, None, weights, 2.0, block_rows=block_rows)
    unit, names = rows.unit, rows.names
    rule = UnitRule.of(SHARED, KeyStream.seeded(seed))
    blocks = bound_units(rows.blocks, unit, names, rule)
    kept = random_ranks(rows.blocks, unit, names, rule.key) < rule.max_rows
    whole = join(blocks).weight
    assert len(whole) == kept.sum()
    by_unit = {name.as_py(): whole[unit[kept] == k].tolist() for k, name in enumerate(names)}
    return by_unit, content(blocks)


@pytest.mark.parametrize("rows", range(1, 12))
def test_rows_of_a_unit_share_its_weight_in_equal_parts(rows):
    frame = make_frame(60).assign(person="other")
    frame.loc[: rows - 1, "person"] = "own"
    frame.loc[50:, "person"] = None
    own = weights_by_unit(frame)[0][b"own"]
    assert len(own) == min(rows, 7)
    assert sum(own) == WEIGHT_STEPS
    assert max(own) - min(own) <= 1


def test_shares_depend_on_neither_order_nor_blocks_nor_other_units():
    frame = make_frame(400)
    of_all, whole = weights_by_unit(frame)
    for seed in range(3):
        other = frame.sample(frac=1, random_state=seed)
        assert weights_by_unit(other, block_rows=17)[1] == whole
    fewer, rest = weights_by_unit(frame[frame["person"] != "c"])
    own = weights_by_unit(frame[frame["person"] == "c"])[1]
    assert sorted(rest + own) == whole
    assert sorted(map(sorted, fewer.values())) == sorted(
        sorted(shares) for name, shares in of_all.items() if name != b"c"
    )


def test_own_weights_multiply_shares_and_never_add_up_to_more_than_the_bound():
    frame = make_frame(400)
    shares = weights_by_unit(frame)[0]
    heavy = weights_by_unit(frame.assign(weight=9.0), weights="weight")[0]
    assert sorted(map(sorted, heavy.values())) == sorted(map(sorted, shares.values()))
    for name, own in weights_by_unit(frame, weights="weight")[0].items():
        assert sum(own) < sum(heavy[name]) == WEIGHT_STEPS


def test_a_weight_is_shared_by_at_most_as_many_rows_as_it_has_steps():
    assert Unit("person", WEIGHT_STEPS, weighting="units").shares_weight
    for rows, message in ((WEIGHT_STEPS + 1, "257 is more than 256"), (2**10 + 1, "1025")):
        with pytest.raises(DomainError, match=message):
            Unit("person", rows, weighting="units")
    with pytest.raises(DomainError, match="weighting: 'unit' is not"):
        Unit("person", 2, weighting="unit")
    with pytest.raises(ValueError, match="shared"):
        SharedContribution(True, WEIGHT_STEPS + 1)
    with pytest.raises(ValueError, match="shared"):
        SharedContribution(False, 2)


def test_one_row_a_unit_has_all_of_its_weight():
    unit = Unit("person", 1, weighting="units")
    assert not unit.shares_weight
    assert unit.contribution() == Contribution(False, 1)
    assert UnitRule.of(unit, KeyStream.seeded(1)).shares_weight is False
    assert Unit.from_dict(unit.to_dict()) == unit
    assert SHARED.contribution() == SHARED.contribution(True) == SharedContribution(True, 7)
    assert Unit.from_dict(SHARED.to_dict()) == SHARED
    assert "weighting" not in Unit("person", 3).to_dict()


def test_no_rows():
    assert sum(len(block) for block in bounded(make_frame(0))) == 0


def loader_of(name, frame):
    """A loader of each kind, with units, and what it loads."""
    if name.startswith("part"):
        whole, source = loader_of(name.removeprefix("part "), frame)
        key = np.frombuffer(KeyStream.seeded(6).words(4).tobytes(), dtype=np.uint8)
        return SplitLoader(whole, Side(key, 0.6, True)), source
    rule = UnitRule.of(DOMAIN.unit, KeyStream.seeded(1))
    if name == "sizes":
        return InferenceLoader(("age", "gain"), ("job", "place"), rule, "age"), open_table(
            frame, ()
        )
    if name == "strings":
        return InferenceLoader((), ("place",), rule, "place"), open_table(frame, ())
    if name == "outcomes":
        groups = open_groups(["job"], MODEL)
        plan = plan_evaluation(MODEL, groups, Budget(1.0, 1e-6))
        loader = OutcomeLoader(MODEL, plan.outcomes, groups, "income", rule)
        return loader, open_table(frame, ())
    domain = make_domain(CLASSES if name == "classes" else NUMBER, UNIT)
    source, roles = open_source(domain, frame, None, "weight")
    return RowLoader(Encoder.of(domain), roles, 2.0, rule), source


MODEL = PrivBoostClassifier(9.0, 1e-6, make_domain(), n_estimators=3, random_state=1)
MODEL = MODEL.fit(make_frame(500)).model_
LOADERS = ["classes", "number", "sizes", "strings", "outcomes"]
LOADERS += [f"part {name}" for name in LOADERS]


def kept_by(name, frame, rows=None):
    load = Load(*loader_of(name, frame))
    return [block for each in load_rows([load], rows=rows) for block in each.blocks]


@pytest.mark.parametrize("name", LOADERS)
def test_the_order_of_rows_does_not_matter(name):
    frame = make_frame(600, target=NUMBER if "number" in name else CLASSES)
    frame = pd.concat([frame, frame[::3]])  # with rows that are there twice
    chosen = content(kept_by(name, frame))
    assert 12 <= len(chosen) <= 30
    for seed in range(3):
        other = frame.sample(frac=1, random_state=seed)
        assert content(kept_by(name, other, 41)) == chosen


@pytest.mark.parametrize("name", LOADERS)
def test_the_same_rows_are_kept_wherever_they_lie(name):
    frame = make_frame(600, target=NUMBER if "number" in name else CLASSES)
    backend = HostileBackend([Load(*loader_of(name, frame))], seed=3)
    there = [block for shard in backend._shards for block in shard._rows]
    assert content(there) == content(kept_by(name, frame))


def rows_of(*kinds):
    """Rows of one feature."""
    codes = np.array([kinds], dtype=np.uint8)
    return Rows(Codes.of(Layout((200,)), codes), np.zeros(len(kinds), dtype=np.uint8))


def named(n, rows):
    """The unit of each row, of n units with so many rows each, and the units' names."""
    return np.repeat(np.arange(n), rows), pa.array([b"%d" % k for k in range(n)], pa.large_binary())


def drawn(kinds, key, max_rows=1, n=3000, names=None):
    """Which of its rows each of n units keeps, all of whose rows are alike: shape (n, max_rows)."""
    unit, own = named(n, len(kinds))
    block = rows_of(*np.tile(kinds, n))
    ranks = random_ranks([block], unit, own if names is None else names, key)
    return np.flatnonzero(ranks < max_rows).reshape(n, max_rows) % len(kinds)


def unlikely(counts, shares=None):
    expected = None if shares is None else np.array(shares) * sum(counts)
    return chisquare(counts, expected).pvalue < 1e-4


@pytest.mark.parametrize("key", KEYS)
def test_kinds_of_rows_are_kept_equally_often_and_independently(key):
    chosen = drawn([7, 3, 150, 4, 99], key)[:, 0]
    assert not unlikely(np.bincount(chosen, minlength=5))
    pairs = chosen[::2] * 5 + chosen[1::2]
    assert not unlikely(np.bincount(pairs, minlength=25))
    sets = Counter(map(tuple, drawn([7, 3, 150, 4, 99], key, max_rows=2).tolist()))
    assert not unlikely([sets[pair] for pair in combinations(range(5), 2)])


@pytest.mark.parametrize("key", KEYS)
def test_positions_are_kept_equally_often(key):
    rng = np.random.default_rng(0)
    unit, names = named(3000, 5)
    block = rows_of(*rng.integers(0, 200, 15_000))
    keep = random_ranks([block], unit, names, key) < 1
    assert not unlikely(keep.reshape(3000, 5).sum(axis=0))
    gone = random_ranks([block], unit, names, key) < 4
    assert not unlikely((~gone).reshape(3000, 5).sum(axis=0))


def test_a_hash_that_forgets_the_unit_is_caught():
    """The twin hashes what a row carries alone: every unit keeps the same kind of row."""
    nobody = pa.array([b""] * 3000, pa.large_binary())
    for key in KEYS:
        chosen = drawn([7, 3, 150, 4, 99], key, names=nobody)[:, 0]
        assert unlikely(np.bincount(chosen, minlength=5))


def copies_kept(key):
    """How often a unit of four rows that are alike and one other keeps one of the four, or it."""
    chosen = drawn([5, 5, 8, 5, 5], key)[:, 0]
    return [(chosen != 2).sum(), (chosen == 2).sum()]


@pytest.mark.parametrize("key", KEYS)
def test_rows_that_are_alike_count_one_by_one(key, monkeypatch):
    assert not unlikely(copies_kept(key), [0.8, 0.2])
    rank = contribution_bound._rank_within_runs

    def twin(unit, hashes=None):
        return rank(unit) if hashes is None else np.zeros(len(unit), dtype=np.int64)

    monkeypatch.setattr(contribution_bound, "_rank_within_runs", twin)
    assert unlikely(copies_kept(key), [0.8, 0.2])  # rows that are alike are one


@dataclass(frozen=True, eq=False, repr=False)
class MoreRows(Rows):
    """Rows with a column more, as they may be one day."""

    exposure: np.ndarray | None = None


def full_rows():
    codes = Codes.of(Layout((200, 300)), np.array([[1, 2], [256, 257]]))
    label, texts = np.array([0, 1], dtype=np.uint8), (pa.array([b"a", b"b"], pa.large_binary()),)
    weight, start = np.array([3, 4], dtype=np.uint16), np.array([-5, 5], dtype=np.int32)
    return MoreRows(codes, label, weight, start, range(2), 0, texts, np.array([0.5, 1.5]))


def hashed(rows):
    return np.concatenate(list(contribution_bound.row_bytes(rows, KEYS[0])), axis=1)


def other_codes(name):
    codes = full_rows().codes
    return replace(codes, **{name: getattr(codes, name) + 1})


CHANGES = {
    "codes": [other_codes("narrow"), other_codes("wide")],
    "label": [np.array([0, 2], dtype=np.uint8)],
    "weight": [np.array([3, 5], dtype=np.uint16)],
    "minus_label": [np.array([-5, 6], dtype=np.int32)],
    "texts": [(pa.array([b"a", text], pa.large_binary()),) for text in (b"c", b"", None)],
    "exposure": [np.array([0.5, 1.25])],
}


def test_every_field_of_rows_decides_or_is_said_not_to():
    names = {field.name for kind in (MoreRows, Codes) for field in fields(kind)}
    assert names - contribution_bound.NOT_HASHED == {*CHANGES, "narrow", "wide"}
    assert {"ids", "cohort", "layout"} == contribution_bound.NOT_HASHED
    whole = hashed(full_rows())
    for name, values in CHANGES.items():
        found = [hashed(replace(full_rows(), **{name: value})) for value in values]
        assert all((one[1] != whole[1]).any() for one in found), name
        assert len({one.tobytes() for one in found}) == len(values)
    moved = replace(full_rows(), ids=range(7, 9), cohort=3)
    np.testing.assert_array_equal(hashed(moved), whole)
    with pytest.raises(TypeError, match="list"):
        hashed(replace(full_rows(), exposure=[0.5, 1.5]))


def test_rows_carry_every_field_wherever_they_go():
    """What a copy of rows left out could not decide which are kept, nor be trained on."""
    own = {f.name: getattr(full_rows(), f.name) for f in fields(Rows)} | {"cohort": 3}
    rows = Rows(**own)
    assert not any(
        value is None or (isinstance(value, tuple) and not value) for value in own.values()
    )
    travelled, _ = read_rows(write_rows(rows))
    for other in (
        rows.take(np.arange(2)),
        join([rows.take(np.array([k])) for k in range(2)]),
        travelled,
    ):
        np.testing.assert_array_equal(hashed(other), hashed(rows))
        assert (list(other.ids), other.cohort) == ([0, 1], 3)


def test_null_and_empty_strings_and_slices_are_told_apart():
    texts = pa.array([b"x", None, b"", b"longer than eight", b"x", None], pa.large_binary())
    lines = [bytes(line) for line in next_bytes(texts)]
    assert len(set(lines)) == 4
    assert [bytes(line) for line in next_bytes(texts[1:5])] == lines[1:5]
    assert [bytes(line) for line in next_bytes(texts.cast(pa.binary()))] == lines


def next_bytes(texts):
    return np.concatenate(list(contribution_bound.row_bytes((texts,), KEYS[0])), axis=1)


@pytest.mark.parametrize(
    ("length", "digest"),
    [
        (0, "a3817f04ba25a8e66df67214c7550293"),
        (1, "da87c1d86b99af44347659119b22fc45"),
        (15, "5493e99933b0a8117e08ec0f97cfc3d9"),
    ],
)
def test_the_hash_is_siphash(length, digest):
    """The published values of the key 00 01 … 0f and the message 00 01 …"""
    key, data = np.frombuffer(bytes(range(16)), dtype=np.uint64), np.arange(40, dtype=np.uint8)
    out = np.empty((2, 2), dtype=np.uint64)
    kernels.hash_strings(data, np.array([0, length, 40]), key.copy(), out)
    assert out[0].tobytes().hex() == digest


def inference(frame, max_rows, backend=LocalBackend):
    """Exact sums and counts of strings, as domain inference asks for them."""
    rule = UnitRule("who", max_rows, KEYS[1])
    load = Load(InferenceLoader(("a", "b"), ("s", "t"), rule, "a"), open_table(frame, ()))
    if backend is LocalBackend:
        opened = LocalBackend([block for each in load_rows([load]) for block in each.blocks])
    else:
        opened = backend([load], seed=len(frame))
    opened.apply(Start(SQUARED_NUMBER.table(1.0, 1.0)))
    return opened.sum(bounds._sizes(2)), opened.tally()


def visits(people, rows, rng):
    """Few kinds of rows, so that many are there twice, and many differ in strings alone."""
    who = np.repeat([f"p{k}" for k in range(people)], rows)
    n = len(who)
    return pd.DataFrame(
        {
            "a": rng.choice([1.0, np.nan], n),
            "b": 3.0,
            "s": rng.choice(np.array(["x", "y", "", None], dtype=object), n),
            "t": rng.choice(["u", "v"], n),
            "who": who,
        }
    )


@given(
    people=st.integers(0, 30),
    rows=st.integers(1, 20),
    own=st.integers(1, 40),
    max_rows=st.integers(1, 4),
    seed=st.integers(0, 10_000),
    backend=st.sampled_from([LocalBackend, HostileBackend]),
)
@settings(max_examples=40)
def test_one_more_unit_in_any_order_moves_counts_by_its_own_rows(
    people, rows, own, max_rows, seed, backend
):
    rng = np.random.default_rng(seed)
    frame = visits(people, rows, rng)
    more = pd.concat([frame, visits(1, own, rng).assign(who="new")]).sample(
        frac=1, random_state=seed
    )
    (less, before), (sums, after) = inference(frame, max_rows), inference(more, max_rows, backend)
    kept = min(own, max_rows)
    moved = np.abs(sums - less)
    assert moved.sum() == 2 * kept * 2**16  # of two numbers
    differ = {text: after.get(text, 0) - before.get(text, 0) for text in {*before, *after}}
    assert all(0 <= change <= kept for change in differ.values())
    assert sum(differ.values()) <= 2 * kept  # of two columns of strings


def test_strings_are_kept_whatever_the_order_of_a_thousand_people():
    """Rows that differ in strings alone: a choice by order would move a count by a thousand."""
    who = np.repeat(np.arange(1000), 2)
    frame = pd.DataFrame({"a": 1.0, "b": 3.0, "s": ["x", "y"] * 1000, "t": "u", "who": who})
    (_, before), (_, after) = inference(frame, 1), inference(frame[::-1], 1)
    assert before == after
    assert sum(before.values()) == 2000  # a string of each column


# Models and units: a boolean and two categories, five rows a patient, one is used.

TRUTH = np.array([0.4, 0.4, 0.2, 0.2])
CELLS = pd.DataFrame({"flag": [False, False, True, True], "kind": ["a", "b", "a", "b"]})


def patients_domain(max_rows=1, target=None):
    form = {"flag": {"kind": "boolean"}, "kind": {"kind": "categorical", "categories": ["a", "b"]}}
    target = target or {"name": "y", "classes": ["no", "yes"]}
    unit = {"unit": {"column": "who", "max_rows": max_rows}} if max_rows else {}
    return Domain.from_dict({"version": 1, "features": form, "target": target} | unit)


def patients(n, seed, rows=5):
    rng = np.random.default_rng(seed)
    cell = rng.integers(0, 4, n * rows)
    frame = CELLS.iloc[cell].reset_index(drop=True)
    frame["y"] = np.where(rng.random(n * rows) < TRUTH[cell], "yes", "no")
    return frame.assign(who=np.repeat(np.arange(n), rows))


@pytest.mark.parametrize("seed", range(6))
def test_probabilities_are_near_the_truth_with_one_row_a_unit(seed):
    model = PrivBoostClassifier(3.0, 1e-6, patients_domain(), random_state=seed)
    chances = model.fit(patients(4000, 0)).predict_proba(CELLS)[:, 1]
    assert np.abs(chances - TRUTH).max() < 0.06


def test_one_row_a_unit_is_as_a_table_with_one_row_drawn_beforehand():
    """Over many keys, models of either have the same mean, and vary alike."""
    number = {"name": "y", "bounds": [0, 1]}
    frame = patients(1000, 5).assign(y=lambda own: (own["y"] == "yes").astype(float))
    how = {"n_estimators": 4, "max_depth": 2, "learning_rate": 0.9}
    found = {0: [], 1: []}
    for seed in range(30):
        for max_rows, each in found.items():
            rows = frame if max_rows else frame.groupby("who").sample(1, random_state=seed)
            domain = patients_domain(max_rows, number)
            model = SBDTRegressor(50.0, 1e-6, domain, random_state=seed, **how).fit(rows)
            each.append(model.predict(CELLS))
    before, here = np.array(found[0]), np.array(found[1])
    error = np.hypot(here.std(axis=0), before.std(axis=0)) / np.sqrt(30)
    assert np.abs((here.mean(axis=0) - before.mean(axis=0)) / error).max() < 3.5
    ratio = here.std(axis=0) / before.std(axis=0)
    assert 0.55 < ratio.min() <= ratio.max() < 1.8
