"""Private hyperparameter search."""
