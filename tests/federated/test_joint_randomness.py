"""Randomness for public choices that no end can choose."""

import numpy as np
import pytest

from privboost import FederationError, SBDTClassifier
from privboost.engine.backend import LocalBackend
from privboost.engine.queries import TreeSums
from privboost.estimators.preparation import Run
from privboost.federated.coordinator import Session
from privboost.federated.crypto import commit_to, join_parts
from privboost.randomness.keystream import KeyStream
from tests.federated.parties import federate, same_model
from tests.tables import make_domain, make_frame

PARTS = {name: name.encode() * 32 for name in ("a", "b", "c")}
COMMITMENTS = {name: commit_to(part) for name, part in PARTS.items()}
FRAME = make_frame(200)


def make(**how):
    settings = {"n_estimators": 3, "max_depth": 3, "features": "uniform", "random_state": None}
    return SBDTClassifier(1.0, 1e-6, make_domain(), **settings | how)


def test_every_part_decides():
    joint = join_parts(PARTS, COMMITMENTS, b"session")
    assert joint == join_parts(dict(reversed(PARTS.items())), COMMITMENTS, b"session")
    assert joint != join_parts(PARTS, COMMITMENTS, b"another")
    for name in PARTS:
        fewer = {other: part for other, part in PARTS.items() if other != name}
        assert join_parts(fewer, COMMITMENTS, b"session") != joint
        with pytest.raises(FederationError, match=f"{name!r} revealed another part"):
            join_parts(PARTS | {name: bytes(32)}, COMMITMENTS, b"session")
    with pytest.raises(FederationError, match="committed to none"):
        join_parts(PARTS | {"d": bytes(32)}, COMMITMENTS, b"session")


def drawn_by(seed, monkeypatch):
    """The features of the trees that parties were asked about, the joint bytes, and the parties."""
    asked = []
    plain = Session.sum

    def spy(self, query, event):
        if isinstance(query, TreeSums):
            asked.append([tree.feature.tolist() for tree in query.trees])
        return plain(self, query, event)

    with monkeypatch.context() as patch:
        patch.setattr(Session, "sum", spy)
        patch.setattr(Session, "end", lambda self, whole_run: None)
        federation = federate(FRAME, 3, {"account": {}} if seed is None else {})
        make(random_state=seed).fit(federation)
    parties = federation._transport._parties.values()
    return asked, federation.last.joint, [party._session.joint for party in parties]


def test_trees_follow_from_it_and_every_party_knows_it(monkeypatch):
    asked, joint, theirs = drawn_by(None, monkeypatch)
    assert theirs == [joint] * 3
    here = []
    plain = LocalBackend.sum

    def spy(self, query):
        if isinstance(query, TreeSums):
            here.append([tree.feature.tolist() for tree in query.trees])
        return plain(self, query)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "structures", lambda self: KeyStream(joint))
        patch.setattr(LocalBackend, "sum", spy)
        make().fit(FRAME)
    assert here == asked
    assert drawn_by(None, monkeypatch)[0] != asked


def test_a_seed_takes_its_place(monkeypatch):
    assert drawn_by(7, monkeypatch)[0] == drawn_by(7, monkeypatch)[0]
    one, two = (make(random_state=7).fit(federate(FRAME, 3)).model_ for _ in range(2))
    assert same_model(one, two)


@pytest.mark.parametrize("change", ["forge", "leave out", "none"])
def test_a_coordinator_that_chooses_is_refused(change, monkeypatch):
    plain = Session.begin

    def lying(self):
        plain(self)
        if change == "forge":
            self._parts["p1"] = bytes(32)
        elif change == "none":
            monkeypatch.setattr(
                "privboost.federated.coordinator.byte_array", lambda key: np.zeros(1)
            )
        else:
            self._parts.pop("p0")

    monkeypatch.setattr(Session, "begin", lying)
    with pytest.raises(FederationError, match=r"'p0': joint randomness"):
        make().fit(federate(FRAME, 3, {"account": {}}))
