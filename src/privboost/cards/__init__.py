"""Model cards: what is promised about a model, and what it is, for people to read."""
