"""Random numbers: keyed streams, exact noise, exact selection, and sampling."""
