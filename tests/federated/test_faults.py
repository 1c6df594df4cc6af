"""Parties and messages that are lost, doubled, late or forged; a coordinator that comes again."""

import json
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from privboost import FederationError, Party, PrivacyWarning, SBDTClassifier
from tests.federated.hostile import HostileNetwork
from tests.federated.parties import (
    ALLOWED,
    bring,
    entries,
    federate,
    make_parties,
    same_model,
)
from tests.tables import make_domain, make_frame

QUICK = (Phase.explicit, Phase.generate)
"""A run that fails need not be the smallest one."""
FRAME = make_frame(300)
SETTINGS = {"n_estimators": 4, "max_depth": 2, "random_state": 7, "calibration_share": 0}


def make():
    return SBDTClassifier(1.0, 1e-6, make_domain(), **SETTINGS)


PLAIN = make().fit(FRAME).model_
EXCHANGES = 2 + 1 + 3 * 5
"""An offer and a beginning, one deal; for each of five releases sums, survivors and shares."""


@settings(max_examples=10, phases=QUICK)
@given(st.integers(0, 2**32))
def test_a_hostile_network_changes_nothing(seed):
    networks = []

    def network(parties):
        networks.append(HostileNetwork(parties, seed))
        return networks[0]

    model = make().fit(federate(FRAME, 4, transport=network, dropouts=1)).model_
    assert same_model(PLAIN, model)
    assert networks[0].exchanges == EXCHANGES + 1


@settings(max_examples=30, phases=QUICK)
@given(st.data())
def test_up_to_d_parties_are_lost_at_any_stage(data):
    """The others go on; whoever has given its sums in a round is in that round."""
    lost = data.draw(st.sets(st.sampled_from(["p0", "p2", "p3"]), min_size=1, max_size=2))
    losses = {
        (data.draw(st.integers(2, EXCHANGES)), name): data.draw(
            st.sampled_from(["request", "reply"])
        )
        for name in sorted(lost)
    }
    network = partial(HostileNetwork, seed=data.draw(st.integers(0, 2**32)), losses=losses)
    federation = federate(FRAME, 5, transport=network, dropouts=2)
    model = make().fit(federation).model_
    early = {name for (number, name) in losses if number < EXCHANGES}
    assert set(federation.last.lost) == early
    # A party that is lost when the last sums were sent, or later, is in all of them.
    assert same_model(PLAIN, model) == all(n >= EXCHANGES - 2 for n, _ in losses)


@pytest.mark.parametrize("stage", range(EXCHANGES))
def test_more_than_d_lost_is_a_clear_end(stage, tmp_path):
    """The message says who and why, and every ledger has what it has paid for."""
    losses = {(stage, "p1"): "request", (stage, "p2"): "reply"}
    ledgers = [tmp_path / f"p{k}.jsonl" for k in range(4)]
    parties = make_parties(FRAME, 4)
    for party, path in zip(parties, ledgers, strict=True):
        party._ledger = path
    network = partial(HostileNetwork, losses=losses)
    federation = bring(parties, dropouts=1, transport=network)
    own = tmp_path / "own.jsonl"
    needed = 4 if stage < 2 else 3
    words = f"2 of 4 parties are left, and {needed} are needed"
    with pytest.raises(FederationError, match=words) as end:
        make().set_params(ledger=own).fit(federation)
    assert "'p1': no answer came" in str(end.value)
    asked = (stage - 3) // 3 + 1 if stage >= 3 else 0
    assert lines(ledgers[0]).count("charge") == asked
    assert lines(own).count("charge") == (1 if stage == 2 else asked)
    assert ("reserve" in lines(ledgers[0])) == ("reserve" in lines(own)) == (stage >= 2)


def lines(path):
    if not path.exists():
        return []
    return [json.loads(line)["entry"] for line in path.read_text().splitlines()]


def test_whoever_is_lost_is_named_in_a_warning():
    network = partial(HostileNetwork, losses={(5, "p0"): "request"})
    with pytest.warns(PrivacyWarning, match="'p0' was lost on the way: no answer came"):
        make().fit(federate(FRAME, 4, transport=network, dropouts=1))


class Interrupted(Exception):
    pass


class Dying:
    """A transport whose coordinator dies in one of the exchanges."""

    def __init__(self, parties, at):
        self._parties = {party.name: party for party in parties}
        self._left = at

    def gather(self, requests):
        self._left -= 1
        for name, request in requests.items():
            if self._left < 0:
                raise Interrupted
            yield name, self._parties[name].receive(request)


@pytest.mark.parametrize("at", range(0, EXCHANGES, 3))
def test_a_coordinator_that_is_started_again_pays_again(at):
    """What a party reserved for a run that died is spent: it does not know what was told."""
    parties = make_parties(FRAME, 3, {})
    secure = make().set_params(random_state=None)
    with pytest.raises(Interrupted):
        secure.fit(bring(parties, transport=partial(Dying, at=at)))
    begun = at > 2
    assert [entries(party) for party in parties] == [begun] * 3
    secure.fit(bring(parties))
    assert [entries(party) for party in parties] == [begun + 1] * 3


class Odd(Party):
    """A party that changes what it sends."""

    def __init__(self, *own, letter=dict, message=dict, **how):
        super().__init__(*own, **how)
        self._letter, self._message = letter, message

    def _read_letter(self, body):
        return self._letter(super()._read_letter(body))

    def _follow(self, body):
        return self._message(super()._follow(body))


ODD = {"number": -1, "array": np.arange(3, dtype=np.int32), "none": None}


def changed(stage, more):
    return lambda reply: reply | more if reply["stage"] == stage else reply


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize(
    ("way", "stage", "name"),
    [
        *(("message", "deal", name) for name in ("first", "commitments", "lids", "sealed")),
        *(("message", "sum", name) for name in ("asked", "round", "stage", "words", "tags")),
        *(("message", "confirm", name) for name in ("round", "tags")),
        *(("message", "open", name) for name in ("stage", "opened")),
    ],
)
def test_whatever_one_party_sends_the_others_go_on(way, stage, name, value):
    odd = Odd("odd", FRAME.iloc[:20], **ALLOWED, **{way: changed(stage, {name: ODD[value]})})
    federation = bring([*make_parties(FRAME, 4), odd], dropouts=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        make().fit(federation)
    assert set(federation.last.lost) == {"odd"}


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize(
    ("stage", "name"),
    [
        *(("accepted", name) for name in ("fresh", "agreed", "commitment", "own_nonce")),
        *(("ready", name) for name in ("part", "confirmations", "rows")),
    ],
)
def test_whoever_sends_something_else_before_all_have_agreed_is_named(stage, name, value):
    if (name, value) in (("rows", "none"), ("rows", "number")):
        return  # no number of rows, as where it is private; one below 0 counts as 0
    parties, how = make_parties(FRAME, 4), changed(stage, {name: ODD[value]})
    odd = Odd("odd", FRAME.iloc[:20], **ALLOWED, letter=how)
    with pytest.raises(FederationError, match=r"4 of 5 parties are left, and 5 are .*'odd'"):
        make().fit(bring([*parties, odd], dropouts=1))
    assert [party._handshake for party in parties] == [None] * 4


def test_a_key_that_is_none_loses_its_owner():
    low = np.zeros(32, dtype=np.uint8)
    how = changed("accepted", {"fresh": low})
    odd = Odd("odd", FRAME.iloc[:20], **ALLOWED, letter=how)
    federation = bring([*make_parties(FRAME, 4), odd], dropouts=1)
    with pytest.raises(FederationError, match="'odd': keys: this is no public key"):
        make().fit(federation)
