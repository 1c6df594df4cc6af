"""Budgets for life, and what each row's own contribution costs."""
