"""Files and messages that release 0.1.0 wrote are read, and mean what they meant."""

import json
import shutil

import pytest

import privboost
from privboost import BudgetStore, Domain, Evaluation, PrivacyReport, SBDTClassifier
from privboost.engine.protocol import Message
from privboost.engine.queries import Query
from privboost.engine.updates import Update
from tests.stored import FOLDER
from tests.tables import make_frame

FORMATS = FOLDER / "0.1.0" / "formats"
MESSAGES = sorted(FORMATS.glob("*.message"))


def test_domain():
    domain = Domain.from_json(FORMATS / "domain.json")
    assert domain.to_dict() == json.loads((FORMATS / "domain.json").read_text())
    assert domain.unit.column == "person"


def test_report():
    text = (FORMATS / "report.json").read_text()
    report = PrivacyReport.from_dict(json.loads(text))
    assert json.loads(report.to_json()) == json.loads(text)
    assert report.epsilon <= 1


def test_evaluation():
    path = FORMATS / "evaluation.json"
    assert json.loads(Evaluation.from_json(path).to_json()) == json.loads(path.read_text())


def test_stream(tmp_path):
    shutil.copy(FORMATS / "stream", tmp_path)
    model = SBDTClassifier(random_state=1).load_stream(tmp_path / "stream")
    before = model.model_.privacy.epsilon
    model.partial_fit(make_frame(50, 2))
    assert model.model_.privacy.epsilon >= before


def test_account_and_ledger(tmp_path):
    for name in ("store.db", "ledger.jsonl"):
        shutil.copy(FORMATS / name, tmp_path)
    account = BudgetStore(tmp_path / "store.db").account("visits")
    assert len(account.balance().entries) == 1
    domain = Domain.from_json(FORMATS / "domain.json")
    model = SBDTClassifier(
        0.5, 1e-6, domain, n_estimators=2, ledger=tmp_path / "ledger.jsonl", budget=account
    )
    model.fit(make_frame(50))
    assert len(account.balance().entries) == 2
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) > 4


@pytest.mark.parametrize("path", MESSAGES, ids=lambda path: path.stem)
def test_message(path):
    data = path.read_bytes()
    assert Message.from_bytes(data).to_bytes() == data
    assert isinstance(Message.from_bytes(data), Query | Update)


def test_every_format_is_stored():
    assert len(MESSAGES) == 12
    assert privboost.__version__ >= "0.1.0"
