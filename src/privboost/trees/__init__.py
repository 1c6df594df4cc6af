"""Trees as rows meet them, and the splits that they may have."""
