"""A quorum fixes how many parties may be lost, and how many may collude."""

from __future__ import annotations

from dataclasses import dataclass

MOST_PARTIES = 2**12
"""The noise of so many parties, and the largest sums of rows, fit int64 together."""


@dataclass(frozen=True)
class Quorum:
    """Numbers of parties that a sum needs, and that it is hidden from.

    Attributes
    ----------
    parties : int
        k, the number of parties.
    colluders : int
        c, the number of parties that may collude with the server.
    dropouts : int
        d, the number of parties that may be lost, at any stage.
    """

    parties: int
    colluders: int = 0
    dropouts: int = 0

    def __post_init__(self) -> None:
        for name in ("parties", "colluders", "dropouts"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} must be an integer of at least 0")
        if not 2 <= self.parties <= MOST_PARTIES:
            raise ValueError(f"a federation has between 2 and {MOST_PARTIES} parties")
        if self.threshold <= self.colluders:
            raise ValueError(
                f"{self.colluders} colluders of {self.parties} parties could open masks by "
                f"themselves, if {self.dropouts} may be lost: allow fewer dropouts or colluders"
            )
        if 2 * self.threshold <= self.parties + self.colluders:
            raise ValueError(
                f"with {self.dropouts} dropouts and {self.colluders} colluders of {self.parties} "
                "parties, a server that shows two sets of survivors could open a party's masks: "
                "2(k - d) must exceed k + c"
            )

    @property
    def threshold(self) -> int:
        """t = k − d, the number of parties needed at every stage, and of shares of a seed."""
        return self.parties - self.dropouts

    @property
    def honest(self) -> int:
        """k − c − d, the least number of honest parties in every sum."""
        return self.threshold - self.colluders
