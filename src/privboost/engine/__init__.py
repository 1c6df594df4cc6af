"""Exact integers, no privacy: rows in blocks, commands about them, and who executes them."""
