"""CUDA backend: rows in device memory, and the same integer sums."""
