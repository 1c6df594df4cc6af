"""Measurements: accuracy on real data, and speed as ratios against peers in one run."""
