"""Budget store: accounts of data sets, across runs and processes."""
