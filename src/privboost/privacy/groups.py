"""Releases on one sample of the rows: who takes part, and which of them are still to come."""

from __future__ import annotations

from collections import Counter

import numpy as np

from privboost.errors import BudgetError
from privboost.grid import Contribution
from privboost.privacy.events.event import Event, SampledGroup
from privboost.randomness.keystream import KeyStream
from privboost.randomness.sampling import Sample


class Group:
    """A group that is under way: its sample, and which of its releases are still to come."""

    def __init__(self, event: SampledGroup, sample: Sample) -> None:
        self.sample = sample
        self._left: Counter[Event] = Counter()
        for planned in event.inner:
            self._left[planned.event] += planned.count

    def take(self, event: Event) -> None:
        """Use up one of the releases."""
        if self._left[event] < 1:
            raise BudgetError(f"not in the group, or made already: {event.what}")
        self._left[event] -= 1


def fresh_sample(rate: float, stream: KeyStream, bound: Contribution) -> Sample:
    """Return a sample that a release's own randomness decides."""
    if bound.rows > 1:
        raise ValueError("units of several rows may be sampled in part: nothing is proved for that")
    key = np.frombuffer(stream.child("sample").words(4).tobytes(), dtype=np.uint8)
    return Sample(key, rate)
