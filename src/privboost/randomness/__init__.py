"""Random bits, exact noise, sampling and private selection."""
