"""Model files: one file of JSON and plain arrays. Loading runs no code.

A file holds released values and public facts: no time, host, backend, seed or key.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from privboost import codec
from privboost.domain import Domain
from privboost.encoding import Encoder
from privboost.errors import ModelFileError
from privboost.models.additive import AdditiveScores
from privboost.models.linear import LinearScores
from privboost.models.model import Model
from privboost.models.trees import TreeScores
from privboost.models.votes import VoteScores
from privboost.privacy.report import PrivacyReport

VERSION = 1
_MAGIC = b"PRIVBST\x01"
_KINDS: dict[str, Any] = {
    kind.kind: kind for kind in (AdditiveScores, LinearScores, TreeScores, VoteScores)
}


def model_bytes(model: Model) -> bytes:
    """Return the content of a model's file."""
    form = {
        "version": VERSION,
        "kind": model.scores.kind,
        "domain": model.domain.to_dict(),
        "edges": list(model.encoder.edges),
        "scores": model.scores.to_form(),
        "privacy": model.privacy.to_dict(),
    }
    return codec.dump(form, _MAGIC)


def save_model(model: Model, path: str | Path) -> None:
    """Write a model; a file of that name is replaced at once or not at all."""
    path = Path(path)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        file.write(model_bytes(model))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load_model(path: str | Path) -> Model:
    """Read a model file.

    Examples
    --------
    >>> from privboost import load_model
    >>> model = load_model("adult.privboost")         # doctest: +SKIP
    >>> model.predict_proba(table)                     # doctest: +SKIP
    """
    return read_model(Path(path).read_bytes(), str(path))


def read_model(data: bytes, path: str) -> Model:
    """Read the content of a model's file; errors name the path."""
    try:
        form = codec.load(data, _MAGIC)
    except (ValueError, KeyError, TypeError, IndexError):
        raise ModelFileError(f"{path} is not a privboost model file, or it is damaged") from None
    if form.get("version") != VERSION:
        raise ModelFileError(f"{path} has version {form.get('version')!r}; {VERSION} is read here")
    try:
        return _read(form)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ModelFileError(f"{path} is damaged") from None


def _read(form: dict[str, Any]) -> Model:
    return Model(
        encoder=Encoder(Domain.from_dict(form["domain"]), tuple(form["edges"])),
        scores=_KINDS[form["kind"]].from_form(form["scores"]),
        privacy=PrivacyReport.from_dict(form["privacy"]),
    )
