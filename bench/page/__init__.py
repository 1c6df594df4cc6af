"""What is told of measurements: comparisons, tables in Markdown, pictures."""
