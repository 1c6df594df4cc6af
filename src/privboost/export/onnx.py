"""A model as an ONNX graph: columns in, predictions out, integer score steps in between.

Numbers are float64, so that each lies on the same side of an edge as in training. Scores are added
as integers, which is exact. Trees are table look-ups, for all trees of one depth at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from privboost._core.grid import SCORE_STEPS
from privboost.data.features import CategoricalFeature, DateFeature
from privboost.data.targets import ClassTarget
from privboost.export.formula import Column, Formula, TreeTerm, free_name, missing_text, spellings
from privboost.models.intervals import EXPORTED_COVERAGE
from privboost.models.model import LOG, SOFTMAX, Model

_OPSET, _ML_OPSET, _IR_VERSION = 17, 4, 8
"""Versions of 2022 and 2023, which all maintained runtimes support."""

_MISSING_DATE = -(2**63)
"""numpy's NaT as an integer."""

_TYPES = {
    "str": TensorProto.STRING,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}


def export(model: Model) -> bytes:
    """Return a model as the content of an ONNX file.

    Each column that the model uses is an input of shape (rows, 1): numbers, durations in seconds
    and numeric categories as float64 (NaN is missing), dates as int64 (days or seconds since
    1970), strings as strings. Outputs are `prediction`, for classes `scores`, and `probabilities`
    where scores are log-odds; with an exposure `rate`, which is `Model.predict_rate`'s; for a
    number with prediction intervals `lower` and `upper`, the ends of the 90 % interval; where
    there are prediction sets `in_set`, whether each class is in the set of 90 %.
    """
    formula = Formula.of(model)
    names = [column.name for column in formula.columns]
    wanted = ["prediction", "probabilities", "scores"]
    if model.nonconformity is not None:
        has_classes = isinstance(model.domain.target, ClassTarget)
        wanted += ["in_set"] if has_classes else ["lower", "upper"]
    wanted += [] if model.exposure is None else ["rate"]
    results = {name: free_name(name, names) for name in wanted}
    graph = _Graph([*names, *results.values()])
    codes = [_code(graph, column) for column in formula.columns]
    steps = _steps(graph, formula, codes)
    scores = graph.add(
        "Div",
        graph.add("Cast", steps, to=TensorProto.DOUBLE),
        graph.constant(SCORE_STEPS, "float64"),
    )
    _add_results(graph, model, scores, results)
    metadata = {"guarantee": model.privacy.guarantee, "target": model.domain.target.name}
    made = graph.model("model", f"A model of {model.domain.target.name}", metadata)
    content: bytes = made.SerializeToString(deterministic=True)
    return content


class _Graph:
    """An ONNX graph under construction; each method returns the name of the tensor it adds.

    `names` are those of inputs and outputs, which no inner tensor gets.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._taken = set(names)
        self._count = 0

    def add(self, operation: str, *inputs: str, domain: str = "", **options: Any) -> str:
        """Add a node."""
        name = self._name(operation.lower())
        node = helper.make_node(operation, list(inputs), [name], domain=domain, **options)
        self._nodes.append(node)
        return name

    def constant(self, values: Any, dtype: str = "int32") -> str:
        """Add a constant tensor."""
        made = _tensor(values, dtype)
        made.name = self._name("constant")
        self._constants.append(made)
        return str(made.name)

    def input(self, name: str, dtype: str, description: str) -> str:
        """Add an input column of shape (rows, 1)."""
        info = helper.make_tensor_value_info(name, _TYPES[dtype], ["rows", 1], description)
        self._inputs.append(info)
        return name

    def output(
        self, tensor: str, name: str, dtype: str, shape: Sequence[Any], description: str
    ) -> None:
        """Make a tensor an output of the graph."""
        self._nodes.append(helper.make_node("Identity", [tensor], [name]))
        info = helper.make_tensor_value_info(name, _TYPES[dtype], shape, description)
        self._outputs.append(info)

    def sum_of(self, terms: list[str]) -> str:
        """Add up integer tensors of one shape in a balanced tree."""
        while len(terms) > 1:
            rest = terms[len(terms) // 2 * 2 :]
            pairs = zip(terms[::2], terms[1::2], strict=False)
            terms = [self.add("Add", first, second) for first, second in pairs] + rest
        return terms[0]

    def to_int32(self, tensor: str) -> str:
        """Cast a tensor to int32."""
        return self.add("Cast", tensor, to=TensorProto.INT32)

    def model(self, name: str, description: str, metadata: dict[str, str]) -> onnx.ModelProto:
        """Return the checked model."""
        graph = helper.make_graph(
            self._nodes, name, self._inputs, self._outputs, self._constants, doc_string=description
        )
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        made = helper.make_model(
            graph, producer_name="privboost", opset_imports=opsets, ir_version=_IR_VERSION
        )
        helper.set_model_props(made, metadata)
        onnx.checker.check_model(made)
        return made

    def _name(self, prefix: str) -> str:
        self._count += 1
        return free_name(f"{prefix}_{self._count}", self._taken)


def _tensor(values: Any, dtype: str) -> Any:
    if dtype != "str":
        return numpy_helper.from_array(np.asarray(values, dtype=dtype))
    strings = [str(value).encode() for value in values]
    return helper.make_tensor("", TensorProto.STRING, [len(strings)], strings)


def _code(graph: _Graph, column: Column) -> str:
    """Add the nodes that turn a column into codes: int32 of shape (rows, 1)."""
    feature = column.feature
    if not isinstance(feature, CategoricalFeature):
        return _code_of_number(graph, column)
    *codes, other, missing = column.codes.tolist()
    if column.has_strings:
        absent = missing_text(feature)
        given = graph.input(feature.name, "str", f'a text; "{absent}" means missing')
        by_string = {string: codes[index] for string, index in spellings(feature).items()}
        keys = _tensor([*by_string, absent], "str")
        values = [*by_string.values(), missing]
    else:
        given = graph.input(feature.name, "float64", "a number; NaN means missing")
        keys = _tensor([*map(float, feature.categories), np.nan], "float64")
        values = [*codes, missing]
    more = {"values_tensor": _tensor(values, "int64"), "default_tensor": _tensor([other], "int64")}
    found = graph.add("LabelEncoder", given, domain="ai.onnx.ml", keys_tensor=keys, **more)
    return graph.to_int32(found)


def _code_of_number(graph: _Graph, column: Column) -> str:
    """Add the nodes that count the edges below a number; a missing one gets the last code."""
    if isinstance(column.feature, DateFeature):
        unit = f"whole {column.unit} since 1970 in UTC"
        description = f"{unit}, negative before; {_MISSING_DATE} is missing"
        given = graph.input(column.name, "int64", description)
        edges = np.floor(column.edges).astype(np.int64) if len(column.edges) else [2**63 - 1]
        above = graph.add("Greater", given, graph.constant([edges], "int64"))
        missing = graph.add("Equal", given, graph.constant(_MISSING_DATE, "int64"))
    else:
        what = "a number of seconds" if column.unit == "durations" else "a number"
        given = graph.input(column.name, "float64", f"{what}; NaN means missing")
        edges = column.edges if len(column.edges) else [np.inf]
        above = graph.add("Greater", given, graph.constant([edges], "float64"))
        missing = graph.add("IsNaN", given)
    count = graph.add("ReduceSum", graph.to_int32(above), graph.constant([1], "int64"))
    return graph.add("Where", missing, graph.constant(column.n_codes - 1), count)


def _steps(graph: _Graph, formula: Formula, codes: list[str]) -> str:
    """Add the nodes that sum up scores: int32 of shape (rows, outputs)."""
    tables = zip(codes, formula.alone, strict=True)
    terms = [graph.add("Gather", graph.constant(own.T), code, axis=0) for code, own in tables]
    terms += _pairs(graph, formula, codes)
    terms += _trees(graph, formula, codes)
    total = graph.add("Squeeze", graph.sum_of(terms), graph.constant([1], "int64"))
    return graph.add("Add", total, graph.constant([formula.start]))


def _pairs(graph: _Graph, formula: Formula, codes: list[str]) -> Iterator[str]:
    """Yield the term of each pair for all outputs, zero for all but its own."""
    for pair in formula.pairs:
        (first, second), (own, other) = pair.features, pair.cell_of
        width = pair.values.shape[1]
        row = graph.add("Gather", graph.constant(own * width), codes[first])
        cell = graph.add("Add", row, graph.add("Gather", graph.constant(other), codes[second]))
        values = np.zeros((pair.values.size, len(formula.start)), dtype=np.int32)
        values[:, pair.output] = pair.values.reshape(-1)
        yield graph.add("Gather", graph.constant(values), cell, axis=0)


def _trees(graph: _Graph, formula: Formula, codes: list[str]) -> Iterator[str]:
    """Yield the term of the trees of each depth: int32 of shape (rows, 1, outputs)."""
    if not formula.trees:
        return
    columns = graph.add("Concat", *codes, axis=1)
    width = max(column.n_codes for column in formula.columns)
    goes_right = np.zeros((len(formula.splits), width), dtype=np.uint8)
    for line, split in zip(goes_right, formula.splits, strict=True):
        line[: len(split.goes_right)] = split.goes_right
    column_of = graph.constant([split.feature for split in formula.splits])
    table, wide = graph.constant(goes_right.reshape(-1), "uint8"), graph.constant(width)
    zero = graph.add("Mul", codes[0], graph.constant(0))
    one, two = graph.constant(1), graph.constant(2)
    for depth in sorted({tree.depth for tree in formula.trees}):
        trees = [tree for tree in formula.trees if tree.depth == depth]
        nodes = graph.constant(np.concatenate([tree.splits for tree in trees]))
        root = graph.constant([np.arange(len(trees)) * len(trees[0].splits)])
        node = graph.add("Add", zero, graph.constant(np.zeros((1, len(trees)))))
        for _ in range(depth):
            own = graph.add("Gather", nodes, graph.add("Add", root, node))
            column = graph.add("Gather", column_of, own)
            code = graph.add("GatherElements", columns, column, axis=1)
            entry = graph.add("Add", graph.add("Mul", own, wide), code)
            left = graph.add("Add", graph.add("Mul", node, two), one)
            node = graph.add("Add", left, graph.to_int32(graph.add("Gather", table, entry)))
        yield _leaves(graph, trees, node)


def _leaves(graph: _Graph, trees: list[TreeTerm], node: str) -> str:
    """Add the nodes that sum up the leaf values of trees of one depth."""
    inner, leaves = len(trees[0].splits), len(trees[0].splits) + 1
    first = graph.constant([np.arange(len(trees)) * leaves - inner])
    values = np.concatenate([tree.values.T for tree in trees])
    found = graph.add("Gather", graph.constant(values), graph.add("Add", node, first), axis=0)
    return graph.add("ReduceSum", found, graph.constant([1], "int64"))


def _from_scale(graph: _Graph, scaled: str, inverse_scale_name: str) -> str:
    """Add the nodes that invert the scale of a numeric target."""
    if inverse_scale_name == "same":
        return scaled
    if inverse_scale_name == "exp":
        return graph.add("Exp", scaled)
    if inverse_scale_name == "mirrored":
        return graph.add("Neg", graph.add("Exp", graph.add("Neg", scaled)))
    power = graph.add("Exp", graph.add("Abs", scaled))
    size = graph.add("Sub", power, graph.constant(1, "float64"))
    return graph.add("Mul", graph.add("Sign", scaled), size)


def _add_results(graph: _Graph, model: Model, scores: str, names: dict[str, str]) -> None:
    """Add the outputs that follow from scores of shape (rows, outputs)."""
    target, several = model.domain.target, model.scores.n_outputs > 1
    if model.exposure is not None:
        scores, rates = _columns(graph, scores)
        limits = [graph.constant(end, "float64") for end in model.scaled_rate_bounds]
        rates = graph.add("Exp", graph.add("Clip", rates, *limits))
        graph.output(rates, names["rate"], "float64", ["rows"], f"{target.name} per exposure")
    row = scores if several else graph.add("Squeeze", scores, graph.constant([1], "int64"))
    if not isinstance(target, ClassTarget):
        (middle, half), (low, high) = model.middle_and_half, model.scaled_bounds
        wide = graph.add("Mul", row, graph.constant(half, "float64"))
        number = graph.add("Add", wide, graph.constant(middle, "float64"))
        ends = (graph.constant(low, "float64"), graph.constant(high, "float64"))
        clipped = graph.add("Clip", number, *ends)
        numbers = _from_scale(graph, clipped, model.inverse_scale_name)
        graph.output(numbers, names["prediction"], "float64", ["rows"], target.name)
        if model.nonconformity is not None:
            _add_interval(graph, model, row, names)
        return
    best = (
        graph.add("ArgMax", scores, axis=1, keepdims=0)
        if several
        else graph.add(
            "Cast",
            graph.add("Greater", row, graph.constant(0, "float64")),
            to=TensorProto.INT64,
        )
    )
    classes = model.classes
    dtype = "str" if classes.dtype.kind == "U" else classes.dtype.name
    predicted = graph.add("Gather", graph.constant(classes.tolist(), dtype), best)
    graph.output(predicted, names["prediction"], dtype, ["rows"], target.name)
    order = ", ".join(map(str, classes.tolist()))
    by_class = (["rows", len(classes)], f"of the classes {order}")
    if model.has_probabilities:
        if model.link == SOFTMAX:
            probabilities = graph.add("Softmax", scores, axis=1)
        else:
            probabilities = _probabilities(graph, scores, several)
        graph.output(probabilities, names["probabilities"], "float64", *by_class)
    if model.nonconformity is not None:
        found = _in_set(graph, model, scores, best)
        what = f"in the {EXPORTED_COVERAGE:.0%} prediction set, {by_class[1]}"
        graph.output(found, names["in_set"], "bool", by_class[0], what)
    shape, description = by_class if several else (["rows"], f"of the class {classes[1]}")
    graph.output(row, names["scores"], "float64", shape, description)


def _columns(graph: _Graph, scores: str) -> tuple[str, str]:
    """Add the nodes that take two scores apart; the second loses its axis."""
    own, rate = (
        graph.add("Gather", scores, graph.constant([column], "int64"), axis=1) for column in (0, 1)
    )
    return own, graph.add("Squeeze", rate, graph.constant([1], "int64"))


def _add_interval(graph: _Graph, model: Model, row: str, names: dict[str, str]) -> None:
    """Add the ends of the prediction interval; see `Model.predict_interval`."""
    ends = _relative_ends(graph, model, row) if model.link == LOG else _ends(graph, model, row)
    for name, end in ends.items():
        what = f"{name} end of the {EXPORTED_COVERAGE:.0%} prediction interval"
        graph.output(end, names[name], "float64", ["rows"], what)


def _ends(graph: _Graph, model: Model, row: str) -> dict[str, str]:
    target = model.domain.target
    assert not isinstance(target, ClassTarget)
    middle, half = model.middle_and_half
    width = model.interval_half_width(EXPORTED_COVERAGE)
    limits = [graph.constant(bound, "float64") for bound in target.scaled_bounds]
    ends = {}
    for name, moved in (("lower", -width), ("upper", width)):
        score = graph.add("Add", row, graph.constant(moved, "float64"))
        wide = graph.add("Mul", score, graph.constant(half, "float64"))
        number = graph.add("Add", wide, graph.constant(middle, "float64"))
        clipped = graph.add("Clip", number, *limits)
        ends[name] = _from_scale(graph, clipped, target.inverse_scale_name)
    return ends


def _relative_ends(graph: _Graph, model: Model, row: str) -> dict[str, str]:
    """Add the ends of the prediction interval with a log link."""
    found, target = model.nonconformity, model.domain.target
    assert found is not None
    assert found.scale is not None
    assert not isinstance(target, ClassTarget)
    # Without an edge ends lie infinitely far from the mean, and are the bounds.
    terms = model.interval_terms(EXPORTED_COVERAGE) or ((1, 0, -math.inf), (1, 0, math.inf))
    ends = [graph.constant(end, "float64") for end in found.scale.limits]
    score = graph.add("Clip", row, *ends)
    powered = graph.add("Mul", score, graph.constant(found.scale.power / 2, "float64"))
    mean, spread = graph.add("Exp", score), graph.add("Exp", powered)
    limits = [graph.constant(bound, "float64") for bound in target.bounds]
    results = {}
    for name, factors in zip(("lower", "upper"), terms, strict=True):
        a, b, c = (graph.constant(own, "float64") for own in factors)
        both = graph.add("Add", graph.add("Mul", mean, a), graph.add("Mul", spread, b))
        results[name] = graph.add("Clip", graph.add("Add", both, c), *limits)
    return results


def _in_set(graph: _Graph, model: Model, scores: str, best: str) -> str:
    """Add whether each class is in the prediction set; see `Model.predict_set`.

    `scores` have the shape (rows, outputs), and `best` is the index of the most probable class.
    """
    assert model.nonconformity is not None
    edge = model.nonconformity.threshold(EXPORTED_COVERAGE)
    least = -math.inf if edge is None else -edge / SCORE_STEPS
    if model.scores.n_outputs == 1:
        scores = graph.add("Concat", graph.add("Neg", scores), scores, axis=1)
    near = graph.add("Greater", scores, graph.constant(least, "float64"))
    own = graph.add("Unsqueeze", best, graph.constant([1], "int64"))
    classes = graph.constant(np.arange(len(model.classes)), "int64")
    return graph.add("Or", near, graph.add("Equal", own, classes))


def _probabilities(graph: _Graph, scores: str, several: bool) -> str:
    """Add the nodes that turn log-odds into probabilities; see `Model.predict_proba`."""
    one = graph.constant(1, "float64")
    if not several:
        own = graph.add("Sigmoid", scores)
        return graph.add("Concat", graph.add("Sub", one, own), own, axis=1)
    small = graph.add("Exp", graph.add("Neg", graph.add("Abs", scores)))
    rest = graph.add("Log", graph.add("Add", one, small))
    logs = graph.add("Sub", graph.add("Min", scores, graph.constant(0, "float64")), rest)
    return graph.add("Softmax", logs, axis=1)
