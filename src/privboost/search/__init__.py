"""Private search: which parameters do best, of runs whose number and losers stay hidden."""
