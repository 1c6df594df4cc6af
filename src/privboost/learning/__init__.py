"""Private domain inference."""
