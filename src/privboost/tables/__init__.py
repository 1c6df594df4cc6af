"""From any table to coded rows: what is public, how values are read, who is protected."""
