"""What clusters cost: a round, partitions, many rows, more workers, and peers beside."""
