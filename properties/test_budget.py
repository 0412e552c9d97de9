"""The sum of all pools against the bytes there are."""

import pytest


@pytest.mark.law("B1")
def test_fits_the_budget(judge, cell):
    """All pools of every rank, draft included, spare rows aside, never exceed its bytes."""
    judge(cell)


@pytest.mark.law("B2")
def test_wastes_less_than_a_page(judge, cell):
    """Where no user cap binds, (N + P) * cell > A on at least one rank (capped: after the SWA pool is paid), and a
    hybrid SWA pool has r*N - P < swa <= r*N on every rank."""
    judge(cell)


@pytest.mark.law("B4")
def test_sells_whole_pages(judge, cell):
    """Every pool is whole pages, on the profile path and after a user cap."""
    judge(cell)


@pytest.mark.law("B5")
def test_more_memory_never_buys_less(judge, cell):
    """More memory never buys fewer tokens, and never turns a start into a refusal (capped: where no user cap is below
    the fixed SWA rows)."""
    judge(cell)
