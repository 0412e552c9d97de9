"""The start-up."""

import pytest


@pytest.mark.start_up_law("S1")
def test_measured_after_every_weight(judge_start_up, protocol):
    """Memory is measured after every weight that will be loaded is resident."""
    judge_start_up(protocol)


@pytest.mark.start_up_law("S2")
def test_in_the_order_of_need(judge_start_up, protocol):
    """No pool before sizing, no backend before its pool, no graph before the backends, no worker info before the
    pools."""
    judge_start_up(protocol)


@pytest.mark.start_up_law("S3")
def test_each_exactly_once(judge_start_up, protocol):
    """Each pool and each backend exactly once; asking again changes nothing."""
    judge_start_up(protocol)


@pytest.mark.start_up_law("S4")
def test_the_draft_gets_the_targets_sizes(judge_start_up, protocol):
    """The draft gets the target's resolved sizes and shares its allocator."""
    judge_start_up(protocol)


@pytest.mark.start_up_law("S5")
def test_within_the_static_share(judge_start_up, protocol):
    """Once there is a pool, resident bytes, spare rows, request tables and graphs aside, never exceed the static
    fraction of the memory that was free before loading."""
    judge_start_up(protocol)


@pytest.mark.start_up_law("S6")
def test_exposed_by_the_drafts_weights(judge_start_up, protocol):
    """The historical frozen-KV protocol (target pool before the draft loads) misses exactly the draft's weights when
    it measures; the present one misses nothing."""
    judge_start_up(protocol)


@pytest.mark.start_up_law("S7")
def test_every_order_ends_alike(judge_start_up, protocol):
    """Every order the protocol allows ends in the same sizes, on every rank."""
    judge_start_up(protocol)
