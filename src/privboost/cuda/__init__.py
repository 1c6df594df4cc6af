"""Rows on a GPU: the same integers, answered there."""
