"""Model files: one file of JSON and plain arrays. Loading runs no code.

A file holds released values and public facts: no time, host, backend, seed or key. Every part is
checked against the domain in the same file, so that no file can make a model read foreign memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from privboost import codec
from privboost.errors import DomainError, ModelFileError
from privboost.files import UNREADABLE, FileKind, write_file
from privboost.grid import WHOLE_SPAN
from privboost.models.additive import AdditiveScores
from privboost.models.base import Scores
from privboost.models.checks import (
    count_outputs,
    need,
    need_keys,
    need_list,
    need_text,
    need_whole,
    read_encoder,
    read_report,
)
from privboost.models.compound import CompoundScores
from privboost.models.linear import LinearScores
from privboost.models.model import Model
from privboost.models.trees import MarginScores, TreeScores
from privboost.models.votes import OddsVotes, VoteScores
from privboost.tables.features import ClassTarget, Target

_EXPORTS = (".onnx", ".sql")
MODEL_FILE = FileKind(b"PRIVBST", 2, "a privboost model file")
_MAGIC = b"PVBMODEL"
_KINDS: dict[str, type[Scores]] = {
    kind.kind: kind
    for kind in (
        AdditiveScores,
        CompoundScores,
        LinearScores,
        TreeScores,
        MarginScores,
        VoteScores,
        OddsVotes,
    )
}


def model_bytes(model: Model) -> bytes:
    """Return the content of a model's file."""
    payload: dict[str, Any] = {
        "kind": model.scores.kind,
        "domain": model.domain.to_dict(),
        "edges": list(model.encoder.edges),
        "scores": model.scores.to_payload(),
        "privacy": model.privacy.to_dict(),
    }
    if model.span != WHOLE_SPAN:
        payload["span"] = list(model.span)
    return MODEL_FILE.seal(codec.dump(payload, _MAGIC))


def save_model(model: Model, path: str | Path) -> None:
    """Write a model; an existing file is replaced atomically.

    The content is read back before it is written, so that no budget is spent on a file that cannot
    be loaded.
    """
    content = model_bytes(model)
    try:
        read_model(content, str(path))
    except ModelFileError as error:
        raise RuntimeError(f"nothing is written, since it could not be read: {error}") from error
    write_file(path, content)


def load_model(path: str | Path) -> Model:
    """Read a model file.

    A file may come from anybody: for any content, either `ModelFileError` is raised, or the model
    predicts from its own values alone, within the bounds of its own domain. Only its author can
    vouch for the values and the privacy report.

    Examples
    --------
    >>> from privboost import load_model
    >>> model = load_model("adult.privboost")         # doctest: +SKIP
    >>> model.predict_proba(table)                     # doctest: +SKIP
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name the file that save wrote")
    if not path.exists():
        raise FileNotFoundError(f"No such file: {path}; name the one that save wrote")
    data = path.read_bytes()
    if path.suffix.lower() in _EXPORTS and not data.startswith(MODEL_FILE.name):
        raise ModelFileError(f"{path} is an export, for other programs: name what save wrote")
    return read_model(data, str(path))


def read_model(data: bytes | memoryview, path: str) -> Model:
    """Return the model of a file's content; errors name the path."""
    content = MODEL_FILE.unseal(data, path)
    try:
        return _read(codec.load(content, _MAGIC))
    except (DomainError, ModelFileError) as error:
        raise ModelFileError(f"{path} holds no model: {error}") from None
    except UNREADABLE:
        raise ModelFileError(f"{path} holds no model: its form is not that of one") from None


def _read(payload: Any) -> Model:
    payload = dict(payload)
    span = payload.pop("span", None)
    payload = need_keys(payload, "file", {"kind", "domain", "edges", "scores", "privacy"})
    encoder = read_encoder(payload["domain"], payload["edges"])
    target = encoder.domain.target
    kind = need_text(payload["kind"], "kind")
    need(kind in _KINDS, "kind", f"one of {', '.join(_KINDS)} is needed")
    fits = isinstance(target, ClassTarget) or not _KINDS[kind].needs_classes
    need(fits, "kind", f"{kind} need classes")
    scores = _KINDS[kind].from_payload(payload["scores"], encoder.layout, count_outputs(target))
    return Model(encoder, scores, read_report(payload["privacy"]), _read_span(span, target))


def _read_span(value: Any, target: Target) -> tuple[int, int]:
    """Return the clipping range of a numeric target; a file without one means its bounds."""
    if value is None:
        return WHOLE_SPAN
    need(not isinstance(target, ClassTarget), "span", "classes have none")
    ends = need_list(value, "span", 2)
    low, high = (need_whole(end, "span", *WHOLE_SPAN) for end in ends)
    need(low < high and (high - low) % 2 == 0, "span", "its ends must be apart, by an even number")
    return low, high
