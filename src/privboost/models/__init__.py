"""Trained models: one kind of score a file."""
