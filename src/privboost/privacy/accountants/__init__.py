"""Accountants: they interpret events, each by its own theory, through one interface."""
