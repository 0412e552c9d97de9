"""What one rank holds."""

import pytest


@pytest.mark.law("R1")
def test_a_rank_holds_its_heads(judge, cell):
    """Heads per rank are never zero, replicated when ranks outnumber heads, none lost; full, SWA and draft each."""
    judge(cell)


@pytest.mark.law("R2")
def test_every_rank_agrees(judge, cell):
    """Every rank agrees on the rows, and the agreed number fits on each."""
    judge(cell)


@pytest.mark.law("R3")
def test_replication_is_paid_for(judge, cell):
    """A row kept on every DCP rank costs that many rows per target row."""
    judge(cell)
