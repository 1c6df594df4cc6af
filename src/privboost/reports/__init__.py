"""Privacy reports: their fields, their composition and their rendering."""
