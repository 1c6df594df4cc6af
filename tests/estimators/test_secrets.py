"""No exact count, sum, key or row in models, pickles, logs, reports, ledgers or errors."""

import io
import logging
import pickle
import re
import struct
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    DPXGBClassifier,
    LazyBBClassifier,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SarusXGBRegressor,
    SBDTClassifier,
)
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import VoteCounts
from privboost.models.model import model_bytes
from privboost.randomness.keystream import KeyStream
from tests.tables import CLASSES, NUMBER, make_domain, make_frame, opens

ROWS = 7919
CELL = 54321.98765
WORD = "whistleblower"


CASES = {
    "classes": (PrivBoostClassifier, CLASSES, {}),
    "number": (PrivBoostRegressor, NUMBER, {}),
    "random trees": (SBDTClassifier, CLASSES, {"extra_estimators": 10, "candidates": "hessian"}),
    "greedy trees": (DPXGBClassifier, CLASSES, {"max_depth": 3, "accountant": "rdp"}),
    "pure trees": (SarusXGBRegressor, NUMBER, {"max_depth": 3, "delta": 0.0}),
    "votes": (LazyBBClassifier, CLASSES, {"density": 0.3, "accountant": "rdp"}),
    "linear": (BoostedAdaSSPClassifier, CLASSES, {"class_weight": "balanced"}),
}


@pytest.fixture(params=CASES, ids=str)
def traces(request, monkeypatch, tmp_path):
    """Fit with spies on rows and keys; return every place that could leak, and the secrets."""
    secrets = {"sums": set(), "votes": [], "keys": []}

    class Spy(LocalBackend):
        def sum(self, query):
            answer = super().sum(query)
            if isinstance(query, VoteCounts):
                # Counts with few bits stand in look-ups by chance.
                large = answer[answer > 1000].tolist()
                secrets["votes"] += [v for v in large if (v & 255).bit_count() > 2]
                return answer
            found = (int(v) for v in answer.reshape(-1) if abs(v) > 2**20)
            # Small counts are round numbers, whose bytes stand in many an array by chance.
            secrets["sums"].update(v for v in found if v % 2**16 or abs(v) > 2**28)
            return answer

    plain = KeyStream.__init__

    def spy_on_keys(self, key):
        secrets["keys"].append(key)
        plain(self, key)

    monkeypatch.setattr(KeyStream, "__init__", spy_on_keys)
    # The same noise each time, so that the test is; the estimator takes it for secure.
    monkeypatch.setattr(KeyStream, "secure", lambda: KeyStream.seeded(2))
    kind, target, how = CASES[request.param]
    frame = make_frame(ROWS, target=target)
    frame.loc[5, "gain"] = CELL
    frame.loc[6, ["job", "place", "person"]] = WORD
    unit = {"column": "person", "max_rows": 1000} if kind is not LazyBBClassifier else None
    ledger = tmp_path / "ledger.jsonl"
    settings = {"delta": 1e-6, "n_estimators": 30, "ledger": ledger, "verbose": 1} | how
    model = kind(1.0, domain=make_domain(target, unit), backend=opens(Spy), **settings)
    out, log = io.StringIO(), io.StringIO()
    logging.basicConfig(stream=log, level=logging.DEBUG, force=True)
    with redirect_stdout(out), redirect_stderr(out), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model.fit(frame)
    model.save(tmp_path / "model")
    # The backend given by the test holds no rows itself; it is not part of what is searched.
    model.set_params(backend="auto")
    report = model.privacy_
    places = {
        "model file": (tmp_path / "model").read_bytes(),
        "pickle": pickle.dumps(model),
        "ledger": ledger.read_bytes(),
        "report": (str(report) + report.to_json() + report.to_html()).encode(),
        "repr": (repr(model) + repr(model.model_)).encode(),
        "attributes": repr(vars(model)).encode(),
        "screen": out.getvalue().encode(),
        "log": log.getvalue().encode(),
        "warnings": " ".join(str(w.message) for w in warned).encode(),
    }
    assert places["screen"]
    return places, secrets, frame


def search(places, *needles):
    return [
        (place, needle) for place, text in places.items() for needle in needles if needle in text
    ]


def test_no_key(traces):
    places, secrets, _ = traces
    keys = [form for key in secrets["keys"] for form in (key, key.hex().encode())]
    assert len(keys) > 30
    assert len(set(keys)) == len(keys)
    assert search(places, *keys) == []


def test_no_exact_sum(traces):
    places, secrets, _ = traces
    sums = sorted(secrets["sums"] | set(secrets["votes"]))
    assert len(sums) > 15
    assert (
        search(places, *(f for s in sums for f in (struct.pack("<q", s), struct.pack("<d", s))))
        == []
    )
    written = {place: set(re.findall(rb"\d+", text)) for place, text in places.items()}
    texts = {str(abs(s)).encode() for s in sums}
    assert {place: found & texts for place, found in written.items() if found & texts} == {}


def test_no_count(traces):
    places, _, frame = traces
    counts = {ROWS, *frame["job"].value_counts(), *frame["income"].value_counts().head(2)}
    counts = {int(count) for count in counts if count > 1000}
    text = {place: re.sub(rb"[0-9a-f]{64}|\d\.\d+|\.\d+", b"", t) for place, t in places.items()}
    words = [rb"(?<!\d)%d(?!\d)" % count for count in counts]
    words += [re.escape(struct.pack("<q", count)) for count in counts]
    assert [(p, w) for p, t in text.items() for w in words if re.search(w, t)] == []


def test_no_row(traces):
    places, _, _ = traces
    cell = struct.pack("<d", CELL)
    assert search(places, cell, str(CELL).encode(), WORD.encode()) == []


def test_no_time_host_or_thread_in_a_model():
    import getpass
    import socket
    import time

    year = time.strftime("%Y").encode()
    data = model_bytes(
        PrivBoostClassifier(1.0, 1e-6, make_domain(), n_estimators=3, random_state=1)
        .fit(make_frame(30))
        .model_
    )
    for word in (year, socket.gethostname().encode(), getpass.getuser().encode(), b"n_jobs"):
        assert len(word) < 3 or word not in data


@pytest.mark.parametrize("broken", ["X", "y", "weight", "schema"])
def test_errors_tell_no_count(broken):
    frame = make_frame(ROWS)
    y, weight = frame["income"], frame["weight"]
    X = frame.drop(columns=["income", "weight"])
    if broken == "X":
        X = X.iloc[1:]
    elif broken == "y":
        y = y.iloc[1:]
    elif broken == "weight":
        weight = weight.iloc[1:]
    else:
        X = X.drop(columns="age")
    model = PrivBoostClassifier(1.0, 1e-6, make_domain(), sample_weight_bound=1.0)
    with pytest.raises(ValueError, match=r".") as caught:
        model.fit(X, y, weight)
    assert not re.search(r"79\d\d", str(caught.value))


def test_the_search_finds_what_is_planted():
    """The twin: a report that quotes an exact sum would be found."""
    total = int(np.int64(123456789012))
    places = {"report": b"sum %d" % total, "file": struct.pack("<q", total)}
    found = search(places, str(total).encode(), struct.pack("<q", total))
    assert [place for place, _ in found] == ["report", "file"]
