"""Explanations of a model: shapes, pairs, trees, lists, findings, and their plots."""
