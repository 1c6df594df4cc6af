"""Where randomness comes from: a keyed stream, and exact samples of it."""
