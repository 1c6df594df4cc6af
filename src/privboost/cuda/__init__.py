"""Rows on a graphics card: the same integers, answered there."""
