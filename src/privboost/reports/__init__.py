"""What was spent, in words and as JSON."""
