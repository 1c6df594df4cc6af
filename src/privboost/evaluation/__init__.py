"""Evaluation of models on private rows."""
