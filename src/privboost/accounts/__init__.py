"""Accounts of data sets: what was spent on their rows, over days and processes."""
