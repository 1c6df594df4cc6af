"""The demonstration: what each privacy budget buys on the Adult data set."""
