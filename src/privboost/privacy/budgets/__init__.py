"""Individual privacy filters."""
