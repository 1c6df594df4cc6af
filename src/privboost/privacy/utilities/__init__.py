"""Scores with proved ranges, for private choices."""
