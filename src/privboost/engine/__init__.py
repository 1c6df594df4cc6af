"""The engine: queries and updates, and the shards that answer and apply them."""
