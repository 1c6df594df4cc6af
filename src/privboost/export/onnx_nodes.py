"""Nodes of an ONNX graph, added one after another: each returns the name of what it gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, ML_OPSET, IR_VERSION = 17, 4, 8
"""Of 2022 and 2023: runtimes that are kept up to date all know them."""

_KINDS = {
    "str": TensorProto.STRING,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}


def tensor(values: Any, kind: str) -> Any:
    """Return values as a tensor."""
    if kind != "str":
        return numpy_helper.from_array(np.asarray(values, dtype=kind))
    words = [str(value).encode() for value in values]
    return helper.make_tensor("", TensorProto.STRING, [len(words)], words)


class Graph:
    """A graph that grows.

    Parameters
    ----------
    names : iterable of str
        Names that inputs and outputs have: none of its own will be one of them.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._taken = set(names)
        self._count = 0

    def add(self, operation: str, *given: str, domain: str = "", **options: Any) -> str:
        """Add a node."""
        name = self._name(operation.lower())
        node = helper.make_node(operation, list(given), [name], domain=domain, **options)
        self._nodes.append(node)
        return name

    def constant(self, values: Any, kind: str = "int32") -> str:
        """Add a tensor that is always the same."""
        made = tensor(values, kind)
        made.name = self._name("constant")
        self._constants.append(made)
        return str(made.name)

    def input(self, name: str, kind: str, words: str) -> str:
        """Add a column that is given, of shape (rows, 1)."""
        info = helper.make_tensor_value_info(name, _KINDS[kind], ["rows", 1], words)
        self._inputs.append(info)
        return name

    def output(self, given: str, name: str, kind: str, shape: Sequence[Any], words: str) -> None:
        """Give something back under a name."""
        self._nodes.append(helper.make_node("Identity", [given], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, _KINDS[kind], shape, words))

    def sum_of(self, parts: list[str]) -> str:
        """Add up tensors of one shape, of whole numbers, in few levels."""
        while len(parts) > 1:
            rest = parts[len(parts) // 2 * 2 :]
            pairs = zip(parts[::2], parts[1::2], strict=False)
            parts = [self.add("Add", first, second) for first, second in pairs] + rest
        return parts[0]

    def model(self, name: str, words: str, facts: dict[str, str]) -> onnx.ModelProto:
        """Return the whole, checked."""
        graph = helper.make_graph(
            self._nodes, name, self._inputs, self._outputs, self._constants, doc_string=words
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        made = helper.make_model(
            graph, producer_name="privboost", opset_imports=opsets, ir_version=IR_VERSION
        )
        helper.set_model_props(made, facts)
        onnx.checker.check_model(made)
        return made

    def _name(self, kind: str) -> str:
        self._count += 1
        name = f"{kind}_{self._count}"
        while name in self._taken:
            name += "_"
        return name
