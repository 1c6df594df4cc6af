"""Each test on a card, if there is one, and on the processor that stands in for one."""

import pytest

from privboost.cuda.card import find_cards, open_card
from privboost.errors import CardError
from tests.cuda.processor_card import ProcessorCard, compiler

_MISSING: set[str] = set()
"""Why there is no card."""


def pytest_terminal_summary(terminalreporter):
    for reason in _MISSING:
        terminalreporter.write_line(f"tests on a card were skipped: {reason}")


def crowd(card):
    """Several cards: one that holds its rows, one that holds a few, and one that holds none."""
    if isinstance(card, ProcessorCard):
        return [card, *(ProcessorCard(card.near, free) for free in (10_000, 0))]
    full = card.beside()
    full.free = lambda: 0
    return [card, card.beside(), full]


@pytest.fixture(params=["card", "processor"])
def card(request):
    if request.param == "processor":
        if compiler() is None:
            pytest.skip("no g++ to compile kernels for the processor")
        return ProcessorCard()
    try:
        return open_card(find_cards()[0])
    except CardError as error:
        _MISSING.add(str(error))
        pytest.skip(str(error))
