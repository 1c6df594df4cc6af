"""Losses, one a module; a new module is found by its `Loss` instance."""
