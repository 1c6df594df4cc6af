"""Privacy events."""
