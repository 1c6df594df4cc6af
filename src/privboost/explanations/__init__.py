"""Explanations of models as data, and their plots."""
