"""Absolute loss of a number, whose predictions are medians; see `losses.base.Pinball`."""

from __future__ import annotations

from privboost.losses.base import Pinball


class Absolute(Pinball):
    """Half the absolute error, smoothed around 0."""

    name = "absolute"


ABSOLUTE = Absolute()
