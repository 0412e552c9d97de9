"""The price against what is really allocated."""

import pytest


@pytest.mark.law("A1")
def test_price_equals_allocation(judge, cell):
    """Bytes per row equal the slope of the really allocated tensors; the intercept is the spare rows, nothing
    else."""
    judge(cell)
