"""Resolution of δ in composed privacy losses, and the part of δ that covers rounding.

dp-accounting composes losses by fast Fourier transforms, whose rounding is absolute and of either
sign. It errs in δ(ε), at any ε, by less than

- 3·10⁻¹⁶ for the loss of each release: its curve is a difference of two distribution functions, and
  an error of the curve of one release is, in a composition, an error of the same size;
- 2·10⁻¹⁶ for each release in the transform: no coefficient of a distribution exceeds 1, so its
  T-th power errs by T times what the coefficient errs by, and the transform back is a mean.

Both are measured, on losses of Gaussian and Laplace noise, against 40 and 19 digits; twice their
sum is reserved. `docs/guarantees/accounting.md` has the figures.
"""

from __future__ import annotations

PER_RELEASE = 1e-15
"""Part of δ kept for each release, and for each composition of two kinds of releases."""
RESOLVED = 1000
"""Least ratio of δ to its rounding."""


def less_rounding(delta: float, rounding: float, name: str) -> float:
    """Return δ less its rounding.

    Raises
    ------
    ValueError
        If δ is below `RESOLVED` times the rounding.
    """
    if delta < RESOLVED * rounding:
        raise ValueError(unresolved(name, RESOLVED * rounding))
    return delta - rounding


def unresolved(name: str, least: float) -> str:
    """Return the message for a δ that is too small for an accountant."""
    return (
        f"delta is below what {name} can resolve for these releases ({least:.3g}); "
        "choose a larger delta or accountant='rdp'"
    )
