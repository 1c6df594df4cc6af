"""Federations: training across parties with secure aggregation."""
