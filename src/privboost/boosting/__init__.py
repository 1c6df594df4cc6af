"""Recipes: one a file. A recipe sees released values only."""
