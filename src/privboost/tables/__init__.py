"""From any table to coded rows: what is public, how cells are read, who is protected."""
