"""How good models are: every method on every table, against ε, with settings left alone."""
