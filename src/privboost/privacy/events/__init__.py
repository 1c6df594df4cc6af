"""What was done to the rows: events that answer every theory."""
