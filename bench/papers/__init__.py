"""The published tables and figures, run again with the data at hand, beside what was published."""
