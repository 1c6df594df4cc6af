"""Training across parties that keep their rows: exact integer sums, added up under masks."""
