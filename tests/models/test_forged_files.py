"""No file, however forged, reads memory that is not its own."""

import json
import struct
import time
import tracemalloc
import warnings
import zlib
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    BoostedAdaSSPRegressor,
    LazyBBClassifier,
    ModelFileError,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    SBDTRegressor,
)
from privboost._core import codec
from privboost._core.grid import FULL_RANGE
from privboost.engine.protocol import MAGIC
from privboost.engine.updates import Charge, OpenBudgets, Price, Start
from privboost.estimators import stream_format
from privboost.estimators.stream_format import STREAM_PARAMETERS, check_log
from privboost.models import additive, checks, forest, interactions, linear, trees, votes
from privboost.models import model as files
from privboost.models.model import model_bytes
from tests.forgery import (
    Forger,
    assemble,
    check_importances,
    interpreted,
    try_model,
    try_stream,
    write,
)
from tests.tables import CLASSES, NUMBER, THREE, make_domain, make_frame

ROWS = 60
KINDS = {
    "additive": (PrivBoostClassifier, THREE, {"n_estimators": 7}),
    "additive number": (PrivBoostRegressor, NUMBER, {"n_estimators": 7}),
    "compound": (PrivBoostClassifier, THREE, {"n_estimators": 7, "epsilon": 500.0}),
    "linear": (BoostedAdaSSPClassifier, THREE, {"products": [("step", "job"), ("job", "flag")]}),
    "linear number": (BoostedAdaSSPRegressor, NUMBER, {"bins": 3}),
    "trees": (SBDTClassifier, CLASSES, {"n_estimators": 7, "max_depth": 2}),
    "joint trees": (SBDTRegressor, NUMBER, {"n_estimators": 4, "features": "uniform"}),
    "votes": (LazyBBClassifier, CLASSES, {"n_estimators": 5, "calibration_share": 0.0}),
    "votes with odds": (LazyBBClassifier, THREE, {"n_estimators": 5}),
}
STREAMS = {
    "classes": (SBDTClassifier, THREE, {}),
    "number": (SBDTRegressor, NUMBER, {"features": "uniform", "subsample": 0.5}),
    "units": (SBDTClassifier, CLASSES, {"unit": True}),
    "weights": (SBDTClassifier, CLASSES, {"sample_weight_bound": 2.0}),
}


@pytest.fixture(scope="module")
def models():
    """The file of a model of each kind."""
    made = {}
    for name, (kind, target, how) in KINDS.items():
        own = {} if kind is LazyBBClassifier else {"delta": 1e-6}
        domain = make_domain(target)
        if name.startswith("linear"):  # else nearly all of the file is names of places
            domain = replace(domain, features=domain.features[:-1])
        model = kind(**{"epsilon": 1.0} | own | how, domain=domain, random_state=1)
        model = model.fit(make_frame(ROWS, target=target)).model_
        made[name] = model_bytes(few_trees(model) if name == "compound" else model)
    return made


def few_trees(model):
    """Leave out most pairs and trees, so that a forgery takes less time and more often hits."""
    scores, kept = model.scores, 2
    forests = tuple(
        trees.Forest(*(getattr(forest, part.name)[:kept].copy() for part in fields(forest)))
        for forest in scores.trees.forests
    )
    updates = np.array([kept] * len(forests), dtype=np.int32)
    few = replace(scores.trees, forests=forests, updates=updates)
    return replace(model, scores=replace(scores, pairs=scores.pairs[:kept], trees=few))


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The file of a stream of each kind."""
    path, made = tmp_path_factory.mktemp("streams") / "state", {}
    for name, (kind, target, how) in STREAMS.items():
        how = {"n_estimators": 2, "max_depth": 2, **how}
        unit = {"column": "person", "max_rows": 3} if how.pop("unit", False) else None
        model = kind(2.0, 1e-6, make_domain(target, unit), random_state=1, **how)
        for seed in range(2):
            frame = make_frame(ROWS, seed, target)
            weights = frame["weight"] if "sample_weight_bound" in how else None
            model.partial_fit(frame, sample_weight=weights)
        model.save_stream(path)
        made[name] = path.read_bytes()
    return made


def forge(models, states, count, seed):
    """Try many forgeries of all files; return how many were read, of each."""
    forger, read = Forger(seed), {}
    for name, data in models.items():
        read[name] = sum(try_model(forger.model(data)) for _ in range(count))
    for name, data in states.items():
        read[f"stream of {name}"] = sum(try_stream(forger.stream(data)) for _ in range(count // 4))
    return read


def test_forgeries_are_refused_or_predict_within_bounds(models, states, monkeypatch):
    interpreted(monkeypatch)
    read = forge(models, states, 120, seed=0)
    assert min(read.values()) > 0  # some changes are as good as what was there
    assert max(read.values()) < 90


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 4))
def test_many_more_forgeries(models, states, monkeypatch, seed):
    interpreted(monkeypatch)
    forge(models, states, 750, seed)


def extremes(part):
    """Yield changes of a form in place, one at a time, each of which puts extreme numbers in."""
    keys = list(part) if isinstance(part, dict) else {0, len(part) - 1} if part else ()
    for key in keys:  # of a list its ends: the rest is alike
        own = part[key]
        if isinstance(own, dict | list):
            yield from extremes(own)
        if isinstance(own, float):
            for number in (0.0, 1e-320, -1e308, 1e308, 2.0**200):
                part[key] = number
                yield
        if isinstance(own, np.ndarray) and own.size:
            whole = np.iinfo(own.dtype) if own.dtype.kind in "iu" else None
            largest = (whole.min, whole.max, whole.max // 2) if whole else (-(2.0**200), 2.0**200)
            for number in largest:
                part[key] = np.full_like(own, number)
                yield
                part[key] = own.copy()
                part[key].reshape(-1)[-1] = number
                yield
        part[key] = own


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_at_the_ends_of_their_types_are_refused_or_explained(models, monkeypatch, kind):
    interpreted(monkeypatch)
    form = codec.load(files.MODEL_FILE.unseal(models[kind], ""), files._MAGIC)
    read = [
        try_model(files.MODEL_FILE.seal(write(form, files._MAGIC)))
        for _ in extremes(form["scores"])
    ]
    assert 0 < sum(read) < len(read)


def test_damage_is_found_whatever_it_hits(models, states):
    rng = np.random.default_rng(0)
    for read, whole in ((files.read_model, models), (stream_format.read_stream, states)):
        for data in whole.values():
            for at in [*range(48), *rng.integers(len(data), size=300)]:
                damaged = bytearray(data)
                damaged[at] ^= 1 << rng.integers(8)
                with pytest.raises(ModelFileError, match=r"^file "):
                    read(bytes(damaged), "file")
                with pytest.raises(ModelFileError, match=r"^file "):
                    read(data[:at], "file")


def altered(data, change):
    """Forge a model file by hand."""
    form = codec.load(files.MODEL_FILE.unseal(data, ""), files._MAGIC)
    change(form)
    return files.MODEL_FILE.seal(write(form, files._MAGIC))


def put(*keys):
    """Return a change that puts a value, made from the one that is there, into a place."""
    *way, last, make = keys

    def change(form):
        for key in way:
            form = form[key]
        form[last] = make(form[last])

    return change


def nested(depth):
    """Return lists in lists in a mapping."""
    value = []
    for _ in range(depth):
        value = [value]
    return {"a": value}


def shorten_values(form):
    form["scores"]["values"][3] = form["scores"]["values"][3][:, :2]


def shorten_term(form):
    for part in ("value", "coordinate"):
        form["scores"][part][-1] = form["scores"][part][-1][:3]


def shorten_cells(form):
    """Cells of a pair that lie beyond its values."""
    pair = form["scores"]["pairs"][0]
    pair["cell_of"][0] = pair["cell_of"][0] + np.uint16(len(pair["values"]))


def look_at_absent_codes(form):
    for group in form["scores"]["forests"]:
        group["goes_right"] = group["goes_right"][:, :, :1]


def claim_more_codes(form):
    form["scores"]["n_codes"] = form["scores"]["n_codes"] + np.int32(4096)


def look_at_absent_features(form):
    form["scores"]["forests"][0]["feature"] = form["scores"]["forests"][0]["feature"] + np.uint16(
        99
    )


def drop_leaves(form):
    form["scores"]["forests"][0]["values"] = form["scores"]["forests"][0]["values"][:, :, :1]


def add_stages(form):
    form["scores"]["updates"] = np.append(form["scores"]["updates"], np.int32(2**31 - 1))


def overflow_scores(form):
    form["scores"]["forests"][0]["values"] = form["scores"]["forests"][0]["values"] | np.int32(
        2**30
    )


SHORT = {
    "additive": [shorten_values],
    "compound": [shorten_cells],
    "linear": [shorten_term],
    "trees": [look_at_absent_codes, drop_leaves],
    "joint trees": [look_at_absent_codes, drop_leaves, overflow_scores],
    "votes": [look_at_absent_codes],
    "votes with odds": [look_at_absent_codes],
}
CASES = [(kind, change) for kind, changes in SHORT.items() for change in changes]


@pytest.mark.parametrize(("kind", "change"), CASES)
def test_arrays_that_are_too_short_are_refused(models, monkeypatch, kind, change):
    """And with the checks off, the same files do read past their arrays: the harness would see."""
    interpreted(monkeypatch)
    forged = altered(models[kind], change)
    assert not try_model(forged)
    for module in (checks, additive, interactions, forest, linear, trees, votes):
        monkeypatch.setattr(module, "need", lambda *_: None)
    with pytest.raises((IndexError, RuntimeError, RuntimeWarning)):
        try_model(forged)


def test_stages_that_trees_do_not_have_are_refused(models):
    assert not try_model(altered(models["trees"], add_stages))


def test_trees_that_are_not_what_they_say_are_refused(models):
    with pytest.raises(ModelFileError, match="n_codes: not those of the domain"):
        files.read_model(altered(models["trees"], claim_more_codes), "file")
    with pytest.raises(ModelFileError, match=r"forests\.feature: entries of at most 5"):
        files.read_model(altered(models["trees"], look_at_absent_features), "file")
    with pytest.raises(ModelFileError, match="leaves must say one vote"):
        files.read_model(altered(models["votes"], overflow_scores), "file")


@pytest.mark.parametrize(
    "worth",
    [
        lambda own: own * 0,
        lambda own: -own,
        lambda own: own | np.int32(2**30),
        lambda own: own[:-1],
        lambda own: own.astype(np.float64),
        lambda own: None,
    ],
)
def test_votes_are_worth_more_than_nothing_and_no_more_than_scores_hold(models, worth):
    def change(form):
        form["scores"]["worth"] = worth(form["scores"]["worth"])

    with pytest.raises(ModelFileError, match="worth"):
        files.read_model(altered(models["votes with odds"], change), "file")
    with pytest.raises(ModelFileError, match="worth"):
        files.read_model(
            altered(models["votes with odds"], lambda form: form["scores"].pop("worth")), "file"
        )
    with pytest.raises(ModelFileError, match="scores"):
        files.read_model(
            altered(models["votes"], lambda form: form["scores"].update(worth=np.ones(1))), "file"
        )


@pytest.mark.parametrize(
    "edges",
    [
        lambda own: own[::-1].copy(),
        lambda own: own[:-1],
        lambda own: own * 1.001,
        lambda own: np.where(own == own[3], np.nan, own),
        lambda own: own.astype(np.int64),
    ],
)
def test_edges_must_be_those_of_the_domain(models, edges):
    def change(form):
        form["edges"][0] = edges(form["edges"][0])

    with pytest.raises(ModelFileError, match=r"^file holds no model: edges of 'age'"):
        files.read_model(altered(models["additive"], change), "file")


HUGE = 10**400
STATED = [
    put("privacy", "epsilon", lambda _: HUGE),
    put("privacy", "slack", lambda _: HUGE),
    put("privacy", "slack", lambda _: float("inf")),
    put("privacy", "alternatives", lambda _: {"gdp": HUGE}),
    put("privacy", "parts", lambda _: [{"what": "a", "epsilon": HUGE, "delta": 0.0}]),
    put("privacy", "releases", lambda _: [{"what": "a", "count": HUGE, "mechanism": "b"}]),
    put("privacy", "parameters", lambda _: nested(100)),
    put("privacy", "parameters", lambda _: {"a": HUGE}),
    put("privacy", "parameters", lambda _: {"a": "\x1b[2J"}),
    put("privacy", "parameters", lambda _: {"\x1b[2J": 1}),
    put("privacy", "software", lambda _: "\x1b]0;title\x07"),
    put("privacy", "assumptions", lambda _: ["one\nPrivacy: 0-differential privacy"]),
    put("privacy", "alternatives", lambda _: {"\r": 1.0}),
]


@pytest.mark.parametrize("change", STATED)
def test_a_statement_that_cannot_be_written_is_refused(models, change):
    with pytest.raises(ModelFileError, match="privacy: it is not a privacy report"):
        files.read_model(altered(models["additive"], change), "file")


def test_an_accountant_that_has_no_answer_is_read(models):
    change = put("privacy", "alternatives", lambda own: own | {"pure": float("inf")})
    assert "inf" in str(files.read_model(altered(models["additive"], change), "file").privacy)


def test_columns_of_a_linear_model_are_of_its_features(models):
    def change(form):
        for column in form["scores"]["coordinates"]:
            column["feature"] = "(intercept)"

    with pytest.raises(ModelFileError, match="every feature has a coordinate"):
        files.read_model(altered(models["linear"], change), "file")


def test_coefficients_beyond_all_numbers_are_no_warning(models):
    def change(form):
        form["domain"]["target"]["bounds"] = [-1e300, 1e300]
        for coordinate in form["scores"]["coordinates"]:
            coordinate |= {"slope": 1e300, "middle": -1e300}

    model = files.read_model(altered(models["linear number"], change), "file")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.coefficients().num_rows
        assert "coefficients" in model.to_text()


LARGE = [
    ("additive", put("scores", "mass", 0, lambda a: a * 0 + 1e308)),
    ("additive", put("scores", "noise", 0, lambda a: a * 0 + 1e308)),
    ("linear", put("scores", "noise", lambda a: a * 0 + 1e308)),
    ("linear", put("scores", "moments", lambda a: a * 0 - 1e308)),
    ("linear", put("scores", "rows", lambda a: a * 0 + 1e308)),
    ("trees", put("scores", "rows", lambda a: a * 0 + 1e308)),
]


@pytest.mark.parametrize(("kind", "change"), LARGE)
def test_what_importances_rest_on_has_squares(models, kind, change):
    with pytest.raises(ModelFileError, match="finite numbers are needed, far"):
        files.read_model(altered(models[kind], change), "file")


@pytest.mark.parametrize(("kind", "change"), LARGE)
def test_the_largest_that_is_read_has_importances(models, kind, change):
    def less(form):
        change(form)
        for part in ("mass", "noise", "moments", "rows"):
            own = form["scores"].get(part)
            if isinstance(own, list):
                own[0] = np.clip(own[0], -(2.0**200), 2.0**200)
            elif own is not None:
                form["scores"][part] = np.clip(own, -(2.0**200), 2.0**200)

    check_importances(files.read_model(altered(models[kind], less), "file"))


def test_edges_of_another_machine_are_read(models):
    """Logarithms may differ in their last digits."""

    def change(form):
        form["edges"][1] = form["edges"][1] * (1 + 1e-14)

    assert files.read_model(altered(models["additive"], change), "file")


def texts():
    """JSON texts that are no form, or ask for more than there is."""
    array = '{"body": %s, "arrays": %s}'
    yield "deep", "[" * 100_000
    yield "deep body", array % ('{"a":' * 50_000 + "0" + "}" * 50_000, "[]")
    yield "long number", array % ("9" * 100_000, "[]")
    yield "sides that overflow", array % ('{"__array__": 0}', '[["|u1", [4294967296, 4294967296]]]')
    yield "sides beyond the file", array % ('{"__array__": 0}', '[["<f8", [1000000000000, 0]]]')
    yield "many sides", array % ('{"__array__": 0}', f'[["|u1", {[1] * 9999}]]')
    yield "negative sides", array % ('{"__array__": 0}', '[["|u1", [-1, -1]]]')
    yield "objects", array % ('{"__array__": 0}', '[["|O8", [0]]]')
    yield "an array twice", array % ('[{"__array__": 0}, {"__array__": 0}]', '[["|u1", [0]]]')
    yield "an array nowhere", array % ("[]", '[["|u1", [0]]]')
    yield "an array from the end", array % ('{"__array__": -1}', '[["|u1", [0]]]')
    yield "an absent array", array % ('{"__array__": 7}', '[["|u1", [0]]]')
    yield "a key twice", array % ('{"kind": 1, "kind": 2}', "[]")
    yield "half a character", array % ('{"kind": "\\ud800"}', "[]")
    yield "other text", array % ('{ "kind":1}', "[]")
    yield "no form", "[1, 2]"
    yield "many lists", array % ("[" + "[], " * 20_000 + "[]]", "[]")


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in texts()])
def test_hostile_texts_are_refused_within_their_size(text):
    content = assemble(text, files._MAGIC)
    data = files.MODEL_FILE.seal(content)
    with measured() as peak, pytest.raises(ModelFileError, match=r"^file holds no model"):
        files.read_model(data, "file")
    assert peak() < 64 * len(data) + 2**20


def test_a_large_domain_in_a_small_file_is_refused_within_its_size(models):
    """Nothing is derived from the domain before the arrays are known to be there."""

    def change(form):
        many = {f"f{k}": {"kind": "numeric", "bounds": [0, 1]} for k in range(1000)}
        form["domain"]["features"] = many
        form["edges"] = [np.empty(0)] * 1000

    data = altered(models["additive"], change)
    with measured() as peak, pytest.raises(ModelFileError, match="edges"):
        files.read_model(data, "file")
    assert peak() < 64 * len(data)


class measured:
    """Measures the largest memory that was allocated within."""

    def __enter__(self):
        tracemalloc.start()
        return lambda: self.peak

    def __exit__(self, *_):
        self.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()


@pytest.mark.parametrize("what", ["arrays", "text", "text in the arrays' place"])
def test_a_stream_that_unpacks_without_end_is_refused(what):
    zeros, lists = bytes(2**26), b"[" + b"[]," * 100_000 + b"[]]"
    form = {"body": {}, "arrays": [["|u1", [2**26]]]}
    texts = {"arrays": json.dumps(form).encode(), "text": lists}
    text = texts.get(what, b"{}")
    head = stream_format._MAGIC + struct.pack("<Q", len(text)) + text
    packed = zlib.compress(lists if what.startswith("text in") else zeros, 9)
    bomb = stream_format.STREAM_FILE.seal(head + packed)
    with measured() as peak, pytest.raises(ModelFileError, match=r"^file holds no stream"):
        stream_format.read_stream(bomb, "file")
    assert peak() < 200 * len(bomb)


def retold(data, kind, change):
    """Forge the last update of a kind in a stream."""
    form = codec.load(
        stream_format._unpacked(stream_format.STREAM_FILE.unseal(data, "")), stream_format._MAGIC
    )
    log, ends = form["log"].tobytes(), np.cumsum([0, *form["lengths"]])
    messages = [log[a:b] for a, b in pairwise(ends)]
    updates = [codec.load(message, MAGIC) for message in messages]
    at = max(k for k, update in enumerate(updates) if update["kind"] == kind)
    change(updates[at])
    messages[at] = write(updates[at], MAGIC)
    form["log"] = np.frombuffer(b"".join(messages), dtype=np.uint8)
    form["lengths"] = [len(message) for message in messages]
    return stream_format.STREAM_FILE.seal(stream_format._packed(write(form, stream_format._MAGIC)))


TOLD = [
    ("AddTreeValues", put("trees", 0, "goes_right", lambda a: a + np.uint8(2)), "trees"),
    ("AddTreeValues", put("trees", 0, "goes_right", lambda a: a[:, :3]), "trees"),
    ("AddTreeValues", put("trees", 0, "feature", lambda a: a + np.uint16(77)), "trees"),
    ("AddTreeValues", put("value_of", lambda a: a[:, :1]), "values"),
    ("AddTreeValues", put("value_of", lambda a: a * 0 + np.int32(2**31 - 1)), "overflow"),
    ("AddTreeValues", put("output", lambda _: 9), "output"),
    ("Start", put("n_outputs", lambda _: 9), "scores for each class"),
    ("Start", put("loss", "gradient", lambda a: a * 2), "exceeds"),
    ("Start", put("loss", "hessian", lambda a: a[:, :9]), "loss"),
    ("Start", put("loss", lambda _: None), "loss"),
    ("Price", put("tables", 0, lambda a: a - 1), "price"),
    ("Price", put("tables", 0, lambda a: a[..., :9]), "price"),
    ("Price", put("number", lambda _: 9), "price"),
    ("Charge", put("price", lambda _: 9), "charge"),
]


@pytest.mark.parametrize(("kind", "change", "rule"), TOLD)
def test_rows_are_told_nothing_that_does_not_fit_them(states, kind, change, rule):
    with pytest.raises(ModelFileError, match=f"^file holds no stream: .*{rule}"):
        stream_format.read_stream(retold(states["classes"], kind, change), "file")


KEPT = [
    (put("cohorts", 1, "rows", "narrow", lambda a: a + np.uint8(200)), "codes"),
    (put("cohorts", 1, "rows", "wide", lambda a: a + np.uint16(400)), "codes"),
    (put("cohorts", 1, "rows", "label", lambda a: a * 0 + np.uint8(3)), "label"),
    (put("cohorts", 1, "rows", "label", lambda a: a[:-1]), "label"),
    (put("cohorts", 1, "rows", "weight", lambda a: a + np.uint16(999)), "weight"),
    (put("cohorts", 1, "rows", "weight", lambda _: None), "weight"),
    (put("cohorts", 1, "rows", "start", lambda _: np.zeros(9, dtype=np.int32)), "start"),
    (put("cohorts", 1, "rows", "ids", lambda a: a // 2), "ids"),
    (put("cohorts", 1, "used", lambda n: n - 1), "charged for more"),
    (put("cohorts", 1, "used", lambda n: n + 10**6), "used"),
    (put("cohorts", 1, "budget", "noise", lambda _: 0.0), "parts"),
    (put("cohorts", 1, "budget", "noise", lambda _: 1e300), "noise"),
    (put("cohorts", 1, "units", lambda _: {}), "units"),
    (put("cohorts", lambda a: a[:1]), "price"),
    (put("cohorts", lambda _: []), "batch"),
    (put("next_id", lambda n: n // 2), "ids"),
    (put("next_id", lambda _: 2**32), "next_id"),
    (put("parameters", lambda own: own | {"epsilon": 100.0}), "parameters"),
    (put("parameters", lambda own: own | {"random_state": 1}), "parameters"),
    (put("parameters", lambda own: own | {"ledger": "/tmp/l"}), "parameters"),
    (put("parameters", lambda own: own | {"domain__x": 1}), "parameters"),
    (put("parameters", lambda own: own | {"max_depth": [2]}), "parameters"),
    (put("parameters", lambda own: own | {"monotone": {"age": 2}}), "parameters.monotone"),
    (put("parameters", lambda own: own | {"monotone": {"age": True}}), "parameters.monotone"),
    (put("parameters", lambda own: own | {"monotone": {"age": np.ones(2)}}), "parameters.monotone"),
    (put("parameters", lambda own: own | {"monotone": ["age"]}), "parameters.monotone"),
    (put("parameters", lambda _: 7), "parameters"),
    (put("lengths", lambda a: a[:-1]), "lengths"),
    (put("weight_bound", lambda _: -1.0), "weight_bound"),
    (put("clips", lambda _: [1.0]), "clips"),
    (put("most_score", lambda _: 1e9), "most_score"),
]


@pytest.mark.parametrize(("change", "rule"), KEPT)
def test_rows_and_budgets_must_fit_the_model(states, change, rule):
    content = stream_format._unpacked(stream_format.STREAM_FILE.unseal(states["weights"], ""))
    form = codec.load(content, stream_format._MAGIC)
    change(form)
    packed = stream_format._packed(write(form, stream_format._MAGIC))
    forged = stream_format.STREAM_FILE.seal(packed)
    with pytest.raises(ModelFileError, match=f"^file holds no stream: .*{rule}") as caught:
        stream_format.read_stream(forged, "file")
    assert str(ROWS) not in str(caught.value)  # how many rows there are is private


def test_charges_are_counted_in_time_that_grows_with_the_file(states):
    """Many cohorts, and many charges of all: not one step for each pair of them."""
    stream, _ = stream_format.read_stream(states["classes"], "file")
    size = next(u for u in stream.log if isinstance(u, Start)).loss.size
    tables = (np.zeros((1, 3, size), dtype=np.int32),) * 20_000
    told = [u for u in stream.log if isinstance(u, Start | OpenBudgets)]
    told.append(Price(0, tables))
    told += [Charge(0, 0)] * 20_000
    begun = time.process_time()
    with pytest.raises(ModelFileError, match="charged for more"):
        check_log(tuple(told), stream.encoder, False, [20_000] * 19_999 + [19_999], FULL_RANGE)
    check_log(tuple(told), stream.encoder, False, [20_000] * 20_000, FULL_RANGE)
    assert time.process_time() - begun < 12


def test_only_cohorts_that_have_a_price_pay_it(states):
    stream, _ = stream_format.read_stream(states["classes"], "file")
    used = [cohort.used for cohort in stream.cohorts]
    assert used[0] > used[1]
    for fewer in ([used[0] - 1, used[1]], [used[0], used[1] - 1]):
        with pytest.raises(ModelFileError, match="charged for more"):
            check_log(stream.log, stream.encoder, False, fewer, FULL_RANGE)


@pytest.mark.parametrize("kind", [SBDTClassifier, SBDTRegressor])
def test_a_stream_keeps_all_parameters_but_those_of_a_run(kind):
    of_a_run = {"epsilon", "delta", "domain", "domain_given", "domain_rows", "random_state"}
    of_a_run |= {"n_jobs", "backend", "ledger", "budget", "verbose", "public_rows"}
    of_a_run |= {"loss", "class_weight"}  # a stream has one loss, and no weights of classes
    of_a_run |= {"classes"}  # which its domain has
    of_a_run |= {"power", "quantile"} & set(kind().get_params())
    assert set(kind().get_params()) == STREAM_PARAMETERS | of_a_run
    assert not STREAM_PARAMETERS & of_a_run


@pytest.mark.parametrize(
    "ends", [lambda a: a[::-1].copy(), lambda a: a + 1, lambda a: a - a[0] - 1]
)
def test_names_of_units_stay_within_their_bytes(states, ends):
    content = stream_format._unpacked(stream_format.STREAM_FILE.unseal(states["units"], ""))
    form = codec.load(content, stream_format._MAGIC)
    form["cohorts"][0]["units"]["ends"] = ends(form["cohorts"][0]["units"]["ends"])
    packed = stream_format._packed(write(form, stream_format._MAGIC))
    forged = stream_format.STREAM_FILE.seal(packed)
    with pytest.raises(ModelFileError, match="units"):
        stream_format.read_stream(forged, "file")


def test_chances_add_up_however_small_all_are(models):
    def change(form):
        form["scores"]["values"][0] = np.full_like(form["scores"]["values"][0], -(2**30))

    assert try_model(altered(models["additive"], change))
