"""Private inference of a domain from the rows."""
