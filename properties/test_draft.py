"""What a draft takes from the budget."""

import pytest


@pytest.mark.law("D1")
def test_zero_draft_layers_cost_nothing(judge, cell):
    """A draft of no layers gives exactly the plain answer (capped: at the same SWA rows)."""
    judge(cell)


@pytest.mark.law("D2")
def test_exact_when_the_draft_matches_the_target(judge, cell):
    """Layer ratio and own geometry agree when each draft layer's bytes per row equal each target layer's on this rank,
    all target layers alike and every draft layer on those rows."""
    judge(cell)


@pytest.mark.law("D3")
def test_a_draft_only_shrinks_the_budget(judge, cell):
    """Rows of no pool rise (capped: at the same SWA rows), and on the rank that sets N the target loses less than the
    draft's bytes and a page; or the draft turns the start into a refusal."""
    judge(cell)


@pytest.mark.law("D4")
def test_the_draft_is_priced_by_its_own_geometry(judge, cell):
    """Swapping target or draft fields that leave bytes per row unchanged changes no size; changing the draft's bytes
    moves only the draft's term."""
    judge(cell)
