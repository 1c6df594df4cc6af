"""Rows that lie with the workers of a cluster: the same queries and updates, the same integers."""
