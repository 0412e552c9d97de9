"""One budget beside another."""

import pytest


@pytest.mark.law("B3")
def test_sizing_inverts_pricing(judge, cell):
    """Default, mla, all-window, capped: sizing the bytes of a size gives it back. Hybrid: sizing ceil(N * cell) on
    each rank gives N, one byte less gives N - P where P * cell >= 1 on every rank, and sizing the allocated bytes
    never gives more."""
    judge(cell)


@pytest.mark.law("B6")
def test_nothing_that_costs_helps(judge, cell):
    """Within one kind, one layer-to-stage map and one count of SWA rows (capped), more heads, wider heads, more
    layers, more bytes a row, a deeper draft, more replication never raise rows per rank."""
    judge(cell)


@pytest.mark.law("B7")
def test_bytes_scale_out(judge, cell):
    """Budget and every row cost times k sells the same tokens."""
    judge(cell)


@pytest.mark.law("B8")
def test_layers_are_a_sum(judge, cell):
    """Within a rank and a pool, order and grouping of layers do not matter; a pool-wide workspace counts once."""
    judge(cell)
