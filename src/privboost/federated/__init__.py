"""Training across parties that keep their rows: secure aggregation, noise at each party, gRPC."""
