"""A model as an ONNX graph: columns in, predictions out, whole steps added up in between.

Numbers come as float64, so that none lies on the other side of an edge than it did in training.
Scores are added as whole numbers, which is exact. Trees are look-ups, all trees of a depth at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx

from privboost.export.formula import Branching, Formula, Reading
from privboost.export.names import free_name
from privboost.export.onnx_nodes import Graph, tensor
from privboost.export.spellings import missing_text, spellings
from privboost.grid import SCORE_STEPS
from privboost.models.model import Model
from privboost.tables.features import CategoricalFeature, ClassTarget, DateFeature

_NO_DATE = -(2**63)
"""What numpy's missing date is as a number."""


def onnx_model(model: Model) -> onnx.ModelProto:
    """Return a model as an ONNX graph.

    Each column that the model looks at is an input of shape (rows, 1): numbers, durations in
    seconds and numbers that are categories as float64 (NaN is missing), dates as int64 (days or
    seconds since 1970), texts as strings. Outputs are `prediction`, for classes `scores`, and
    `probabilities` where scores are log-odds.
    """
    formula = Formula.of(model)
    names = [reading.name for reading in formula.readings]
    results = {word: free_name(word, names) for word in ("prediction", "probabilities", "scores")}
    graph = Graph([*names, *results.values()])
    codes = [_code(graph, reading) for reading in formula.readings]
    steps = _steps(graph, formula, codes)
    scores = graph.add(
        "Div",
        graph.add("Cast", steps, to=onnx.TensorProto.DOUBLE),
        graph.constant(SCORE_STEPS, "float64"),
    )
    _add_results(graph, model, scores, results)
    facts = {"guarantee": model.privacy.guarantee, "target": model.domain.target.name}
    return graph.model("model", f"A model of {model.domain.target.name}", facts)


def _code(graph: Graph, reading: Reading) -> str:
    """Add what turns a column into codes: int32 of shape (rows, 1)."""
    feature = reading.feature
    if not isinstance(feature, CategoricalFeature):
        return _code_of_number(graph, reading)
    *codes, other, missing = reading.codes.tolist()
    if reading.of_text:
        nothing = missing_text(feature)
        column = graph.input(feature.name, "str", f'a text; "{nothing}" means missing')
        words = {word: codes[place] for word, place in spellings(feature).items()}
        keys = tensor([*words, nothing], "str")
        values = [*words.values(), missing]
    else:
        column = graph.input(feature.name, "float64", "a number; NaN means missing")
        keys = tensor([*map(float, feature.categories), np.nan], "float64")
        values = [*codes, missing]
    more = {"values_tensor": tensor(values, "int64"), "default_tensor": tensor([other], "int64")}
    found = graph.add("LabelEncoder", column, domain="ai.onnx.ml", keys_tensor=keys, **more)
    return _whole(graph, found)


def _code_of_number(graph: Graph, reading: Reading) -> str:
    """Add what counts the edges below a number; a missing one has the last code."""
    if isinstance(reading.feature, DateFeature):
        words = f"whole {reading.counts} since 1970 in UTC, negative before; {_NO_DATE} is missing"
        column = graph.input(reading.name, "int64", words)
        edges = np.floor(reading.edges).astype(np.int64) if len(reading.edges) else [2**63 - 1]
        above = graph.add("Greater", column, graph.constant([edges], "int64"))
        missing = graph.add("Equal", column, graph.constant(_NO_DATE, "int64"))
    else:
        what = "a number of seconds" if reading.counts == "durations" else "a number"
        column = graph.input(reading.name, "float64", f"{what}; NaN means missing")
        edges = reading.edges if len(reading.edges) else [np.inf]
        above = graph.add("Greater", column, graph.constant([edges], "float64"))
        missing = graph.add("IsNaN", column)
    count = graph.add("ReduceSum", _whole(graph, above), graph.constant([1], "int64"))
    return graph.add("Where", missing, graph.constant(reading.n_codes - 1), count)


def _steps(graph: Graph, formula: Formula, codes: list[str]) -> str:
    """Add what sums up the scores of rows: int32 of shape (rows, outputs)."""
    tables = zip(codes, formula.alone, strict=True)
    parts = [graph.add("Gather", graph.constant(own.T), code, axis=0) for code, own in tables]
    parts += _pairs(graph, formula, codes)
    parts += _trees(graph, formula, codes)
    total = graph.add("Squeeze", graph.sum_of(parts), graph.constant([1], "int64"))
    return graph.add("Add", total, graph.constant([formula.start]))


def _pairs(graph: Graph, formula: Formula, codes: list[str]) -> Iterator[str]:
    """Yield what each pair adds, to all outputs: to others than its own, nothing."""
    for pair in formula.pairs:
        (first, second), (own, other) = pair.features, pair.cell_of
        width = pair.values.shape[1]
        line = graph.add("Gather", graph.constant(own * width), codes[first])
        cell = graph.add("Add", line, graph.add("Gather", graph.constant(other), codes[second]))
        values = np.zeros((pair.values.size, len(formula.start)), dtype=np.int32)
        values[:, pair.output] = pair.values.reshape(-1)
        yield graph.add("Gather", graph.constant(values), cell, axis=0)


def _trees(graph: Graph, formula: Formula, codes: list[str]) -> Iterator[str]:
    """Yield what the trees of each depth add: int32 of shape (rows, 1, outputs)."""
    if not formula.trees:
        return
    columns = graph.add("Concat", *codes, axis=1)
    width = max(reading.n_codes for reading in formula.readings)
    turns = np.zeros((len(formula.splits), width), dtype=np.uint8)
    for line, split in zip(turns, formula.splits, strict=True):
        line[: len(split.turns)] = split.turns
    looks_at = graph.constant([split.reading for split in formula.splits])
    table, wide = graph.constant(turns.reshape(-1), "uint8"), graph.constant(width)
    nothing = graph.add("Mul", codes[0], graph.constant(0))
    one, two = graph.constant(1), graph.constant(2)
    for depth in sorted({tree.depth for tree in formula.trees}):
        trees = [tree for tree in formula.trees if tree.depth == depth]
        nodes = graph.constant(np.concatenate([tree.splits for tree in trees]))
        root = graph.constant([np.arange(len(trees)) * len(trees[0].splits)])
        node = graph.add("Add", nothing, graph.constant(np.zeros((1, len(trees)))))
        for _ in range(depth):
            own = graph.add("Gather", nodes, graph.add("Add", root, node))
            code = graph.add("GatherElements", columns, graph.add("Gather", looks_at, own), axis=1)
            place = graph.add("Add", graph.add("Mul", own, wide), code)
            below = graph.add("Add", graph.add("Mul", node, two), one)
            node = graph.add("Add", below, _whole(graph, graph.add("Gather", table, place)))
        yield _leaves(graph, trees, node)


def _leaves(graph: Graph, trees: list[Branching], node: str) -> str:
    """Add what sums up the leaves that rows have come to in trees of one depth."""
    inner, leaves = len(trees[0].splits), len(trees[0].splits) + 1
    first = graph.constant([np.arange(len(trees)) * leaves - inner])
    values = np.concatenate([tree.values.T for tree in trees])
    found = graph.add("Gather", graph.constant(values), graph.add("Add", node, first), axis=0)
    return graph.add("ReduceSum", found, graph.constant([1], "int64"))


def _whole(graph: Graph, given: str) -> str:
    return graph.add("Cast", given, to=onnx.TensorProto.INT32)


def _from_scale(graph: Graph, place: str, way_back: str) -> str:
    """Add what turns places on the scale on which a number was learned into numbers."""
    if way_back == "same":
        return place
    if way_back == "exp":
        return graph.add("Exp", place)
    if way_back == "mirrored":
        return graph.add("Neg", graph.add("Exp", graph.add("Neg", place)))
    power = graph.add("Exp", graph.add("Abs", place))
    size = graph.add("Sub", power, graph.constant(1, "float64"))
    return graph.add("Mul", graph.add("Sign", place), size)


def _add_results(graph: Graph, model: Model, scores: str, names: dict[str, str]) -> None:
    """Add what scores of shape (rows, outputs) mean."""
    target, several = model.domain.target, model.scores.n_outputs > 1
    row = scores if several else graph.add("Squeeze", scores, graph.constant([1], "int64"))
    if not isinstance(target, ClassTarget):
        (middle, half), (low, high) = model.middle_and_half, model.scaled_bounds
        wide = graph.add("Mul", row, graph.constant(half, "float64"))
        number = graph.add("Add", wide, graph.constant(middle, "float64"))
        ends = (graph.constant(low, "float64"), graph.constant(high, "float64"))
        clipped = graph.add("Clip", number, *ends)
        numbers = _from_scale(graph, clipped, target.way_back)
        graph.output(numbers, names["prediction"], "float64", ["rows"], target.name)
        return
    best = (
        graph.add("ArgMax", scores, axis=1, keepdims=0)
        if several
        else graph.add("Cast", _above_zero(graph, row), to=onnx.TensorProto.INT64)
    )
    classes = model.classes
    kind = "str" if classes.dtype.kind == "U" else classes.dtype.name
    named = graph.add("Gather", graph.constant(classes.tolist(), kind), best)
    graph.output(named, names["prediction"], kind, ["rows"], target.name)
    order = ", ".join(map(str, classes.tolist()))
    if model.has_chances:
        chances = _chances(graph, scores, several)
        words = f"of the classes {order}"
        graph.output(chances, names["probabilities"], "float64", ["rows", len(classes)], words)
    shape, words = (
        (["rows", len(classes)], f"of the classes {order}")
        if several
        else (["rows"], f"of the class {classes[1]}")
    )
    graph.output(row, names["scores"], "float64", shape, words)


def _above_zero(graph: Graph, scores: str) -> str:
    return graph.add("Greater", scores, graph.constant(0, "float64"))


def _chances(graph: Graph, scores: str, several: bool) -> str:
    """Add what turns log-odds into probabilities; see `Model.predict_proba`."""
    one = graph.constant(1, "float64")
    if not several:
        own = graph.add("Sigmoid", scores)
        return graph.add("Concat", graph.add("Sub", one, own), own, axis=1)
    small = graph.add("Exp", graph.add("Neg", graph.add("Abs", scores)))
    rest = graph.add("Log", graph.add("Add", one, small))
    logs = graph.add("Sub", graph.add("Min", scores, graph.constant(0, "float64")), rest)
    return graph.add("Softmax", logs, axis=1)
