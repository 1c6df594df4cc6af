"""Forged files: the checksum is right, and what it covers is not what training wrote.

Kernels run as plain Python here (`interpreted`), so that a read past the end of an array is an
IndexError, and an int32 that overflows a warning, instead of somebody else's memory.
"""

from __future__ import annotations

import json
import struct
import sys
from copy import deepcopy
from itertools import pairwise

import numba
import numpy as np
import pandas as pd

from privboost import ModelFileError
from privboost._core import codec
from privboost._core.checks import is_writable
from privboost._core.threads import Kernel
from privboost.data import kernels as coding_kernels
from privboost.data.features import CategoricalFeature
from privboost.data.targets import ClassTarget
from privboost.engine import block_kernels, kernels, linear_kernels
from privboost.engine.backend import LocalBackend
from privboost.engine.protocol import MAGIC
from privboost.engine.queries import TreeSums
from privboost.engine.updates import AddTreeValues
from privboost.estimators import stream_format
from privboost.models import additive, interactions, trees
from privboost.models import kernels as model_kernels
from privboost.models import model as files
from privboost.models import scores as importance
from privboost.trees import kernels as tree_kernels

ODD = [0, -1, 1, 7, 255, 2**31, 2**63, -(2**70), 10**30, 10**400, 0.5, -1e308, 1e-320, float("nan")]
ODD += [
    float("inf"),
    "",
    "x",
    "\ud800",
    "\x1b[2J",
    "a\0",
    None,
    True,
    [],
    {},
    [[[]]] * 9,
    {"__array__": 0},
]
ELEMENTS = [np.uint8, np.uint16, np.uint32, np.uint64, np.int32, np.int64, np.float64]


def interpreted(monkeypatch):
    """Have all kernels run in Python; importances look at few rows, as that takes long."""
    monkeypatch.setattr(importance, "N_ROWS", 4)
    monkeypatch.setattr(importance, "N_DRAWS", 1)
    monkeypatch.setattr(trees, "_ITERATIONS", 2)
    plain = {}
    models = (model_kernels, additive, interactions)
    engine = (kernels, linear_kernels, block_kernels)
    for module in (coding_kernels, *engine, tree_kernels, *models):
        for kernel in vars(module).values():
            if isinstance(kernel, numba.core.registry.CPUDispatcher):
                plain[id(kernel)] = kernel.py_func
            elif isinstance(kernel, Kernel):
                serial = getattr(kernel.serial, "py_func", kernel.serial)
                plain[id(kernel)] = Kernel(serial, kernel.parallel)
    modules = [own for name, own in list(sys.modules.items()) if name.startswith("privboost.")]
    for module in modules:  # also where one was imported by its name
        for name, kernel in list(vars(module).items()):
            if id(kernel) in plain:
                monkeypatch.setattr(module, name, plain[id(kernel)])


def write(value, magic: bytes) -> bytes:
    """Write a form like `codec.dump`, but whatever it holds."""
    arrays: list[np.ndarray] = []

    def strip(part):
        if isinstance(part, np.ndarray):
            arrays.append(part)
            return {"__array__": len(arrays) - 1}
        if isinstance(part, dict):
            return {key: strip(entry) for key, entry in part.items()}
        return [strip(entry) for entry in part] if isinstance(part, list) else part

    body = strip(value)
    table = [[array.dtype.str, list(array.shape)] for array in arrays]
    text = json.dumps({"body": body, "arrays": table}, ensure_ascii=False)
    return assemble(text, magic, arrays)


def assemble(text: str, magic: bytes, arrays=()) -> bytes:
    head = text.encode("utf-8", "surrogatepass")
    return b"".join([magic, struct.pack("<Q", len(head)), head, *(a.tobytes() for a in arrays)])


def pack(content: bytes) -> bytes:
    """Pack a stream's content, if enough of it is left to tell what is text."""
    try:
        return stream_format._packed(content)
    except ValueError:
        return content


class Forger:
    """Changes forms and bytes at random."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def model(self, data: bytes) -> bytes:
        """Return a forged model file."""
        content = files.MODEL_FILE.unseal(data, "")
        if self.rng.random() < 0.2:
            return files.MODEL_FILE.seal(self.spoil(bytes(content)))
        form = codec.load(content, files._MAGIC)
        return files.MODEL_FILE.seal(write(self.change(form), files._MAGIC))

    def stream(self, data: bytes) -> bytes:
        """Return a forged stream: its rows, budgets, model, or what its rows were told."""
        content = stream_format._unpacked(stream_format.STREAM_FILE.unseal(data, ""))
        where = self.rng.random()
        if where < 0.2:
            return stream_format.STREAM_FILE.seal(pack(self.spoil(content)))
        form = codec.load(content, stream_format._MAGIC)
        if where < 0.3:
            form["model"] = np.frombuffer(self.model(form["model"].tobytes()), dtype=np.uint8)
        elif where < 0.6:
            form = self.told(form)
        else:
            form = self.change(form)
        content = write(form, stream_format._MAGIC)
        return stream_format.STREAM_FILE.seal(pack(content))

    def told(self, form):
        """Change one update of the log, or their order."""
        ends = np.cumsum([0, *form["lengths"]])
        log = form["log"].tobytes()
        messages = [log[a:b] for a, b in pairwise(ends)]
        at = self.rng.integers(len(messages))
        if self.rng.random() < 0.2:
            messages.insert(self.rng.integers(len(messages)), messages.pop(at))
        elif self.rng.random() < 0.2:
            messages[at : at + 1] = [messages[at]] * int(self.rng.integers(3))
        else:
            update = codec.load(messages[at], MAGIC)
            messages[at] = write(self.change(update), MAGIC)
        joined = np.frombuffer(b"".join(messages), dtype=np.uint8)
        return form | {"lengths": [len(m) for m in messages], "log": joined}

    def change(self, form):
        """Change one leaf of a form, now and then more."""
        for _ in range(self.rng.choice([1, 1, 1, 2, 5])):
            places = list(_places(form))
            if not places:
                break
            kinds = [isinstance(part[key], np.ndarray) for part, key in places]
            arrays = [place for place, is_array in zip(places, kinds, strict=True) if is_array]
            chosen = arrays if arrays and self.rng.random() < 0.6 else places
            part, key = chosen[self.rng.integers(len(chosen))]
            if isinstance(part[key], np.ndarray):
                part[key] = self.array(part[key])
            elif self.rng.random() < 0.2 and isinstance(part, dict):
                del part[key]
            elif self.rng.random() < 0.3 and isinstance(part[key], list):
                part[key] = part[key] * int(self.rng.integers(3))
            elif self.rng.random() < 0.5:
                part[key] = deepcopy(ODD[self.rng.integers(len(ODD))])
            else:
                other, name = places[self.rng.integers(len(places))]
                part[key] = deepcopy(other[name])
        return form

    def array(self, array: np.ndarray) -> np.ndarray:
        """Change an array's elements, shape or entries."""
        act = self.rng.integers(5)
        if act == 0:
            element = ELEMENTS[self.rng.integers(len(ELEMENTS))]
            with np.errstate(all="ignore"):
                return array.astype(element)
        if act == 1 and array.ndim:
            axis = self.rng.integers(array.ndim)
            side = array.shape[axis]
            length = self.rng.choice([0, 1, max(side - 1, 0), side + 1, 2 * side])
            moved = np.moveaxis(array, axis, 0)
            return np.moveaxis(np.resize(moved, (int(length), *moved.shape[1:])), 0, axis)
        if act == 2:
            return array.reshape([(-1, 1), (1, -1)][self.rng.integers(2)] if array.size else (1, 0))
        array = array.copy()
        if array.size:
            some = self.rng.integers(array.size, size=self.rng.choice([1, 1, 3]))
            array.reshape(-1)[some] = self.entry(array)
        return array

    def entry(self, array: np.ndarray):
        if array.dtype.kind == "f":
            return self.rng.choice([np.nan, np.inf, -np.inf, 0.0, 1e300, -1e300, 1e308])
        limits = np.iinfo(array.dtype)
        one = np.array([1], dtype=array.dtype)[0]
        with np.errstate(over="ignore"):
            near = [array.max() + one, array.min() - one]
        values = [limits.min, limits.max, limits.max // 2, *map(int, near)]
        return values[self.rng.integers(len(values))]

    def spoil(self, content: bytes) -> bytes:
        """Change bytes: bits, lengths, pieces that are cut out or put in."""
        data = bytearray(content)
        for _ in range(self.rng.choice([1, 1, 3])):
            at = int(self.rng.choice([self.rng.integers(16), self.rng.integers(len(data))]))
            act = self.rng.integers(4)
            if act == 0:
                data[at] ^= 1 << self.rng.integers(8)
            elif act == 1:
                data[at : at + int(self.rng.integers(1, 9))] = b""
            elif act == 2:
                data[at:at] = self.rng.bytes(int(self.rng.integers(1, 9)))
            else:
                data[at : at + 1] = b'0123456789-[]{}",.eE'[int(self.rng.integers(20)) :][:1]
        return bytes(data)


def _places(part):
    """Yield every place of a form: what holds it, and the key there."""
    keys = part if isinstance(part, dict) else range(len(part))
    for key in keys:
        yield part, key
        if isinstance(part[key], dict | list):
            yield from _places(part[key])


def try_model(data: bytes) -> bool:
    """Return whether a file is read; its predictions must then be what is promised."""
    try:
        model = files.read_model(data, "file")
    except ModelFileError:
        return False
    check_predictions(model)
    return True


def try_stream(data: bytes) -> bool:
    """The same for a stream: its model predicts, and its rows follow what they were told."""
    try:
        stream, model = stream_format.read_stream(data, "file")
    except ModelFileError:
        return False
    check_predictions(model)
    backend = LocalBackend(stream.blocks)
    for update in stream.log:
        backend.apply(update)
    last = [update for update in stream.log if isinstance(update, AddTreeValues)][-1]
    if stream.blocks:
        assert backend.sum(TreeSums(last.trees, last.output)).dtype == np.int64
    return True


def check_predictions(model) -> None:
    frame = edge_frame(model.domain)
    scores = model.decision_function(frame)
    assert np.isfinite(scores).all()
    predicted, target = model.predict(frame), model.domain.target
    if isinstance(target, ClassTarget):
        assert set(predicted.tolist()) <= set(target.classes)
        if model.has_probabilities:
            chances = model.predict_proba(frame)
            assert chances.min() >= 0
            assert chances.max() <= 1
            np.testing.assert_allclose(chances.sum(axis=1), 1)
    else:
        assert predicted.min() >= target.bounds[0]
        assert predicted.max() <= target.bounds[1]
    if model.scores.kind in ("trees", "votes"):
        for staged in model.staged_decision_function(frame):
            last = staged
        if len(model.scores.updates):
            np.testing.assert_array_equal(last, scores)
    assert all(map(is_writable, str(model.privacy).splitlines()))
    check_importances(model)
    check_explanation(model, frame, scores)


def check_explanation(model, frame, scores) -> None:
    """What is said of any file's model adds up to its scores."""
    local = model.explain_local(frame)
    middle, half = model.middle_and_half
    if abs(middle) + abs(half) < 1e100:  # bounds may be any numbers
        size = 1 + np.abs(local.contributions).max()
        np.testing.assert_allclose(local.scores, middle + half * scores, atol=1e-9 * size)
    assert all(map(is_writable, model.explain_global().to_text().splitlines()))


def check_importances(model) -> None:
    try:
        own = model.feature_importances()
    except AttributeError:
        return  # nothing was released that tells
    assert own.shape == (len(model.domain.features),)
    assert np.isfinite(own).all()
    assert own.min() >= 0
    assert own.max() <= 1


def edge_frame(domain) -> pd.DataFrame:
    """Rows that have every feature's first codes and its last, together and apart."""
    columns = {}
    for number, feature in enumerate(domain.features):
        if isinstance(feature, CategoricalFeature):
            cells = [feature.categories[0], feature.categories[-1], object(), None]
        else:
            cells = [*map(float, feature.bounds), np.inf, np.nan]
        apart = [cells[(number + k) % 4] for k in range(4)]
        columns[feature.name] = np.array([None, *cells, *apart], dtype=object)[1:]
    return pd.DataFrame(columns)
