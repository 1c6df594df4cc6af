"""Trees, splits and cells of coded rows."""
