"""Budget accounts of data sets."""
