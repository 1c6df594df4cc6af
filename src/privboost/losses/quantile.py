"""Pinball loss of a number, whose predictions are quantiles; see `losses.base.Pinball`."""

from __future__ import annotations

from privboost.losses.base import Pinball


class Quantile(Pinball):
    """Pinball loss of any share of labels below the prediction."""

    name = "quantile"
    parameter = "quantile"

    def with_parameter(self, value: float) -> Quantile:
        """Return the loss of another share."""
        return Quantile(value, self.width)


QUANTILE = Quantile()
