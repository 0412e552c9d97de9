"""Sliding-window pools."""

import pytest


@pytest.mark.law("W1")
def test_an_all_window_model_ignores_the_ratio(judge, cell):
    """Without a full pool the ratio changes no size."""
    judge(cell)


@pytest.mark.law("W2")
def test_a_started_window_pool_admits_a_request(judge, cell):
    """A started window pool, after a user cap too, admits a request."""
    judge(cell)


@pytest.mark.law("W3")
def test_full_rows_come_with_their_draft_rows(judge, cell):
    """Full rows are sold only with their draft rows; where no user cap binds, less than P * (F + D) is left on the
    rank that sets N."""
    judge(cell)
