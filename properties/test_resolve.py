"""What start-up knows of a draft, and what must not matter."""

import pytest


@pytest.mark.law("D5")
def test_an_unresolved_draft_falls_back_to_the_layer_ratio(judge, cell):
    """A draft whose geometry is not resolved falls back to the layer ratio, says so once, and start-up goes on."""
    judge(cell)


@pytest.mark.law("D6")
def test_an_unresolved_dtype_is_never_priced_below_the_truth(judge, cell):
    """A draft dtype that is not resolved is never priced below the truth."""
    judge(cell)


@pytest.mark.law("D7")
def test_only_the_algorithm_in_use_is_priced(judge, cell):
    """The plain path ignores every draft field, draft tokens included."""
    judge(cell)


@pytest.mark.law("D8")
def test_a_draft_worker_prices_no_draft(judge, cell):
    """The draft worker of every algorithm ignores every draft field, draft tokens included."""
    judge(cell)
