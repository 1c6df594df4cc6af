"""Backends on Dask and Spark: shards on workers, with the same queries, updates and sums."""
