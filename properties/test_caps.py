"""The user cap."""

import pytest


@pytest.mark.law("C1")
def test_a_cap_is_honoured(judge, cell):
    """The answer is the smaller of cap and uncapped, aligned; not binding, a cap changes nothing; the same cap
    twice changes nothing; more cap never buys less; and it still fits."""
    judge(cell)
