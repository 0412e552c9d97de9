"""What an answer may look like."""

import pytest


@pytest.mark.law("E1")
def test_refuses_exactly_when_the_spec_does(judge, cell):
    """An implementation refuses exactly when the spec does, names what is short, and its advice is the smallest
    mem_fraction_static below 1 that starts, or that none does; a cap refusal names the cap."""
    judge(cell)


@pytest.mark.law("E2")
def test_nothing_non_positive_leaves_sizing(judge, cell):
    """Tokens, each pool that has layers, running requests and request length are above zero."""
    judge(cell)
