"""Foundations: errors, the integer grid, serialisation, files, checks, threads, compilation."""
