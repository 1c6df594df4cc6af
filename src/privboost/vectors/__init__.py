"""How codes become vectors of a linear model."""
