"""Key files: private and public keys of an end, and the coordinator's TLS certificate."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from privboost._core.errors import FederationError
from privboost._core.files import write_file
from privboost.federated.crypto import COORDINATOR, KEY_BYTES, KeyPair

PRIVATE, PUBLIC, CERTIFICATE, CERTIFICATE_KEY = ".key", ".pub", ".crt", ".crt.key"
"""Suffixes of file names."""
_OWNER = 0o600
_YEARS = 2
_EARLY = datetime.timedelta(days=1)
"""Clocks differ: a certificate is valid from a day before it is made."""


def write_keys(name: str, folder: Path) -> list[Path]:
    """Write a new key pair of an end, the private file for its owner alone; return the paths."""
    if not name or set(name) & set('/\\\0"') or name.startswith("."):
        raise ValueError(f"{name!r}: this is no name for a file")
    pair = KeyPair()
    private = folder / f"{name}{PRIVATE}"
    public = folder / f"{name}{PUBLIC}"
    _write(private, {"name": name, "private": pair.private_bytes().hex()}, _OWNER)
    _write(public, {"name": name, "public": pair.public.hex()})
    return [private, public]


def write_certificate(hosts: list[str], folder: Path) -> list[Path]:
    """Write a self-signed TLS certificate for the coordinator's hosts; return it and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "privboost federation")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + datetime.timedelta(days=365 * _YEARS))
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificate = folder / f"{COORDINATOR}{CERTIFICATE}"
    secret = folder / f"{COORDINATOR}{CERTIFICATE_KEY}"
    write_file(secret, private, mode=_OWNER)
    write_file(certificate, made.public_bytes(pem))
    return [certificate, secret]


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def read_private(path: Path) -> tuple[str, KeyPair]:
    """Read the name and the key of an end; refuse a file that others can read."""
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}; --key is this end's private key")
    name, key = _read(path, "private")
    return name, KeyPair(key)


def read_secret(path: Path) -> bytes:
    """Return the content of a private key's file, or of TLS's; refuse one that others can read."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise FederationError(f"keys: others can read {path}: chmod 600 {path}")
        return file.read()


def read_pins(folder: Path) -> dict[str, bytes]:
    """Return the public keys of a folder, by name, in the order of names."""
    if not folder.is_dir():
        raise FileNotFoundError(f"no such folder: {folder}; --pins is where all .pub files lie")
    files = sorted(folder.glob(f"*{PUBLIC}"))
    pins = dict(_read(path, "public") for path in files)
    if len(pins) < len(files):
        raise FederationError(f"keys: two files of {folder} have one name")
    if COORDINATOR not in pins:
        raise FederationError(f"keys: {folder} has no {COORDINATOR}{PUBLIC}")
    return dict(sorted(pins.items()))


def _write(path: Path, content: dict[str, str], mode: int = 0o666) -> None:
    write_file(path, json.dumps(content).encode() + b"\n", mode=mode)


def _read(path: Path, what: str) -> tuple[str, bytes]:
    try:
        content = json.loads(read_secret(path) if what == "private" else path.read_bytes())
        name, key = content["name"], bytes.fromhex(content[what])
    except (ValueError, TypeError, LookupError):
        raise FederationError(f"keys: {path.name} is no file of a {what} key") from None
    if not isinstance(name, str) or len(key) != KEY_BYTES:
        raise FederationError(f"keys: {path.name} is no file of a {what} key")
    return name, key
