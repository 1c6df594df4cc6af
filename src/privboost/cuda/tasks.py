"""Arguments of kernels: a struct, followed by arrays, in one buffer.

The structs are those of `kernels/*.cu`, field by field.
"""

from __future__ import annotations

import numpy as np

_ALIGNED = 16


def _struct(*fields: tuple[str | np.dtype, str]) -> np.dtype:
    """Return a struct in the layout of C, from types and the names of their fields."""
    return np.dtype([(name, kind) for kind, names in fields for name in names.split()], align=True)


LOOK_UP = _struct(("u8", "label state weight active pairs table"), ("u4", "n own size shift"))
PART = _struct(
    ("3u8", "column"),
    ("3u4", "bytes map size"),
    ("u4", "columns cells first fold values first_out"),
)
COLUMN = _struct(("u8", "values out"), ("i8", "stride"), ("u4", "kind first n_edges"))
CODE = _struct(("u4", "n n_columns columns n_edges edges"))
PAIRS = _struct((LOOK_UP, "look"), ("u8", "out"))
SUM = _struct(
    (LOOK_UP, "look"), ("u8", "out"), ("u4", "n_parts parts cells copies chunk shared_table")
)
ADD = _struct(("u8", "state"), ("u4", "n n_parts parts"))
ROUTE = _struct(
    ("u8", "node"), ("u4", "n first nodes words columns bitmask shared n_columns slots")
)
COUNT = _struct(("u8", "node out"), ("u4", "n leaves copies"))
SIBLINGS = _struct(("u8", "counts chosen out parent"), ("u4", "leaves cells"))
NODES = _struct(
    ("u8", "pairs node chosen out"),
    ("u4", "n node_bytes n_parts parts nodes cells copies all_cells chunk maps map_bytes"),
)
START = _struct(("u8", "start state"), ("i8", "middle half steps"), ("u4", "n"))
CHARGE = _struct(
    ("u8", "label state weight left active table begin end"),
    ("u4", "own size shift steps weight_steps"),
)
SAMPLE = _struct(("u8", "ids active out"), ("u4", "first_id n limit round_keys round_table"))
CELLS = _struct(("u8", "state label out"), ("u4", "n own classes n_edges edges"))
VOTES = _struct(("u8", "state label node out pairs"), ("u4", "n own votes vote_bits node_of_leaf"))
GRADIENTS = _struct((LOOK_UP, "look"), ("u8", "scale out"), ("u4", "bits"))
SCALES = _struct(("u8", "out"), ("i8", "steps"), ("u4", "n n_parts parts"))
VECTORS = _struct(
    ("u8", "label weight scale out begin end"),
    ("u4", "own width n_parts parts bits factors roots"),
)
PRODUCTS = _struct(("u8", "vectors out"), ("u4", "rows width tiles slice"))


class Task:
    """The arguments of one launch: a struct, and the arrays that follow it.

    Parameters
    ----------
    kind : dtype
        One of the structs above.
    **fields
        Values of its fields; others are 0 until they are set.
    """

    def __init__(self, kind: np.dtype, **fields: object) -> None:
        self._head = np.zeros((), dtype=kind)
        self._pieces: list[tuple[int, bytes]] = []
        self._size = aligned(kind.itemsize)
        self.set(**fields)

    def set(self, **fields: object) -> None:
        """Set fields."""
        for name, value in fields.items():
            self._head[name] = value

    def put(self, array: np.ndarray) -> int:
        """Append an array, and return its byte offset."""
        start = self._size
        self._pieces.append((start, array.tobytes()))
        self._size = aligned(start + array.nbytes)
        return start

    def packed(self) -> np.ndarray:
        """Return struct and arrays as bytes (uint8)."""
        out = np.zeros(self._size, dtype=np.uint8)
        for start, piece in [(0, self._head.tobytes()), *self._pieces]:
            out[start : start + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
        return out


def aligned(size: int) -> int:
    """Return the bytes that an array of a size takes in the buffer."""
    return -(-size // _ALIGNED) * _ALIGNED
