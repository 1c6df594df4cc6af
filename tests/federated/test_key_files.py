"""Keys as files, and the commands that make and use them."""

import json
import stat

import pytest
from cryptography import x509
from typer.testing import CliRunner

from privboost import BudgetStore, FederationError
from privboost.cli.main import app
from privboost.federated.key_files import (
    read_pins,
    read_private,
    read_secret,
    write_certificate,
    write_keys,
)
from tests.tables import make_domain, make_frame


def run(*arguments):
    return CliRunner().invoke(app, ["federation", *map(str, arguments)])


@pytest.fixture
def pins(tmp_path):
    folder = tmp_path / "pins"
    folder.mkdir()
    for name in ("south", "north", "coordinator"):
        write_keys(name, folder)
    return folder


def test_a_private_key_is_its_owners_alone_and_fits_the_public_one(tmp_path):
    assert run("keys", "north", "--folder", tmp_path).exit_code == 0
    assert stat.S_IMODE((tmp_path / "north.key").stat().st_mode) == 0o600
    name, pair = read_private(tmp_path / "north.key")
    public = json.loads((tmp_path / "north.pub").read_text())
    assert (name, pair.public.hex()) == (public["name"], public["public"])
    assert pair.private_bytes().hex() not in (tmp_path / "north.pub").read_text()


def test_keys_are_not_replaced(tmp_path):
    run("keys", "north", "--folder", tmp_path)
    before = (tmp_path / "north.key").read_bytes()
    assert isinstance(run("keys", "north", "--folder", tmp_path).exception, FileExistsError)
    assert (tmp_path / "north.key").read_bytes() == before


def test_the_coordinator_has_a_certificate_for_its_names(tmp_path):
    assert "--host is for the coordinator" in str(run("keys", "coordinator").exception)
    assert "--host is for the coordinator" in str(run("keys", "north", "--host", "a").exception)
    hosts = ("--host", "hospital.example", "--host", "127.0.0.1")
    assert run("keys", "coordinator", "--folder", tmp_path, *hosts).exit_code == 0
    shown = x509.load_pem_x509_certificate((tmp_path / "coordinator.crt").read_bytes())
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hospital.example"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert stat.S_IMODE((tmp_path / "coordinator.crt.key").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden"])
def test_names_that_are_no_files(tmp_path, name):
    with pytest.raises(ValueError, match="no name for a file"):
        write_keys(name, tmp_path)


def test_pins_are_those_of_a_folder_in_the_order_of_names(pins):
    assert list(read_pins(pins)) == ["coordinator", "north", "south"]
    (pins / "again.pub").write_text((pins / "north.pub").read_text())
    with pytest.raises(FederationError, match=r"two files of .* have one name"):
        read_pins(pins)
    (pins / "again.pub").unlink()
    (pins / "coordinator.pub").unlink()
    with pytest.raises(FederationError, match=r"has no coordinator\.pub"):
        read_pins(pins)


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"name": "n", "public": "zz"}', '{"name": 3, "public": "00"}']
)
def test_damaged_files(pins, text):
    (pins / "north.pub").write_text(text)
    with pytest.raises(FederationError, match=r"north\.pub is no file of a public key"):
        read_pins(pins)


@pytest.fixture
def table(tmp_path):
    make_domain().to_json(tmp_path / "domain.json")
    make_frame(20).to_parquet(tmp_path / "rows.parquet")
    return tmp_path


LIMIT = ("--limit-epsilon", 1, "--limit-delta", 1e-6)


def joined(pins, table, *more):
    """The error of joining without grpcio: everything before a connection is made."""
    how = ("--domain", table / "domain.json", "--pins", pins, "--key", pins / "north.key")
    return str(run("join", table / "rows.parquet", "--at", "a:1", *how, *more).exception)


def test_joining_opens_an_account_once(pins, table, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "grpc", None)
    assert "north.db" in joined(pins, table)  # there is none, and no limit to open one with
    assert "pip install" in joined(pins, table, *LIMIT)
    rules = BudgetStore(pins / "north.db").account("north").balance().rules
    assert (rules.epsilon, rules.delta, rules.unit) == (1.0, 1e-6, None)
    assert "pip install" in joined(pins, table)
    assert "has the limit epsilon 1" in joined(
        pins, table, "--limit-epsilon", 2, "--limit-delta", 1e-6
    )
    own = ("--budget", table / "store.db", "--dataset", "visits", *LIMIT)
    assert "pip install" in joined(pins, table, *own)
    assert BudgetStore(table / "store.db").datasets() == ["visits"]


def test_a_seeded_party_has_no_account(pins, table, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "grpc", None)
    assert "--accept-seed goes with no account" in joined(pins, table, "--accept-seed", *LIMIT)
    assert "pip install" in joined(pins, table, "--accept-seed")
    assert not (pins / "north.db").exists()


def test_a_ledger_of_an_earlier_version_opens_no_account(pins, table):
    """Or what it counts would be forgotten."""
    (pins / "north.ledger").write_text('{"entry": "run", "epsilon": 2.0, "delta": 1e-06}\n')
    said = joined(pins, table, *LIMIT)
    assert "counts runs of an earlier version, of epsilon 2 and delta 1e-06 together" in said
    assert not (pins / "north.db").exists()


def test_a_key_that_is_not_the_pinned_one(pins, table):
    write_keys("north", table)
    how = ("--domain", table / "domain.json", "--pins", pins)
    said = run(
        "join", table / "rows.parquet", "--at", "a:1", "--key", table / "north.key", *how, *LIMIT
    )
    assert "is not the private half of north.pub" in str(said.exception)
    key = ("--key", pins / "north.key")
    said = run("coordinate", "--model", table / "m", "--epsilon", 1, *key, *how)
    assert "is not the private half of coordinator.pub" in str(said.exception)


def test_without_grpcio_the_commands_say_what_to_install(pins, table, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "grpc", None)
    how = ("--domain", table / "domain.json", "--pins", pins, "--key", pins / "north.key")
    said = run("join", table / "rows.parquet", "--at", "a:1", *how, *LIMIT)
    assert "pip install 'privboost[federated]'" in str(said.exception)


def test_a_key_of_tls_that_others_can_read_is_refused(tmp_path, pins):
    """As every .key file: with it, anybody is the coordinator to the parties."""
    write_certificate(["localhost"], pins)
    make_domain().to_json(tmp_path / "d.json")
    secret = pins / "coordinator.crt.key"
    assert read_secret(secret) == secret.read_bytes()
    for mode in (0o640, 0o604, 0o660, 0o602):
        secret.chmod(mode)
        arguments = ("--domain", tmp_path / "d.json", "--pins", pins, "--epsilon", 1)
        told = run(
            *("coordinate", "--key", pins / "coordinator.key", "--model", tmp_path / "m"),
            *("--delta", 1e-6, *arguments),
        ).exception
        assert isinstance(told, FederationError)
        assert str(told) == f"keys: others can read {secret}: chmod 600 {secret}"
