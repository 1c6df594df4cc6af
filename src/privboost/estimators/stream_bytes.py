"""Bytes of a stream's file: its state and model, validated when read."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from privboost import codec
from privboost.engine.updates import Update
from privboost.errors import DomainError, ModelFileError
from privboost.estimators.row_stream import Cohort, RowStream
from privboost.estimators.stream_checks import (
    ROW_ARRAYS,
    check_ids,
    check_log,
    read_budget,
    read_names,
    read_parameters,
    read_rows,
)
from privboost.files import UNREADABLE, FileKind, compress, decompress
from privboost.grid import MAX_SCORE
from privboost.models.checks import (
    need,
    need_array,
    need_flag,
    need_keys,
    need_list,
    need_number,
    need_text,
    need_whole,
    read_report,
)
from privboost.models.files import model_bytes, read_model
from privboost.models.model import Model
from privboost.models.trees import TreeScores
from privboost.tables.encoding import Encoder
from privboost.tables.loading import Coded
from privboost.tables.rows import Rows, join

STREAM_FILE = FileKind(b"PVBSTRM", 3, "the state of a stream")
_MAGIC = b"PVBSTATE"
_MOST_ROWS = 2**31
"""Most rows of a stream whose file is read: as many more still have 32-bit ids."""
_KEYS = (
    "model",
    "weight_bound",
    "clips",
    "next_id",
    "most_score",
    "cohorts",
    "parameters",
    "learned",
    "unit_kind",
    "lengths",
    "log",
)


def stream_bytes(stream: RowStream, model: Model) -> bytes:
    """Return the content of a stream's file."""
    messages = [update.to_bytes() for update in stream.log]
    document = {
        "model": np.frombuffer(model_bytes(model), dtype=np.uint8),
        "weight_bound": stream.weight_bound,
        "clips": list(stream.clips),
        "next_id": stream.next_id,
        "most_score": stream.most_score,
        "cohorts": [_cohort_dict(cohort) for cohort in stream.cohorts],
        "parameters": stream.parameters,
        "learned": stream.learned,
        "unit_kind": stream.unit_kind,
        "lengths": [len(message) for message in messages],
        "log": np.frombuffer(b"".join(messages), dtype=np.uint8),
    }
    return STREAM_FILE.seal(_packed(codec.dump(document, _MAGIC)))


def read_stream(data: bytes, path: str) -> tuple[RowStream, Model]:
    """Read the content of a stream's file; errors name the path.

    Whatever it holds, either `ModelFileError` is raised, or its rows and update log fit its model.
    """
    content = STREAM_FILE.unseal(data, path)
    try:
        document = need_keys(codec.load(_unpacked(content), _MAGIC), "file", _KEYS)
        held = need_array(document["model"], "model", np.uint8, (None,))
        model = read_model(held.data, "its model")
        return _stream_of(document, model), model
    except (DomainError, ModelFileError) as error:
        raise ModelFileError(f"{path} holds no stream: {error}") from None
    except UNREADABLE:
        raise ModelFileError(f"{path} holds no stream: its parts are not those of one") from None


def _packed(data: bytes) -> bytes:
    """Compress arrays, but not the JSON header, which takes many times its size once parsed."""
    start = codec.text_end(data)
    return data[:start] + compress(data[start:])


def _unpacked(content: bytes | memoryview) -> bytes:
    start = codec.text_end(content)
    return bytes(content[:start]) + decompress(content[start:])


def _cohort_dict(cohort: Cohort) -> dict[str, Any]:
    assert isinstance(cohort.rows, Coded)
    units, blocks = cohort.rows.units, cohort.rows.blocks
    rows = join(blocks) if blocks else None
    return {
        "rows": None if rows is None else _rows_dict(rows),
        "budget": cohort.budget.to_dict(),
        "used": cohort.used,
        "report": cohort.report.to_dict(),
        "units": None if units is None else _names_dict(units.to_pylist()),
    }


def _rows_dict(rows: Rows) -> dict[str, Any]:
    held = vars(rows) | {"narrow": rows.codes.narrow, "wide": rows.codes.wide}
    return {name: held[name] for name in ROW_ARRAYS}


def _names_dict(names: list[bytes]) -> dict[str, np.ndarray]:
    return {
        "ends": np.cumsum([len(name) for name in names], dtype=np.int64),
        "bytes": np.frombuffer(b"".join(names), dtype=np.uint8),
    }


def _stream_of(document: dict[str, Any], model: Model) -> RowStream:
    encoder, bound = model.encoder, document["weight_bound"]
    need(model.scores.kind == TreeScores.kind, "model", "a stream's model is one of trees")
    need(not model.privacy.public_rows, "model", "a stream's rows are private")
    if bound is not None:
        need_number(bound, "weight_bound", 0, above=True)
    clips = need_list(document["clips"], "clips", 2)
    for clip in clips:
        need_number(clip, "clips", 0, above=True)
    parameters = read_parameters(document["parameters"])
    cohorts = tuple(
        _read_cohort(each, encoder, bound is not None, number)
        for number, each in enumerate(need_list(document["cohorts"], "cohorts"))
    )
    need(len(cohorts) > 0, "cohorts", "a stream has a batch")
    next_id = need_whole(document["next_id"], "next_id", 0, _MOST_ROWS)
    check_ids([cohort.blocks for cohort in cohorts], next_id)
    log = _read_log(document)
    used = [cohort.used for cohort in cohorts]
    check_log(log, encoder, bound is not None, used, model.span)
    most_score = need_number(document["most_score"], "most_score", 0, MAX_SCORE)
    return RowStream(
        encoder,
        bound,
        (clips[0], clips[1]),
        next_id,
        most_score,
        cohorts,
        log,
        parameters,
        need_flag(document["learned"], "learned"),
        need_text(document["unit_kind"], "unit_kind"),
    )


def _read_cohort(document: Any, encoder: Encoder, weighted: bool, number: int) -> Cohort:
    document = need_keys(document, "cohorts", ("rows", "budget", "used", "report", "units"))
    budget = read_budget(document["budget"])
    blocks = read_rows(document["rows"], encoder, weighted, number)
    units = read_names(document["units"], encoder.domain.unit is not None)
    report = read_report(document["report"], "report")
    need(not report.public_rows, "report", "a stream's rows are private")
    return Cohort(
        Coded(blocks, units, sum(map(len, blocks))),
        budget,
        need_whole(document["used"], "used", 0, budget.releases),
        report,
    )


def _read_log(document: dict[str, Any]) -> tuple[Update, ...]:
    log = need_array(document["log"], "log", np.uint8, (None,)).tobytes()
    lengths = need_list(document["lengths"], "lengths")
    for length in lengths:
        need_whole(length, "lengths", 0, len(log))
    need(sum(lengths) == len(log), "lengths", "they must add up to the log")
    ends = accumulate(lengths, initial=0)
    return tuple(Update.from_bytes(log[start:end]) for start, end in pairwise(ends))
