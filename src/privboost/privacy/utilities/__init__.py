"""Utilities of private selection, with proved ranges."""
