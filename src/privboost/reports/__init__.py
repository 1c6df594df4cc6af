"""What was spent, in words, as JSON and as a page."""
