"""Interactions that a model may have: checked parameters, and the pairs and groups they allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import Any

import numpy as np

from privboost._core.checks import check_count, did_you_mean, is_number, shown

_TRIED = 3
"""Pairs that are measured once for each that is kept, where their number is limited."""

_MOST_PAIRS = 500
"""Most pairs that are named, or allowed."""


def check_interactions(name: str, value: Any) -> bool | int | tuple[tuple[str, str], ...]:
    """Return whether there are interactions, the most pairs, or the named pairs, each once."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if is_number(value):
        return check_count(name, value, least=0, most=_MOST_PAIRS) or False
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, Sequence) or not listed:
        raise ValueError(
            f'{name} must be True, False, a number of pairs, or pairs such as ["age*income"]; '
            f"{shown(value)} is not"
        )
    pairs = [_named_pair(name, each) for each in listed]
    if len(pairs) > _MOST_PAIRS:
        raise ValueError(f"{name} must be at most {_MOST_PAIRS} pairs; these are {len(pairs)}")
    return tuple({frozenset(pair): pair for pair in reversed(pairs)}.values())[::-1]


def _named_pair(name: str, value: Any) -> tuple[str, str]:
    """Return the two features of "age*income", or of a pair of names."""
    parts = [part.strip() for part in value.split("*")] if isinstance(value, str) else value
    fine = isinstance(parts, Sequence) and len(parts) == 2 and parts[0] != parts[1]
    if not fine or not all(isinstance(part, str) and part for part in parts):
        raise ValueError(
            f'{name}: a pair is two different features, "age*income" or ("age", "income"); '
            f"{shown(value)} is not"
        )
    return str(parts[0]), str(parts[1])


_SHORTHANDS = {
    "pairwise": "pairs without trees are interactions=10 (a number), or the pairs themselves",
    "no_interactions": "a model without interactions is interactions=False",
}
"""What scikit-learn's strings for groups are here."""


def check_groups(name: str, value: Any) -> tuple[tuple[str, ...], ...]:
    """Return groups of names of features, as sorted tuples."""
    hint = _SHORTHANDS.get(value, "") if isinstance(value, str) else ""
    rule = f'{name} must be groups of names of features, such as [["age", "income"], ["job"]]'
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise ValueError(f"{rule}; {shown(value)} is not{hint and f': {hint}'}")
    groups = []
    for group in value:
        fine = isinstance(group, Iterable) and not isinstance(group, str | Mapping)
        names = list(group) if fine else []
        if not names or not all(isinstance(each, str) for each in names):
            raise ValueError(f"{rule}; {shown(group)} is no such group")
        groups.append(tuple(sorted(set(map(str, names)))))
    return tuple(sorted(set(groups)))


def named_in(interactions: Any, groups: Any) -> list[str]:
    """Return the features that two unchecked parameters name; none where they are not allowed."""
    try:
        pairs = check_interactions("interactions", interactions)
        listed = [*check_groups("interaction_constraints", groups)]
    except ValueError:
        return []
    return list(dict.fromkeys(chain(*(pairs if isinstance(pairs, tuple) else ()), *listed)))


def check_named(interactions: Any, groups: Sequence[Sequence[str]], names: Sequence[str]) -> None:
    """Refuse checked interactions and groups of features that are not there."""
    pairs = interactions if isinstance(interactions, tuple) else ()
    for name, listed in (("interactions", pairs), ("interaction_constraints", groups)):
        for feature in dict.fromkeys(chain.from_iterable(listed)):
            if feature not in names:
                hint = did_you_mean(feature, names)
                end = f"; {hint}" if hint else ""
                raise ValueError(f"{name}: there is no feature {feature!r}{end}")


@dataclass(frozen=True)
class Allowed:
    """Interactions that a model may have, from its parameters.

    Attributes
    ----------
    groups : tuple of tuples of int
        Features that may interact with each other, in ascending order: two at least in each group.
    slopes : tuple of int
        Direction of each feature's effect, 0 for any.
    pairs : tuple of pairs of int, or None
        The pairs there are, the lower feature first. None leaves them to released values.
    most_pairs : int or None
        The largest number of pairs. None is any number; it, or `pairs`, leaves no trees.
    """

    groups: tuple[tuple[int, ...], ...]
    slopes: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...] | None = None
    most_pairs: int | None = None

    @cached_property
    def _n_possible(self) -> int:
        """The number of pairs that the groups allow, counted up to all that are tried."""
        most, found = _TRIED * (self.most_pairs or 0), set[tuple[int, ...]]()
        for pair in chain.from_iterable(combinations(group, 2) for group in self.groups):
            if len(found) == most:
                break
            found.add(pair)
        return len(found)

    @property
    def n_pairs(self) -> int | None:
        """The number of pairs of the model, or None if there may be any, and trees."""
        if self.pairs is not None:
            return len(self.pairs)
        return None if self.most_pairs is None else min(self.most_pairs, self._n_possible)

    @property
    def n_tried(self) -> int:
        """The number of pairs that are measured once, to keep the best of them."""
        if self.pairs is not None or self.most_pairs is None:
            return 0
        return self._n_possible if self._n_possible > self.most_pairs else 0

    def largest_pairs(self, sizes: np.ndarray, count: int) -> list[tuple[int, int]]:
        """Return so many pairs of the features of the largest sizes, which are positive."""
        found: set[tuple[int, int]] = set()
        for group in self.groups:  # a pair has as many before it as features before its smaller one
            first = sorted(group, key=lambda feature: -sizes[feature])[: count + 1]
            found.update(combinations(sorted(first), 2))
        return sorted(found, key=lambda pair: (-sizes[pair[0]] * sizes[pair[1]], pair))[:count]
