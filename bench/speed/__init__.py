"""How long things take: ratios to peers in one run, growth, primitives, and large tables."""
