"""What a party refuses, by which rule, and what it tells nobody."""

import json
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

from privboost import (
    BoostedAdaSSPClassifier,
    BudgetError,
    BudgetStore,
    DomainError,
    Federation,
    FederationError,
    LazyBBClassifier,
    Party,
    PrivBoostClassifier,
    PrivBoostRegressor,
    SBDTClassifier,
    evaluate,
)
from privboost.accounting.events import Planned
from privboost.data.encoding import Encoder
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import (
    GRADIENT_COUNT,
    CellSums,
    NodeHistograms,
    PredictionSums,
    ScoreCounts,
    TreeSums,
)
from privboost.engine.updates import Charge, OpenBudgets, Start, UsePart
from privboost.federated import federation as preparation
from privboost.federated import handshake
from privboost.federated.aggregation import Quorum
from privboost.federated.coordinator import Session
from privboost.federated.crypto import Channel, KeyPair
from privboost.federated.messages import byte_array
from privboost.federated.transport import InProcess
from privboost.randomness.sampling import Sample
from privboost.trees.cell_map import CellMap
from privboost.trees.tree import stump
from tests.federated.parties import (
    ALLOWED,
    SECURE,
    agree,
    bring,
    entries,
    federate,
    make_parties,
    open_account,
    same_model,
)
from tests.tables import FEATURES, NUMBER, make_domain, make_frame

FRAME = make_frame(300)
NUMBERS = make_frame(300, target=NUMBER)
UNCOVERED = r"budget: this party's account does not cover it[;)]"
"""All that a coordinator is told of an account."""
REPLACE = {"filter": "renyi", "relation": "replace-one"}


def make(kind=SBDTClassifier, **how):
    settings = {"n_estimators": 3, "max_depth": 2, "random_state": 7, "calibration_share": 0}
    return kind(1.0, 1e-6, make_domain(), **(settings | how))


def refused(federation, rule, **how):
    with pytest.raises(FederationError, match=rule):
        make(**how).fit(federation)


def test_one_that_refuses_is_named_with_the_rule():
    parties = make_parties(FRAME, 3)
    agree(parties[1], domain=make_domain({"name": "income", "classes": ["low", "top"]}))
    refused(bring(parties), "'p1': domain: the offer has another one than this party")
    agree(parties[1], domain=make_domain(unit={"column": "person", "max_rows": 3}))
    refused(bring(parties), "'p1': unit: the offer bounds units by another rule")
    agree(parties[1], domain=make_domain())
    make().fit(bring(parties))


class Absent(InProcess):
    """Somebody who has said a party's name, and has no key: it answers nothing that can be read."""

    def gather(self, requests):
        for name, reply in super().gather(requests):
            yield name, b"hello" if name == "p3" else reply


@pytest.mark.parametrize("transport", [InProcess, Absent])
def test_nobody_spends_before_all_have_agreed(transport):
    """Also where one party may be lost: that is for those who are lost afterwards."""
    parties = make_parties(FRAME, 4, {})
    if transport is InProcess:
        agree(parties[3], domain=make_domain(unit={"column": "person", "max_rows": 3}))
    federation = bring(parties, dropouts=1, transport=transport)
    reason = "unit: the offer bounds" if transport is InProcess else "no answer came"
    with pytest.raises(FederationError, match=f"3 of 4 parties are left, and 4 .*'p3': {reason}"):
        make(random_state=None).fit(federation)
    assert [entries(party) for party in parties] == [0, 0, 0, 0]


def test_a_coordinator_cannot_begin_with_fewer(monkeypatch):
    """It lists all but one of those that were agreed on: parties refuse, and nothing is spent."""
    parties = make_parties(FRAME, 4, {})
    federation = bring(parties, dropouts=1)
    plain = Session.begin

    def lying(self):
        self._active.pop()
        plain(self)

    monkeypatch.setattr(Session, "begin", lying)
    with pytest.raises(FederationError, match="'p0': session: it begins with all parties"):
        make(random_state=None).fit(federation)
    assert [entries(party) for party in parties] == [0, 0, 0, 0]


def test_another_version(monkeypatch):
    federation = federate(FRAME, 3)
    monkeypatch.setattr(handshake, "__version__", "9.9")
    refused(federation, r"'p0': version: '0\.1\.0' there, and '9\.9' here")


def test_keys_that_do_not_match():
    parties = make_parties(FRAME, 3)
    federation = bring(parties)
    parties[2]._pins["p0"] = KeyPair().public
    refused(federation, "'p2': keys: 'p0' has another key than the one pinned here")
    parties = make_parties(FRAME, 3)
    federation = bring(parties)
    parties[2].identity = KeyPair()
    refused(federation, "'p2': no answer came that it can have sealed")
    stranger = Federation(
        KeyPair(), {p.name: p.identity.public for p in parties}, InProcess(parties)
    )
    refused(stranger, "'p0': no answer came that it can have sealed")
    assert parties[0].receive(b"hello") == b""


@pytest.mark.parametrize(
    "own",
    [
        {"public_rows": True, "epsilon": "Infinity"},
        {"ledger": "/tmp/elsewhere"},
        {"domain_given": "/etc/passwd"},
        {"budget": "store.db"},
        {"random_state": 7},
        {"backend": "dask"},
    ],
)
def test_a_coordinator_does_not_decide_what_concerns_a_party_alone(monkeypatch, own):
    told = preparation.shared_parameters
    monkeypatch.setattr(preparation, "shared_parameters", lambda given: told(given) | own)
    refused(federate(FRAME, 3), "'p0': agreement: parameters that concern one end alone")


def test_a_seed_needs_consent_and_a_number_of_rows_too():
    refused(federate(FRAME, 3, {"account": {}}), "seed: a seeded run protects nobody")
    secure = LazyBBClassifier(2.0, 0.0, make_domain())
    with pytest.raises(FederationError, match="'p0': rows: their number is private here"):
        secure.fit(federate(FRAME, 3, {"account": REPLACE, "tell_rows": False}))
    accounts = {"account": REPLACE}
    assert secure.fit(federate(FRAME, 3, accounts)).privacy_.guarantee.startswith(
        "2-differential privacy"
    )


def test_a_plan_is_priced_by_the_party_itself():
    """What its account does not cover is refused before anything is spent by anybody."""
    said = []
    how = SECURE | {"tell": said.append}
    parties = make_parties(FRAME, 3, {}, tell=said.append)
    strict = Party("strict", FRAME.iloc[:5], open_account(0.5, 1e-6), **how)
    secure = make(random_state=None)
    with pytest.raises(FederationError, match=f"'strict': {UNCOVERED}"):
        secure.fit(bring([*parties, strict]))
    assert re.match(r"refused: the account of .* does not cover this", said[-1])
    named = Party("strict", FRAME.iloc[:5], open_account(unit="person"), **how)
    with pytest.raises(FederationError, match=r"'strict': unit: this .* protects another one\)"):
        secure.fit(bring([*parties, named]))
    assert re.search(r"protects all rows of one person; .* one row", said[-1])
    sampled = make(random_state=None, subsample=0.5)
    with pytest.raises(FederationError, match=f"'p0': {UNCOVERED}"):
        sampled.fit(bring(parties))
    assert said[-1].startswith("refused: this account was opened for Gaussian noise")
    assert [entries(party) for party in (*parties, strict, named)] == [0] * 5


def test_runs_about_other_neighbours_do_not_add_up():
    """Adding or removing a row at 1, and replacing one at .999: about 3, where 2 is allowed."""
    first = make(random_state=None)
    second = LazyBBClassifier(0.999, 0.0, make_domain())
    about_rows = make_parties(FRAME, 3, {"epsilon": 2.0, "delta": 1e-5, "filter": "renyi"})
    first.fit(bring(about_rows))
    said = []
    about_rows[0]._listener = said.append
    with pytest.raises(FederationError, match=f"'p0': {UNCOVERED}"):
        second.fit(bring(about_rows))
    assert "a run about replace one protected unit does not add up" in said[-1]
    replacing = make_parties(FRAME, 3, {"epsilon": 2.0, "delta": 1e-5} | REPLACE)
    second.fit(bring(replacing))
    with pytest.raises(FederationError, match=f"'p0': {UNCOVERED}"):
        first.fit(bring(replacing))
    assert [entries(party) for party in (*about_rows, *replacing)] == [1] * 6


def test_an_account_is_for_life(tmp_path):
    """Another process goes on from what was spent, and no crash is a run for nothing."""
    store, others = BudgetStore(tmp_path / "store.db"), make_parties(FRAME, 2, {})
    store.open("rows", 1.7, 1e-5)
    secure, path = make(random_state=None), tmp_path / "ledger.jsonl"

    def lone():
        return Party("p9", FRAME.iloc[:9], store.account("rows"), ledger=path, **SECURE)

    done = 3  # of Gaussian noise, squares add up
    for _ in range(done):
        one = lone()
        secure.fit(bring([*others, one]))
        one.close()
        with path.open("ab") as file:  # what a crash leaves behind
            file.write(b'{"entry": "cha')
    with pytest.raises(FederationError, match=f"'p9': {UNCOVERED}"):
        secure.fit(bring([*others, lone()]))
    statement = store.account("rows").balance()
    assert len(statement.entries) == done
    assert statement.epsilon <= 1.7
    assert {entry.what for entry in statement.entries} == {"SBDTClassifier"}
    lines = [line for line in path.read_text().splitlines() if line.endswith("}")]
    kinds = [json.loads(line)["entry"] for line in lines]
    assert [kinds.count(kind) for kind in ("reserve", "charge")] == [done, 4 * done]


def test_a_ledger_that_counts_runs_is_refused(tmp_path):
    """It was a party's budget before there were accounts: to go on would forget what it says."""
    old = tmp_path / "north.ledger"
    run = b'{"entry": "run", "epsilon": 1.0, "delta": 1e-06}\n'
    old.write_bytes(run + b'{"entry": "reserve"}\n{"entry": "ch\n' + run)
    with pytest.raises(BudgetError, match=r"runs of an earlier version, of epsilon 2 and delta 2e"):
        Party("p", FRAME, open_account(), ledger=old)
    assert old.read_bytes().startswith(run)
    old.write_bytes(b'{"entry": "run", "epsi')  # it never took effect
    Party("p", FRAME, open_account(), ledger=old)
    other = tmp_path / "table.csv"
    other.write_text("a,b")
    with pytest.raises(ValueError, match="is no ledger"):
        Party("p", FRAME, open_account(), ledger=other)
    assert other.read_text() == "a,b"


@pytest.mark.parametrize(
    "line",
    [
        b'{"entry": "run", "epsilon": 1.0, "delta": 1e-6}{"entry": "charge"}',
        b'\0\0{"entry": "run", "epsilon": 1.0, "delta": 1e-6}',
        b'{"entry": "run", "epsilon": 1.0, "delta": 1e-6, "who": "M\xfcller"}',
        b'{"entry": "run", "epsilon": 1.0, "delta": 1e-6}\x0b',
        b'{"entry": "run", "epsilon: 1.0, "delta": 1e-6}',
        b'{"entry": "run", "epsilon\0\0\0\0',
        b'["run"]',
        b"3",
    ],
)
def test_a_line_of_a_ledger_that_cannot_be_read_is_no_line_without_a_run(line, tmp_path):
    path = tmp_path / "north.ledger"
    before = b'{"entry": "reserve"}\n{"entry": "ch\n'  # cut short, then gone on with
    path.write_bytes(before + line + b"\n" + b'{"entry": "charge"}\n')
    with pytest.raises(BudgetError, match=r"line 3 of .* cannot be read"):
        Party("p", FRAME, open_account(), ledger=path)
    for epsilon in (b"null", b'"much"', b"Infinity"):
        path.write_bytes(before + b'{"entry": "run", "epsilon": %b, "delta": 1}\n' % epsilon)
        with pytest.raises(BudgetError, match="runs of an earlier version"):
            Party("p", FRAME, open_account(), ledger=path)
    path.write_bytes(before)
    Party("p", FRAME, open_account(), ledger=path)


class Telling(Party):
    """A party that answers what it likes when it is asked for its rows."""

    def _read_letter(self, body):
        return self.reply | {"stage": body["stage"]}


class Crowded(InProcess):
    """A network on which somebody answers whom nobody has asked."""

    def gather(self, requests):
        yield "nobody", b"hello"
        yield from super().gather(requests)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"rule": "\x1b[2Jgone" + "x" * 9999}, r"^'p': \?\[2Jgonex{100,995}$"),
        ({"rule": 3}, "rule must be a string"),
        ({"rows": None}, "rows must be an integer"),
        ({"rows": 3, "to": np.zeros(3, dtype=np.uint8)}, "not every party has revealed"),
        ({"rows": 3, "to": None}, "not every party has revealed"),
    ],
)
def test_whatever_a_party_says_of_its_rows_is_read_with_care(reply, words):
    party = Telling("p", FRAME, **ALLOWED)
    party.reply = reply
    federation = bring([party, *make_parties(FRAME, 2)], transport=Crowded)
    with pytest.raises(FederationError, match=words):
        federation.count_rows()
    assert bring(make_parties(FRAME, 2), transport=Crowded).count_rows() == len(FRAME)


def test_a_party_has_an_account_or_protects_nobody():
    for how in ({}, {"budget": open_account(), "accept_seed": True}):
        with pytest.raises(ValueError, match=r"an account .* or takes part in seeded runs"):
            Party("p", FRAME, **how)
    with pytest.raises(TypeError, match="budget must be the account"):
        Party("p", FRAME, 1.0)
    parties = make_parties(FRAME, 3)
    with pytest.raises(FederationError, match="'p0': budget: this party has no account"):
        make(random_state=None).fit(bring(parties))


def test_a_store_that_cannot_be_used_is_the_partys_own_affair(tmp_path):
    said = []
    store = BudgetStore(tmp_path / "store.db")
    parties = make_parties(FRAME, 2, {})
    broken = Party("p2", FRAME, store.open("rows", 2.0, 1e-5), tell=said.append, **SECURE)
    (tmp_path / "store.db").write_bytes(b"x" * 4096)
    with pytest.raises(FederationError, match="'p2': failure: StoreError") as error:
        make(random_state=None).fit(bring([*parties, broken]))
    assert str(tmp_path) not in str(error.value)
    assert any(str(tmp_path) in words for words in said)


def test_another_schema_or_no_rows():
    parties = make_parties(FRAME, 3)
    parties[0]._rows = FRAME.drop(columns="age")
    said = []
    parties[0]._listener = said.append
    refused(bring(parties), r"'p0': columns: the table lacks what the domain names\)")
    assert "age" in said[-1]
    empty = make_parties([FRAME, FRAME.iloc[:0], FRAME.iloc[:0]], 3)
    assert same_model(make().fit(FRAME).model_, make().fit(bring(empty)).model_)
    make(random_state=None).fit(bring(make_parties([FRAME.iloc[:0]] * 3, 3, {})))


def test_another_plan_is_refused(monkeypatch):
    federation = federate(FRAME, 3)
    session = federation.session

    def tampered(agreement):
        more = dict(agreement.parameters) | {"n_estimators": 4}
        return session(replace(agreement, parameters=more))

    monkeypatch.setattr(federation, "session", tampered)
    refused(federation, "'p0': plan: it is another one here")


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"estimator": "Evil"}, "'p2': estimator: there is none"),
        ({"parameters": {"no_such": 1}}, "'p2': plan: .*no_such"),
        ({"parameters": {"n_estimators": -1}}, "'p2': plan: n_estimators"),
        ({"colluders": 3}, "quorum: "),
        ({"dropouts": 2}, "quorum: "),
        ({"trust": "nobody"}, "'p2': agreement: not one"),
    ],
)
def test_an_odd_offer_is_refused_by_every_party(change, rule, monkeypatch):
    federation = federate(FRAME, 3)
    session = federation.session
    monkeypatch.setattr(federation, "session", lambda made: session(replace(made, **change)))
    refused(federation, rule)


def open_run(estimator, federation):
    """A run whose parties are there, for a server that asks for more than it should."""
    run = estimator._prepare(federation, None, None).run()
    return run, run.load.source.open_backend([])


def start(run, backend):
    backend.apply(Start(run.plan.loss, 1))


ONE = CellMap.of_feature(0, np.arange(Encoder.of(make_domain()).layout.n_codes[0]) % 5)


def test_no_query_beyond_the_plan():
    run, backend = open_run(make(init_share=0), federate(FRAME, 3))
    start(run, backend)
    query = TreeSums((stump(),))
    for _ in range(3):
        backend.sum(query, run.plan.leaf)
    with pytest.raises(FederationError, match="'p0': not reserved, or spent already"):
        backend.sum(query, run.plan.leaf)


@pytest.mark.parametrize(
    "query",
    [
        TreeSums((stump(), stump())),
        CellSums(CellMap.side_by_side([ONE, ONE])),
        NodeHistograms(stump(), ONE, statistics=("hessian",)),
        TreeSums((stump(),), sample=Sample(np.zeros(32, dtype=np.uint8), 0.5)),
    ],
    ids=["trees", "parts", "statistics", "sample"],
)
@pytest.mark.parametrize("trust", ["server", "distributed"])
def test_no_query_that_reveals_more_than_its_event(query, trust):
    run, backend = open_run(make(init_share=0), federate(FRAME, 3, trust=trust))
    start(run, backend)
    with pytest.raises(FederationError, match=r"'p0': (plan: the event|plan: a|samples)"):
        backend.sum(query, run.plan.leaf)


def test_no_event_that_the_plan_has_not():
    run, backend = open_run(make(init_share=0), federate(FRAME, 3))
    start(run, backend)
    little = replace(run.plan.leaf, noise=1e-3)
    with pytest.raises(FederationError, match="'p0': not reserved"):
        backend.sum(TreeSums((stump(),)), little)
    with pytest.raises(FederationError, match="on account of a release"):
        backend.sum(TreeSums((stump(),)))
    with pytest.raises(FederationError, match="learns none"):
        backend.tally()


def test_nobody_else_charges_rows_or_tells_them_odd_things():
    for note in (
        {"update": byte_array(Charge(0).to_bytes())},
        {"update": np.zeros(3, dtype=np.uint8)},
        {"odd": 1},
        {},
    ):
        run, backend = open_run(make(init_share=0), federate(FRAME, 3))
        run.load.source.session.note(note)
        with pytest.raises(FederationError, match=r"'p0': (failure: ValueError|messages: )"):
            backend.sum(TreeSums((stump(),)), run.plan.leaf)


@pytest.mark.parametrize("trust", ["server", "distributed"])
def test_rows_with_budgets_are_asked_at_their_own_states_alone(trust):
    """A server would have rows pay at one state, and add what stands at another."""
    run, backend = open_run(make(init_share=0, extra_estimators=9), federate(FRAME, 3, trust=trust))
    start(run, backend)
    backend.apply(OpenBudgets())
    backend.sum(TreeSums((stump(),)), run.plan.leaf)
    with pytest.raises(FederationError, match="their own states only"):
        backend.sum(PredictionSums(np.zeros(0, dtype=np.int32), 1), run.plan.leaf)


def test_an_exchange_that_costs_more_is_refused():
    run, backend = open_run(
        PrivBoostClassifier(1.0, 1e-6, make_domain(), random_state=7), federate(FRAME, 3)
    )
    dear = replace(run.plan.reserved_release, noise=run.plan.reserved_release.noise / 2)
    backend.exchange(run.plan.reserved_release, [Planned(dear, 1)])
    start_table = run.plan.task.table(1.0, 1.0)
    backend.apply(Start(start_table, 1))
    with pytest.raises(FederationError, match="'p0': the plan needs more than was reserved"):
        backend.sum(TreeSums((stump(),), 0, GRADIENT_COUNT), run.plan.init_release)


class Wrong(Party):
    """A party that answers with something else."""

    wrong = None

    def _follow(self, body):
        reply = super()._follow(body)
        return {name: self.wrong.get(name, value) for name, value in reply.items()}


@pytest.mark.parametrize(
    "wrong",
    [
        {"words": np.zeros(1, dtype=np.uint64)},
        {"words": np.zeros(4)},
        {"words": None},
        {"round": 99},
        {"stage": "odd"},
        {"opened": {"of": np.zeros(1, dtype=np.int32), "bytes": np.zeros((1, 3), dtype=np.uint8)}},
        {
            "opened": {
                "of": np.arange(2, dtype=np.int32),
                "bytes": np.zeros((1, 33), dtype=np.uint8),
            }
        },
        {"tags": {"of": np.zeros(1, dtype=np.int32), "bytes": np.zeros((1, 16), dtype=np.uint8)}},
        {"opened": [1]},
        {"lids": np.zeros((1, 1), dtype=np.uint8)},
        {"sealed": {}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_party_that_answers_wrongly_stops_nobody(wrong):
    parties = make_parties(FRAME, 4)
    bad = Wrong("bad", FRAME.iloc[:50], **ALLOWED)
    bad.wrong = wrong
    federation = bring([*parties, bad], dropouts=1)
    with pytest.warns(UserWarning, match="'bad' was lost"):
        make().fit(federation)
    assert list(federation.last.lost) == ["bad"]


def test_what_does_not_go_with_a_federation():
    federation = federate(FRAME, 3)
    with pytest.raises(DomainError, match="a federation learns none"):
        SBDTClassifier(1.0, 1e-6).fit(federation, "income")
    with pytest.raises(BudgetError, match="public_rows"):
        make(random_state=None).set_params(epsilon=math.inf, public_rows=True).fit(federation)
    with pytest.raises(FederationError, match="y: it lies with the parties"):
        make().fit(federation, [1, 2])
    with pytest.raises(ValueError, match="backend must be"):
        make(backend=lambda loads: None).fit(federation)
    with pytest.raises(FederationError, match="can be fitted"):
        make().partial_fit(federation)
    model = make().fit(FRAME).model_
    with pytest.raises(FederationError, match="can be fitted"):
        evaluate(model, federation, epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="trust"):
        federate(FRAME, 3, trust="nobody")
    with pytest.raises(ValueError, match="one name"):
        bring([*make_parties(FRAME, 2), *make_parties(FRAME, 2)])
    for name in ("coordinator", "", 3):
        with pytest.raises(ValueError, match="a party has a name"):
            Party(name, FRAME, accept_seed=True)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(make_parties(FRAME, 2)[0])


class Listening(InProcess):
    """Keeps all that is carried."""

    def __init__(self, parties):
        super().__init__(parties)
        self.heard = []

    def gather(self, requests):
        self.heard += requests.values()
        for name, reply in super().gather(requests):
            self.heard.append(reply)
            yield name, reply


def test_the_network_reads_nothing():
    """Neither names of columns nor words of messages stand in what is carried, nor any sum."""
    network = []

    def listen(parties):
        network.append(Listening(parties))
        return network[0]

    make().fit(federate(FRAME, 3, transport=listen))
    heard = b"".join(network[0].heard)
    assert len(heard) > 10_000
    for word in (*FEATURES, "stage", "sum", "survivors", "p1", "PVBFED02"):
        assert word.encode() not in heard or len(word) < 4


def test_sums_reach_the_server_under_masks_alone(monkeypatch):
    """All that the coordinator can read is searched for each party's own sums."""
    own, read = [], []
    plain_sum, plain_open = LocalBackend.sum, Channel.open

    def spy_on_sums(self, query):
        answer = plain_sum(self, query)
        own.append(answer.reshape(-1).copy())
        return answer

    def spy_on_messages(self, data):
        body = plain_open(self, data)
        read.append(body or {})
        return body

    monkeypatch.setattr(LocalBackend, "sum", spy_on_sums)
    monkeypatch.setattr(Channel, "open", spy_on_messages)
    make().fit(federate(FRAME, 4, dropouts=1))
    words = [body["words"] for body in read if "words" in body]
    assert len(words) == len(own) == 4 * 4
    secret = {int(value) for sums in own for value in sums if abs(value) > 2**16}
    assert len(secret) > 20
    assert not secret & {int(word) for sent in words for word in sent.view(np.int64)}


def test_each_release_has_a_sample_of_the_partys_own(monkeypatch):
    """Whatever a query names: one name for all of them would be one sample for all of them."""
    rows, used = FRAME.iloc[:100], []
    plain = LocalBackend.sum

    def spy(self, query):
        used.append(query.sample.key.tobytes())
        return plain(self, query)

    monkeypatch.setattr(LocalBackend, "sum", spy)
    for trust in ("server", "distributed"):
        for seed, different in ((7, 1), (None, 9)):
            account = {} if seed is not None else {"account": {"filter": "renyi"}}
            federation = federate([rows, rows, rows], 3, account, trust=trust)
            how = {"init_share": 0, "subsample": 0.5, "random_state": seed}
            run, backend = open_run(make(**how), federation)
            start(run, backend)
            sample = Sample(np.arange(32, dtype=np.uint8), 0.5)
            query = TreeSums((stump(),), statistics=run.plan.settings.statistics, sample=sample)
            used.clear()
            for _ in range(3):
                backend.sum(query, run.plan.leaf)
            assert (len(used), len(set(used))) == (9, different)
            assert (sample.key.tobytes() in used) == (seed is not None)


def test_a_sample_of_another_rate_is_refused():
    federation = federate(FRAME, 3)
    run, backend = open_run(make(init_share=0, subsample=0.5), federation)
    start(run, backend)
    sample = Sample(np.arange(32, dtype=np.uint8), 0.6)
    query = TreeSums((stump(),), statistics=run.plan.settings.statistics, sample=sample)
    with pytest.raises(FederationError, match="samples: the query has another rate"):
        backend.sum(query, run.plan.leaf)


ASIDE = {"conformal_fraction": 0.3, "n_estimators": 3, "interactions": False}


def put_aside(trust="server", **how):
    """A run whose parties put units aside, before they do."""
    federation = federate(NUMBERS, 3, {"account": {}} if "random_state" in how else {}, trust=trust)
    domain = make_domain(NUMBER)
    estimator = PrivBoostRegressor(1.0, 1e-6, domain, **{"random_state": 7} | ASIDE | how)
    return open_run(estimator, federation)


def ask_aside(run, backend):
    """Ask for the residuals of units put aside."""
    backend.apply(Start(run.plan.task.table(0.3, 1.0), 1))
    edges = np.array([100, 1000], dtype=np.int32)
    return backend.sum(ScoreCounts(edges, 1), run.plan.conformal_releases[0])


@pytest.mark.parametrize("trust", ["server", "distributed"])
def test_units_are_put_aside_by_coins_of_the_partys_own(trust, monkeypatch):
    """Whatever the server sends: who knows the coins knows who is in the intervals' part."""
    keys, plain = [], LocalBackend.apply

    def spy(self, update):
        if isinstance(update, UsePart):
            keys.append(update.put_aside.key.tobytes())
        return plain(self, update)

    monkeypatch.setattr(LocalBackend, "apply", spy)
    coins = Sample(np.arange(32, dtype=np.uint8), 0.3)
    for how, different in (({}, 1), ({"random_state": None}, 3)):
        run, backend = put_aside(trust, **how)
        for turned in (False, True):
            backend.apply(UsePart(coins, turned))
        keys.clear()
        ask_aside(run, backend)
        assert (len(keys), len(set(keys))) == (6, different)
        assert (coins.key.tobytes() in keys) == (not how)


@pytest.mark.parametrize("parts", [[], [False], [True], [False, False], [False, True, True]])
def test_a_server_that_does_not_put_units_aside_has_no_residuals(parts):
    run, backend = put_aside()
    for turned in parts:
        backend.apply(UsePart(Sample(np.arange(32, dtype=np.uint8), 0.3), turned))
    with pytest.raises(FederationError, match=r"'p0': (failure: ValueError|messages)"):
        ask_aside(run, backend)


def test_a_server_cannot_put_units_aside_after_training_or_at_another_rate():
    for rate in (0.3, 0.2):
        run, backend = put_aside()
        if rate == 0.3:
            backend.apply(Start(run.plan.task.table(0.3, 1.0), 1))
            release = replace(run.plan.reserved_release, what="measurement")
            run.load.source.session.exchange(run.plan.reserved_release, [Planned(release, 1)])
        backend.apply(UsePart(Sample(np.arange(32, dtype=np.uint8), rate), False))
        backend.apply(UsePart(Sample(np.arange(32, dtype=np.uint8), rate), True))
        with pytest.raises(FederationError, match=r"'p0': (failure: ValueError|not reserved)"):
            ask_aside(run, backend)


def offered(parties, names):
    """A federation whose coordinator lists what it likes as parties."""
    lead = KeyPair()
    keys = {party.name: party.identity.public for party in parties}
    for party in parties:
        party.pin({"coordinator": lead.public, **keys})
    made = Federation(lead, keys, InProcess(parties), 0, trust="server")
    made.parties = {name: key.hex() for name, key in names(lead.public, keys).items()}
    made.quorum = Quorum(len(made.parties))
    return made


@pytest.mark.parametrize(
    "names",
    [
        lambda lead, keys: {"p0": keys["p0"], "coordinator": lead},
        lambda lead, keys: {"p0": keys["p0"], "p1": keys["p0"]},
        lambda lead, keys: {"p0": keys["p0"], "p1": lead},
    ],
)
def test_a_coordinator_is_no_party_and_nobody_is_two(names):
    """Else it would open the sums of the only other one."""
    parties = make_parties(FRAME, 2)
    agreement = []

    class Offering(InProcess):
        def gather(self, requests):
            agreement.append(requests)
            return super().gather({"p0": requests["p0"]})

    federation = offered(parties, names)
    federation._transport = Offering(parties)
    refused(federation, "'p0': keys: every party has one of its own, and is no coordinator")


@pytest.mark.parametrize(
    ("consent", "quorum", "rule"),
    [
        ({"trust_server": False}, {}, "trust: this party trusts no server"),
        (
            {"colluders": 2},
            {"colluders": 1},
            "colluders: this party requires protection",
        ),
        ({"least_parties": 4}, {}, "parties: this party requires at least 4"),
    ],
)
def test_what_a_party_has_not_allowed(consent, quorum, rule):
    refused(federate(FRAME, 3, consent, **quorum), f"'p0': {rule}")


def test_by_default_a_party_wants_everybody_who_is_pinned():
    parties = make_parties(FRAME, 3, least_parties=None)
    bring(parties)
    federation = bring(parties[:2])
    for party in parties[:2]:
        party._pins["p2"] = parties[2].identity.public
    refused(federation, "'p0': parties: this party requires at least 3")


def test_a_column_of_weights_that_a_party_has_not_named():
    parties = make_parties(FRAME, 3, weight="other")
    with pytest.raises(FederationError, match="'p0': weight: this party has not named this column"):
        make(sample_weight_bound=2.0).fit(bring(parties), sample_weight="weight")


@pytest.mark.parametrize("rows", [0, 1, 50])
def test_after_a_refusal_a_session_is_over_whatever_the_rows(rows):
    """A loss beyond its clip is refused; what is asked next must not tell of rows."""
    cut_rows = [FRAME.iloc[:rows], *[FRAME.iloc[:0]] * 4]
    federation = federate(cut_rows, 5, {"account": {}}, trust="distributed", dropouts=1)
    run, backend = open_run(make(init_share=0, random_state=None), federation)
    session, said = run.load.source.session, {}
    session._lose = said.update  # a server that goes on with everybody
    loss = run.plan.loss
    backend.apply(Start(replace(loss, gradient=loss.gradient * 1000), 1))
    query = TreeSums((stump(),), statistics=run.plan.settings.statistics)
    for rule in ("failure: ValueError", "session: there is none"):
        with pytest.raises(FederationError):
            backend.sum(query, run.plan.leaf)
        assert said["p0"] == rule


def test_what_is_told_reaches_nobody_harmfully():
    """A listener that fails, and words that would move a screen's cursor."""
    heard = []

    def tell(words):
        heard.append(words)
        raise OSError

    parties = make_parties(FRAME, 3, tell=tell)
    make().fit(bring(parties))
    assert [words.split(":")[0] for words in heard[:3]] == ["accepted"] * 3
    assert parties[0].finished == 1
    parties[0].say("\x1b[2Jgone")
    assert heard[-1] == "?[2Jgone"


def test_junk_pushes_out_no_answer():
    parties = make_parties(FRAME, 3)
    kept = []

    class Keeping(InProcess):
        def gather(self, requests):
            kept.append(dict(requests))
            for name, reply in super().gather(requests):
                if len(kept) == 1:
                    for k in range(100):
                        self._parties[name].receive(bytes([k] * 99))
                    assert self._parties[name].receive(requests[name]) == reply
                yield name, reply

    make().fit(bring(parties, transport=Keeping))


def test_parameters_travel_as_they_are():
    ratio = BoostedAdaSSPClassifier(
        2.0, 1e-6, make_domain(), ratio=(np.float64(1), 1, 0), n_estimators=np.int64(3)
    )
    ratio.fit(federate(FRAME, 3, {"account": {}}))
    with pytest.raises((FederationError, ValueError, TypeError), match="n_estimators"):
        make(n_estimators=object()).fit(federate(FRAME, 3))
