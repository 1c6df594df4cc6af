"""Trained models: immutable released values, one module a kind of score."""
