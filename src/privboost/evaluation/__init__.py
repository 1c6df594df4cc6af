"""Private evaluation of models."""
