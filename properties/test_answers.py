"""What an answer may look like."""

import pytest


@pytest.mark.law("E1")
def test_refuses_exactly_when_the_spec_does(judge, cell):
    """An implementation refuses exactly when the spec does, with a listed kind that names what is short; a cap refusal
    names the cap."""
    judge(cell)


@pytest.mark.law("E2")
def test_nothing_non_positive_leaves_sizing(judge, cell):
    """Tokens, each pool that has layers, running requests and request length are above zero."""
    judge(cell)


@pytest.mark.law("E3")
def test_advice_starts(judge, cell):
    """A refusal for want of memory advises the smallest mem_fraction_static below 1 that starts, or says that none
    does."""
    judge(cell)
