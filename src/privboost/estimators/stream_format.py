"""Bytes of a stream's file: its state and model, validated when read.

Kernels read the rows, and updates are replayed on them, so both must fit the model's layout.
Messages quote no value and no length: all of this is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from privboost._core import codec
from privboost._core.errors import DomainError, ModelFileError
from privboost._core.files import UNREADABLE, FileKind, compress, decompress
from privboost._core.grid import (
    BLOCK_ROWS,
    FULL_RANGE,
    MAX_SCORE,
    SCORE_STEPS,
    WEIGHT_CLASSES,
    WEIGHT_STEPS,
)
from privboost.accounting.events import Relation
from privboost.accounting.formulas import MOST_ORDER
from privboost.accounting.individual_budgets import (
    GaussianBudget,
    IndividualBudget,
    RenyiBudget,
    budget_from_dict,
)
from privboost.data.encoding import Encoder
from privboost.data.loading import Coded
from privboost.data.rows import Codes, Rows, join
from privboost.data.targets import ClassTarget
from privboost.engine.protocol import ShardState
from privboost.engine.updates import Update
from privboost.estimators.stream_state import Cohort, RowStream
from privboost.losses.base import UNKNOWN_LABEL, LossTable, within_steps
from privboost.models.checks import (
    check_loss_table,
    check_tree,
    largest,
    need,
    need_array,
    need_flag,
    need_keys,
    need_list,
    need_number,
    need_scores,
    need_text,
    need_whole,
    read_report,
)
from privboost.models.model import Model, model_bytes, read_model
from privboost.models.trees import TreeScores
from privboost.recipes.sbdt import STREAM_PARAMETERS as OF_TREES
from privboost.trees.tree import Tree

STREAM_FILE = FileKind(b"PVBSTRM", 3, "the state of a stream")
STREAM_PARAMETERS = OF_TREES | {"domain_share", "sample_weight_bound", "accountant"}
"""Parameters that later batches inherit; budgets, seeds and files belong to one run."""
_MAGIC = b"PVBSTATE"
_MOST_ROWS = 2**31
"""Most rows of a stream whose file is read: as many more still have 32-bit ids."""
_LEAST_NOISE = 1e-100
"""Least standard deviation of noise; its inverse is the largest. Squares of both are finite."""
_ROW_ARRAYS = ("narrow", "wide", "label", "weight", "start", "ids")
_KEYS = (
    *("model", "weight_bound", "clips", "next_id", "most_score", "cohorts", "parameters"),
    *("learned", "unit_kind", "lengths", "log"),
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


def _cohort_dict(cohort: Cohort) -> dict[str, Any]:
    assert isinstance(cohort.rows, Coded)
    rows, units = None, None
    if cohort.rows.blocks:
        whole = join(cohort.rows.blocks)
        codes = {"narrow": whole.codes.narrow, "wide": whole.codes.wide}
        held = vars(whole) | codes | {"start": whole.minus_label}
        rows = {name: held[name] for name in _ROW_ARRAYS}
    if cohort.rows.units is not None:
        names = cohort.rows.units.to_pylist()
        units = {
            "ends": np.cumsum([len(name) for name in names], dtype=np.int64),
            "bytes": np.frombuffer(b"".join(names), dtype=np.uint8),
        }
    return {
        "rows": rows,
        "budget": cohort.budget.to_dict(),
        "used": cohort.used,
        "report": cohort.report.to_dict(),
        "units": units,
    }


def _packed(data: bytes) -> bytes:
    """Compress arrays, but not the JSON header, which takes many times its size once parsed."""
    start = codec.text_end(data)
    return data[:start] + compress(data[start:])


def _unpacked(content: bytes | memoryview) -> bytes:
    start = codec.text_end(content)
    return bytes(content[:start]) + decompress(content[start:])


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


def _stream_of(document: dict[str, Any], model: Model) -> RowStream:
    encoder, bound = model.encoder, document["weight_bound"]
    need(model.scores.kind == TreeScores.kind, "model", "a stream's model is one of trees")
    need(not model.privacy.public_rows, "model", "a stream's rows are private")
    if bound is not None:
        need_number(bound, "weight_bound", 0, above=True)
    clips = need_list(document["clips"], "clips", 2)
    for clip in clips:
        need_number(clip, "clips", 0, above=True)
    _check_parameters(document["parameters"])
    cohorts = tuple(
        _read_cohort(each, encoder, bound is not None, number)
        for number, each in enumerate(need_list(document["cohorts"], "cohorts"))
    )
    need(len(cohorts) > 0, "cohorts", "a stream has a batch")
    next_id = need_whole(document["next_id"], "next_id", 0, _MOST_ROWS)
    _check_ids([block for cohort in cohorts for block in cohort.blocks], next_id)
    log = _read_log(document)
    check_log(log, encoder, bound is not None, [cohort.used for cohort in cohorts], model.span)
    most_score = need_number(document["most_score"], "most_score", 0, MAX_SCORE)
    return RowStream(
        encoder,
        bound,
        (clips[0], clips[1]),
        next_id,
        most_score,
        cohorts,
        log,
        dict(document["parameters"]),
        need_flag(document["learned"], "learned"),
        need_text(document["unit_kind"], "unit_kind"),
    )


def _check_parameters(document: Any) -> None:
    """Check the parameters of the last batch, which later batches inherit."""
    need(isinstance(document, dict), "parameters", "a mapping is needed")
    known = STREAM_PARAMETERS.issuperset(document)
    need(known, "parameters", "only those of trees, which later batches inherit, are known")
    slopes = document.get("monotone", {})
    fine = isinstance(slopes, dict) and all(
        isinstance(name, str) and type(slope) is int and abs(slope) == 1
        for name, slope in slopes.items()
    )
    need(fine, "parameters.monotone", "1 or -1 for each feature is needed")
    plain = all(
        value is None or isinstance(value, str | int | float) or name == "monotone"
        for name, value in document.items()
    )
    need(plain, "parameters", "numbers, strings, true, false or null are needed")


def _read_cohort(document: Any, encoder: Encoder, weighted: bool, number: int) -> Cohort:
    document = need_keys(document, "cohorts", ("rows", "budget", "used", "report", "units"))
    budget = _read_budget(document["budget"])
    blocks = _read_rows(document["rows"], encoder, weighted, number)
    units = _read_names(document["units"], encoder.domain.unit is not None)
    report = read_report(document["report"], "report")
    need(not report.public_rows, "report", "a stream's rows are private")
    return Cohort(
        Coded(blocks, units, sum(map(len, blocks))),
        budget,
        need_whole(document["used"], "used", 0, budget.releases),
        report,
    )


def _read_rows(document: Any, encoder: Encoder, weighted: bool, cohort: int) -> tuple[Rows, ...]:
    """Read the rows of a cohort, in blocks."""
    if document is None:
        return ()
    document = need_keys(document, "rows", _ROW_ARRAYS)
    layout, target = encoder.layout, encoder.domain.target
    narrow = need_array(document["narrow"], "rows.narrow", np.uint8, (layout.n_narrow, None))
    rows, n_wide = narrow.shape[1], len(layout.n_codes) - layout.n_narrow
    wide = need_array(document["wide"], "rows.wide", np.uint16, (n_wide, rows))
    label = need_array(document["label"], "rows.label", np.uint8, (rows,))
    classes = len(target.classes) if isinstance(target, ClassTarget) else 1
    known = bool(((label < classes) | (label == UNKNOWN_LABEL)).all())
    need(known, "rows.label", "labels must be classes of the domain")
    weight = _need_if(
        weighted, document["weight"], "rows.weight", np.uint16, (rows,), 0, WEIGHT_STEPS
    )
    minus_label = _need_if(
        not isinstance(target, ClassTarget),
        document["start"],
        "rows.start",
        np.int32,
        (rows,),
        *FULL_RANGE,
    )
    ids = need_array(document["ids"], "rows.ids", np.uint32, (rows,))
    whole = Rows(Codes(layout, narrow, wide), label, weight, minus_label, ids, cohort)
    for feature, codes in enumerate(layout.n_codes):
        fine = not rows or int(whole.column(feature).max()) < codes
        need(fine, "rows", "codes must be those of the domain")
    starts = range(0, rows, BLOCK_ROWS)
    return tuple(whole.take(np.arange(at, min(at + BLOCK_ROWS, rows))) for at in starts)


def _need_if(wanted: bool, value: Any, place: str, *rule: Any) -> np.ndarray | None:
    """Check an array that must be present if `wanted`, and absent if not."""
    need(wanted or value is None, place, "nothing is needed here")
    return need_array(value, place, *rule) if wanted else None


def _check_ids(blocks: list[Rows], next_id: int) -> None:
    """Refuse rows that share an id: they would be sampled together."""
    every = np.sort(np.concatenate([np.empty(0, np.uint32), *(block.ids for block in blocks)]))
    apart = bool((every[1:] > every[:-1]).all())
    below = not len(every) or int(every[-1]) < next_id
    need(apart and below, "rows.ids", "each row needs an id of its own, below the next one")


def _read_names(document: Any, expected: bool) -> pa.Array | None:
    """Read the names of units, where the domain has units."""
    if not expected:
        need(document is None, "units", "nothing is needed here")
        return None
    document = need_keys(document, "units", {"ends", "bytes"})
    text = need_array(document["bytes"], "units.bytes", np.uint8, (None,))
    ends = need_array(document["ends"], "units.ends", np.int64, (None,))
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    cut = bool((offsets[1:] >= offsets[:-1]).all()) and offsets[-1] == len(text)
    need(cut, "units.ends", "names must cut their bytes into pieces")
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text.tobytes())]
    return pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)


def _read_budget(document: Any) -> IndividualBudget:
    """Read an individual privacy filter."""
    need(isinstance(document, dict), "budget", "a mapping is needed")
    need_text(document.get("kind"), "budget.kind")
    need(document.get("relation") in tuple(Relation), "budget.relation", "an unknown relation")
    budget = budget_from_dict(document)
    need_text(budget.what, "budget.what")
    need_number(budget.noise, "budget.noise", _LEAST_NOISE, 1 / _LEAST_NOISE)
    need_whole(budget.releases, "budget.releases", 1)
    if isinstance(budget, GaussianBudget):
        need_whole(budget.touched, "budget.touched", 1)
        need_number(budget.least_sigma, "budget.least_sigma", _LEAST_NOISE, 1 / _LEAST_NOISE)
    if isinstance(budget, RenyiBudget):
        need_whole(budget.alpha, "budget.alpha", 2, MOST_ORDER)
    return budget


def _read_log(document: dict[str, Any]) -> tuple[Update, ...]:
    log = need_array(document["log"], "log", np.uint8, (None,)).tobytes()
    lengths = need_list(document["lengths"], "lengths")
    for length in lengths:
        need_whole(length, "lengths", 0, len(log))
    need(sum(lengths) == len(log), "lengths", "they must add up to the log")
    ends = accumulate(lengths, initial=0)
    return tuple(Update.from_bytes(log[start:end]) for start, end in pairwise(ends))


@dataclass
class _State(ShardState):
    """Shard state while a log of updates is checked."""

    encoder: Encoder
    weighted: bool
    n_cohorts: int
    loss: LossTable | None = None
    open: bool = False
    span: tuple[int, int] = FULL_RANGE

    def __post_init__(self) -> None:
        self.prices: list[tuple[np.ndarray, ...]] = []
        self.charges = [0] * self.n_cohorts  # by the last cohort charged; earlier ones are too
        self.n_outputs = self.encoder.domain.target.n_outputs
        self.most = np.full(self.n_outputs, SCORE_STEPS, dtype=np.int64)  # first scores of numbers

    def refuse(self) -> NoReturn:
        raise ModelFileError("log: an update that no stream has")

    def start(self, loss: LossTable | None, n_outputs: int) -> None:
        need(n_outputs == self.n_outputs, "log", "scores for each class are needed")
        self.loss = _checked_loss(loss)
        self.most[:] = SCORE_STEPS

    def clip_labels(self, low: int, high: int) -> None:
        need(not self.open, "log", "the clipping range is set before budgets are opened")
        self.span = low, high

    def open_budgets(self) -> None:
        need(not self.open, "log", "budgets are opened once")
        self.open = True

    def set_price(self, number: int, tables: tuple[np.ndarray, ...]) -> None:
        need(self.loss is not None and self.open, "log", "a price needs a loss and budgets")
        assert self.loss is not None
        need_whole(number, "log.price", len(self.prices), len(self.prices))
        need_list(tables, "log.price")
        need(0 < len(tables) <= self.n_cohorts, "log.price", "a table for each cohort is needed")
        steps = WEIGHT_CLASSES + 1 if self.weighted else 1
        for table in tables:
            need_array(table, "log.price", np.int32, (steps, *self.loss.gradient.shape), 0)
        self.prices.append(tables)

    def charge(self, price: int, output: int) -> None:
        need_whole(price, "log.charge", 0, len(self.prices) - 1)
        self._check_output(output)
        tables = self.prices[price]
        fits = self.loss is not None and tables[0].shape[2] == self.loss.size
        need(fits, "log.charge", "the price is one of another loss")
        self.charges[len(tables) - 1] += 1

    def add_tree_values(self, trees: tuple[Tree, ...], values: np.ndarray, output: int) -> None:
        need(self.loss is not None, "log", "the first update is a start")
        self._check_output(output)
        need_list(trees, "log.trees")
        for tree in trees:
            check_tree(tree, self.encoder.layout)
        alike = len({len(tree.feature) for tree in trees}) == 1
        need(alike, "log.trees", "trees of one depth are needed")
        need_array(values, "log.values", np.int32, (len(trees), trees[0].n_leaves))
        self.most[output] += largest(values, axis=1).sum()
        need_scores(self.most, "log.values")

    def _check_output(self, output: Any) -> None:
        need_whole(output, "log.output", 0, self.n_outputs - 1)


def check_log(
    log: tuple[Update, ...],
    encoder: Encoder,
    weighted: bool,
    used: list[int],
    span: tuple[int, int],
) -> None:
    """Check that updates can be replayed on rows, and charge cohorts only what is recorded.

    `used` is the number of releases charged to each cohort's filter, `span` the model's clipping
    range of labels.
    """
    state = _State(encoder, weighted, len(used))
    for update in log:
        update.apply_to(state)
    need(state.loss is not None and state.open, "log", "a stream has a start and budgets")
    need(state.span == span, "log", "the clipping range is that of the model")
    made = list(accumulate(reversed(state.charges)))[::-1]
    covered = all(own >= charged for own, charged in zip(used, made, strict=True))
    need(covered, "log", "rows were charged for more releases than their budgets record")


def _checked_loss(loss: Any) -> LossTable:
    place = "log.loss"
    table = check_loss_table(loss, place)
    need(table.taking_part is None, place, "all rows take part in a stream")
    need(within_steps(table), place, "an entry exceeds the clip")
    return table
