"""A cluster to which something happens in the midst of a fit."""


class Hooked:
    """Does something before the query of a number is asked."""

    def __init__(self, act, at=3):
        self._act, self._at = act, at

    def __call__(self, loads):
        self._backend, self._asked = loads[-1].source.open_backend(loads), 0
        return self

    def sum(self, query):
        self._asked += 1
        if self._asked == self._at:
            self._act()
        return self._backend.sum(query)

    def __getattr__(self, name):
        return getattr(self._backend, name)
