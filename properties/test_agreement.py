"""The implementation against the reference."""

import pytest


@pytest.mark.law("Q1")
def test_agrees_with_the_spec(judge, cell):
    """The implementation equals the spec, field by field."""
    judge(cell)
