"""Mechanisms: the curator, its sensitivity checks, individual filters and utilities of selection."""
