"""Names for what an export adds to columns that have names already."""

from __future__ import annotations

from collections.abc import Collection, Iterable

_MOST_BYTES = 63
"""PostgreSQL cuts longer names of columns off, without an error."""


def free_name(word: str, taken: Collection[str]) -> str:
    """Return a word, or the word with as many strokes as make it a name that nothing has."""
    while word in taken:
        word += "_"
    return word


def sql_names(words: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return a column name for each word, all different in every database.

    A name is the first 63 bytes of its word; one that is taken, in whatever case, ends in
    underscores instead.

    Parameters
    ----------
    words : iterable of str
        What to name, in order.
    taken : iterable of str
        Names of columns that are there already.
    """
    known = {_as_found(name) for name in taken}
    names = []
    for word in words:
        name, strokes = _cut(word, _MOST_BYTES), 0
        while _as_found(name) in known:
            strokes += 1
            name = _cut(word, _MOST_BYTES - strokes) + "_" * strokes
        known.add(_as_found(name))
        names.append(name)
    return names


def check_sql_names(columns: Iterable[str]) -> None:
    """Refuse columns that a database takes for one another, in silence."""
    known: dict[bytes, str] = {}
    for name in columns:
        other = known.setdefault(_as_found(name), name)
        if other != name:
            raise ValueError(
                f"SQL: databases take the columns {other!r} and {name!r} for one: DuckDB and "
                f"SQLite ignore case, PostgreSQL what follows {_MOST_BYTES} bytes; rename one and "
                "train again, or export to .onnx or .py"
            )


def _as_found(name: str) -> bytes:
    """Return what DuckDB and SQLite (no ASCII case) and PostgreSQL (63 bytes) find a name by."""
    return _cut(name, _MOST_BYTES).encode().lower()


def _cut(name: str, most: int) -> str:
    """Return as many characters of a name as so many bytes hold."""
    return name.encode()[:most].decode(errors="ignore")
