"""Measurements: scores against ε, speed as ratios to peers, accounting, and papers again."""

import warnings

from privboost import PrivacyWarning

# Runs are seeded so that they can be repeated; the data sets are public.
warnings.filterwarnings("ignore", category=PrivacyWarning)
