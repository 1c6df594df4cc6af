"""No exact count, sum, key or row in what an evaluation says, records or warns of."""

import io
import logging
import pickle
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout

import pytest

from privboost import PrivBoostClassifier, PrivBoostRegressor, evaluate
from privboost.engine.backend import LocalBackend
from privboost.randomness.keystream import KeyStream
from tests.tables import CLASSES, NUMBER, make_domain, make_frame, opens

ROWS = 7919
WORD = "whistleblower"


@pytest.mark.parametrize(
    ("kind", "target"), [(PrivBoostClassifier, CLASSES), (PrivBoostRegressor, NUMBER)]
)
def test_nothing_exact_leaves(kind, target, tmp_path, monkeypatch):
    sums, keys = [], []

    class Spy(LocalBackend):
        def sum(self, query):
            answer = super().sum(query)
            sums.extend(answer.reshape(-1).tolist())
            return answer

    model = kind(1.0, 1e-6, make_domain(target), n_estimators=3).fit(make_frame(500, 1, target))
    frame = make_frame(ROWS, target=target)
    frame.loc[6, ["job", "place", "person"]] = WORD
    plain = KeyStream.__init__

    def spy_on_keys(self, key):
        keys.append(key)
        plain(self, key)

    monkeypatch.setattr(KeyStream, "__init__", spy_on_keys)
    monkeypatch.setattr(KeyStream, "secure", lambda: KeyStream.seeded(2))
    ledger, out, log = tmp_path / "ledger", io.StringIO(), io.StringIO()
    logging.basicConfig(stream=log, level=logging.INFO, force=True)
    with redirect_stdout(out), redirect_stderr(out), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        found = evaluate(
            model, frame, epsilon=0.5, by=["job", "place"], ledger=ledger, backend=opens(Spy)
        )
    assert not warned
    assert out.getvalue() + log.getvalue() == ""
    said = {
        "json": found.to_json(),
        "text": str(found),
        "page": found._repr_html_(),
        "report": str(found.privacy) + found.privacy.to_html(),
        "ledger": ledger.read_text(),
    }
    large = {abs(value) for value in sums if abs(value) > 2**16}
    assert len(large) > 30
    counts = {value // 2**16 for value in large if value % 2**16 == 0 and value > 1000 * 2**16}
    for place, text in said.items():
        numbers = set(
            map(int, re.findall(r"(?<![\d.])\d+(?![\d.])", re.sub("[0-9a-f]{64}", "", text)))
        )
        assert not numbers & (large | counts | {ROWS}), place
        assert WORD not in text
    whole = pickle.dumps(found)
    assert WORD.encode() not in whole
    assert len(keys) >= 2
    for key in keys:
        assert key not in whole
        assert all(key.hex() not in text for text in said.values())
