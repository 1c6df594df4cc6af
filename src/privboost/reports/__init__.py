"""Privacy reports and documents."""
