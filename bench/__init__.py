"""Measurements: accuracy on real data, and speed as ratios against peers in one run."""

import warnings

from privboost import PrivacyWarning

# Runs are seeded so that they can be repeated; the data sets are public.
warnings.filterwarnings("ignore", category=PrivacyWarning)
