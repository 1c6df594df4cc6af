"""How many parties there are, how many may be lost, and how many may collude with the server."""

from __future__ import annotations

from dataclasses import dataclass

MOST_PARTIES = 2**12
"""A sum of so many parties' noise still fits int64 beside the largest sums of rows."""


@dataclass(frozen=True)
class Quorum:
    """Whom a sum needs, and against whom it is hidden.

    Attributes
    ----------
    parties : int
        k, all of them.
    colluders : int
        c, how many may tell the server all they know.
    dropouts : int
        d, how many may be lost, at any stage.
    """

    parties: int
    colluders: int = 0
    dropouts: int = 0

    def __post_init__(self) -> None:
        for name in ("parties", "colluders", "dropouts"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise ValueError(f"{name} must be a whole number of at least 0")
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
        """t = k − d: how many must be there at every stage, and how many shares open a seed."""
        return self.parties - self.dropouts

    @property
    def honest(self) -> int:
        """k − c − d: how many honest parties are in every sum, at least."""
        return self.threshold - self.colluders
