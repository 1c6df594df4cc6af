"""Learning a domain privately."""
