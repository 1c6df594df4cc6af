"""Mechanisms: the curator, sensitivity checks, utilities of private selection."""
