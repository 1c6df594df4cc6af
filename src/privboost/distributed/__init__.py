"""Dask and Spark: backends whose rows lie with the workers of a cluster."""
