"""Trees, cells of features, and split candidates: public structures that rows are mapped to."""
