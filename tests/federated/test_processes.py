"""Coordinators and parties on localhost, each a process of its own."""

import re
import shutil
import signal

import pytest

from privboost import SBDTClassifier, load_model
from tests.federated.parties import same_model
from tests.federated.processes import NAMES, Ends, prepare
from tests.tables import make_domain, make_frame

FRAME = make_frame(600)
SETTINGS = {"n_estimators": 4, "max_depth": 2}
QUICK = ("--recipe", "sbdt", "--set", "n_estimators=4", "--set", "max_depth=2")
LONG = ("--recipe", "sbdt", "--set", "n_estimators=200", "--set", "max_depth=2")


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ends")
    prepare(folder, FRAME, make_domain())
    return folder


@pytest.fixture
def ends(keyed, tmp_path):
    folder = tmp_path / "ends"
    shutil.copytree(keyed, folder)
    made = Ends(folder)
    yield made
    made.stop()


def test_one_seed_has_one_model(ends):
    coordinator = ends.coordinate("--seed", 7, "--trust", "server", *QUICK)
    parties = ends.join_all("--accept-seed", "--trust-server")
    assert coordinator.wait(300) == 0, ends.said("coordinator")
    assert [party.wait(120) for party in parties] == [0, 0, 0]
    alone = SBDTClassifier(1.0, 1e-6, make_domain(), random_state=7, **SETTINGS).fit(FRAME)
    assert same_model(alone.model_, load_model(ends.folder / "model.pvb"))


def test_a_party_that_is_killed_is_gone_and_the_others_go_on(ends):
    coordinator = ends.coordinate("--dropouts", 1, "--colluders", 0, *LONG)
    parties = ends.join_all("--colluders", 0)
    ends.wait_until_said("north", "begun")
    parties[1].send_signal(signal.SIGKILL)
    assert coordinator.wait(300) == 0, ends.said("coordinator")
    assert "'north' was lost on the way: no answer came" in ends.said("coordinator")
    assert [parties[k].wait(120) for k in (0, 2)] == [0, 0]
    assert [ends.runs(name) for name in NAMES] == [1, 1, 1]


def test_a_coordinator_that_is_killed_comes_again(ends):
    """Parties wait for it, with their keys and what they have spent."""
    first = ends.coordinate(*LONG)
    parties = ends.join_all()
    ends.wait_until_said("south", "begun")
    first.send_signal(signal.SIGKILL)
    first.wait()
    again = ends.coordinate(*QUICK)
    assert again.wait(300) == 0, ends.said("coordinator")
    assert [party.wait(120) for party in parties] == [0, 0, 0]
    assert [ends.runs(name) for name in NAMES] == [2, 2, 2]
    assert re.search(
        r"east: epsilon [\d.]+ of 5 is spent in all, at delta 0.0001", ends.said("east")
    )


def interrupted(process):
    """Interrupt a process, once; return its status."""
    process.send_signal(signal.SIGINT)
    return process.wait(60)


def test_an_interruption_ends_a_party_and_a_coordinator_at_once(ends):
    coordinator = ends.coordinate(*QUICK)
    party = ends.join("east")
    ends.wait_until_said("east", "connected")
    ends.wait_until_said("coordinator", "east is connected")
    assert interrupted(party) == 1
    assert "epsilon 0 of 5 is spent in all, at delta 0.0001" in ends.said("east")
    assert interrupted(coordinator) == 130
    assert "nothing was spent" in ends.said("coordinator")


def test_a_certificate_that_is_not_the_coordinators(ends):
    ends.coordinate(*QUICK)
    other = ends.folder / "other"
    other.mkdir()
    prepare(other, FRAME[:3], make_domain())
    party = ends.join("east", "--certificate", "other/coordinator.crt", "--patience", 3)
    assert party.wait(300) == 1
    assert "is not the one that this party trusts" in ends.said("east")
