"""Tables and domains: features, sources, encoding, units, loading."""
